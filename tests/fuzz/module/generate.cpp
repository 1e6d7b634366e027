// SPDX-License-Identifier: GPL-2.0-only
// Generates and mutates programs.
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "world.h"

namespace fuzz {
namespace {

constexpr uint64_t kBoundary[] = {0, 1, 7, 8, 63, 64, 4095, 4096, 4097, 0x40000, 0x7fffffff, 0x80000000, 0xffffffff,
                                  1ULL << 32, 0x7ffffffff000, 0x7fffffffffff, 0x800000000000, 0x0fffffffffffffff,
                                  0x7fffffffffffffff, 0x8000000000000000, 0xffff888000000000, 0xfffffffffffff000,
                                  0xffffffffffffffff};

// Focus of one program: values that it repeats, so that its actions interact.
uint64_t focus;

uint64_t address(Random& r) {
  if (focus && r.one_in(2)) return focus;
  switch (r.below(8)) {
    case 0: case 1: return ref(kHeap, r.below(1024) * 4096);
    case 2: case 3: case 4: return ref(kArena, r.of<uint64_t>({0, 0x1000, 0x2000, 0x3000, 0x41000}));
    case 5: return 0;
    case 6: return ref(kHeap, r.below(1 << 22));
    default: return r.of(kBoundary);
  }
}

// Arguments with which an action has an effect: for programs that get far.
uint64_t make_good(Random& r, Kind kind, uint64_t limit) {
  switch (kind) {
    case Kind::kPlace:
    case Kind::kBuffer: return ref(kRw);
    case Kind::kTid: return r.one_in(4) ? ref(kBorn) : ref(kThread, r.one_in(2) ? 0 : r.below(kTargetThreads));
    case Kind::kCount: return ref(kAuto);
    case Kind::kScope: return ref(kScope, r.below(3));
    case Kind::kRuns: return 0;
    case Kind::kFlags: return r.next() & limit;
    case Kind::kRegset: return 1;
    case Kind::kMs: return r.of<uint64_t>({2, 5, 20, 50});
    case Kind::kDescriptor: return ~0ULL;
    case Kind::kNumber: return r.below(limit + 1);
    default: return ~0ULL - 1;  // none: as for others
  }
}

uint64_t make(Random& r, Kind kind, uint64_t limit) {
  switch (kind) {
    case Kind::kNone: return 0;
    case Kind::kSlot: return r.one_in(4) ? r.below(kSlots) : r.below(2);
    case Kind::kTarget: return r.one_in(3) ? r.below(kTargets) : 0;
    case Kind::kPlace:
    case Kind::kBuffer:
      if (!r.one_in(8)) return ref(kRw);
      switch (r.below(6)) {
        case 0: return ref(kRo);
        case 1: return ref(kHole);
        case 2: return ref(kEdge, r.below(200));
        case 3: return kind == Kind::kBuffer ? 0 : r.of(kBoundary);
        default: return ref(kUffd, r.below(4) * 4096);
      }
    case Kind::kTid:
      switch (r.below(8)) {
        case 0: return ref(kBorn);
        case 1: return r.of<uint64_t>({0, 1, ref(kSelf), ~0ULL, 0x7fffffff});
        case 2: return ref(kThread, 16 * (1 + r.below(kTargets)) + r.below(kTargetThreads));
        case 3: return ref(kThread, r.below(kTargetThreads));
        default: return ref(kThread);
      }
    case Kind::kScope:
      return ref(kScope, r.one_in(4) ? uint64_t(kScopeBad) : r.of<uint64_t>({kScopeAll, kScopeHeap, kScopeHeap, kScopeDirty}));
    case Kind::kRuns: return r.one_in(2) ? 0 : ref(kScope, r.one_in(4) ? kRunsBad : kRunsHeap);
    case Kind::kCount:
      return r.one_in(4) ? r.of<uint64_t>({0, 1, 2, 3, 1000, 32768, 65537, 1u << 26, (1u << 26) + 1, 1ULL << 32, ~0ULL / 16, ~0ULL})
                         : ref(kAuto);
    case Kind::kFlags: return r.one_in(16) ? 1ULL << r.below(32) : r.next() & limit;
    case Kind::kId: return 1 + r.below(3);
    case Kind::kMs: return r.one_in(16) ? r.of<uint64_t>({0, 2000, 0x7fffffff, 0x80000000, 0xffffffff}) : r.of<uint64_t>({1, 2, 5, 10, 30});
    case Kind::kAddress: return address(r);
    case Kind::kLength: return r.one_in(5) ? r.of(kBoundary) : (1 + r.below(r.one_in(2) ? 4 : 512)) * 4096;
    case Kind::kNumber: return r.one_in(10) ? r.of(kBoundary) : r.below(limit + 1);
    case Kind::kNr:  // half of them change memory, threads or programs
      return r.one_in(2) ? calls()[r.below(calls().size())].value
                         : r.of<uint64_t>({SYS_mmap, SYS_munmap, SYS_mprotect, SYS_mprotect, SYS_mremap, SYS_getrandom, SYS_clone, SYS_clone, SYS_execve, SYS_execve,
                                           SYS_exit, SYS_exit_group, SYS_rt_sigreturn, SYS_madvise, SYS_pause, SYS_nanosleep, SYS_vfork});
    case Kind::kCommand:
      return r.one_in(2) ? commands()[r.below(commands().size())].value
                         : r.of<uint64_t>({kExecSuid, kFork, kCloneThread, kExitThread, kArenaMprotect, kArenaMunmap, kArenaMremap, kArenaWrite,
                                           kArenaOver, kMunmap, kMprotect, kMadvise, kTouch, kVforkExec, kExitGroup});
    case Kind::kDescriptor:
      return r.of<uint64_t>({ref(kSession), ref(kSession, 1), ref(kFile), ref(kFile, 1), ref(kFile, 2), ref(kFile, 3), ref(kFile, 4), ref(kMem),
                             ref(kMem, 1), ~0ULL, ~0ULL, 1, 9999, 0x7fffffff});
    case Kind::kSignal: return r.of<uint64_t>({SIGSTOP, SIGSTOP, SIGCONT, SIGCONT, SIGKILL, SIGUSR1, SIGTERM, SIGCHLD, 34});
    case Kind::kProt: return r.below(8);
    case Kind::kMapFlags:
      return r.of<uint64_t>({MAP_PRIVATE | MAP_ANONYMOUS, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, MAP_SHARED | MAP_ANONYMOUS,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED});
    case Kind::kAdvice: return r.of<uint64_t>({3, 4, 8, 9, 10, 11, 12, 13, 14, 15, 18, 19, 20, 21, 22, 23, 24, 25, 102, 103});
    case Kind::kCloneFlags:  // thread; only the memory; vfork; fork
      return r.of<uint64_t>({0x10f00 | 0x40000, 0x10f00, 0x10f00 | 0x40000, 0x100 | 17, 0x4000 | 0x100 | 17, 17, 0x100 | 0x400 | 17});
    case Kind::kWord: return r.one_in(2) ? address(r) : r.of(kBoundary);
    case Kind::kString: return ref(kString, r.one_in(8) ? 2 : r.below(2));
    case Kind::kRegset: return r.of<uint64_t>({1, 1, 1, 2, 0x202, 0x202, 0x204, 0});
    case Kind::kOffset:  // of a call in the arena's data: often at the end of a page
      return r.one_in(16) ? r.of(kBoundary) : r.below(r.one_in(2) ? 2 : 64) * 4096 + r.of<uint64_t>({0, 0, 0, 8, 64, 4032, 4040, 4088});
    case Kind::kSoon: return r.one_in(4) ? r.of(kBoundary) : ref(kSoon, r.of<uint64_t>({1, 20, 50, 100}));
  }
  return 0;
}

// Let the arguments match the system call or the command before them, mostly.
void suit(Random& r, Action& a) {
  const auto& params = ops()[a.op].params;
  for (size_t i = 0; i < params.size(); i++) {
    bool nr = params[i].kind == Kind::kNr;
    if (!nr && params[i].kind != Kind::kCommand) continue;
    const Name* n = named(nr ? calls() : commands(), a.arg[i]);
    size_t first = i + 1;
    while (first < params.size() && params[first].kind != Kind::kWord) first++;
    for (size_t k = 0; n && k < 6 && first + k < params.size(); k++)
      a.arg[first + k] = r.one_in(20) ? make(r, Kind::kWord, 0) : make(r, n->args[k], 63);
  }
}

Action make_action(Random& r, int op, int lane, bool good) {
  Action a{};
  a.op = uint8_t(op);
  a.lane = uint8_t(lane);
  const auto& params = ops()[a.op].params;
  for (size_t i = 0; i < params.size(); i++) {
    a.arg[i] = good ? make_good(r, params[i].kind, params[i].limit) : ~0ULL - 1;
    if (a.arg[i] == ~0ULL - 1) a.arg[i] = make(r, params[i].kind, params[i].limit);
    if (good && params[i].kind == Kind::kDescriptor && ops()[a.op].request && std::string_view(params[i].name) == "mem_fd") a.arg[i] = ref(kMem);
  }
  suit(r, a);
  return a;
}

int any_op(Random& r, int lane) {
  static const std::vector<int> wheel = [] {
    std::vector<int> w;
    for (size_t i = 0; i < ops().size(); i++) w.insert(w.end(), size_t(ops()[i].weight), int(i));
    return w;
  }();
  for (;;) {
    int op = wheel[r.below(wheel.size())];
    if (ops()[size_t(op)].lanes >> executor_of(lane) & 1) return op;
  }
}

int any_lane(Random& r) { return r.one_in(2) ? 0 : int(r.below(kLanes)); }

void add(Program& p, const Action& a) {
  if (p.count < kMaxActions) p.action[p.count++] = a;
}

void insert(Program& p, size_t at, const Action& a) {
  if (p.count == kMaxActions) return;
  memmove(p.action + at + 1, p.action + at, (p.count - at) * sizeof a);
  p.action[at] = a;
  p.count++;
}

void erase(Program& p, size_t at) {
  memmove(p.action + at, p.action + at + 1, (p.count - at - 1) * sizeof *p.action);
  p.count--;
}

Action quick(const char* name, int lane, std::initializer_list<uint64_t> args) {
  Action a{};
  a.op = uint8_t(find_op(name));
  a.lane = uint8_t(lane);
  std::copy(args.begin(), args.end(), a.arg);
  return a;
}

// The state that a session must have reached for an action to have an effect.
enum Stage { kNothing, kOpen, kAttached, kFrozen, kMapped };

Stage needs(const Action& a) {
  static const std::pair<std::string_view, Stage> stages[] = {
      {"open", kNothing},    {"recv", kNothing},      {"close", kOpen},        {"dup", kOpen},      {"send", kOpen},        {"hold", kOpen},
      {"info", kOpen},       {"attach", kOpen},       {"raw_ioctl", kOpen},    {"munmap", kOpen},   {"read", kAttached},    {"freeze", kAttached},
      {"notify", kAttached}, {"outcome", kAttached},  {"snap_runs", kAttached}, {"snap_drop", kAttached}, {"lease", kOpen},
      {"agent_wait", kOpen}, {"agent_ready", kOpen},  {"run", kMapped},        {"run1", kMapped},   {"call", kMapped},      {"poke", kMapped},
      {"mmap", kMapped}};
  for (const auto& [name, stage] : stages)
    if (ops()[a.op].name == name) return stage;
  return kFrozen;
}

bool has_slot(const Action& a) {
  const auto& params = ops()[a.op].params;
  return !params.empty() && params[0].kind == Kind::kSlot;
}

// The known state of the sessions while a program is generated: other lanes may be faster or slower.
struct Sessions {
  Stage stage[kExecutors][kSlots] = {};
  uint64_t target;

  Stage& of(int lane, uint64_t slot) { return stage[executor_of(lane)][slot % kSlots]; }

  void bring(Random& r, Program& p, int lane, uint64_t slot, Stage to) {
    Stage& now = of(lane, slot);
    if (now < kOpen && to >= kOpen) add(p, quick("open", lane, {slot}));
    if (now < kAttached && to >= kAttached) {
      uint64_t t = r.one_in(8) ? r.below(kTargets) : target;
      add(p, quick("attach", lane, {slot, ref(kRw), ref(kMem, t), 0, 0}));
    }
    if (now < kFrozen && to >= kFrozen)
      add(p, quick("freeze", lane, {slot, ref(kRw), r.of<uint64_t>({50, 200}), r.of<uint64_t>({0, 0, 0, 100, 20}), 0}));
    if (now < kMapped && to >= kMapped) add(p, quick("arena", lane, {slot, ref(kRw), 0}));
    now = std::max(now, to);
  }

  void follow(const Action& a) {
    std::string_view name = ops()[a.op].name;
    if (name == "die") std::fill(stage[executor_of(a.lane)], stage[executor_of(a.lane)] + kSlots, kNothing);
    if (!has_slot(a)) return;
    Stage& now = of(a.lane, a.arg[0]);
    if (name == "open") now = kOpen;
    if (name == "close" || name == "hold") now = kNothing;
    if (name == "thaw") now = std::min(now, kAttached);
    if (name == "arena") now = std::max(now, kMapped);
    if (name == "freeze") now = std::max(now, kFrozen);
    if (name == "dup") of(a.lane, a.arg[1]) = now;
  }

  // Sends the session to another executor as well, which uses it at the same time.
  int share(Random& r, Program& p, int lane, uint64_t slot) {
    int other = executor_of(lane) == 2 ? 11 - lane : executor_of(lane) == 1 ? int(r.below(3)) : 3 + int(r.below(2));
    bring(r, p, lane, slot, r.one_in(2) ? kMapped : kFrozen);
    add(p, quick("send", lane, {slot, uint64_t(executor_of(other))}));
    add(p, quick("recv", other, {slot}));
    of(other, slot) = of(lane, slot);
    return other;
  }
};

}  // namespace

Program generate(Random& r) {
  Program p{};
  Sessions sessions;
  int lane = r.one_in(4) ? int(r.below(kLanes)) : int(r.below(3)), second = any_lane(r);
  uint64_t slot = r.below(2);
  sessions.target = executor_of(lane) == 2 ? r.below(kTargets) : r.below(kTargets - 1);
  bool good = !r.one_in(4);  // few wrong arguments
  focus = 0;
  focus = r.one_in(4) ? 0 : address(r);
  if (r.one_in(3)) second = sessions.share(r, p, lane, slot);
  size_t want = p.count + 6 + r.below(32);
  while (p.count < want && p.count < kMaxActions) {
    int l = r.one_in(2) ? lane : r.one_in(2) ? second : any_lane(r);
    Action a = make_action(r, any_op(r, l), l, good && !r.one_in(10));
    if (has_slot(a)) {
      if (!r.one_in(8)) a.arg[0] = slot;
      if (!r.one_in(8)) sessions.bring(r, p, l, a.arg[0], needs(a));
    } else if (!ops()[a.op].params.empty() && ops()[a.op].params[0].kind == Kind::kTarget && !r.one_in(8)) {
      a.arg[0] = sessions.target;
    }
    sessions.follow(a);
    add(p, a);
  }
  if (r.one_in(2)) add(p, quick("thaw", lane, {slot, ref(kRw), 0, 0}));
  return p;
}

Program mutate(Random& r, const Program& from, const std::vector<Program>& corpus) {
  Program p = from;
  focus = 0;
  focus = r.one_in(4) ? 0 : address(r);
  do {
    if (!p.count) return generate(r);
    size_t at = r.below(p.count);
    Action& a = p.action[at];
    const auto& params = ops()[a.op].params;
    switch (r.below(10)) {
      case 0: case 1: case 2: {
        int lane = r.one_in(2) ? a.lane : any_lane(r);
        Action fresh = make_action(r, any_op(r, lane), lane, !r.one_in(3));
        if (has_slot(a) && has_slot(fresh)) fresh.arg[0] = a.arg[0];
        insert(p, r.one_in(2) ? p.count : at + 1, fresh);
        break;
      }
      case 3: erase(p, at); break;
      case 4: insert(p, at, Action(a)); break;
      case 5: std::swap(a, p.action[r.below(p.count)]); break;
      case 6: a.lane = uint8_t(any_lane(r)); break;
      case 7: {  // another process ends
        const Program& other = corpus.empty() ? from : corpus[r.below(corpus.size())];
        if (!other.count) break;
        p.count = uint32_t(at + 1);
        for (size_t i = r.below(other.count); i < other.count; i++) add(p, other.action[i]);
        break;
      }
      default: {
        if (params.empty()) break;
        size_t i = r.below(params.size());
        a.arg[i] = r.one_in(6) ? a.arg[i] ^ 1ULL << r.below(16) : make(r, params[i].kind, params[i].limit);
        if (params[i].kind == Kind::kNr || params[i].kind == Kind::kCommand) suit(r, a);
      }
    }
  } while (!r.one_in(3));
  return p;
}

}  // namespace fuzz
