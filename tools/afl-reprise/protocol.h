// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file
 * What the launcher, the server and the preloaded library of afl-reprise tell each other. The launcher sets the
 * environment, afl-fuzz starts the target, the library in it becomes the server, and the server starts targets.
 */
#include <sys/socket.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace reprise::afl {

// ---- environment: by the launcher

/** Where a run begins: kAtInput, kAtAccept, or the name of a function behind '='. */
inline constexpr char kAt[] = "REPRISE_AFL_AT";
inline constexpr char kAtInput[] = "input";
inline constexpr char kAtAccept[] = "accept";
/** The file that afl-fuzz writes inputs to, where the user has chosen it (-f). */
inline constexpr char kInputFile[] = "REPRISE_AFL_INPUT";
/** Number of the descriptor for the server's messages to the user: afl-fuzz closes the target's standard error. */
inline constexpr char kMessages[] = "REPRISE_AFL_MESSAGES";

// ---- environment: by the library, for the server

/** LD_PRELOAD of targets. The server itself runs without. */
inline constexpr char kPreload[] = "REPRISE_AFL_PRELOAD";

// ---- environment: by the server, for the library in a target

/** Process id of the server. */
inline constexpr char kServer[] = "REPRISE_AFL_SERVER";
/** Where the executable has the function of kAt, in hexadecimal, from its load address; not set: not in its symbols. */
inline constexpr char kOffset[] = "REPRISE_AFL_OFFSET";

// ---- descriptors

/** afl-fuzz's, of the server: requests come from the first, answers go to the second. */
inline constexpr int kRequests = 198, kAnswers = 199;
/** The server's, of a target: a byte from the first starts a run, a Message to the second says what has happened. */
inline constexpr int kGo = 196, kNews = 197;
/** The server's, of a target: the session of its snapshot, by which it can roll itself back, and a Room. */
inline constexpr int kSession = 194, kRoom = 195;

/** What a target tells the server. Smaller than PIPE_BUF, so that it is written at once. */
struct Message {
  enum Kind : std::uint32_t {
    ready,        ///< the run could begin
    ended,        ///< the run has ended, with exit status @c value
    no_function,  ///< there is no function of the name in kAt, or it cannot be watched: errno @c value
  };
  Kind kind;
  std::int32_t value;
  std::uint32_t map_size;        ///< ready: bytes of the coverage map that the target uses
  bool more_threads;             ///< ended: threads other than the one that reports it may still run
  bool accepted;                 ///< ended: by closing the connection
  bool rolled_back;              ///< ended: the target has rolled itself back
  socklen_t address_size;        ///< ready, at accept: of the socket on which the target listens
  sockaddr_storage address;
  std::uint64_t room;            ///< ready: where the target has mapped the Room; 0: it has not
};

/** Memory of the server and one target. A rollback does not change it. */
struct Room {
  std::atomic<bool> armed;    ///< by the server: the target can roll itself back by the request at kRequest
  std::atomic<bool> rolling;  ///< by the target: it does so
  Message ended;              ///< by the target: what it will tell afterwards
};
inline constexpr std::size_t kRequest = 4096, kRoomSize = 1 << 18;
static_assert(sizeof(Room) <= kRequest);

}  // namespace reprise::afl
