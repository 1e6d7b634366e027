// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * Compressed images: the whole file is one stream of zstd (RFC 8878) or an LZ4 frame, as their commands write it. `zstd -d`
 * makes an image of it, and `zstd` makes it from an image.
 */
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/unique_fd.h"

namespace reprise {

/** How an image is compressed. */
struct Compression {
  enum class Method { none, lz4, zstd };
  Method method = Method::none;
  int level = 0;  ///< as of the method's command; 0: its default

  explicit operator bool() const { return method != Method::none; }
  /** @param text "lz4", "zstd", "zstd:19". @throws Error usage */
  static Compression parse(const std::string& text);
};

namespace image {

/** Compresses a stream. */
class Compressor {
 public:
  using Sink = std::function<void(const char* data, std::size_t len)>;
  virtual ~Compressor() = default;
  virtual void write(const char* data, std::size_t len) = 0;
  /** Give the sink what is left. Nothing may be written afterwards. */
  virtual void finish() = 0;
};

/**
 * @param how   not none
 * @param name  name of the image in messages
 * @param sink  gets the compressed bytes; what it throws is passed on
 * @throws Error usage (no such level), temporary (no memory)
 */
std::unique_ptr<Compressor> make_compressor(const Compression& how, const std::string& name, Compressor::Sink sink);

/**
 * Expand a compressed image.
 * @param fd    a file that can seek; read from its beginning
 * @param name  name of the image in messages
 * @return an unnamed temporary file with the image; none when @p fd is not compressed
 * @throws Error permanent (damaged, cut off, something else is compressed), temporary (no space)
 */
UniqueFd expand(int fd, const std::string& name);

}  // namespace image
}  // namespace reprise
