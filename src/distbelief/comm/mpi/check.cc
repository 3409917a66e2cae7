#include "distbelief/comm/mpi/check.h"

#include <fmt/format.h>

#include "distbelief/base/error.h"

namespace distbelief::comm {

void check_mpi(int code, const char* operation) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw Error(ErrorCode::kInternal, fmt::format("MPI failed: {}", text),
              {.rank = -1, .operation = operation, .step = -1});
}

int rank_in(MPI_Comm comm) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  return rank;
}

int size_of(MPI_Comm comm) {
  int size = 0;
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  return size;
}

}  // namespace distbelief::comm
