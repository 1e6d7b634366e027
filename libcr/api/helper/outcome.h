// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file What has become of an order, in the terms of libcr.h. */
#include <cstdint>
#include <exception>
#include <string>

namespace reprise::api {

struct Outcome {
  int error = 0;           ///< 0, or an errno or CR_E* code
  std::int64_t value = 1;
  std::string sentence;
};

/** For an exception that ended an order. */
Outcome failed(const std::exception& exception);

}  // namespace reprise::api
