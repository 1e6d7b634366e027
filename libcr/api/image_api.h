// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * The interface of libcr-image.so for libcr.so. Reading images needs protobuf and libelf.
 * libcr.so loads libcr-image.so at the first use, so that a program that only has
 * callbacks does not load those libraries.
 */
#include <cstddef>
#include <cstdint>

#include "libcr.h"

namespace reprise::api {

/** Functions return a result >= 0, or the negative of an errno or CR_E* code; sentence() then returns the message. */
struct ImageApi {
  std::uint32_t version;
  int (*open)(const char* path, void** image);
  void (*close)(void* image);
  pid_t (*pid)(const void* image);
  const char* (*name)(const void* image);
  int (*threads)(const void* image);
  pid_t (*tid)(const void* image, int index);
  long (*runs)(const void* image);
  int (*run)(const void* image, long index, cr_image_run* run);
  ssize_t (*read)(void* image, std::uint64_t addr, void* buf, std::size_t len);
  int (*verify)(void* image);
  char* (*json)(void* image);
  const char* (*sentence)();
};

constexpr std::uint32_t kImageApiVersion = 1;
/** Name of the exported function `const ImageApi* reprise_image_api()`. */
constexpr char kImageApiSymbol[] = "reprise_image_api";
constexpr char kImageLibrary[] = "libcr-image.so.0";

}  // namespace reprise::api
