#pragma once

// The public interface for a training program:
//   World            the group of workers, from MPI             (comm/world.h)
//   DataParallel     trains one module on all workers           (train/data_parallel.h)
//   GradientAverager averages gradients for a torch::optim optimizer
//   EpochSampler     deals every sample out exactly once, for torch::data
//   PipelineParallel a list of blocks; each worker runs a stage (train/pipeline_parallel.h)
//   run::save_model, run::load_model                            (run/state_file.h)
// To make a World from an existing MPI_Comm, include distbelief/comm/mpi/world.h.
#include "distbelief/comm/world.h"
#include "distbelief/run/state_file.h"
#include "distbelief/train/data_parallel.h"
#include "distbelief/train/pipeline_parallel.h"
