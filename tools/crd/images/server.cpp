// SPDX-License-Identifier: GPL-2.0-only
#include "crd/images/server.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <list>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/unique_fd.h"
#include "crd/images/images.pb.h"
#include "crd/images/offered.h"
#include "crd/images/secure_stream.h"
#include "job/files.h"
#include "job/log.h"
#include "job/names.h"

namespace reprise::crd {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kOpenFiles = 4;
/** A reader that has not asked for so long has its files closed: the disk space of a removed wave is free then … */
constexpr auto kFileIdle = 5s;
/** … and after so many times more its connection. It makes another one when it needs one. */
constexpr int kIdleTimes = 6;
/** Without progress for so long a connection ends. */
constexpr auto kSilence = 15s;
constexpr auto kHandshake = 5s;
/** Connections that are being made, or are told to come later, beside those of the readers. */
constexpr std::size_t kOthers = 64;
constexpr int kLookMs = 100;

/** @return a listening socket of all addresses, on any free port */
UniqueFd listening() {
  for (const int family : {AF_INET6, AF_INET}) {
    UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) continue;  // a machine without IPv6
    const int off = 0;
    if (family == AF_INET6 && ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) != 0) continue;
    sockaddr_storage any{};
    any.ss_family = static_cast<sa_family_t>(family);
    if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&any), family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in)) == 0 &&
        ::listen(fd.get(), SOMAXCONN) == 0)
      return fd;
  }
  job::throw_errno("no socket on which images can be handed out");
}

std::uint16_t port_of(int fd) {
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) != 0) job::throw_errno("the port of a socket");
  return ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(own).sin6_port : reinterpret_cast<sockaddr_in&>(own).sin_port);
}

std::string address_of(int fd) {
  sockaddr_storage peer{};
  socklen_t length = sizeof peer;
  char text[NI_MAXHOST] = "an unknown address";
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0)
    ::getnameinfo(reinterpret_cast<sockaddr*>(&peer), length, text, sizeof text, nullptr, 0, NI_NUMERICHOST);
  return text;
}

/** The files that one reader has asked for, the last one first. */
class Files {
 public:
  explicit Files(const std::string& directory) : directory_(directory) {}
  const Offered& open(const ImageRequest& request) {
    const auto found = std::find_if(files_.begin(), files_.end(), [&](const File& file) { return file.name == name_of(request); });
    if (found != files_.end()) {
      files_.splice(files_.begin(), files_, found);
    } else {
      files_.push_front({name_of(request), open_offered(directory_, request)});
      if (files_.size() > kOpenFiles) files_.pop_back();
    }
    return *files_.front().offered;
  }
  void close(const ImageRequest& request) {
    files_.remove_if([&](const File& file) { return file.name == name_of(request); });
  }
  void close_all() { files_.clear(); }

 private:
  /** What, wave, rank, base; of kept memory its version and name. */
  using Name = std::tuple<int, std::uint32_t, std::uint32_t, std::uint32_t, std::uint64_t, std::string>;
  struct File {
    Name name;
    std::unique_ptr<Offered> offered;
  };
  static Name name_of(const ImageRequest& request) {
    return {request.what(), request.wave(), request.rank(), request.base(), request.version(), request.name()};
  }

  const std::string& directory_;
  std::list<File> files_;
};

}  // namespace

class ImageServer::Impl {
 public:
  Impl(std::string directory, std::string secret)
      : directory_(std::move(directory)), secret_(std::move(secret)), socket_(listening()), port_(port_of(socket_.get())) {
    thread_ = std::thread([this] { accept_all(); });
  }
  ~Impl() {
    end_ = true;
    thread_.join();
  }
  std::uint16_t port() const { return port_; }

 private:
  struct Connection {
    std::thread thread;
    std::atomic<bool> over{false};
  };

  void accept_all() {
    std::list<Connection> connections;
    while (!end_) {
      connections.remove_if([](Connection& one) {
        if (one.over) one.thread.join();
        return one.over.load();
      });
      pollfd one{socket_.get(), POLLIN, 0};
      if (::poll(&one, 1, kLookMs) <= 0) continue;
      UniqueFd fd(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!fd) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) std::this_thread::sleep_for(1s);
        continue;
      }
      if (connections.size() >= kReaders + kOthers) continue;  // it is closed, and comes again
      Connection& connection = connections.emplace_back();
      try {
        connection.thread = std::thread([this, &connection, socket = std::move(fd)]() mutable {
          attend(std::move(socket));
          connection.over = true;
        });
      } catch (const std::system_error& error) {
        connections.pop_back();
        spdlog::warn("a reader of images cannot be served: {}", error.what());
      }
    }
    for (Connection& one : connections) one.thread.join();
  }

  void attend(UniqueFd fd) {
    const std::string address = address_of(fd.get());
    bool known = false, admitted = false;
    try {
      SecureStream stream(std::move(fd), SecureStream::Side::server, secret_);
      stream.handshake(patience(kHandshake));
      known = true;
      serve(stream, admitted);
    } catch (const std::system_error&) {  // the end
    } catch (const std::exception& problem) {
      if (known)
        spdlog::debug("a reader of images at {} has left: {}", address, problem.what());
      else
        spdlog::info("a connection from {}, to read images, was refused: it does not have the job's key ({})", address, problem.what());
    }
    if (admitted) --readers_;
  }

  void serve(SecureStream& stream, bool& admitted) {
    Files files(directory_);
    std::vector<char> data;
    for (int idle = 0; idle < kIdleTimes;) {
      if (!stream.wait(patience(kFileIdle))) {
        files.close_all();
        ++idle;
        continue;
      }
      idle = 0;
      ImageRequest request;
      stream.read_message(request, kMostMessageBytes, patience(kSilence));
      if (!admitted) admitted = admit();
      ImagePiece piece;
      data.clear();
      if (admitted)
        answer(request, files, piece, data);
      else
        piece.set_busy(true);
      piece.set_bytes(static_cast<std::uint32_t>(data.size()));
      stream.write_message(piece, patience(kSilence));
      stream.write(data, patience(kSilence));
    }
  }

  bool admit() {
    if (readers_.fetch_add(1) < kReaders) return true;
    --readers_;
    return false;
  }

  void answer(const ImageRequest& request, Files& files, ImagePiece& piece, std::vector<char>& data) const {
    try {
      const Offered& offered = files.open(request);
      if (request.offset() > offered.size() || request.bytes() > kPieceBytes)
        throw std::runtime_error("a piece was asked for that cannot be");
      data.resize(std::min<std::uint64_t>(request.bytes(), offered.size() - request.offset()));
      offered.read(request.offset(), data.data(), data.size());
      piece.set_total(offered.size());
    } catch (const std::exception& error) {
      data.clear();
      std::error_code ignored;
      if (request.what() != ImageRequest::KEPT && std::filesystem::exists(job::wave_part_directory(directory_, request.wave()), ignored)) {
        piece.set_busy(true);  // its commit is on the way here
        return;
      }
      spdlog::info("what is asked for of rank {}, wave {}, cannot be handed out: {}", request.rank(), request.wave(), error.what());
      piece.set_error(error.what());
      files.close(request);
    }
  }

  Patience patience(std::chrono::milliseconds silence) const {
    return {silence, [this] { return !end_; }};
  }

  const std::string directory_, secret_;
  const UniqueFd socket_;
  const std::uint16_t port_;
  std::atomic<bool> end_{false};
  std::atomic<std::size_t> readers_{0};
  std::thread thread_;
};

ImageServer::ImageServer(std::string directory, std::string secret) : impl_(std::make_unique<Impl>(std::move(directory), std::move(secret))) {}
ImageServer::~ImageServer() = default;
std::uint16_t ImageServer::port() const { return impl_->port(); }

}  // namespace reprise::crd
