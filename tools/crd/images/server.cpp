// SPDX-License-Identifier: GPL-2.0-only
#include "crd/images/server.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <list>
#include <map>
#include <thread>
#include <tuple>
#include <system_error>
#include <utility>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "crd/images/offered.h"
#include "job/curve_sockets.h"
#include "job/frames.h"
#include "job/log.h"
#include "job/names.h"
#include "job/uninterrupted.h"
#include "job/zap.h"
#include "job/zmq_watch.h"

namespace reprise::crd {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr std::size_t kOpenFiles = 16;
/** A file that nobody has asked for is closed after this: the disk space of a removed wave is free then. */
constexpr auto kFileIdle = 5s;
/** A daemon that has not asked is no reader any more. */
constexpr auto kReaderIdle = 15s;
constexpr auto kTick = 1s;
constexpr std::int64_t kMostRequestBytes = 4096;

zmq::socket_t socket_for(zmq::context_t& context, const job::KeyPair& own) {
  zmq::socket_t socket = job::server_socket(context, own);
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::maxmsgsize, kMostRequestBytes);
  // Bounds what a reader that asks and does not read makes this daemon hold.
  socket.set(zmq::sockopt::sndhwm, 2 * kRequestsAtOnce);
  socket.set(zmq::sockopt::rcvhwm, 16 * kRequestsAtOnce);
  // The connection to a node that has vanished ends.
  socket.set(zmq::sockopt::heartbeat_ivl, 5000);
  socket.set(zmq::sockopt::heartbeat_timeout, 15000);
  return socket;
}

}  // namespace

class ImageServer::Impl {
 public:
  Impl(std::string directory, const job::KeyPair& own, const std::string& client_public_key)
      : directory_(std::move(directory)),
        doorkeeper_(loop_, context_, client_public_key,
                    [](const std::string& address, const std::string& why) {
                      spdlog::info("a connection from {}, to read images, was refused: {}", address, why);
                    }),
        socket_(socket_for(context_, own)), watch_(loop_, socket_, [this] { receive(); }), timer_(loop_) {
    job::uninterrupted([&] { socket_.bind("tcp://*:*"); });
    const std::string endpoint = socket_.get(zmq::sockopt::last_endpoint);
    port_ = static_cast<std::uint16_t>(std::stoul(endpoint.substr(endpoint.rfind(':') + 1)));
    tick();
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~Impl() {
    loop_.stop();
    thread_.join();
  }
  std::uint16_t port() const { return port_; }

 private:
  using Name = std::tuple<int, std::uint32_t, std::uint32_t, std::uint32_t>;  ///< what, wave, rank, base
  struct File {
    Name name;
    Clock::time_point used;
    std::unique_ptr<Offered> offered;
  };

  void receive() {
    job::Received received;
    ImageRequest request;
    if (!job::receive_frames(socket_, true, received)) return;
    if (received.kind != static_cast<char>(job::Kind::ask) || !job::parse(received, request)) {
      spdlog::warn("a message of kind {} is dropped: images are asked for", static_cast<int>(received.kind));
      return;
    }
    if (!job::send_frames(socket_, &received.peer, job::Kind::answer, answer(received.peer, request)))
      spdlog::debug("a piece of an image is dropped: its reader has vanished, or does not take what it has asked for");
    watch_.kick();
  }

  ImagePiece answer(const std::string& peer, const ImageRequest& request) {
    ImagePiece piece;
    piece.set_id(request.id());
    if (!readers_.count(peer) && readers_.size() >= kReaders) {
      piece.set_busy(true);
      return piece;
    }
    readers_[peer] = Clock::now();
    try {
      const Offered& offered = open(request);
      piece.set_total(offered.size());
      if (request.offset() > offered.size() || request.bytes() > kPieceBytes)
        throw std::runtime_error("a piece was asked for that cannot be");
      std::string& data = *piece.mutable_data();
      data.resize(std::min<std::uint64_t>(request.bytes(), offered.size() - request.offset()));
      offered.read(request.offset(), data.data(), data.size());
    } catch (const std::exception& error) {
      std::error_code ignored;
      if (std::filesystem::exists(job::wave_part_directory(directory_, request.wave()), ignored)) {
        piece.set_busy(true);  // its commit is on the way here
        return piece;
      }
      spdlog::info("wave {}, rank {} cannot be handed out: {}", request.wave(), request.rank(), error.what());
      piece.clear_data();
      piece.set_error(error.what());
      files_.remove_if([&](const File& file) { return file.name == name_of(request); });
    }
    return piece;
  }

  static Name name_of(const ImageRequest& request) { return {request.what(), request.wave(), request.rank(), request.base()}; }

  const Offered& open(const ImageRequest& request) {
    const auto found = std::find_if(files_.begin(), files_.end(), [&](const File& file) { return file.name == name_of(request); });
    if (found != files_.end()) {
      files_.splice(files_.begin(), files_, found);
    } else {
      files_.push_front({name_of(request), {}, open_offered(directory_, request)});
      if (files_.size() > kOpenFiles) files_.pop_back();
    }
    files_.front().used = Clock::now();
    return *files_.front().offered;
  }

  void tick() {
    timer_.expires_after(kTick);
    timer_.async_wait([this](const asio::error_code& error) {
      if (error) return;
      const auto now = Clock::now();
      files_.remove_if([&](const File& file) { return now - file.used > kFileIdle; });
      std::erase_if(readers_, [&](const auto& reader) { return now - reader.second > kReaderIdle; });
      tick();
    });
  }

  const std::string directory_;
  asio::io_context loop_{1};
  zmq::context_t context_{1};
  job::Doorkeeper doorkeeper_;
  zmq::socket_t socket_;
  job::ZmqWatch watch_;
  asio::steady_timer timer_;
  std::uint16_t port_ = 0;
  std::list<File> files_;  ///< the one that was asked for last first
  std::map<std::string, Clock::time_point> readers_;  ///< when each has asked last
  std::thread thread_;
};

ImageServer::ImageServer(std::string directory, const job::KeyPair& own, const std::string& client_public_key)
    : impl_(std::make_unique<Impl>(std::move(directory), own, client_public_key)) {}
ImageServer::~ImageServer() = default;
std::uint16_t ImageServer::port() const { return impl_->port(); }

}  // namespace reprise::crd
