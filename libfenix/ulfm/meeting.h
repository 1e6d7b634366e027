// SPDX-License-Identifier: LGPL-2.1-or-later
// Where all processes, spares too, agree on what they do next. Operations that no failure can interrupt (MPIX_Comm_agree,
// MPIX_Comm_shrink) are on one communicator only, and each begins here: so they come in the same order everywhere.
#pragma once

#include "world.h"

namespace fnx {

enum class Next : int { recover = 1, finalize = 2 };

/**
 * @param mine what this process is here for; a spare follows the others
 * @return the same in all processes: finalize only if that is what all active ranks of before are here for
 */
Next meet(const World &world, Next mine);

/** Active ranks have failed, as far as this process knows. */
bool active_lost(const World &world);
/** All of them. */
bool no_active_left(const World &world);

}  // namespace fnx
