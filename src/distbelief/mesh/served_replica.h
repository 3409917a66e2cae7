#pragma once

#include <span>
#include <vector>

#include "distbelief/mesh/parameter_link.h"
#include "distbelief/mesh/served_window.h"
#include "distbelief/mesh/stage.h"
#include "distbelief/mesh/team.h"

namespace distbelief::mesh {

// A replica whose parameters live on servers. Its workers add up their gradients as ever, those who hold the
// same stage together. Servers get the sum of the whole network, however it is cut, and it is one push: each
// worker's link hands over a share of the arena and brings what comes back, and the step is done when all
// have. Where the network is cut, gradients, parameters and lanes' values are put together in a window and
// taken out of it again. Used by the training thread of each worker; all call the same, in the same order.
class ServedReplica {
 public:
  struct Options {
    std::span<const Stage> stages{};  // that this worker holds; all of this is borrowed
    const NetworkOutline* outline = nullptr;
    World* world = nullptr;
    World* peers = nullptr;  // who hold the same stages
    ParameterLink* link = nullptr;
  };
  explicit ServedReplica(const Options& options);  // collective

  // What the servers have takes the place of what this replica would begin with. `start` without what is said
  // of the network. Gives the step to go on with (synchronous).
  std::int64_t join(ParameterLink::Start start);
  // When every group of this worker has added up the step: the parameters to go on with are there.
  void end_step(const StepPlan& plan);
  // After that: the step to go on with (synchronous), a later one than the next when the others have not
  // waited.
  std::int64_t next_step() { return window_.step(); }
  // All work is done, by all replicas.
  ParameterLink::Finished finish();
  void meet() { window_.meet(); }
  // After a pause: what the servers have by now.
  void refresh();

  bool is_synchronous() const { return options_.link->is_synchronous(); }
  // The mean over the lanes of all replicas, of the step that ended or of the one before the step that join()
  // gave (synchronous): running statistics, and notes.
  void read_mean(std::size_t stage, compute::BufferSet& buffers);
  LaneNotes mean_notes();

  static ServedWindow::Shape window_shape(const NetworkOutline& outline, int workers, std::int64_t lanes);

 private:
  struct Held {
    const Stage* stage = nullptr;
    std::size_t buffers = 0;                                     // floats of running statistics that are here
    std::vector<StageRuns> spoken_for{}, all{};                  // of the arena, by this worker
    std::vector<StageRuns> buffers_spoken_for{}, buffers_all{};  // of the running statistics
    std::vector<std::int64_t> counts{};                          // of updates, per parameter
  };
  bool is_first() const { return options_.world->rank() == 0; }
  bool has_link() const {
    return is_first() || options_.link->is_shared_out() || options_.link->is_searching();
  }
  bool pushes() const { return is_first() || options_.link->is_shared_out(); }
  bool is_cut() const { return options_.peers->size() != options_.world->size(); }
  bool speaks_for_peers() const { return options_.peers->rank() == 0; }
  AllreduceGroup& group() const { return *held_[0].stage->group; }
  std::span<float> gradient();
  std::span<float> parameters();
  void note_touched();
  void put_rows();
  void put_notes(const Held& held, std::int64_t lane);
  void put_parameters();
  void put_buffers();
  void take_parameters();
  std::vector<std::int32_t> forget_untouched(compute::Span own);
  double loss(const StepPlan& plan) const;
  void exchange(const StepPlan& plan);
  void meet_lanes(const StepPlan& plan);
  void catch_up();

  Options options_;
  compute::Layout layout_;  // of the whole network
  ServedWindow window_;
  std::vector<Held> held_;
};

}  // namespace distbelief::mesh
