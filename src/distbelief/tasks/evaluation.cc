#include "distbelief/tasks/evaluation.h"

#include <algorithm>
#include <vector>

#include "distbelief/model/lane_place.h"

namespace distbelief::tasks {
namespace {

// Every chunk is zero on all workers but one, and counts are whole numbers, so these sums are exact.
Tally tally_of(const EvaluationShare& share, comm::Communicator& workers,
               const std::function<Score(data::Range)>& score) {
  const ScoreShape shape = share.task->score_shape();
  const std::uint64_t chunks = (share.samples + kEvaluationChunk - 1) / kEvaluationChunk;
  std::vector<double> sums(chunks * shape.sums);
  Tally tally{.chunks = {},
              .sums = std::vector<double>(shape.sums),
              .counts = std::vector<double>(shape.counts),
              .items = std::int64_t(share.samples) * share.task->items_per_sample()};
  for (auto chunk = std::uint64_t(share.part); chunk < chunks; chunk += std::uint64_t(share.parts)) {
    const Score found =
        score({chunk * kEvaluationChunk, std::min(share.samples, (chunk + 1) * kEvaluationChunk)});
    std::copy(found.sums.begin(), found.sums.end(), sums.begin() + std::ptrdiff_t(chunk * shape.sums));
    for (std::size_t i = 0; i < found.counts.size(); ++i) tally.counts[i] += found.counts[i];
    for (const std::size_t place : found.ones) tally.counts[place] += 1;
  }
  workers.allreduce(comm::view(sums.data(), sums.size()), comm::ReduceOp::kSum);
  if (shape.counts > 0)
    workers.allreduce(comm::view(tally.counts.data(), tally.counts.size()), comm::ReduceOp::kSum);
  if (shape.items) tally.items = std::int64_t(tally.counts[*shape.items]);
  for (std::uint64_t chunk = 0; chunk < chunks; ++chunk) {
    const auto begin = sums.begin() + std::ptrdiff_t(chunk * shape.sums);
    tally.chunks.emplace_back(begin, begin + std::ptrdiff_t(shape.sums));
    for (std::size_t i = 0; i < shape.sums; ++i) tally.sums[i] += tally.chunks.back()[i];
  }
  return tally;
}

}  // namespace

Evaluation evaluate(const EvaluationShare& share, comm::Communicator& workers,
                    const std::function<Score(data::Range)>& score) {
  const Tally tally = tally_of(share, workers, score);
  Evaluation result{.loss = tally.mean(0), .items = tally.items, .metrics = share.task->metrics(tally)};
  if (const double* accuracy = find_metric(result.metrics, "accuracy")) result.accuracy = *accuracy;
  return result;
}

Evaluation evaluate(model::Network& network, const Task& task, const ReadChunk& read, std::uint64_t samples,
                    comm::Communicator& workers) {
  network.eval();
  const Evaluation result =
      evaluate({.task = &task, .samples = samples, .part = workers.rank(), .parts = workers.size()}, workers,
               [&](data::Range range) {
                 const data::Batch& batch = read(range);
                 const model::SamplesInOrderScope in_order;
                 return task.score(network, prepared_for_test(task, as_tensors(batch), network.device()));
               });
  network.train();
  return result;
}

}  // namespace distbelief::tasks
