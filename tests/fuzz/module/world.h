// SPDX-License-Identifier: GPL-2.0-only
// State that the processes of the fuzzer share, and the functions of its parts.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "action.h"

namespace fuzz {

constexpr uint64_t kHeapAt = 0x100000000000;  // the same in every target
constexpr uint64_t kHeapSize = 4 << 20;
constexpr char kFolder[] = "/run/cr-fuzz";    // directory of the victims, one of them set-uid
constexpr char kCgroup[] = "/sys/fs/cgroup/cr-fuzz";
constexpr uid_t kUser = 1000;

// The commands to a target's thread.
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

// In every target, which can write it.
struct Targets {
  char path[2][64];  // the victim, the set-uid victim
  char* argv[2];
  char* envp[1];
  struct Target {
    std::atomic<pid_t> pid, tid[kTargetThreads];
    Order order[kTargetThreads];
  } target[kTargets];
};

// Special results of actions, besides 0, errors and return values of calls.
constexpr int32_t kNotMade = INT32_MIN, kCallFailed = -1000, kThreadGone = -1001;

struct Lane {
  std::atomic<uint32_t> done;  // generation of the last program that it has finished
  std::atomic<pid_t> tid;
  std::atomic<uint32_t> at;    // current action
  int32_t result[kMaxActions];  // of its actions: 0 or more, or -errno
};

// Shared by the fuzzer and its executors.
struct World {
  Program program;
  std::atomic<uint32_t> generation;  // a futex: a new program
  std::atomic<uint32_t> flag[kFlags];
  Lane lane[kLanes];
  std::atomic<uint32_t> violated;
  char violation[4096];
  std::atomic<uint32_t> stub_size;  // size of the arena's code in the first session
  uint8_t stub[4096];
};

extern World* world;
extern Targets* targets;

// Reports a violated invariant: ends the run.
void violation(const char* format, ...) __attribute__((format(printf, 1, 2)));

// ---- executor.cpp
[[noreturn]] void executor(int number);
extern int inbox[kExecutors][2];

// ---- target.cpp
[[noreturn]] void target(int number);

// ---- cover.cpp: coverage. 0 to kLanes - 1 are the lanes, then come the targets' threads.
constexpr int kTracers = kLanes + kTargets * kTargetThreads;
bool cover_open();             // in the fuzzer, before it forks; false: the kernel has no KCOV
void cover_thread(int which);  // in the thread itself
void cover_leave();            // in a target: a target needs no such mappings
void cover_clear();
size_t cover_new();            // number of new marks since cover_clear(); afterwards they are old
size_t cover_results(const Program& p);  // the same for the results of the actions
size_t cover_total();

// ---- checks.cpp
void checks_begin();                 // ignore the kernel's messages up to here
std::string kernel_complaint();      // new complaints in the kernel's log
bool cgroup_write(const std::string& file, const std::string& text);
bool cgroup_kill(int seconds);       // false: a process does not end; the reason is reported as a violation
bool ended(pid_t pid);
void stuck(pid_t pid, const char* what);
void module_idle();                  // all users are gone: the reference count must go back to 0
void module_load();                  // load it if an action has unloaded it
bool module_unload();
void module_works();                 // freezes a new process, makes a call, snapshots and restores it
void module_leaks();                 // checks with kmemleak, if the kernel has it

// ---- helpers
bool put_file(const std::string& path, const std::string& text);
std::string get_file(const std::string& path);
void sleep_us(unsigned us);

}  // namespace fuzz
