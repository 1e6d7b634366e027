// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/**
 * @file
 * What the library and its helper process tell each other: one block of shared
 * memory, no descriptors that would stay open in the program. A command is there
 * when `command_number` has changed, its answer when `reply_number` equals it.
 * Both sides sleep on these words.
 */
#include <cstddef>
#include <cstdint>

#include "api/futex.h"

namespace reprise::api {

constexpr std::uint64_t kBlockMagic = 0x315245504c454852;  // "RHELPER1"

enum class Command : std::uint32_t {
  none,
  checkpoint,  ///< these three once per helper, which ends with its answer
  restart,
  pause,
  take,        ///< these any number of times
  rollback,
  drop,
};

/** Several descriptors are handed down, under the numbers they have in the program. */
struct Inherited {
  std::int32_t block = -1;       ///< the memory of struct Block
  std::int32_t owner_mem = -1;   ///< /proc/PID/mem of the program
  std::int32_t target_mem = -1;  ///< of the target; -1: there are several or none
  std::int32_t image = -1;
  std::int32_t socket = -1;      ///< restart: by which the program hands over the process it has made
};

/** How far the helper has come with an order of the first three; for those who wait for the beginning of one. */
enum Progress : std::uint32_t {
  kPreparing,
  kWantsChild,  ///< restart: the program is to make the process, as Block::child says
  kStarted,     ///< the target knows of the request
};

/** A process that the program is to make, and then what has become of that. */
struct ChildOrder {
  std::int32_t pid = 0;          ///< wanted, 0: any. Then: of the process, or -errno
  char clocks[128] = "";         ///< for /proc/self/timens_offsets, "": no time namespace
};

struct Order {
  Command command = Command::none;
  std::int32_t target = 0;       ///< pid, group or session
  std::int32_t scope = 0;        ///< cr_scope_t
  std::int32_t signal = 0;
  std::uint32_t timeout_s = 0;
  std::uint32_t flags = 0;       ///< of the public interface
  std::uint32_t relocations = 0; ///< pairs of strings in Block::text
  /**
   * Strings "SCOPE TARGET" in Block::text behind the path: the processes to be saved. Scope and target above are
   * then those of the request that is being served, whose processes are saved by whoever made it.
   */
  std::uint32_t forwards = 0;
  std::uint64_t snapshot = 0;
};

struct Block {
  std::uint64_t magic;
  std::uint64_t cookie;          ///< the program still has this block when it reads the same there
  std::uint64_t owner_address;   ///< of this block, in the program
  std::int32_t owner;            ///< pid of the program
  Word helper;                   ///< pid of the helper, 0 until it has started
  std::uint64_t helper_start;    ///< field 22 of its /proc/PID/stat
  Word command_number;
  Word reply_number;
  Order order;
  std::int32_t error;            ///< of the answer: 0, or an errno or CR_E* code
  std::int64_t value;
  Word progress;                 ///< enum Progress; changes back when the process is made
  ChildOrder child;
  std::uint32_t text_used;
  char sentence[512];            ///< of the answer, for cr_last_error()
  char log[8192];
  char text[256 * 1024];         ///< NUL-terminated strings; only touched pages cost memory
};

}  // namespace reprise::api
