// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
// CMake's protobuf_generate_cpp() generates the header without its folder. With
// this file, the include path matches that of state.proto.
#include <state.pb.h>  // IWYU pragma: export
