// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file Hands the images of committed waves on this node's disk out to the job's other daemons, in pieces that they ask for
 * (images.proto). A daemon that asks no more costs nothing. What a reader can make this node hold is bounded: its unsent
 * answers, and the files that were asked for last.
 */
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "job/keys.h"

namespace reprise::crd {

/** Most bytes in one answer. */
inline constexpr std::uint32_t kPieceBytes = 1 << 20;
/** Most unanswered requests of a reader; answers to more may be dropped. */
inline constexpr int kRequestsAtOnce = 4;
/** Readers beyond these are told to come again later. */
inline constexpr std::size_t kReaders = 64;

class ImageServer {
 public:
  /**
   * Listen on any free port, on a thread of its own.
   * @param directory LOCAL/ID
   * @param client_public_key of the job's daemons: nobody else may read
   */
  ImageServer(std::string directory, const job::KeyPair& own, const std::string& client_public_key);
  ~ImageServer();
  std::uint16_t port() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reprise::crd
