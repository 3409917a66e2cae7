#include "distbelief/train/evaluation.h"

#include <algorithm>
#include <vector>

namespace distbelief::train {
Evaluation evaluate(const EvaluationShare& share, comm::Communicator& workers,
                    const std::function<Score(data::Range)>& score) {
  const std::uint64_t chunks = (share.samples + kEvaluationChunk - 1) / kEvaluationChunk;
  std::vector<double> losses(chunks), correct(chunks);
  for (auto chunk = std::uint64_t(share.part); chunk < chunks; chunk += std::uint64_t(share.parts)) {
    const Score found =
        score({chunk * kEvaluationChunk, std::min(share.samples, (chunk + 1) * kEvaluationChunk)});
    losses[chunk] = found.loss;
    correct[chunk] = double(found.correct);
  }
  // Every chunk is zero on all workers but one, so these sums are exact.
  workers.allreduce(comm::view(losses.data(), losses.size()), comm::ReduceOp::kSum);
  workers.allreduce(comm::view(correct.data(), correct.size()), comm::ReduceOp::kSum);
  Evaluation result;
  result.items = std::int64_t(share.samples) * share.items_per_sample;
  for (std::uint64_t chunk = 0; chunk < chunks; ++chunk) {
    result.loss += losses[chunk];
    result.accuracy += correct[chunk];
  }
  if (result.items > 0) {
    result.loss /= double(result.items);
    result.accuracy /= double(result.items);
  }
  return result;
}

Evaluation evaluate(model::Network& network, const Task& task, const data::BatchMaker& maker,
                    std::uint64_t samples, comm::Communicator& workers) {
  data::Batch batch;
  network.eval();
  const Evaluation result = evaluate({.samples = samples,
                                      .items_per_sample = task.items_per_sample(),
                                      .part = workers.rank(),
                                      .parts = workers.size()},
                                     workers, [&](data::Range range) {
                                       maker.eval_batch(range, batch);
                                       return task.score(network, as_tensors(batch));
                                     });
  network.train();
  return result;
}

}  // namespace distbelief::train
