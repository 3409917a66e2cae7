#include "distbelief/train/checkpointer.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "distbelief/base/error.h"
#include "distbelief/compute/replica.h"
#include "distbelief/train/state_file.h"

namespace distbelief::train {
namespace {

using checkpoint::TensorView;
constexpr const char* kModelPrefix = "model.";

std::string state_name(const std::string& state, const std::string& parameter) {
  return "optimizer." + state + "." + parameter;
}

// A stage's part of a checkpoint into where its parameters and buffers live.
void load_stage(const Stage& stage, const checkpoint::TensorIndex& tensors) {
  const auto visit = [&](const auto& act) {
    const auto parameters = stage.network->named_parameters(), buffers = stage.network->named_buffers();
    for (const TensorView& view : weight_views(stage)) act(view, parameters[view.name]);
    for (const TensorView& view : buffer_views(*stage.network)) act(view, buffers[view.name]);
  };
  visit([&](const TensorView& view, const torch::Tensor& tensor) {
    require_same(tensors, tensors.tensor(kModelPrefix + view.name), view.type,
                 stage.network->sliced(tensor).whole);
  });
  visit([&](const TensorView& view, const torch::Tensor& tensor) {
    copy_slice(stage.network->sliced(tensor).slice, element_size(view.type),
               tensors.tensor(kModelPrefix + view.name).data, const_cast<std::byte*>(view.data));
  });
}

// What a checkpoint holds; the first `weights` are those that weights_sha256 is over. The common prefix
// leaves their order by name as it is in the network.
struct StateViews {
  std::vector<TensorView> tensors;
  std::size_t weights = 0;
  std::vector<model::SlicedTensor> slices;  // of each tensor, where it is a slice
  std::vector<std::vector<std::byte>> assembled;
};

StateViews state_views(std::span<const Stage> stages) {
  StateViews views;
  const auto add = [&](std::vector<TensorView> more, const auto& tensors, const Stage& stage) {
    const std::vector<std::string>& tied = stage.outline->tied;
    for (TensorView& view : more) {
      if (std::find(tied.begin(), tied.end(), view.name) != tied.end()) continue;  // another stage's
      views.slices.push_back(stage.network->sliced(tensors[view.name]));
      view.name = kModelPrefix + view.name;
      views.tensors.push_back(std::move(view));
    }
  };
  for (const Stage& stage : stages) add(weight_views(stage), stage.network->named_parameters(), stage);
  views.weights = views.tensors.size();
  for (const Stage& stage : stages) add(buffer_views(*stage.network), stage.network->named_buffers(), stage);
  for (const Stage& stage : stages) {
    const auto states = stage.group->state_names();
    const auto& entries = stage.group->layout().entries();
    for (std::size_t s = 0; s < states.size(); ++s)
      for (std::size_t i = 0; i < entries.size(); ++i) {
        views.tensors.push_back(
            {state_name(states[s], entries[i].name), ElementType::kFloat32, entries[i].shape,
             reinterpret_cast<const std::byte*>(stage.group->state(int(s)) + entries[i].offset),
             done_with(stage)});
        views.slices.push_back({{}, stage.slices[i], stage.outline->parameters[i].shape});
      }
  }
  return views;
}

// Every tensor of a tensor group goes to the one of it that has the fewest bytes yet, which puts it together
// from the slices of all. Collective over the group; a tensor keeps its place in the order.
StateViews deal_out(StateViews slices, comm::Communicator& group) {
  constexpr int kTag = 7;
  StateViews dealt;
  std::vector<std::size_t> bytes(std::size_t(group.size()));
  std::vector<std::byte> received;
  for (std::size_t i = 0; i < slices.tensors.size(); ++i) {
    TensorView view = slices.tensors[i];
    const model::SlicedTensor& sliced = slices.slices[i];
    const int owner = int(std::min_element(bytes.begin(), bytes.end()) - bytes.begin());
    const std::size_t element = element_size(view.type);
    bytes[std::size_t(owner)] += element * std::size_t(element_count(sliced.whole));
    if (group.rank() != owner) {
      if (!sliced.slice.is_whole())
        group.send(comm::view(const_cast<std::byte*>(view.data), view.byte_count()), owner, kTag);
      continue;
    }
    if (!sliced.slice.is_whole()) {
      std::vector<std::byte>& whole =
          dealt.assembled.emplace_back(element * std::size_t(element_count(sliced.whole)));
      for (int part = 0; part < group.size(); ++part) {
        model::Slice slice = sliced.slice;
        const model::SliceRange range = model::share_of(slice.whole, part, group.size());
        slice.begin = range.begin;
        slice.count = range.count;
        received.resize(element * std::size_t(slice.elements()));
        if (part != owner) group.receive(comm::view(received.data(), received.size()), part, kTag);
        copy_whole(slice, element, part == owner ? view.data : received.data(), whole.data());
      }
      view.data = whole.data();
      view.done = nullptr;
      view.shape = sliced.whole;
    }
    dealt.tensors.push_back(view);
    if (i < slices.weights) ++dealt.weights;
  }
  return dealt;
}

void restore_optimizer(const Stage& stage, const checkpoint::TensorIndex& tensors) {
  const auto states = stage.group->state_names();
  const auto& entries = stage.group->layout().entries();
  for (std::size_t s = 0; s < states.size(); ++s)
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const TensorView& found = tensors.tensor(state_name(states[s], entries[i].name));
      require_same(tensors, found, ElementType::kFloat32, stage.outline->parameters[i].shape);
      copy_slice(stage.slices[i], sizeof(float), found.data,
                 reinterpret_cast<std::byte*>(stage.group->state(int(s)) + entries[i].offset));
    }
}

}  // namespace

std::string broadcast_text(comm::Communicator& workers, std::string text, int root) {
  auto length = std::int64_t(text.size());
  workers.broadcast(comm::view(&length, 1), root);
  text.resize(std::size_t(length));
  workers.broadcast(comm::view(reinterpret_cast<std::byte*>(text.data()), text.size()), root);
  return text;
}

std::vector<std::string> exchange_texts(comm::Communicator& workers, const std::string& own) {
  std::vector<std::string> texts;
  for (int rank = 0; rank < workers.size(); ++rank)
    texts.push_back(broadcast_text(workers, rank == workers.rank() ? own : std::string(), rank));
  return texts;
}

Checkpointer::Checkpointer(World& world, std::filesystem::path run_dir, std::size_t keep, std::string build)
    : world_(world),
      folder_(std::move(run_dir) / "checkpoints"),
      keep_(keep),
      build_(std::move(build)) {}

void Checkpointer::set_part(int part, int parts, World* tensor_group) {
  part_ = part;
  parts_ = parts;
  tensor_group_ = tensor_group;
}

Checkpointer::Restored Checkpointer::open(std::span<const Stage> stages, const World& peers) {
  std::optional<checkpoint::Loaded> loaded;
  nlohmann::json message;
  if (world_.rank() == 0) {
    try {
      loaded = checkpoint::Store(folder_).load_latest([](const checkpoint::Entry& entry, const Error& error) {
        spdlog::warn("checkpoint {} is damaged and passed over: {}", entry.folder.string(), error.what());
      });
      if (!loaded) throw Error(ErrorCode::kBadInput, "the run folder has no whole checkpoint to resume from");
      for (const Stage& stage : stages) load_stage(stage, loaded->tensors);
      message = {{"step", loaded->entry.step}, {"progress", loaded->progress()}};
    } catch (const Error& error) {
      message["failure"] = error.message();
    }
  }
  message = nlohmann::json::parse(broadcast_text(world_.communicator(), message.dump(), 0));
  if (message.contains("failure")) throw Error(ErrorCode::kBadInput, message["failure"].get<std::string>());
  if (peers.rank() == 0) {
    if (!loaded) loaded = load(message.at("step"));
    for (const Stage& stage : stages) {
      load_stage(stage, loaded->tensors);
      restore_optimizer(stage, loaded->tensors);
    }
  }
  const nlohmann::json& progress = message.at("progress");
  return {run_progress_from_json(progress.at("run")),
          progress.at("update_counts").get<std::vector<std::int64_t>>(), progress.value("build", "")};
}

checkpoint::Loaded Checkpointer::load(std::int64_t step) const {
  const checkpoint::Store store(folder_);
  for (const checkpoint::Entry& entry : store.list())
    if (entry.step == step) return store.load(entry);
  throw Error(
      ErrorCode::kUnavailable,
      fmt::format("{} has no whole checkpoint of step {}; a network that is cut over workers on several "
                  "hosts needs a run folder that all of them see",
                  folder_.string(), step));
}

std::string Checkpointer::weights_sha256(std::int64_t step) const { return load(step).weights_sha256(); }

void Checkpointer::export_model(std::int64_t step, const std::filesystem::path& path,
                                const checkpoint::Metadata& metadata) const {
  checkpoint::export_weights(load(step), kModelPrefix, path, metadata);
}

// A word that no other save has, of this process or of one before it. Collective, when there are parts.
std::string Checkpointer::next_attempt() {
  if (parts_ == 1) return {};
  if (session_.empty())
    session_ = broadcast_text(world_.communicator(), fmt::format("{:08x}", std::random_device()()), 0);
  return fmt::format("{}-{}", session_, ++attempts_);
}

void Checkpointer::set_fence(std::function<bool()> may_commit) { may_commit_ = std::move(may_commit); }

void Checkpointer::save(std::span<const Stage> stages, const World& peers, const RunProgress& progress,
                        const std::vector<std::int64_t>& update_counts, Kind kind) {
  const std::string attempt = next_attempt();
  for (const Stage& stage : stages) stage.group->gather_state();
  std::exception_ptr failure;
  if (peers.rank() == 0) try {
      write(stages, attempt, progress, update_counts, kind);
    } catch (...) {
      failure = std::current_exception();
    }
  for (const Stage& stage : stages) {
    if (stage.group->shares_out_parameters()) stage.group->meet_patiently();  // it was written in place
    stage.group->forget_gathered();
  }
  if (failure) std::rethrow_exception(failure);
}

void Checkpointer::write(std::span<const Stage> stages, const std::string& attempt,
                         const RunProgress& progress, const std::vector<std::int64_t>& update_counts,
                         Kind kind) {
  StateViews views = state_views(stages);
  if (tensor_group_) views = deal_out(std::move(views), tensor_group_->communicator());
  checkpoint::Snapshot snapshot;
  snapshot.step = progress.step;
  snapshot.progress = {{"run", to_json(progress)}, {"update_counts", update_counts}, {"build", build_}};
  snapshot.tensors = views.tensors;
  snapshot.weights = views.weights;
  snapshot.part = part_;
  snapshot.parts = parts_;
  snapshot.attempt = attempt;
  if (!writer_)
    writer_ = std::make_unique<checkpoint::Writer>(checkpoint::Writer::Options{
        .folder = folder_, .keep = keep_, .store = {.may_commit = may_commit_, .at = at_}});
  if (stages[0].group->shares_out_parameters())
    writer_->save_in_place(snapshot, kind);  // others keep most of it, and there may be no room for a copy
  else
    writer_->save(snapshot, kind);
}

std::optional<Checkpointer::Outcome> Checkpointer::take_outcome() {
  return writer_ ? writer_->take_outcome() : std::nullopt;
}

void Checkpointer::wait() {
  if (writer_) writer_->wait();
}

}  // namespace distbelief::train
