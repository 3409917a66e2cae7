#include "distbelief/mesh/stage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "distbelief/base/error.h"
#include "distbelief/comm/texts.h"
#include "distbelief/compute/buffers.h"
#include "distbelief/compute/replica.h"
#include "distbelief/model/device.h"

namespace distbelief::mesh {
namespace {

void place_stages(NetworkOutline& outline) {
  const compute::Layout whole(outline.parameters, 1);
  for (StageOutline& stage : outline.stages)
    for (std::size_t i = 0; i < stage.parameters.size(); ++i)
      stage.offsets.push_back(whole.entries()[stage.first_parameter + i].offset);
}

// Adds the parameters of one more stage with these blocks.
void add_parameters(NetworkOutline& outline, StageOutline& stage, const model::Network& blocks,
                    std::set<std::string>& known) {
  for (compute::Layout::Parameter& parameter : compute::trainable_parameters(blocks)) {
    const auto own = [&](const compute::Layout::Parameter& each) { return each.name == parameter.name; };
    if (std::any_of(stage.parameters.begin(), stage.parameters.end(), own)) continue;
    if (!known.insert(parameter.name).second) {
      stage.tied.push_back(parameter.name);
      continue;
    }
    outline.parameters.push_back(parameter);
    stage.parameters.push_back(std::move(parameter));
  }
  const std::size_t buffers = compute::BufferSet(blocks).size();
  for (const auto& buffer : blocks.named_buffers()) outline.buffer_names.push_back(buffer.key());
  stage.buffers += buffers;
  outline.buffers += buffers;
}

}  // namespace

NetworkOutline outline_of(const model::Network& network) {
  NetworkOutline outline;
  std::set<std::string> known;
  outline.stages.push_back({.blocks = network.range()});
  add_parameters(outline, outline.stages.back(), network, known);
  place_stages(outline);
  return outline;
}

NetworkOutline outline_of(const model::Blueprint& blueprint, std::span<const int> ends, std::uint64_t seed) {
  NetworkOutline outline;
  std::set<std::string> known;
  int begin = 0;
  for (const int end : ends) {
    StageOutline stage{.blocks = {begin, end},
                       .first_parameter = outline.parameters.size(),
                       .first_buffer = outline.buffers};
    for (int block = begin; block < end; ++block)
      add_parameters(outline, stage, model::Network(blueprint, {block, block + 1}, seed), known);
    if (stage.parameters.empty())
      throw Error(
          ErrorCode::kBadInput,
          fmt::format("a stage of blocks {} to {} would have no parameters of its own; cut the network "
                      "elsewhere (cuts) or into fewer stages",
                      begin, end - 1));
    outline.stages.push_back(std::move(stage));
    begin = end;
  }
  place_stages(outline);
  return outline;
}

std::vector<int> agree_on_ends(World& world, int stages, const std::function<Cuts()>& choose) {
  std::vector<std::int64_t> ends(std::size_t(stages), 0);
  std::string failure;
  if (world.rank() == 0) try {
      const Cuts cuts = choose();
      std::copy(cuts.ends.begin(), cuts.ends.end(), ends.begin());
    } catch (const Error& error) {
      failure = error.message();
    } catch (const std::exception& error) {
      failure = error.what();
    }
  failure = comm::broadcast_text(world.communicator(), failure, 0);
  if (!failure.empty()) throw Error(ErrorCode::kBadInput, failure);
  world.communicator().broadcast(comm::view(ends.data(), ends.size()), 0);
  return {ends.begin(), ends.end()};
}

Stage make_stage(int index, const StageOutline& outline, std::shared_ptr<model::Network> network,
                 const model::TensorGroup* group) {
  Stage stage{.index = index, .outline = &outline, .network = std::move(network)};
  stage.leads_group = group == nullptr || group->part() == 0;
  if (!stage.network) {
    stage.parameters = outline.parameters;
    for (const auto& parameter : outline.parameters) stage.slices.push_back(whole_of(parameter.shape));
    return stage;
  }
  const auto tensors = stage.network->named_parameters();
  for (const compute::Layout::Parameter& parameter : outline.parameters) {
    const torch::Tensor& tensor = tensors[parameter.name];
    stage.parameters.push_back({parameter.name, tensor.sizes().vec()});
    stage.slices.push_back(stage.network->sliced(tensor).slice);
  }
  return stage;
}

namespace {

StageRuns runs_of(const Slice& slice, std::size_t local, std::size_t whole) {
  const auto row = std::size_t(slice.count * slice.inner);
  return {.local = local,
          .whole = whole + std::size_t(slice.begin * slice.inner),
          .count = row,
          .runs = std::size_t(slice.outer),
          .stride = std::size_t(slice.whole * slice.inner)};
}

std::size_t padded(std::size_t count) {
  return (count + compute::kBlock - 1) / compute::kBlock * compute::kBlock;
}

// A stage without slices has the same layout in the whole arena.
StageRuns contiguous_runs(const Stage& stage, int part, int parts) {
  const std::size_t all = stage.group->layout().size();
  const compute::Span own = compute::slice_of({0, all}, parts, part);
  const std::size_t first = stage.outline->offsets.empty() ? 0 : stage.outline->offsets.back();
  return {.local = own.begin, .whole = first + own.begin, .count = own.size()};
}

}  // namespace

std::vector<StageRuns> arena_runs(const Stage& stage, const World& peers, Which which) {
  return arena_runs(stage, peers.local_rank(), peers.local_size(), which);
}

std::vector<StageRuns> arena_runs(const Stage& stage, int part, int parts, Which which) {
  if (!stage.network->is_sliced() && stage.leads_group) return {contiguous_runs(stage, part, parts)};
  std::vector<StageRuns> found;
  std::vector<std::size_t> taken(static_cast<std::size_t>(parts));  // elements taken by each worker
  const std::vector<compute::Entry>& entries = stage.group->layout().entries();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto least = std::min_element(taken.begin(), taken.end());
    *least += entries[i].count;
    if (least - taken.begin() != part) continue;
    if (which == Which::kAll || stage.speaks_for(i))
      found.push_back(runs_of(stage.slices[i], entries[i].offset, stage.outline->offsets[i]));
    const auto whole = std::size_t(element_count(stage.outline->parameters[i].shape));
    if (which == Which::kSpokenFor && stage.leads_group && padded(whole) > whole)
      found.push_back({.local = StageRuns::kNowhere,
                       .whole = stage.outline->offsets[i] + whole,
                       .count = padded(whole) - whole});
  }
  return found;
}

std::vector<StageRuns> buffer_runs(const Stage& stage, Which which) {
  std::vector<StageRuns> found;
  std::size_t local = 0, whole = stage.outline->first_buffer;
  for (const auto& item : stage.network->named_buffers()) {
    const model::SlicedTensor buffer = stage.network->sliced(item.value());
    Slice slice = buffer.slice;
    slice.inner *= item.value().scalar_type() == torch::kInt64 ? 2 : 1;  // in floats, as in BufferSet
    if (which == Which::kAll || stage.leads_group || !slice.is_whole())
      found.push_back(runs_of(slice, local, whole));
    local += std::size_t(slice.elements());
    whole += std::size_t(slice.outer * slice.whole * slice.inner);
  }
  return found;
}

void copy_runs(std::span<const StageRuns> runs, const float* whole, float* local) {
  for (const StageRuns& each : runs)
    for (std::size_t run = 0; run < each.runs; ++run)
      std::memcpy(local + each.local + run * each.count, whole + each.whole + run * each.stride,
                  each.count * sizeof(float));
}

void copy_runs(std::span<const StageRuns> runs, std::span<const float> some, std::size_t begin,
               float* local) {
  for (const StageRuns& each : runs)
    for (std::size_t run = 0; run < each.runs; ++run) {
      const std::size_t at = each.whole + run * each.stride;
      const std::size_t from = std::max(at, begin), to = std::min(at + each.count, begin + some.size());
      if (from < to)
        std::memcpy(local + each.local + run * each.count + (from - at), some.data() + (from - begin),
                    (to - from) * sizeof(float));
    }
}

void write_runs(std::span<const StageRuns> runs, const float* local, float* whole) {
  for (const StageRuns& each : runs)
    for (std::size_t run = 0; run < each.runs; ++run) {
      float* const to = whole + each.whole + run * each.stride;
      if (each.local == StageRuns::kNowhere)
        std::fill_n(to, each.count, 0.0F);
      else
        std::memcpy(to, local + each.local + run * each.count, each.count * sizeof(float));
    }
}

std::size_t largest_array(std::span<const Stage> stages, const Mesh& mesh, World& world,
                          const torch::Tensor& input) {
  constexpr std::size_t kDimensions = 8;
  const torch::NoGradGuard no_grad;
  const MeshPlace place = place_of(mesh, world.rank());
  const int count = mesh.pipeline * int(stages.size());
  torch::Tensor array = input;
  std::size_t largest = 0;
  for (int s = 0; s + 1 < count; ++s) {
    std::vector<std::int64_t> sizes(2 + kDimensions);  // number of dimensions, element type, each dimension
    if (place.data == 0 && place.pipeline == s % mesh.pipeline) {  // true for all workers of a tensor group
      model::Network& network = *stages[std::size_t(s / mesh.pipeline)].network;
      network.eval();
      const torch::Tensor output = network.forward(model::on_device(array, network.device()));
      network.train();
      sizes[0] = output.dim();
      sizes[1] = std::int64_t(output.scalar_type());
      std::copy(output.sizes().begin(), output.sizes().end(), sizes.begin() + 2);
    }
    world.communicator().broadcast(comm::view(sizes.data(), sizes.size()),
                                   rank_at(mesh, {0, s % mesh.pipeline, 0}));
    array = torch::zeros(Shape(sizes.begin() + 2, sizes.begin() + 2 + sizes[0]), torch::ScalarType(sizes[1]));
    largest = std::max(largest, std::size_t(array.nbytes()));
  }
  return largest;
}

std::vector<std::int64_t> update_counts(std::span<const Stage> stages, const NetworkOutline& outline,
                                        World& world, const World& peers) {
  std::vector<std::int64_t> counts(outline.parameters.size());
  for (const Stage& stage : stages) {
    const std::vector<std::int64_t>& own = stage.group->sharing(0).update_counts();
    if ((peers.rank() == 0 && stage.leads_group) || outline.stages.size() == 1)
      std::copy(own.begin(), own.end(), counts.begin() + std::ptrdiff_t(stage.outline->first_parameter));
  }
  if (outline.stages.size() > 1)
    world.communicator().allreduce(comm::view(counts.data(), counts.size()), comm::ReduceOp::kSum);
  return counts;
}

}  // namespace distbelief::mesh
