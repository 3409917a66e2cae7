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

// What a checkpoint holds; the first `parameters` are those that weights_sha256 is over. The common prefix
// leaves their order by name as it is in the network.
struct StateViews {
  std::vector<TensorView> tensors;
  std::size_t parameters = 0;
};

StateViews state_views(const torch::nn::Module& network, strategy::AllreduceGroup& group) {
  StateViews views{.tensors = parameter_views(network)};
  views.parameters = views.tensors.size();
  for (TensorView& view : buffer_views(network)) views.tensors.push_back(std::move(view));
  for (TensorView& view : views.tensors) view.name = kModelPrefix + view.name;
  const auto states = group.state_names();
  for (std::size_t s = 0; s < states.size(); ++s)
    for (const compute::Entry& entry : group.layout().entries())
      views.tensors.push_back({state_name(states[s], entry.name), ElementType::kFloat32, entry.shape,
                               reinterpret_cast<const std::byte*>(group.state(int(s)) + entry.offset)});
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
      folder_(std::move(run_dir) / "checkpoints"),
      keep_(keep),
      build_(std::move(build)) {}

Checkpointer::Restored Checkpointer::open(torch::nn::Module& network) {
  nlohmann::json message;
  if (world_.rank() == 0) {
    try {
      loaded_ =
          checkpoint::Store(folder_).load_latest([](const checkpoint::Entry& entry, const Error& error) {
            spdlog::warn("checkpoint {} is damaged and passed over: {}", entry.folder.string(), error.what());
          });
      if (!loaded_)
        throw Error(ErrorCode::kBadInput, "the run folder has no whole checkpoint to resume from");
      load_tensors(network, loaded_->tensors, kModelPrefix);
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
      const TensorView& found = loaded_->tensor(state_name(states[s], entry.name));
      if (found.shape != entry.shape || found.type != ElementType::kFloat32)
        throw Error(ErrorCode::kBadInput,
                    fmt::format("{}: '{}' has shape {}, wanted {}", loaded_->tensors.origin().string(),
                                found.name, to_string(found.shape), to_string(entry.shape)));
      std::memcpy(group.state(int(s)) + entry.offset, found.data, found.byte_count());
    }
  loaded_.reset();
}

void Checkpointer::set_fence(std::function<bool()> may_commit) { may_commit_ = std::move(may_commit); }

void Checkpointer::save(strategy::AllreduceGroup& group, const torch::nn::Module& network,
                        const RunProgress& progress, Kind kind) {
  group.gather_state();
  if (world_.rank() != 0) return;
  const StateViews views = state_views(network, group);
  checkpoint::Snapshot snapshot;
  snapshot.step = progress.step;
  snapshot.progress = {
      {"run", to_json(progress)}, {"update_counts", group.sharing(0).update_counts()}, {"build", build_}};
  snapshot.tensors = views.tensors;
  snapshot.weights = views.parameters;
  if (!writer_)
    writer_ = std::make_unique<checkpoint::Writer>(checkpoint::Writer::Options{
        .folder = folder_, .keep = keep_, .store = {.may_commit = may_commit_, .at = at_}});
  writer_->save(snapshot, kind);
}

std::optional<Checkpointer::Outcome> Checkpointer::take_outcome() {
  return writer_ ? writer_->take_outcome() : std::nullopt;
}

void Checkpointer::wait() {
  if (writer_) writer_->wait();
}

}  // namespace distbelief::train
