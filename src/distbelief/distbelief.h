#pragma once

// Everything that a training program of one's own needs:
//   World            the workers, from MPI                      (comm/world.h)
//   DataParallel     a module trained by all workers            (train/data_parallel.h)
//   GradientAverager gradients averaged, torch::optim kept
//   EpochSampler     every sample exactly once, for torch::data
//   PipelineParallel a list of blocks, each worker with a stage (train/pipeline_parallel.h)
//   run::save_model, run::load_model                            (run/state_file.h)
// A world from an MPI_Comm of yours: distbelief/comm/mpi/world.h.
#include "distbelief/comm/world.h"
#include "distbelief/run/state_file.h"
#include "distbelief/train/data_parallel.h"
#include "distbelief/train/pipeline_parallel.h"
