#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "distbelief/replica/replica.h"

namespace distbelief::modes {

// How far a run has come, for this replica.
struct Reached {
  std::int64_t step = 0;       // the next one
  bool closes_epochs = false;  // an epoch that has ended is validated now
  bool completes = false;      // the run is complete at its last step
  bool of_all = false;         // it counts the samples of all replicas' steps, not of this one's alone
  bool ends = false;           // all work is done, by all replicas
  bool begins_anew = false;    // in an Entry's answer: all work is done again, on the weights that there are
  std::string bits_lost{};     // why the result is not that of an undisturbed run from now on; empty: it is
};

// The next work of a replica.
struct Work {
  enum class Kind {
    kStep,
    kDone,       // there is none left
    kBrokenOff,  // a wait for it was broken off, because the run is to stop
  } kind = Kind::kStep;
  Reached at{};            // the step
  bool continues = false;  // state that lanes carry from step to step goes on where the last step left it
  std::optional<TreeNode> lanes{};  // whose samples the step has; nothing: all of the job
};

// The result of a step between the replicas.
struct Settled {
  Reached reached{};
  std::optional<double> loss{};  // that must be finite; nothing: not known of this step
  std::optional<mesh::StepOutcome>
      agreed{};  // wishes that all who act together share; nothing: not at this step
};

// A replica's knowledge when it takes part.
struct Entry {
  std::int64_t step = 0;   // that it would go on with by itself
  std::int64_t steps = 0;  // of the whole run
  std::int64_t steps_per_epoch = 0;
  std::int64_t samples = 0;                  // of an epoch
  std::optional<std::int64_t> checkpoint{};  // the step of the checkpoint that was read; nothing: none was
  std::filesystem::path run_dir{};
};

// A checkpoint that is about to be written.
struct Saving {
  std::int64_t step = 0;
  std::filesystem::path run_dir{};
  std::size_t keep = 1;                                                         // checkpoints that stay
  std::function<void(const std::string& kind, nlohmann::json details)> note{};  // in the run's events
};

// The model that is validated and saved.
struct Record {
  std::span<const mesh::Stage> stages{};
  const mesh::NetworkOutline* outline = nullptr;
  bool is_apart = false;  // not the replica's own: a copy that refresh() brings up to date
  bool writes = true;     // this replica validates at the end, saves, and leaves the results
};

struct Finished {
  std::optional<Reached> reached{};
  std::optional<double> loss{};  // over all samples
};

// The seam between replicas: it says where a replica's work comes from and what becomes of its steps. One
// object for each worker; all workers of the replica call the same functions in the same order, on the main
// thread. Waits for others may take hours. Throws Error.
class Mode {
 public:
  virtual ~Mode() = default;
  // The replica takes part, and takes over what the others have. Says where it goes on.
  virtual Reached join(const Entry& entry) = 0;
  virtual Work next() = 0;
  // The replica has made that step, by itself it came to `own`.
  virtual Settled settle(const mesh::StepPlan& plan, const mesh::StepOutcome& own) = 0;
  // The replica rests while `wait` runs.
  virtual void pause(const std::function<void()>& wait) = 0;
  // Brings the record up to date.
  virtual void refresh() = 0;
  // Keeps beside a checkpoint what the mode has outside the record.
  virtual void save(const Saving& saving) = 0;
  // After the last step.
  virtual Finished finish() = 0;

  const Record& record() const { return record_; }

 protected:
  explicit Mode(const Record& record) : record_(record) {}
  void set_record(const Record& record) { record_ = record; }

 private:
  Record record_;
};

// A mode's parts for the loop: terms for the replica, then the mode, made when the replica is built.
struct ModeParts {
  replica::ReplicaTerms terms{};
  std::function<std::unique_ptr<Mode>(replica::Replica&)> make{};
  // Where several replicas share the workers of a run: the workers of this one, and its number. The first
  // leads and writes into the run's folder, the others below it. Null: all workers are one replica.
  std::shared_ptr<World> world{};
  int replica = 0;
};

}  // namespace distbelief::modes
