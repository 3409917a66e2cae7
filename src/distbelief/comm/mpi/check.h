#pragma once

#include <mpi.h>

namespace distbelief::comm {

// Throws Error(kInternal) with MPI's own words unless `code` is MPI_SUCCESS.
void check_mpi(int code, const char* operation);

}  // namespace distbelief::comm
