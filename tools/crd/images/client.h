// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Reads from another daemon's ImageServer. All functions block: call them from a thread that nobody waits for. */
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <zmq.hpp>

#include "crd/images/copying.h"
#include "crd/images/images.pb.h"
#include "job/keys.h"
#include "job/messages.pb.h"

namespace reprise::crd {

/** A node does not answer: nothing can be read from it now. */
struct Unreachable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class ImageClient {
 public:
  using Use = std::function<void(std::uint64_t offset, std::span<const char> content)>;
  /**
   * @param node    its name, for messages
   * @param from    where it hands images out: all endpoints are tried at once
   * @param own     the keys of the job's daemons
   * @param silence so long without an answer it counts as unreachable
   */
  ImageClient(std::string node, const job::Relaying& from, job::KeyPair own, std::chrono::milliseconds silence);
  ~ImageClient();

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
  struct Asked {
    std::uint64_t id, offset, bytes;
  };
  void connect();
  void disconnect();
  void ask(ImageRequest request, std::uint64_t offset, std::uint64_t bytes);
  std::optional<ImagePiece> receive();

  const std::string node_;
  const job::Relaying from_;
  const job::KeyPair own_;
  const std::chrono::milliseconds silence_;
  zmq::context_t context_{1};
  std::list<zmq::socket_t> sockets_;  ///< one for each endpoint, until one has answered
  bool found_ = false;                ///< one has
  std::deque<Asked> asked_;           ///< without an answer, oldest first
  std::uint64_t last_id_ = 0, received_ = 0;
};

}  // namespace reprise::crd
