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

namespace reprise::api {

constexpr std::uint64_t kBlockMagic = 0x325245504c454852;  // "RHELPER2"

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
  std::int32_t socket = -1;      ///< restart: passes /proc/PID/mem of the new process from the program to the helper
};

/** Progress of checkpoint, restart or pause, for the program that waits for the request to start. */
enum Progress : std::uint32_t {
  kPreparing,
  kWantsChild,  ///< restart: the program must create the process described by Block::child
  kStarted,     ///< the target is notified of the request
};

/** A process that the program must create, and the result. */
struct ChildOrder {
  std::int32_t pid = 0;          ///< order: the wanted pid, 0: any. Result: pid of the process, or -errno
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
  std::uint32_t text_used;       ///< used bytes of text
  char sentence[512];            ///< answer: message for cr_last_error()
  char log[8192];                ///< messages for cr_log_…()
  char text[256 * 1024];         ///< NUL-terminated strings; only touched pages cost memory
};

}  // namespace reprise::api
