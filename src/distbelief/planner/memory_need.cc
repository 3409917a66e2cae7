#include "distbelief/planner/memory_need.h"

#include "distbelief/base/parallel_defaults.h"
#include "distbelief/comm/host/communicator.h"
#include "distbelief/compute/buffers.h"
#include "distbelief/compute/replica.h"
#include "distbelief/mesh/lane_runner.h"
#include "distbelief/mesh/replica_window.h"
#include "distbelief/mesh/tensor_sums.h"
#include "distbelief/run/snapshotter.h"

namespace distbelief::planner {

namespace {

// The copies per host: workers with slices or stages of a copy hold it once together.
std::vector<int> replicas(const Config& config, std::vector<int> workers_per_host) {
  const int each = int(config.parallel.pipeline * config.parallel.tensor);
  for (int& workers : workers_per_host) workers = (workers + each - 1) / each;
  return workers_per_host;
}

// The window of one replica with parameter servers.
mesh::ReplicaWindow::Shape window_of(const Config& config, const mesh::NetworkOutline& outline, int workers) {
  const ParallelConfig& parallel = config.parallel;
  mesh::ReplicaWindow::Shape shape =
      mesh::window_shape(outline, workers, takes_own_steps(parallel) ? 0 : parallel.lanes / parallel.workers);
  if (parallel.pipeline * parallel.tensor == 1) shape.elements = 0;
  return shape;
}

}  // namespace

void require_state_room(const run::PreparedJob& job) {
  if (job.config.parallel.state_dir.empty()) return;
  comm::require_state_room(
      job.config.parallel.state_dir,
      mesh::AllreduceGroup::state_bytes(outline_of(job).parameters, run::group_options(job.config)));
}

std::size_t saved_bytes(const run::PreparedJob& job) {
  const mesh::NetworkOutline outline = outline_of(job);
  std::size_t weights = outline.buffers * sizeof(float);
  for (const auto& parameter : outline.parameters)
    weights += std::size_t(element_count(parameter.shape)) * sizeof(float);
  const bool has_state = !has_servers(job.config.parallel);  // otherwise the servers have it
  return 2 * weights +
         (has_state ? mesh::AllreduceGroup::state_bytes(outline.parameters, run::group_options(job.config))
                    : 0);
}

std::size_t shared_memory_needed(const run::PreparedJob& job, const std::vector<int>& workers_per_host,
                                 int host) {
  const int workers = workers_per_host[std::size_t(host)];
  auto options = run::group_options(job.config);
  const mesh::NetworkOutline outline = outline_of(job);
  const auto& parameters = outline.parameters;
  options.lane_values = outline.buffers + mesh::kNoteFloats;
  std::size_t bytes = 0;
  if (workers > 1)  // a single worker shares nothing
    bytes += mesh::AllreduceGroup::bytes_needed(parameters, options, replicas(job.config, workers_per_host),
                                                host) +
             comm::HostCommunicator::staging_bytes(workers);
  if (const int tensor = int(job.config.parallel.tensor); tensor > 1)
    bytes += std::size_t(std::max(1, workers / tensor)) * mesh::HostTensorGroup::bytes_needed(tensor);
  if (has_servers(job.config.parallel) && workers > 1)
    bytes += mesh::ReplicaWindow::bytes_needed(window_of(job.config, outline, workers));
  if (job.config.elastic.standby) bytes *= 2;
  return bytes + snapshot_bytes(job);
}

std::size_t snapshot_bytes(const run::PreparedJob& job) {
  if (!job.config.checkpoint.snapshots) return 0;
  const mesh::NetworkOutline outline = outline_of(job);
  auto options = run::group_options(job.config);
  options.lane_values = outline.buffers + mesh::kNoteFloats;
  return run::Snapshotter::bytes_needed(outline.parameters, options, outline.buffers);
}

}  // namespace distbelief::planner
