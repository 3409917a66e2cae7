#pragma once

#include <functional>

#include "distbelief/comm/communicator.h"
#include "distbelief/data/pipeline/batch.h"
#include "distbelief/tasks/score.h"
#include "distbelief/tasks/task.h"

namespace distbelief::tasks {

struct Evaluation {
  double loss = 0;      // mean over items
  double accuracy = 0;  // 0 to 1; 0 if the task has none
  std::int64_t items = 0;
  std::vector<Metric> metrics{};  // the task's metrics
};

// Scores every sample once. Fixed chunks are divided among `parts` groups of workers, so the result has the
// same bits for any number of them. `score` is called for the chunks of part `part`; one worker of a part
// returns the score, the others return none. Collective over `workers`.
struct EvaluationShare {
  const Task* task = nullptr;
  std::uint64_t samples = 0;
  int part = 0;
  int parts = 1;
};
Evaluation evaluate(const EvaluationShare& share, comm::Communicator& workers,
                    const std::function<Score(data::Range)>& score);

// Reads test samples unaltered; the batch is valid until the next call.
using ReadChunk = std::function<const data::Batch&(data::Range)>;

// The same for a network that every worker holds whole. Leaves the network in training mode.
Evaluation evaluate(model::Network& network, const Task& task, const ReadChunk& read, std::uint64_t samples,
                    comm::Communicator& workers);

}  // namespace distbelief::tasks
