// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
// CMake's protobuf_generate_cpp leaves out the folder; by this, the generated
// header is found under the name that belongs to its source.
#include <state.pb.h>  // IWYU pragma: export
