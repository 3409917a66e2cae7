#include "distbelief/train/checkpointer.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <cstring>

#include "distbelief/base/error.h"
#include "distbelief/train/state_file.h"

namespace distbelief::train {
namespace {

using checkpoint::TensorView;
constexpr const char* kModelPrefix = "model.";

std::string state_name(const std::string& state, const std::string& parameter) {
  return "optimizer." + state + "." + parameter;
}

std::vector<TensorView> model_views(const torch::nn::Module& network) {
  std::vector<TensorView> views = parameter_views(network);
  for (TensorView& view : buffer_views(network)) views.push_back(std::move(view));
  for (TensorView& view : views) view.name = kModelPrefix + view.name;
  return views;
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
      store_(run_dir / "checkpoints"),
      keep_(keep),
      build_(std::move(build)) {}

Checkpointer::Restored Checkpointer::open(torch::nn::Module& network) {
  nlohmann::json message;
  if (world_.rank() == 0) {
    try {
      loaded_ = store_.load_latest([](const checkpoint::Entry& entry, const Error& error) {
        spdlog::warn("checkpoint {} is damaged and passed over: {}", entry.folder.string(), error.what());
      });
      if (!loaded_)
        throw Error(ErrorCode::kBadInput, "the run folder has no whole checkpoint to resume from");
      load_tensors(network, loaded_->state, kModelPrefix);
      message["progress"] = loaded_->progress();
    } catch (const Error& error) {
      message["failure"] = error.message();
    }
  }
  message = nlohmann::json::parse(broadcast_text(world_.communicator(), message.dump(), 0));
  if (message.contains("failure")) throw Error(ErrorCode::kBadInput, message["failure"].get<std::string>());
  const nlohmann::json& progress = message.at("progress");
  return {run_progress_from_json(progress.at("run")),
          progress.at("update_counts").get<std::vector<std::int64_t>>(), progress.value("build", "")};
}

void Checkpointer::restore_optimizer(strategy::AllreduceGroup& group) {
  const auto states = group.state_names();
  for (std::size_t s = 0; s < states.size(); ++s)
    for (const compute::Entry& entry : group.layout().entries()) {
      const TensorView& found = loaded_->state.tensor(state_name(states[s], entry.name));
      if (found.shape != entry.shape || found.type != ElementType::kFloat32)
        throw Error(ErrorCode::kBadInput,
                    fmt::format("{}: '{}' has shape {}, wanted {}", loaded_->state.path().string(),
                                found.name, to_string(found.shape), to_string(entry.shape)));
      std::memcpy(group.state(int(s)) + entry.offset, found.data, found.byte_count());
    }
  loaded_.reset();
}

void Checkpointer::save(strategy::AllreduceGroup& group, const torch::nn::Module& network,
                        const RunProgress& progress, Kind kind) {
  group.gather_state();
  if (world_.rank() != 0) return;
  std::vector<TensorView> views = model_views(network);
  const auto states = group.state_names();
  for (std::size_t s = 0; s < states.size(); ++s)
    for (const compute::Entry& entry : group.layout().entries())
      views.push_back({state_name(states[s], entry.name), ElementType::kFloat32, entry.shape,
                       reinterpret_cast<const std::byte*>(group.state(int(s)) + entry.offset)});
  checkpoint::Snapshot snapshot;
  snapshot.step = progress.step;
  snapshot.progress = {
      {"run", to_json(progress)}, {"update_counts", group.sharing(0).update_counts()}, {"build", build_}};
  snapshot.tensors = views;
  snapshot.weights_sha256 = weights_sha256(network);
  store_.save(snapshot);
  if (kind == Kind::kBest)
    for (const checkpoint::Entry& entry : store_.list())
      if (entry.step == progress.step) store_.mark_best(entry);
  store_.prune(keep_);
}

}  // namespace distbelief::train
