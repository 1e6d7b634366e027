// SPDX-License-Identifier: GPL-2.0-only
// One lane of an executor, and the functions of the table's actions.
#pragma once
#include "cr.h"
#include "world.h"

namespace fuzz {

struct Slot {
  int fd = -1;
  int target = 0;      // target of the last attach
  uint64_t arena = 0;  // its address in the target
  void* data = nullptr;
  int born = 0;        // thread that a call has created
};

// The memory that arguments may point to, one per lane.
struct Memory {
  uint8_t* rw;    // kRwSize
  uint8_t* ro;
  uint8_t* hole;
  uint8_t* edge;  // the end of the mapped pages
  uint8_t* uffd;  // 4 pages, missing until the handler's delay is over
  uint8_t* uffd_source;
};
constexpr size_t kRwSize = 1 << 20;
constexpr size_t kArrayAt = 1 << 16;  // in rw: arrays are from here on, structures before

struct Context {
  int lane;
  Slot* slots;
  Memory mem;
  uint64_t made_up;   // elements of the last generated array
  uint64_t regs_len;  // size of the last registers read, in bytes
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
