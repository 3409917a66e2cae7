#include "distbelief/run/checkpointer.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <numeric>
#include <random>
#include <set>
#include <sstream>

#include "distbelief/base/error.h"
#include "distbelief/base/json_text.h"
#include "distbelief/comm/texts.h"
#include "distbelief/run/own_tensors.h"
#include "distbelief/run/patience.h"

namespace distbelief::run {
namespace {

// Refuses unknown tensors: a network with fewer layers would find all of its own and silently drop the
// others.
void require_no_others(const checkpoint::TensorIndex& tensors,
                       const std::vector<std::string>& names_of_workers) {
  std::set<std::string> known;
  for (const std::string& names : names_of_workers) {
    std::istringstream lines(names);
    for (std::string name; std::getline(lines, name);) known.insert(name);
  }
  for (const checkpoint::TensorView& tensor : tensors.all())
    if (tensor.name.starts_with(kModelPrefix) && !known.contains(tensor.name))
      throw Error(ErrorCode::kBadInput,
                  fmt::format("{} has tensor '{}', which is not part of the model; is it a checkpoint of "
                              "another model?",
                              tensors.origin().string(), tensor.name));
}

}  // namespace

Checkpointer::Checkpointer(World& world, std::filesystem::path run_dir, std::size_t keep, std::string build)
    : world_(world),
      folder_(std::move(run_dir) / "checkpoints"),
      keep_(keep),
      build_(std::move(build)) {}

void Checkpointer::set_parts(const World& peers, const World* tensor_group, Holding holding) {
  tensor_group_ = tensor_group;
  writes_ = peers.rank() == 0 || (holding == Holding::kHosts && peers.local_rank() == 0);
  std::vector<std::int64_t> writers(std::size_t(world_.size()));
  writers[std::size_t(world_.rank())] = writes_ ? 1 : 0;
  world_.communicator().allreduce(comm::view(writers.data(), writers.size()), comm::ReduceOp::kSum);
  part_ = int(std::accumulate(writers.begin(), writers.begin() + world_.rank(), std::int64_t(0)));
  parts_ = int(std::accumulate(writers.begin(), writers.end(), std::int64_t(0)));
}

Checkpointer::Restored Checkpointer::open(std::span<const mesh::Stage> stages, const World& peers) {
  const OwnTensors own = own_tensors(stages, peers, Purpose::kLoad);
  std::string names;
  for (const OwnTensor& tensor : own.all) names += tensor.view.name + "\n";
  const std::vector<std::string> names_of_workers = comm::exchange_texts(world_.communicator(), names);
  nlohmann::json message;
  if (world_.rank() == 0) {
    try {
      const auto loaded =
          checkpoint::Store(folder_).load_latest([](const checkpoint::Entry& entry, const Error& error) {
            spdlog::warn("checkpoint {} is damaged and passed over: {}", entry.folder.string(), error.what());
          });
      if (!loaded) throw Error(ErrorCode::kBadInput, "the run folder has no whole checkpoint to resume from");
      require_no_others(loaded->tensors, names_of_workers);
      load_tensors(own, loaded->tensors);
      message = {{"step", loaded->entry.step}, {"progress", loaded->progress()}};
    } catch (const Error& error) {
      message["failure"] = error.message();
    }
  }
  message = parse_json(comm::broadcast_text(world_.communicator(), message.dump(), 0), "what was loaded");
  if (message.contains("failure")) throw Error(ErrorCode::kBadInput, message["failure"].get<std::string>());
  if (writes_ && world_.rank() != 0) load_tensors(own, load(message.at("step")).tensors);
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

// A name that no other save of this or an earlier process has. Collective when there are several parts.
std::string Checkpointer::next_attempt() {
  if (parts_ == 1) return {};
  if (session_.empty())
    session_ = comm::broadcast_text(world_.communicator(), fmt::format("{:08x}", std::random_device()()), 0);
  return fmt::format("{}-{}", session_, ++attempts_);
}

void Checkpointer::set_fence(std::function<bool()> may_commit) { may_commit_ = std::move(may_commit); }

void Checkpointer::save(std::span<const mesh::Stage> stages, const World& peers, const RunProgress& progress,
                        const std::vector<std::int64_t>& update_counts, Kind kind) {
  const std::string attempt = next_attempt();
  for (const mesh::Stage& stage : stages)
    if (!stage.group->gathers_between_hosts()) stage.group->gather_state();
  std::exception_ptr failure;
  // An earlier save may be unfinished, and shared-out state is written in place.
  do_patiently(world_, [&] {
    if (writes_) try {
        write(stages, peers, attempt, progress, update_counts, kind);
      } catch (...) {
        failure = std::current_exception();
      }
  });
  for (const mesh::Stage& stage : stages) stage.group->forget_gathered();
  if (failure) std::rethrow_exception(failure);
}

void Checkpointer::write(std::span<const mesh::Stage> stages, const World& peers, const std::string& attempt,
                         const RunProgress& progress, const std::vector<std::int64_t>& update_counts,
                         Kind kind) {
  checkpoint::Snapshot snapshot;
  const std::vector<checkpoint::TensorView> pieces =
      pieces_to_save(own_tensors(stages, peers, Purpose::kSave), tensor_group_, snapshot.weights);
  snapshot.step = progress.step;
  snapshot.progress = {{"run", to_json(progress)}, {"update_counts", update_counts}, {"build", build_}};
  snapshot.tensors = pieces;
  snapshot.part = part_;
  snapshot.parts = parts_;
  snapshot.attempt = attempt;
  if (!writer_)
    writer_ = std::make_unique<checkpoint::Writer>(checkpoint::Writer::Options{
        .folder = folder_, .keep = keep_, .store = {.may_commit = may_commit_, .at = at_}});
  if (stages[0].group->shares_out_parameters())
    writer_->save_in_place(snapshot,
                           kind);  // other workers keep most of it, and there may be no memory for a copy
  else
    writer_->save(snapshot, kind);
}

std::optional<Checkpointer::Outcome> Checkpointer::take_outcome() {
  return writer_ ? writer_->take_outcome() : std::nullopt;
}

void Checkpointer::wait() {
  if (writer_) writer_->wait();
}

}  // namespace distbelief::run
