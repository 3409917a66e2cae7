#pragma once

#include <functional>

#include "distbelief/comm/communicator.h"
#include "distbelief/data/pipeline/batch.h"
#include "distbelief/tasks/score.h"
#include "distbelief/tasks/task.h"

namespace distbelief::tasks {

struct Evaluation {
  double loss = 0;      // mean over items
  double accuracy = 0;  // 0 to 1; 0 where the task has none
  std::int64_t items = 0;
  std::vector<Metric> metrics{};  // of the task
};

// Scores all samples, each once, shared out over `parts` groups of workers in fixed chunks: the result has
// the same bits for any number of them. `score` is called for the chunks of part `part`; of the workers of a
// part one gives the score, the others none. Collective over `workers`.
struct EvaluationShare {
  const Task* task = nullptr;
  std::uint64_t samples = 0;
  int part = 0;
  int parts = 1;
};
Evaluation evaluate(const EvaluationShare& share, comm::Communicator& workers,
                    const std::function<Score(data::Range)>& score);

// Gives samples to test on, as they are in the files; valid until the next call.
using ReadChunk = std::function<const data::Batch&(data::Range)>;

// The same of a whole network that every worker holds. Leaves the network in training mode.
Evaluation evaluate(model::Network& network, const Task& task, const ReadChunk& read, std::uint64_t samples,
                    comm::Communicator& workers);

}  // namespace distbelief::tasks
