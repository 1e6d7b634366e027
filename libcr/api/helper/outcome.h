// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The outcome of an order, with the error codes of libcr.h. */
#include <cstdint>
#include <exception>
#include <string>

namespace reprise::api {

struct Outcome {
  int error = 0;           ///< 0, or an errno or CR_E* code
  std::int64_t value = 1;
  std::string sentence;
};

/** @return the outcome of an order that has thrown @p exception */
Outcome failed(const std::exception& exception);

}  // namespace reprise::api
