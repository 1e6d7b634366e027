// SPDX-License-Identifier: GPL-2.0-only
// What the processes of the fuzzer share, and what they offer each other.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "action.h"

namespace fuzz {

constexpr uint64_t kHeapAt = 0x100000000000;  // in every target
constexpr uint64_t kHeapSize = 4 << 20;
constexpr char kFolder[] = "/run/cr-fuzz";    // where the victims lie, one set-uid
constexpr char kCgroup[] = "/sys/fs/cgroup/cr-fuzz";
constexpr uid_t kUser = 1000;

// What a target's thread can be told to do.
enum Command : uint32_t {
  kNop, kFork, kVforkExec, kCloneThread, kCloneVm, kExitThread, kExitGroup, kExec, kExecSuid, kMmap, kMunmap, kMprotect,
  kMremap, kMadvise, kTouch, kArenaMprotect, kArenaMunmap, kArenaMremap, kArenaWrite, kArenaOver, kArenaAdvise, kAgent,
  kAgentReady, kNanosleep, kFutex, kPoll, kSpin, kLimit, kUndumpable, kUffdHeap, kIoUring, kAltstack, kFds, kLock, kStop, kUnshare,
  kEpoll, kSeccomp, kCommands
};

struct Order {
  std::atomic<uint32_t> seq, ack;
  uint32_t command;
  uint64_t arg[3];
};

// In every target, writable by it.
struct Targets {
  char path[2][64];  // the victim, the set-uid victim
  char* argv[2];
  char* envp[1];
  struct Target {
    std::atomic<pid_t> pid, tid[kTargetThreads];
    Order order[kTargetThreads];
  } target[kTargets];
};

// Results of actions beside 0, errors and what a call returned.
constexpr int32_t kNotMade = INT32_MIN, kCallFailed = -1000, kThreadGone = -1001;

struct Lane {
  std::atomic<uint32_t> done;  // generation of the last program it is through with
  std::atomic<pid_t> tid;
  std::atomic<uint32_t> at;    // action that it makes
  int32_t result[kMaxActions];  // of its actions: 0 or more, or -errno
};

// Of the fuzzer and its executors.
struct World {
  Program program;
  std::atomic<uint32_t> generation;  // a futex: a new program
  std::atomic<uint32_t> flag[kFlags];
  Lane lane[kLanes];
  std::atomic<uint32_t> violated;
  char violation[4096];
  std::atomic<uint32_t> stub_size;  // the arena's code, as the first session had it
  uint8_t stub[4096];
};

extern World* world;
extern Targets* targets;

// Something that must not be: ends the run.
void violation(const char* format, ...) __attribute__((format(printf, 1, 2)));

// ---- executor.cpp
[[noreturn]] void executor(int number);
extern int inbox[kExecutors][2];

// ---- target.cpp
[[noreturn]] void target(int number);

// ---- cover.cpp: what was executed. 0 to kLanes - 1 are the lanes, then come the targets' threads.
constexpr int kTracers = kLanes + kTargets * kTargetThreads;
bool cover_open();             // in the fuzzer, before it forks; false: the kernel has no KCOV
void cover_thread(int which);  // in the thread itself
void cover_leave();            // in a target: it needs no mappings
void cover_clear();
size_t cover_new();            // how much of what was executed since cover_clear() is new; then it is old
size_t cover_results(const Program& p);  // the same of what the actions returned
size_t cover_total();

// ---- checks.cpp
void checks_begin();                 // the kernel's messages up to here are not ours
std::string kernel_complaint();      // new complaints in the kernel's log
bool cgroup_write(const std::string& file, const std::string& text);
bool cgroup_kill(int seconds);       // false: a process of ours stays; the reason is a violation
bool ended(pid_t pid);
void stuck(pid_t pid, const char* what);
void module_idle();                  // nobody uses the module: its count must go back to 0
void module_load();                  // when an action has unloaded it
bool module_unload();
void module_works();                 // a plain freeze, call, snapshot and restore of a new process
void module_leaks();                 // kmemleak, where the kernel has it

// ---- helpers
bool put_file(const std::string& path, const std::string& text);
std::string get_file(const std::string& path);
void sleep_us(unsigned us);

}  // namespace fuzz
