#pragma once

#include "distbelief/comm/communicator.h"
#include "distbelief/data/batch.h"
#include "distbelief/train/task.h"

namespace distbelief::train {

struct Evaluation {
  double loss = 0;      // mean over items
  double accuracy = 0;  // 0 to 1
  std::int64_t items = 0;
};

// Scores a network on all samples of a source, each once, shared out over the workers in fixed chunks:
// the result has the same bits for any number of workers. Collective; leaves the network in training mode.
Evaluation evaluate(model::Network& network, const Task& task, const data::BatchMaker& maker,
                    std::uint64_t samples, comm::Communicator& workers);

}  // namespace distbelief::train
