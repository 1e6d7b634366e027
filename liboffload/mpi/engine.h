// SPDX-License-Identifier: LGPL-2.1-or-later
// The engine `mpi`: boosters are started by MPI_Comm_spawn_multiple; after a loss all of the group are started anew. It needs
// an MPI that reports lost processes as errors, and a launcher that goes on without them.
#pragma once

#include <memory>

#include "engine/engine.h"

namespace croff {

std::unique_ptr<Engine> make_mpi_engine();

}  // namespace croff
