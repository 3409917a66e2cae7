#pragma once

#include <mpi.h>

#include "distbelief/comm/world.h"

namespace distbelief {

// A world of the ranks of `comm`, in an MPI that the caller has initialised and will finalize. Ranks on more
// than one host need at least MPI_THREAD_SERIALIZED. Collective.
World world_from(MPI_Comm comm, World::Options options = {});

}  // namespace distbelief
