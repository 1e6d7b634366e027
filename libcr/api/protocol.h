// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * The protocol between the library and its helper process: one block of shared
 * memory, because descriptors would stay open in the program. The library sends
 * an order by changing `command_number`; the helper answers by setting
 * `reply_number` to the same number. Both sides wait on these words (futexes).
 */
#include <cstddef>
#include <cstdint>

#include "api/futex.h"
#include "libcr.h"

namespace reprise::api {

constexpr std::uint64_t kBlockMagic = 0x335245504c454852;  // "RHELPER3"

enum class Command : std::uint32_t {
  none,
  checkpoint,  ///< a helper carries out one of these three, answers and exits
  restart,
  pause,
  take,        ///< a helper carries out these four any number of times
  load,        ///< with an image only at its start
  rollback,
  drop,
};

/** Descriptors that the helper inherits, with the same numbers as in the program; -1: none. */
struct Inherited {
  std::int32_t block = -1;       ///< the memory of struct Block
  std::int32_t owner_mem = -1;   ///< /proc/PID/mem of the program
  std::int32_t target_mem = -1;  ///< /proc/PID/mem of the target; -1: the program itself, several processes or none
  std::int32_t image = -1;
  std::int32_t socket = -1;      ///< restart: passes /proc/PID/mem of new processes from the program to the helper
  const cr_rstrt_fds* fds = nullptr;    ///< restart: more, for the new processes; nullptr: none
  const cr_rstrt_kept* kept = nullptr;  ///< restart: their kept memory; nullptr: none
};

/** Progress of checkpoint, restart or pause, for the program that waits for the request to start. */
enum Progress : std::uint32_t {
  kPreparing,
  kWantsChild,  ///< restart: the program must do what Block::child says
  kStarted,     ///< the target is notified of the request
};

enum class ChildWish : std::uint32_t {
  make,  ///< create a process that waits, and send its /proc/PID/mem
  wait,  ///< wait until that process ends by itself
  show,  ///< send /proc/PID/mem of a child that was made in another way
};

/** What the program must do with its children, and the result. */
struct ChildOrder {
  ChildWish wish = ChildWish::make;
  /** make: the wanted pid, 0: any; show: pid of the child. Result: make, show: pid; wait: status; or -errno. */
  std::int32_t pid = 0;
  char clocks[128] = "";         ///< text for /proc/self/timens_offsets, "": no time namespace
};

/** Strings of Block::text that each checkpoint has; "": none. */
enum CheckpointText : unsigned {
  kImagePath,    ///< instead of a descriptor
  kParentPath,   ///< as cr_parent in libcr.h
  kCompression,  ///< as cr_compress in libcr.h
  kForwards,     ///< the first of Order::forwards strings
};

struct Order {
  Command command = Command::none;
  std::int32_t target = 0;       ///< pid, process group or session
  std::int32_t scope = 0;        ///< cr_scope_t
  std::int32_t signal = 0;       ///< as cr_signal in libcr.h
  std::uint32_t timeout_s = 0;   ///< as cr_timeout in libcr.h
  std::uint32_t flags = 0;       ///< as cr_flags in libcr.h
  std::uint32_t relocations = 0; ///< number of pairs of strings in Block::text
  std::uint32_t substitutes = 0; ///< restart: number of strings "COPY FD WITH" behind them, as struct cr_rstrt_fd
  std::uint32_t kept = 0;        ///< restart: number of strings "FD NAME" behind those, as struct cr_rstrt_kept_one
  std::uint32_t copies = 0;      ///< restart: number of processes that one makes which has the image's memory; 0: one, directly
  std::uint32_t several = 0;     ///< restart: refuse what only one process can have
  /**
   * Checkpoint: number of strings "SCOPE TARGET" in Block::text: the processes to save. Scope and target above then
   * describe the request that is being served, whose processes its own helper saves.
   */
  std::uint32_t forwards = 0;
  std::uint64_t snapshot = 0;    ///< number of the snapshot
};

struct Block {
  std::uint64_t magic;
  std::uint64_t cookie;          ///< random; the program still maps the block if its memory holds the same value
  std::uint64_t owner_address;   ///< address of this block in the program
  std::int32_t owner;            ///< pid of the program
  Word helper;                   ///< pid of the helper, 0 until it has started
  std::uint64_t helper_start;    ///< field 22 of the helper's /proc/PID/stat
  Word command_number;
  Word reply_number;
  Order order;
  std::int32_t error;            ///< answer: 0, or an errno or CR_E* code
  std::int64_t value;            ///< answer: result of the request
  Word progress;                 ///< enum Progress; the program resets kWantsChild when it has created the process
  ChildOrder child;
  std::uint32_t copies_made;     ///< restart: used elements of copies
  std::int32_t copies[CR_MAX_RSTRT_COPIES];  ///< their pids
  std::uint32_t text_used;       ///< used bytes of text
  char sentence[512];            ///< answer: message for cr_last_error()
  char log[8192];                ///< messages for cr_log_…()
  char text[256 * 1024];         ///< NUL-terminated strings; only touched pages cost memory
};

}  // namespace reprise::api
