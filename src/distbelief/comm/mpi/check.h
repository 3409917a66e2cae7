#pragma once

#include <mpi.h>

namespace distbelief::comm {

// Throws Error(kInternal) with MPI's error text unless `code` is MPI_SUCCESS.
void check_mpi(int code, const char* operation);

int rank_in(MPI_Comm comm);
int size_of(MPI_Comm comm);

}  // namespace distbelief::comm
