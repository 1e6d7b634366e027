// SPDX-License-Identifier: GPL-2.0-only
#include "crd/images/client.h"

#include <algorithm>
#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "crd/images/connect.h"
#include "crd/images/server.h"
#include "job/log.h"

namespace reprise::crd {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/** Between two attempts. */
constexpr auto kPause = 100ms;
/** After this part of the time after which a node counts as unreachable, its connection is made anew. */
constexpr int kConnections = 4;

}  // namespace

/** What is left to be read. */
struct ImageClient::Progress {
  std::uint64_t done, to;
  bool known;           ///< `to` is the end
  bool busy = false;    ///< the node has answered that it cannot now
  Pace pace;
  Clock::time_point heard = Clock::now();
};

ImageClient::ImageClient(std::string node, std::vector<std::string> endpoints, std::string secret, std::chrono::milliseconds silence)
    : node_(std::move(node)), endpoints_(std::move(endpoints)), secret_(std::move(secret)), silence_(silence), buffer_(kPieceBytes) {}

Patience ImageClient::patience(const CopyLimits& limits) const { return {silence_ / kConnections, limits.keep_on}; }

void ImageClient::connect(const CopyLimits& limits) {
  connect_to_any(endpoints_, patience(limits), [&](UniqueFd socket) {
    auto stream = std::make_unique<SecureStream>(std::move(socket), SecureStream::Side::reader, secret_);
    try {
      stream->handshake(patience(limits));
    } catch (const Broken& problem) {  // an address that is not its own here, say
      spdlog::debug("what answers at an address of {} is no daemon of this job: {}", node_, problem.what());
      return false;
    }
    stream_ = std::move(stream);
    return true;
  });
}

/** Read until all is done, or the node is busy. Throws Broken, too. */
void ImageClient::read_on(Progress& it, const ImageRequest& what, const CopyLimits& limits, const Use& use) {
  std::deque<std::uint64_t> asked;  // bytes of each request without an answer
  std::uint64_t next = it.done;
  while (it.done < it.to) {
    stop_if_told(limits, "reading from " + node_);
    while (next < it.to && asked.size() < (it.known ? std::size_t{kRequestsAtOnce} : 1)) {
      ImageRequest request = what;
      asked.push_back(std::min<std::uint64_t>(it.to - next, kPieceBytes));
      request.set_offset(next);
      request.set_bytes(static_cast<std::uint32_t>(asked.back()));
      stream_->write_message(request, patience(limits));
      next += asked.back();
    }
    ImagePiece piece;
    stream_->read_message(piece, kMostMessageBytes, patience(limits));
    if (!piece.error().empty()) throw std::runtime_error(node_ + ": " + piece.error());
    it.busy = piece.busy();
    if (it.busy) throw Broken("it is busy");
    if (!std::exchange(it.known, true)) {
      it.to = piece.total();
      next = std::min(next, it.to);
    }
    const std::uint64_t bytes = std::min(asked.front(), it.to - std::min(it.done, it.to));
    asked.pop_front();
    if (piece.bytes() != bytes) throw std::runtime_error(node_ + " has less of an image than it should have");
    const std::span<char> content(buffer_.data(), bytes);
    stream_->read(content, patience(limits));
    received_ += bytes;
    use(it.done, content);
    it.done += bytes;
    if (limits.progress) limits.progress(bytes);
    it.pace.spent(bytes, limits.keep_on);
    it.heard = Clock::now();  // what was done with it took no time of the node's
  }
}

void ImageClient::read(const ImageRequest& what, std::uint64_t from, std::uint64_t to, const CopyLimits& limits, const Use& use) {
  Progress progress{from, to, to != kToTheEnd, false, Pace(limits.bytes_per_second)};
  while (progress.done < progress.to) {
    stop_if_told(limits, "reading from " + node_);
    try {
      if (!stream_) connect(limits);
      return read_on(progress, what, limits, use);
    } catch (const Broken& problem) {
      spdlog::debug("reading from {}: {}", node_, problem.what());
    } catch (...) {
      stream_.reset();  // answers may be under way
      throw;
    }
    stream_.reset();
    if (Clock::now() - progress.heard > silence_)
      throw Unreachable(progress.busy
                            ? node_ + " has too many readers of its images, or does not know of the wave: nothing can be read from it now"
                            : node_ + " does not answer: its images cannot be read");
    std::this_thread::sleep_for(kPause);
  }
}

std::string ImageClient::read_all(const ImageRequest& what, std::uint64_t most, const CopyLimits& limits) {
  std::string all;
  read(what, 0, kToTheEnd, {limits.bytes_per_second, limits.keep_on, nullptr}, [&](std::uint64_t, std::span<const char> content) {
    if (all.size() + content.size() > most) throw std::runtime_error(node_ + " sends more than there can be of a description");
    all.append(content.data(), content.size());
  });
  return all;
}

}  // namespace reprise::crd
