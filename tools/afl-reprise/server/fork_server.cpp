// SPDX-License-Identifier: GPL-2.0-only
#include "fork_server.h"

#include <sys/shm.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "base/error.h"

namespace reprise::afl {
namespace {

// The protocol since afl-fuzz 4.20c, and the one before, in which options and size are bits of one word.
constexpr std::uint32_t kVersion = 0x41464c01;
constexpr std::uint32_t kHasMapSize = 1;
constexpr std::uint32_t kOldHasMapSize = 0xc0000001;
constexpr std::uint32_t kOldMostMapSize = 1 << 23;
constexpr int kEnding = 200;  ///< ms
constexpr char kOldProtocol[] = "AFL_OLD_FORKSERVER";  // as for the runtime of afl-cc

/** @return false when afl-fuzz has ended */
bool receive(std::uint32_t& word) {
  for (;;) {
    const ssize_t got = ::read(kRequests, &word, sizeof word);
    if (got == sizeof word) return true;
    if (got >= 0 || errno != EINTR) return false;
  }
}

bool answer(std::uint32_t word) {
  for (;;) {
    const ssize_t put = ::write(kAnswers, &word, sizeof word);
    if (put == sizeof word) return true;
    if (put >= 0 || errno != EINTR) return false;
  }
}

bool greet(std::uint32_t map_size) {
  if (std::getenv(kOldProtocol)) {
    if (map_size > kOldMostMapSize)
      throw Error(Failure::refused, E2BIG, "the coverage map is too large for afl-fuzz before 4.20c");
    return answer(kOldHasMapSize | (map_size - 1) << 1);
  }
  std::uint32_t reply = 0;
  return answer(kVersion) && receive(reply) && reply == ~kVersion && answer(kHasMapSize) && answer(map_size) && answer(kVersion);
}

/** The coverage map, which afl-fuzz has cleared before it asks for a run. */
class Map {
 public:
  Map() {
    const char* const id = std::getenv("__AFL_SHM_ID");
    map_ = id ? ::shmat(std::atoi(id), nullptr, 0) : nullptr;
    if (!map_ || map_ == reinterpret_cast<void*>(-1)) fail_errno(id ? errno : EINVAL, "the coverage map of afl-fuzz");
  }
  void clear(std::uint32_t size) { std::memset(map_, 0, size); }

 private:
  void* map_;
};

class Server {
 public:
  Server(const Command& command, int messages) : command_(command), messages_(messages) {}

  void serve() {
    target_.emplace(command_);
    if (!greet(target_->map_size())) return;
    std::uint32_t killed = 0;
    while (receive(killed) && serve_run(killed != 0)) {}
  }

 private:
  /** @param killed  afl-fuzz has killed the target since: its death may still be to come */
  bool serve_run(bool killed) {
    if (killed) target_.reset();
    if (!target_) {
      target_.emplace(command_);
      map_.clear(target_->map_size());  // its start is no part of the run
    }
    if (!answer(static_cast<std::uint32_t>(target_->pid()))) return false;
    const int status = target_->run();
    // While threads run the map may change, so they are stopped first. Else afl-fuzz looks at it while we roll back.
    if (target_->still_runs()) roll_back();
    const bool going_on = answer(static_cast<std::uint32_t>(status));
    if (target_ && !target_->still_runs() && !target_->rolled_back()) roll_back();
    return going_on;
  }

  void roll_back() {
    if (target_->can_roll_back()) {
      try {
        return target_->roll_back();
      } catch (const Error& error) {
        // Not when afl-fuzz has killed it: then it may be about to end.
        if (target_->lives(kEnding) && !std::exchange(told_, true))
          ::dprintf(messages_, "afl-reprise: the target cannot be rolled back and is started anew, which is slow: %s\n", error.what());
      }
    }
    target_.reset();
  }

  const Command& command_;
  const int messages_;
  Map map_;
  std::optional<Target> target_;
  bool told_ = false;
};

}  // namespace

void serve_afl(const Command& command, int messages) { Server(command, messages).serve(); }

}  // namespace reprise::afl
