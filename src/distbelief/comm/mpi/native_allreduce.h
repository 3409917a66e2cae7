#pragma once

#include "distbelief/comm/communicator.h"

namespace distbelief::comm {

// MPI's own MPI_Allreduce over all processes, in place: the baseline of the benchmark.
void native_allreduce(float* values, std::size_t count);

}  // namespace distbelief::comm
