// SPDX-License-Identifier: GPL-2.0-only
// Messages to a daemon from crrun, the daemons below it, its ranks and its PMIx server: the relay, the socket for ranks,
// framed streams, ZeroMQ frames, and the relay between PMIx and crrun.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include <spdlog/spdlog.h>

#include "base/unique_fd.h"
#include "crd/framed.h"
#include "crd/node.h"
#include "crd/pmix_relay.h"
#include "crd/rank_socket.h"
#include "job/frames.h"
#include "job/relay.h"
#include "job_script.pb.h"
#include "proto_mutator.h"

using namespace reprise;

REPRISE_FUZZ_MESSAGE(reprise::fuzz::DaemonRun)

namespace {

void need(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "the daemon is broken: %s\n", what);
  std::abort();
}

asio::io_context& loop() {
  static asio::io_context it;
  return it;
}

void turn() {
  loop().restart();
  for (int i = 0; i < 64 && loop().poll() > 0; ++i) {
  }
}

const std::string& path() {
  static const std::string it = [] {
    spdlog::set_level(spdlog::level::off);
    return "/tmp/reprise-fuzz-" + std::to_string(::getpid()) + ".ranks";
  }();
  return it;
}

UniqueFd connect() {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path().copy(address.sun_path, sizeof address.sun_path - 1);
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fd.reset();
  return fd;
}

/** The socket for ranks; messages that pass are read as the parts of the daemon read them. */
class Ranks {
 public:
  Ranks() : socket_(loop(), path(), 0, [this](const crd::RankMessage& message) { take(message); }) {}
  void packet(const std::string& bytes) {
    if (!rank_) rank_ = connect();
    if (!rank_) return;
    ::send(rank_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    turn();
    char answer[CR_RANK_MAX];
    const ssize_t got = ::recv(rank_.get(), answer, sizeof answer, MSG_DONTWAIT);
    if (got == 0) rank_.reset();
  }
  void again() { rank_ = connect(), turn(); }

 private:
  void take(const crd::RankMessage& message) {
    const cr_rank_message head = message.head();
    need(head.length == message.bytes().size() && crd::rank_message_size(head.type) <= head.length, "a message is cut short");
    need(socket_.connected(head.rank), "a message is of nobody");
    const auto addresses = [&](std::size_t at, std::uint32_t count) {
      const auto all = message.strings(at, count);
      need(all.size() <= count && all.size() <= message.bytes().size(), "there are more addresses than were sent");
    };
    switch (head.type) {
      case CR_RANK_HELLO: {
        const auto& hello = message.as<cr_rank_hello>();
        need(hello.protocol == CR_RANK_PROTOCOL, "another protocol is spoken");
        addresses(sizeof hello, hello.addresses);
        cr_rank_welcome welcome{};
        welcome.head = {CR_RANK_WELCOME, sizeof welcome, head.rank, 1};
        socket_.send(head.rank, &welcome, sizeof welcome);
        break;
      }
      case CR_RANK_PREPARED: message.text(sizeof(cr_rank_prepared)); break;
      case CR_RANK_RESTORED: addresses(sizeof(cr_rank_restored), message.as<cr_rank_restored>().addresses); break;
      case CR_RANK_COPY_KEPT: message.text(sizeof(cr_rank_copy_kept)); break;
      case CR_RANK_LOST: message.text(sizeof(cr_rank_lost)); break;
      case CR_RANK_LOG:
        message.text(sizeof(cr_rank_message));
        if (head.recovery % 8 == 7) socket_.drop(head.rank);
        break;
      default: break;
    }
  }
  crd::RankSocket socket_;
  UniqueFd rank_;
};

/** Feed any bytes as a stream of framed messages. */
void stream(const std::string& bytes) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return;
  const UniqueFd other(ends[1]);
  std::size_t taken = 0;
  {
    crd::FramedStream framed(loop(), ends[0],
                             [&](const std::string& message) {
                               taken += 4 + message.size();
                               crd::FromPmix().ParseFromString(message);
                             },
                             [] {});
    ::send(other.get(), bytes.data(), std::min<std::size_t>(bytes.size(), 65536), MSG_NOSIGNAL);
    ::shutdown(other.get(), SHUT_WR);
    turn();
    need(taken <= bytes.size(), "more was taken than there is");
  }
  turn();
}

/** Feed any frames to a ZeroMQ socket. */
void frames(const fuzz::Frames& what) {
  static zmq::context_t context(0);  // inproc needs no thread
  static int number = 0;
  const std::string where = "inproc://fuzz-" + std::to_string(++number);
  zmq::socket_t in(context, zmq::socket_type::pair), out(context, zmq::socket_type::pair);
  in.set(zmq::sockopt::linger, 0), out.set(zmq::sockopt::linger, 0);
  in.bind(where), out.connect(where);
  for (int i = 0; i < what.frames_size(); ++i)
    out.send(zmq::buffer(what.frames(i)), i + 1 < what.frames_size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
  job::Received received;
  if (!job::receive_frames(in, what.router(), received)) return;
  job::Up up;
  job::Down down;
  job::Ask ask;
  job::parse(received, up);
  job::parse(received, down);
  job::parse(received, ask);
}

/** The relay and the relay between PMIx and crrun, with checks of their invariants. */
class Daemon {
 public:
  explicit Daemon(const fuzz::DaemonRun& run)
      : self_(run.self() % 8), node_(node()), pmix_(node_),
        relay_(self_, "self", children(run.below() % 5), 500) {
    node_.ranks.clear();
    node_.recovery = 1;
    node_.job.set_ranks(4);
    node_.ranks[0] = std::make_unique<crd::Rank>();
    node_.send_up = [this](job::Up& up) {
      need(++sent_ < 200'000, "it never ends to speak");
      up.set_from(self_);
      up.set_instance("self");
      up.set_recovery(1);
      check(relay_.up(up, now_ms_));
    };
    relay_.placement({0, 1, 2, 3});
  }
  ~Daemon() { node_.ranks.clear(); }

  void up(job::Up up) {
    const std::uint32_t child = self_ + 1 + up.from() % 4;
    if (!relay_.heard(child, up.from())) return;
    check(relay_.up(up, now_ms_));
  }
  void down(const job::Down& down) {
    for (std::uint32_t child : relay_.down(down)) {
      need(child != self_, "a message goes down to where it came from");
      if (down.has_heartbeat()) {
        const job::Down answer = relay_.answer_for(child, down);
        need(answer.ByteSizeLong() <= down.ByteSizeLong() + 64, "an answer grows");
      }
    }
    pmix_.take(down);
  }
  void from_pmix(const crd::FromPmix& message) { pmix_.take(message.fence().id() % 2 ? crd::Side::spawned : crd::Side::own, message); }
  void resend() { pmix_.resend(); }
  void tick(std::uint64_t ms) {
    now_ms_ += ms;
    check(relay_.tick(now_ms_));
  }
  void child_lost(std::uint32_t child) {
    relay_.child_lost(child);
    check(relay_.flush());
  }

 private:
  static crd::Node& node() {
    static crd::Node it(loop());  // it has threads, so one instance serves all runs
    return it;
  }
  std::map<std::uint32_t, std::set<std::uint32_t>> children(std::uint32_t count) const {
    std::map<std::uint32_t, std::set<std::uint32_t>> out;
    for (std::uint32_t i = 1; i <= count; ++i) out[self_ + i] = {self_ + i, self_ + 8 * i};
    return out;
  }
  void check(const std::vector<job::Up>& all) {
    for (const job::Up& up : all) {
      const bool joined = up.has_wave_done() || up.has_resumed() || (up.has_restored() && up.restored().ranks_size());
      need(!joined || (up.from() == self_ && up.instance() == "self"), "what is joined is in another's name");
    }
  }
  std::uint32_t self_;
  crd::Node& node_;
  crd::PmixRelay pmix_;
  job::Relay relay_;
  std::uint64_t now_ms_ = 1000;
  std::size_t sent_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::DaemonRun run;
  if (!run.ParseFromArray(data, static_cast<int>(size)) || run.steps_size() > 200) return 0;
  static Ranks ranks;
  Daemon daemon(run);
  ranks.again();
  for (const auto& step : run.steps()) switch (step.what_case()) {
      case fuzz::DaemonStep::kUp: daemon.up(step.up()); break;
      case fuzz::DaemonStep::kDown: daemon.down(step.down()); break;
      case fuzz::DaemonStep::kFromPmix: daemon.from_pmix(step.from_pmix()); break;
      case fuzz::DaemonStep::kFromRank: ranks.packet(step.from_rank()); break;
      case fuzz::DaemonStep::kStream: stream(step.stream()); break;
      case fuzz::DaemonStep::kFrames: frames(step.frames()); break;
      case fuzz::DaemonStep::kTickMs: daemon.tick(step.tick_ms()); break;
      case fuzz::DaemonStep::kChildLost: daemon.child_lost(step.child_lost()); break;
      case fuzz::DaemonStep::kResend: daemon.resend(); break;
      case fuzz::DaemonStep::kAgain: ranks.again(); break;
      default: break;
    }
  return 0;
}
