// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file Connections on which daemons of a job read images from each other: TLS 1.3 by GnuTLS. Both sides prove that they know a key that all
 * daemons of the job have; there are no certificates. AES-GCM, for which processors have instructions: images are large. All
 * functions block, and are for a thread that nobody waits for.
 */
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

#include <google/protobuf/message_lite.h>

#include "base/unique_fd.h"

namespace reprise::crd {

/** The connection has ended, or the other side is silent or has not the key. What was under way is void. */
struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/** How long to wait for the other side. */
struct Patience {
  std::chrono::milliseconds silence;  ///< without a byte from or to it; then Broken is thrown
  std::function<bool()> keep_on;      ///< polled; false: std::system_error (ECANCELED). May be empty
};

class SecureStream {
 public:
  enum class Side { reader, server };
  /**
   * @param socket connected
   * @param secret what all daemons of the job know
   */
  SecureStream(UniqueFd socket, Side side, const std::string& secret);
  ~SecureStream();

  /** The first call. */
  void handshake(const Patience& patience);
  void read(std::span<char> into, const Patience& patience);
  void write(std::span<const char> content, const Patience& patience);
  /** Wait for a byte. @return false if none comes in this time; Broken and ECANCELED are thrown as for the others */
  bool wait(const Patience& patience);

  /** Messages have their length in front, in 4 bytes, the highest first. */
  void write_message(const google::protobuf::MessageLite& message, const Patience& patience);
  /** @param most bytes. Throws Broken also if the message is longer, or is none of this type */
  void read_message(google::protobuf::MessageLite& message, std::size_t most, const Patience& patience);

 private:
  struct Session;
  std::unique_ptr<Session> session_;
};

}  // namespace reprise::crd
