// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Reads from another daemon's ImageServer. All functions block: call them from a thread that nobody waits for. */
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "crd/images/copying.h"
#include "crd/images/images.pb.h"
#include "crd/images/secure_stream.h"

namespace reprise::crd {

/** A node does not answer: nothing can be read from it now. */
struct Unreachable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class ImageClient {
 public:
  using Use = std::function<void(std::uint64_t offset, std::span<const char> content)>;
  /**
   * @param node      its name, for messages
   * @param endpoints where it hands images out: the first that proves to be a daemon of the job is used
   * @param secret    what all daemons of the job know
   * @param silence   so long without an answer it counts as unreachable
   */
  ImageClient(std::string node, std::vector<std::string> endpoints, std::string secret, std::chrono::milliseconds silence);

  /** As the end of what is read: all of it. */
  static constexpr std::uint64_t kToTheEnd = UINT64_MAX;
  /**
   * Read [@p from, @p to) of what @p what names, from the beginning to the end. What a broken connection has interrupted goes
   * on where it stopped. Throws Unreachable; std::runtime_error, which names the node: it does not have it, or it is damaged;
   * std::system_error (ECANCELED).
   */
  void read(const ImageRequest& what, std::uint64_t from, std::uint64_t to, const CopyLimits& limits, const Use& use);
  /** @return all of it, if that is at most @p most bytes. Throws the same */
  std::string read_all(const ImageRequest& what, std::uint64_t most, const CopyLimits& limits);
  /** @return bytes that have come from the node */
  std::uint64_t received() const { return received_; }

 private:
  struct Progress;
  void connect(const CopyLimits& limits);
  void read_on(Progress& progress, const ImageRequest& what, const CopyLimits& limits, const Use& use);
  /** @return how long to wait for a byte before the connection is made anew */
  Patience patience(const CopyLimits& limits) const;

  const std::string node_;
  const std::vector<std::string> endpoints_;
  const std::string secret_;
  const std::chrono::milliseconds silence_;
  std::unique_ptr<SecureStream> stream_;  ///< nothing is under way on it between two calls
  std::vector<char> buffer_;
  std::uint64_t received_ = 0;
};

}  // namespace reprise::crd
