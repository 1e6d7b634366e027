// SPDX-License-Identifier: GPL-2.0-only
// Coverage: the kernel's KCOV if it has it (only of the module's code, so that a mark is a place in it), and always the
// results of actions in their order.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstring>

#include "world.h"

#define KCOV_INIT_TRACE _IOR('c', 1, unsigned long)
#define KCOV_ENABLE _IO('c', 100)
#define KCOV_TRACE_PC 0

namespace fuzz {
namespace {

constexpr size_t kWords = 1 << 16, kMarks = 1 << 16;
int files[kTracers];
uint64_t* areas[kTracers];
bool have;
uint8_t seen[2][kMarks];  // by places executed, by results
size_t total;

uint64_t base() { return strtoull(get_file("/sys/module/cr/sections/.text").c_str(), nullptr, 16); }

size_t mark(int map, uint64_t what) {
  what *= 0x9e3779b97f4a7c15;
  uint8_t& s = seen[map][what >> 48];
  if (s) return 0;
  s = 1;
  total++;
  return 1;
}

}  // namespace

bool cover_open() {
  (void)!mount("debugfs", "/sys/kernel/debug", "debugfs", 0, nullptr);  // in case it is not mounted
  for (int i = 0; i < kTracers; i++) {
    files[i] = open("/sys/kernel/debug/kcov", O_RDWR | O_CLOEXEC);
    if (files[i] < 0 || ioctl(files[i], KCOV_INIT_TRACE, kWords)) return false;
    void* p = mmap(nullptr, kWords * 8, PROT_READ | PROT_WRITE, MAP_SHARED, files[i], 0);
    if (p == MAP_FAILED) return false;
    areas[i] = static_cast<uint64_t*>(p);
  }
  return have = true;
}

void cover_thread(int which) {
  if (have) ioctl(files[which], KCOV_ENABLE, KCOV_TRACE_PC);
}

void cover_leave() {
  for (auto* a : areas)
    if (a) munmap(a, kWords * 8);
}

void cover_clear() {
  for (auto* a : areas)
    if (a) __atomic_store_n(a, 0, __ATOMIC_RELAXED);
}

size_t cover_new() {
  size_t fresh = 0;
  uint64_t from = have ? base() : 0;
  for (auto* a : areas) {
    if (!a) continue;
    uint64_t n = __atomic_load_n(a, __ATOMIC_RELAXED), before = 0;
    for (uint64_t i = 1; i <= n && i < kWords; i++) {
      uint64_t pc = a[i] - from;
      fresh += mark(0, pc ^ before << 1);
      before = pc;
    }
  }
  return fresh;
}

// Marks new results of actions; without KCOV, together with the lane's previous action.
size_t cover_results(const Program& p) {
  size_t fresh = 0;
  uint64_t before[kLanes] = {};
  for (uint32_t i = 0; i < p.count; i++) {
    const Action& a = p.action[i];
    int32_t r = world->lane[a.lane].result[i];
    if (r == kNotMade) continue;
    uint64_t now = uint64_t(a.op) << 16 | uint64_t(r < 0 ? -r & 0xffff : r > 0);
    fresh += mark(1, now << 32 | before[a.lane]);
    if (!have) before[a.lane] = a.op;
  }
  return fresh;
}

size_t cover_total() { return total; }

}  // namespace fuzz
