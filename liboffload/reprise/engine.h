// SPDX-License-Identifier: LGPL-2.1-or-later
// The engine `reprise`: the boosters of a group are a job of their own under crrun, and so a recovery domain. Before the first
// task the job takes a wave. After a loss it goes back to that: siblings are rolled back in place, the lost booster is restarted
// from its image. Nothing is spawned, and no communicator is made anew.
#pragma once

#include <memory>

#include "engine/engine.h"

namespace croff {

std::unique_ptr<Engine> make_reprise_engine();

}  // namespace croff
