#include "distbelief/train/evaluation.h"

#include <algorithm>
#include <vector>

namespace distbelief::train {
namespace {

constexpr std::uint64_t kChunk = 256;  // samples; fixed, because it decides the order of additions

}  // namespace

Evaluation evaluate(model::Network& network, const Task& task, const data::BatchMaker& maker,
                    std::uint64_t samples, comm::Communicator& workers) {
  const std::uint64_t chunks = (samples + kChunk - 1) / kChunk;
  std::vector<double> losses(chunks), correct(chunks);
  data::Batch batch;
  network.eval();
  for (auto chunk = std::uint64_t(workers.rank()); chunk < chunks; chunk += std::uint64_t(workers.size())) {
    maker.eval_batch({chunk * kChunk, std::min(samples, (chunk + 1) * kChunk)}, batch);
    const Score score = task.score(network, as_tensors(batch));
    losses[chunk] = score.loss;
    correct[chunk] = double(score.correct);
  }
  network.train();
  // Every chunk is zero on all workers but one, so these sums are exact.
  workers.allreduce(comm::view(losses.data(), losses.size()), comm::ReduceOp::kSum);
  workers.allreduce(comm::view(correct.data(), correct.size()), comm::ReduceOp::kSum);
  Evaluation result;
  result.items = std::int64_t(samples) * task.items_per_sample();
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

}  // namespace distbelief::train
