#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "distbelief/base/tree.h"
#include "distbelief/compute/layout.h"
#include "distbelief/tasks/row_source.h"

namespace distbelief::mesh {

// A replica's tie to the parameter servers: where its work comes from and where its gradients go. Its own
// workers agree by allreduce; the first of them has the link, or each has one to a share of the arena.
// Blocks; throws Error.
class ParameterLink {
 public:
  virtual ~ParameterLink() = default;

  // All replicas take part in every step, each with its lanes. Else each takes steps of its own, one at a
  // time, whichever are next.
  virtual bool is_synchronous() const = 0;
  virtual TreeNode lanes() const = 0;  // of this replica, in every step (synchronous)
  // One replica validates, saves, and writes what the run leaves behind.
  virtual bool leads() const = 0;
  // Every worker's link pushes and fetches a share of the arena: join(), begin(), exchange() and finish() are
  // for all of them. Else they are for the first worker's.
  virtual bool is_shared_out() const { return false; }
  // The elements that this one pushes and fetches, of so many.
  virtual compute::Span own(std::size_t elements) const { return {0, elements}; }
  // It tries points where the loss need not be a number.
  virtual bool is_searching() const { return false; }

  struct Start {
    const compute::Layout* layout = nullptr;
    std::int64_t steps = 0;  // of the whole run
    std::int64_t steps_per_epoch = 0;
    std::int64_t step = 0;          // that this run goes on with, from a checkpoint
    std::int64_t samples = 0;       // of an epoch
    std::span<float> parameters{};  // the first values; then what the servers have
    std::span<float>
        lane_values{};  // the mean that all go on from (synchronous); as they are at a first step
    // Parameters and running statistics of the whole model, where this replica trains a part and leads.
    std::span<float> whole{};
    std::span<float> whole_statistics{};
    std::vector<comm::TableSpec> tables{};  // whose rows nobody gets before the leader has opened them
  };
  // Submits the job, or joins it, the first worker before the others. Gives the least version of what it
  // fetched.
  virtual std::int64_t join(const Start& start) = 0;
  // Of the first worker, when all have joined: the least version of all gives the step to go on with
  // (synchronous).
  virtual std::int64_t agree(std::int64_t) { return 0; }
  // What that step begins with.
  virtual void begin(std::int64_t, const Start&) {}

  // A step of this replica's own; `announce` hears of those that come after it as soon as they are known.
  // Nothing: all work is done, by all replicas.
  virtual std::optional<std::int64_t> next(const std::function<void(std::int64_t)>& announce) = 0;

  // What a step of this replica has come to.
  struct Share {
    std::int64_t step = 0;
    double lr = 0;
    std::int64_t samples = 0;               // of its lanes
    std::int64_t step_samples = 0;          // of all lanes
    std::vector<std::int32_t> untouched{};  // parameters without a gradient
    double loss = 0;                        // the mean over the samples of its lanes
    std::span<const float> lane_values{};   // the mean over its lanes: statistics, then notes
  };
  // The gradient goes out; the parameters to go on with come in. Both are of its own elements.
  virtual void exchange(const Share& share, std::span<const float> gradient, std::span<float> parameters) = 0;
  // What the servers answered, each link for its share of so many slices: the version, negative where the
  // step was done before the push came; then, when all workers have it, the first one's link hears all: the
  // step is done.
  virtual std::size_t slices(std::size_t) const { return 0; }
  virtual void read_answers(std::span<std::int64_t>) const {}
  virtual void acknowledge(std::span<const std::int64_t>) {}
  // Rows of this replica's lanes, of which `empty` do not count; the mean over all lanes comes in, of the
  // step that it gives (synchronous): a later one when the others have not waited.
  virtual std::int64_t meet(std::int64_t step, std::span<const float> /*rows*/,
                            const std::vector<std::int32_t>& /*empty*/, std::span<float> /*mean*/) {
    return step;
  }
  // What it fetched is too old for the step that next() gave: all links catch_up() before it begins.
  virtual bool is_stale() const { return false; }
  // The others have not waited, or it is stale: what the servers have of its own elements by now.
  virtual void catch_up(std::span<float>) {}
  // The way to rows of tables; null: there are none. Before join() they are all zeros.
  virtual tasks::RowLink* rows() { return nullptr; }
  // Brings what the servers have of the whole model to where Start said, for a leader that trains a part of
  // it.
  virtual void fetch_whole() {}
  // A replica that takes steps of its own pauses: others need not wait for it, and get what it has not begun.
  // Of the first worker; gives how many steps that were announced will not come. Nothing: it keeps its place.
  virtual std::optional<std::int64_t> rest() { return std::nullopt; }
  // It goes on after that, with catch_up().
  virtual void wake() {}
  // next() gave nothing because a wait was broken off, not because all work is done.
  virtual bool is_cut_short() const { return false; }
  // After the last step: what the servers have of its own elements. Collective where each worker has a link.
  struct Finished {
    std::optional<std::int64_t> steps{};  // that were done, where fewer could do
    std::optional<double> loss{};         // over all samples, where it is known
  };
  virtual Finished finish(std::span<float> parameters) = 0;
};

}  // namespace distbelief::mesh
