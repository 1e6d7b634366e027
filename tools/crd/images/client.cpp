// SPDX-License-Identifier: GPL-2.0-only
#include "crd/images/client.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "crd/images/server.h"
#include "job/curve_sockets.h"
#include "job/frames.h"
#include "job/log.h"
#include "job/uninterrupted.h"

namespace reprise::crd {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/** A node has this many addresses at most: others are not tried. */
constexpr std::size_t kEndpoints = 16;
/** How often keep_on is looked at. */
constexpr auto kLook = 100ms;
/** After this part of the time after which a node counts as unreachable, its connection is made anew. */
constexpr int kConnections = 4;
/** A piece, and what is around it. */
constexpr std::int64_t kMostAnswerBytes = kPieceBytes + 4096 * 16;

}  // namespace

ImageClient::ImageClient(std::string node, const job::Relaying& from, job::KeyPair own, std::chrono::milliseconds silence)
    : node_(std::move(node)), from_(from), own_(std::move(own)), silence_(silence) {}

ImageClient::~ImageClient() { disconnect(); }

void ImageClient::disconnect() {
  sockets_.clear();
  asked_.clear();
  found_ = false;
}

void ImageClient::connect() {
  disconnect();
  for (const std::string& endpoint : from_.endpoints()) {
    if (sockets_.size() == kEndpoints) break;
    try {
      zmq::socket_t socket = job::client_socket(context_, "reader-" + job::random_name(8), from_.public_key(), own_);
      socket.set(zmq::sockopt::linger, 0);
      socket.set(zmq::sockopt::maxmsgsize, kMostAnswerBytes);
      job::uninterrupted([&] { socket.connect(endpoint); });
      sockets_.push_back(std::move(socket));
    } catch (const zmq::error_t& error) {
      spdlog::debug("{} of {} cannot be used: {}", endpoint, node_, error.what());
    }
  }
}

void ImageClient::ask(ImageRequest request, std::uint64_t offset, std::uint64_t bytes) {
  request.set_id(++last_id_);
  request.set_offset(offset);
  request.set_bytes(static_cast<std::uint32_t>(bytes));
  for (zmq::socket_t& socket : sockets_) job::send_frames(socket, nullptr, job::Kind::ask, request);
  asked_.push_back({last_id_, offset, bytes});
}

/** @return the answer to the oldest request, if it comes soon */
std::optional<ImagePiece> ImageClient::receive() {
  std::vector<zmq::pollitem_t> items;
  for (zmq::socket_t& socket : sockets_) items.push_back({socket.handle(), 0, ZMQ_POLLIN, 0});
  if (items.empty()) {
    std::this_thread::sleep_for(kLook);
    return std::nullopt;
  }
  job::uninterrupted([&] { zmq::poll(items, kLook); });
  auto item = items.begin();
  for (auto socket = sockets_.begin(); socket != sockets_.end(); ++socket, ++item) {
    if (!(item->revents & ZMQ_POLLIN)) continue;
    job::Received received;
    ImagePiece piece;
    if (!job::receive_frames(*socket, false, received) || received.kind != static_cast<char>(job::Kind::answer) ||
        !job::parse(received, piece) || asked_.empty() || piece.id() != asked_.front().id)
      continue;
    // The endpoint is good: the others are not needed.
    if (!std::exchange(found_, true)) {
      zmq::socket_t good = std::move(*socket);
      sockets_.clear();
      sockets_.push_back(std::move(good));
    }
    return piece;
  }
  return std::nullopt;
}

void ImageClient::read(const ImageRequest& what, std::uint64_t from, std::uint64_t to, const CopyLimits& limits, const Use& use) {
  Pace pace(limits.bytes_per_second);
  std::uint64_t done = from, next = from;
  auto heard = Clock::now(), connected = heard;
  bool known = to != kToTheEnd, busy = false;
  asked_.clear();  // an interrupted call may have left some: their answers are not taken for new ones
  while (done < to) {
    stop_if_told(limits, "reading from " + node_);
    if (sockets_.empty() || Clock::now() - std::max(heard, connected) > silence_ / kConnections) {
      connect();
      connected = Clock::now();
      next = done;
    }
    while (next < to && asked_.size() < (found_ && known ? std::size_t{kRequestsAtOnce} : 1)) {
      const std::uint64_t bytes = std::min<std::uint64_t>(to - next, kPieceBytes);
      ask(what, next, bytes);
      next += bytes;
    }
    const std::optional<ImagePiece> piece = receive();
    if (!piece || piece->busy()) {
      busy |= piece.has_value();
      if (Clock::now() - heard > silence_)
        throw Unreachable(busy ? node_ + " has too many readers of its images, or does not know of the wave: nothing can be read from it now"
                               : node_ + " does not answer: its images cannot be read");
      if (!piece) continue;
      std::this_thread::sleep_for(kLook);
      asked_.clear();
      next = done;
      continue;
    }
    const Asked asked = asked_.front();
    asked_.pop_front();
    if (!piece->error().empty()) throw std::runtime_error(node_ + ": " + piece->error());
    if (!std::exchange(known, true)) to = piece->total();
    if (piece->data().size() != std::min(asked.bytes, to - std::min(asked.offset, to)))
      throw std::runtime_error(node_ + " has less of an image than it should have");
    received_ += piece->data().size();
    done = asked.offset + piece->data().size();
    next = std::max(done, std::min(next, to));
    use(asked.offset, piece->data());
    if (limits.progress) limits.progress(piece->data().size());
    pace.spent(piece->data().size(), limits.keep_on);
    heard = Clock::now();  // what was done with it took no time of the node's
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
