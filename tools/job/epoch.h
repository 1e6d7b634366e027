// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Which crrun owns JOBDIR: the one that wrote the file `owner` last. */
#include <chrono>
#include <cstdint>
#include <string>

namespace reprise::job {

/** Interval at which a crrun shows in JOBDIR that it lives. */
inline constexpr std::chrono::seconds kBeatEvery{5};
/** Time without a sign after which a crrun whose host does not answer counts as dead. */
inline constexpr std::chrono::seconds kBeatsSeen{3 * kBeatEvery};

/**
 * JOBDIR/owner has the name of the owner's epoch and a number that grows while the owner lives. A crrun that reads another
 * epoch there than its own has been replaced: it must end its ranks and write nothing more. At the job's end the file says
 * so, for daemons that have missed it. The functions block on the
 * shared file system: do not call them from an event loop.
 */
class Epoch {
 public:
  explicit Epoch(const std::string& job_directory) : path_(job_directory + "/owner") {}

  /** Become the owner. Throws std::system_error. */
  void take();
  /** Show that the owner lives. @return false: another crrun has become the owner. Throws std::system_error. */
  bool beat();
  /** Whether an owner shows within @p limit that it lives. */
  bool beats(std::chrono::milliseconds limit) const;
  /** Show that the owner's job has ended. Throws std::system_error. */
  void end();
  /** Whether the job of the last owner has ended; no, if that cannot be read. */
  bool ended() const { return read().ended; }

 private:
  struct Owner {
    std::string epoch;
    std::uint64_t beat = 0;
    bool ended = false;
    bool operator==(const Owner&) const = default;
  };
  Owner read() const;
  void write(const Owner& owner) const;

  std::string path_;
  Owner own_;
};

}  // namespace reprise::job
