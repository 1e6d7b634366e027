// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file Hands the images of committed waves on this node's disk out to the job's other daemons, in pieces that they ask for
 * (images.proto). A daemon that asks no more costs nothing. What a reader can make this node hold is bounded: a thread, a piece, and
 * the files that it asked for last.
 */
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace reprise::crd {

/** Most bytes in one answer. */
inline constexpr std::uint32_t kPieceBytes = 256 << 10;
/** Requests that a reader sends ahead. */
inline constexpr int kRequestsAtOnce = 16;
/** Readers beyond these are told to come again later. */
inline constexpr std::size_t kReaders = 64;
/** Of an ImageRequest, and of an ImagePiece without what follows it. */
inline constexpr std::size_t kMostMessageBytes = 65536;

class ImageServer {
 public:
  /**
   * Listen on any free port, on a thread of its own, and one for each reader. Throws std::system_error.
   * @param directory LOCAL/ID
   * @param secret what all daemons of the job know: nobody else may read
   */
  ImageServer(std::string directory, std::string secret);
  ~ImageServer();
  std::uint16_t port() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reprise::crd
