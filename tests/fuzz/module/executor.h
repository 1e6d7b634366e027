// SPDX-License-Identifier: GPL-2.0-only
// One lane of an executor, and what the table's actions call.
#pragma once
#include "cr.h"
#include "world.h"

namespace fuzz {

struct Slot {
  int fd = -1;
  int target = 0;      // of the last attach
  uint64_t arena = 0;  // in the target
  void* data = nullptr;
  int born = 0;        // thread that a call has made
};

// The memory that arguments may point at, one per lane.
struct Memory {
  uint8_t* rw;    // kRwSize
  uint8_t* ro;
  uint8_t* hole;
  uint8_t* edge;  // the end of what is mapped
  uint8_t* uffd;  // 4 pages, missing until the handler has waited
  uint8_t* uffd_source;
};
constexpr size_t kRwSize = 1 << 20;
constexpr size_t kArrayAt = 1 << 16;  // in rw: where arrays lie; before it structures

struct Context {
  int lane;
  Slot* slots;
  Memory mem;
  uint64_t made_up;   // elements of the last array that was made up
  uint64_t regs_len;  // bytes of the registers that were read last
};

uint64_t resolve(Context& c, const Slot& slot, uint64_t value);
const Name* call_name(uint64_t nr);

#define FUZZ_ACTION(name) long name(Context& c, const Action& a, const uint64_t* v)
FUZZ_ACTION(do_ioctl);
FUZZ_ACTION(do_raw_ioctl);
FUZZ_ACTION(do_open);
FUZZ_ACTION(do_close);
FUZZ_ACTION(do_dup);
FUZZ_ACTION(do_send);
FUZZ_ACTION(do_recv);
FUZZ_ACTION(do_hold);
FUZZ_ACTION(do_mmap);
FUZZ_ACTION(do_munmap);
FUZZ_ACTION(do_read);
FUZZ_ACTION(do_call);
FUZZ_ACTION(do_run1);
FUZZ_ACTION(do_poke);
FUZZ_ACTION(do_order);
FUZZ_ACTION(do_order_wait);
FUZZ_ACTION(do_kill);
FUZZ_ACTION(do_ptrace);
FUZZ_ACTION(do_proc_read);
FUZZ_ACTION(do_clear_refs);
FUZZ_ACTION(do_cgroup_freeze);
FUZZ_ACTION(do_memory_high);
FUZZ_ACTION(do_memory_max);
FUZZ_ACTION(do_reclaim);
FUZZ_ACTION(do_hotplug);
FUZZ_ACTION(do_unload);
FUZZ_ACTION(do_load);
FUZZ_ACTION(do_sysctl);
FUZZ_ACTION(do_sleep);
FUZZ_ACTION(do_flag);
FUZZ_ACTION(do_await);
FUZZ_ACTION(do_die);

}  // namespace fuzz
