#include "distbelief/run/decomposition.h"

#include <fmt/format.h>

#include "distbelief/base/error.h"
#include "distbelief/mesh/cuts.h"
#include "distbelief/model/local_head.h"
#include "distbelief/tasks/task.h"

namespace distbelief::run {
namespace {

[[noreturn]] void refuse(const Config& config, const std::string& why) {
  throw Error(ErrorCode::kBadInput,
              fmt::format("model '{}' cannot be decomposed: {}", config.model.name, why));
}

// Without given cuts, all sub-networks have about the same number of blocks.
std::vector<int> ends_of(const Config& config, int blocks) {
  const int count = int(config.parallel.sub_networks);
  if (count > blocks)
    refuse(config,
           fmt::format("it has {} blocks to cut between, parallel.sub_networks is {}; take {} at most",
                       blocks, count, blocks));
  if (!config.parallel.cuts.empty()) {
    const std::vector<int> firsts(config.parallel.cuts.begin(), config.parallel.cuts.end());
    return mesh::given_cuts(firsts, std::vector<mesh::BlockCost>(std::size_t(blocks)), count, {}).ends;
  }
  std::vector<int> ends;
  for (int i = 1; i <= count; ++i) ends.push_back(blocks * i / count);
  return ends;
}

// The shape of one sample's output after each block.
std::vector<Shape> outputs_of_blocks(const PreparedJob& job) {
  const torch::NoGradGuard no_grad;
  Shape shape = job.data.train->spec().input_shape;
  shape.insert(shape.begin(), 1);
  torch::Tensor sample = torch::zeros(shape);
  std::vector<Shape> outputs;
  for (int block = 0; block < int(job.blueprint.size()); ++block) {
    model::Network network(job.blueprint, {block, block + 1}, job.config.train.seed);
    if (!network.block(block).borrowed().empty())
      refuse(job.config, fmt::format("block {} shares parameters with another", block));
    network.eval();
    sample = network.forward(sample);
    outputs.emplace_back(sample.sizes().begin() + 1, sample.sizes().end());
  }
  return outputs;
}

void require_head_for(const Config& config, int block, const Shape& output) {
  if (output.size() == 1 || output.size() == 3) return;
  refuse(config, fmt::format("block {} gives {} of a sample, and a local head takes features or images; cut "
                             "elsewhere (parallel.cuts)",
                             block, to_string(output)));
}

}  // namespace

void decompose(PreparedJob& job) {
  const Config& config = job.config;
  const data::SampleSpec& spec = job.data.train->spec();
  if (tasks::task_name(config, spec) != "classification" || spec.input_type == ElementType::kInt64)
    refuse(config, fmt::format("local heads are for the task classification of images or features, found {}",
                               tasks::task_name(config, spec)));
  const std::vector<int> ends = ends_of(config, int(job.blueprint.size()));
  const std::vector<Shape> outputs = outputs_of_blocks(job);
  model::Blueprint whole;
  Shape input = spec.input_shape;
  int block = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const int begin = int(whole.size());
    while (block < ends[i]) whole.push_back(job.blueprint[std::size_t(block++)]);
    const Shape& output = outputs[std::size_t(block - 1)];
    if (i + 1 < ends.size()) {
      require_head_for(config, block - 1, output);
      // The head directly follows its block, so that parameters stay in the order of blocks.
      whole.push_back({whole.back().path,
                       [number = int(i), output, classes = job.shape.outputs()](
                           const model::BlockSite&) -> std::shared_ptr<model::Block> {
                         return std::make_shared<model::LocalHead>(number, output, classes);
                       }});
    }
    job.sub_networks.push_back({.blocks = {begin, int(whole.size())}, .input = input});
    input = output;
  }
  job.blueprint = std::move(whole);
}

std::vector<SubNetworkPlace> places_of_sub_networks(const PreparedJob& job) {
  std::vector<int> ends;
  for (const SubNetwork& one : job.sub_networks) ends.push_back(one.blocks.end);
  const mesh::NetworkOutline outline = mesh::outline_of(job.blueprint, ends, job.config.train.seed);
  std::vector<SubNetworkPlace> places;
  for (std::size_t i = 0; i < outline.stages.size(); ++i) {
    const mesh::StageOutline& stage = outline.stages[i];
    const std::int64_t floats = job.config.train.batch_size * element_count(job.sub_networks[i].input);
    places.push_back({.layout = compute::Layout(stage.parameters, 1),
                      .offset = stage.offsets.back(),
                      .statistics = stage.buffers,
                      .first_statistic = stage.first_buffer,
                      .input_bytes = i == 0 ? 0 : std::uint64_t(floats) * sizeof(float)});
  }
  return places;
}

}  // namespace distbelief::run
