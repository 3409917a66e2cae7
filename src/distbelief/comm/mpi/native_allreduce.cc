#include "distbelief/comm/mpi/native_allreduce.h"

#include "distbelief/comm/mpi/check.h"

namespace distbelief::comm {

void native_allreduce(float* values, std::size_t count) {
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, values, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD),
            "MPI_Allreduce");
}

}  // namespace distbelief::comm
