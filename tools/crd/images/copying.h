// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file What copies of images have in common, wherever they come from and go to. */
#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "crd/images/manifest.h"
#include "image/whole.h"

namespace reprise::crd {

/** The rate of a copy, and when to stop it. */
struct CopyLimits {
  std::uint64_t bytes_per_second = 0;                   ///< 0: no limit
  std::function<bool()> keep_on;                        ///< polled; false: stop. May be empty
  std::function<void(std::uint64_t bytes)> progress;    ///< called with the number of bytes done since the last call; may
                                                        ///< be empty
};

/** Throw std::system_error (ECANCELED) that names @p what if @p limits say that the copy is to stop. */
void stop_if_told(const CopyLimits& limits, const std::string& what);

/** Limits the rate of a copy. */
class Pace {
 public:
  explicit Pace(std::uint64_t bytes_per_second) : rate_(bytes_per_second) {}
  /** Wait until so many bytes more may have been copied, or the copy is to stop. */
  void spent(std::uint64_t bytes, const std::function<bool()>& keep_on);

 private:
  std::uint64_t rate_, done_ = 0;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/** Fill @p buffer with bytes of @p fd from offset @p at on. @return number of bytes, less only at end of file */
std::size_t read_piece(int fd, std::uint64_t at, std::span<char> buffer, const std::string& path);
/** Throws std::system_error, which names @p path. */
void write_piece(int fd, std::uint64_t at, const char* data, std::size_t size, const std::string& path);

/** Set what @p manifest says of the file of @p image, of its rank. */
void describe(const Image& image, Manifest& manifest);
bool is_of(const WholeImage& image, const Manifest& manifest);
/** Of an image that stands alone. */
bool is_of(const Image& image, const Manifest& manifest);

/**
 * @return whether @p to is an intact copy, with its manifest, of the image that @p manifest describes, as a delta or not; all of it is
 * read
 */
bool complete(const std::string& to, const Manifest& manifest);

}  // namespace reprise::crd
