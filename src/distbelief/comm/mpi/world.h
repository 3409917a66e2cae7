#pragma once

#include <mpi.h>

#include "distbelief/comm/world.h"

namespace distbelief {

// A world of the ranks of `comm`, in an MPI that the caller has initialised (and will finalize). At
// least MPI_THREAD_SERIALIZED is needed when the ranks are on more than one host. Collective.
World world_from(MPI_Comm comm, World::Options options = {});

}  // namespace distbelief
