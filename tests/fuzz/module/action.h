// SPDX-License-Identifier: GPL-2.0-only
// Programs of the fuzzer: sequences of actions, each made by one lane (a thread of an executor). Also the table of the
// actions and of the kinds of their arguments.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fuzz {

constexpr int kLanes = 7;        // lanes 0 to 2: executor 0 (uid 1000), 3 and 4: executor 1 (uid 1000), 5 and 6: root
constexpr int kExecutors = 3;
constexpr int kTargets = 4;      // the last target is root's
constexpr int kTargetThreads = 4;
constexpr int kSlots = 6;        // number of sessions per executor
constexpr int kFlags = 16;       // flags with which lanes synchronize
constexpr int kMaxArgs = 12;
constexpr int kMaxActions = 64;

constexpr int executor_of(int lane) { return lane < 3 ? 0 : lane < 5 ? 1 : 2; }

// What a value refers to: the upper byte of an argument. All other values are literals.
enum Class : uint8_t {
  kLiteral = 0,
  kThread,   // thread N of the session's target; 16 * (target + 1) + N: thread N of that target
  kBorn,     // the thread that the session's last clone returned
  kSelf,     // the caller
  kRw,       // the caller's memory: writable
  kRo,       // … read-only
  kHole,     // … not mapped
  kUffd,     // … where every fault is slow
  kEdge,     // … N bytes before a hole
  kHeap,     // the target's memory
  kArena,    // the session's arena in the target
  kString,   // paths and vectors for execve, at an address that all targets share
  kSession,  // descriptor of session N
  kMem,      // /proc/PID/mem of target N
  kFile,     // 0: a file with content, 1: a pipe, 2: the target's environ, 3: a read-only mem, 4: the fuzzer's own mem
  kScope,    // an array that the executor generates; see Scope
  kAuto,     // the count that matches the array
  kSoon,     // BOOTTIME in N ms, in ns
  kClasses
};
enum Scope : uint8_t { kScopeAll, kScopeHeap, kScopeDirty, kScopeBad, kRunsHeap, kRunsBad, kScopes };

constexpr uint64_t ref(Class c, uint64_t n = 0) { return uint64_t{c} << 56 | (n & 0xffffffffffffff); }
constexpr Class class_of(uint64_t v) { return v >> 56 < kClasses ? Class(v >> 56) : kLiteral; }
constexpr uint64_t rest_of(uint64_t v) { return v & 0xffffffffffffff; }

// How an argument is generated and mutated; the action defines its meaning.
enum class Kind : uint8_t {
  kNone, kSlot, kTarget, kPlace, kTid, kBuffer, kScope, kRuns, kCount, kFlags, kId, kMs, kAddress, kLength,
  kNumber, kNr, kCommand, kDescriptor, kSignal, kProt, kMapFlags, kAdvice, kCloneFlags, kWord, kString, kRegset, kSoon, kOffset
};

struct Param {
  const char* name;
  Kind kind;
  uint16_t offset;  // bytes, in the ioctl's structure
  uint8_t size;     // bytes in the structure; 0: not part of it
  uint64_t limit;   // highest number, or mask of flags
};

struct Context;
struct Action;
using Handler = long (*)(Context&, const Action&, const uint64_t* args);

struct Op {
  const char* name;
  int weight;             // relative frequency
  uint8_t lanes;          // mask of executors that generate it
  Handler run;
  unsigned long request;  // of an ioctl that only the table describes
  std::vector<Param> params;
};

struct Action {
  uint8_t op, lane;
  uint64_t arg[kMaxArgs];
};

struct Program {
  uint32_t count;
  Action action[kMaxActions];
};

struct Name {
  const char* name;
  uint64_t value;
  Kind args[6];  // of the arguments of a system call or of a target's command
};

const std::vector<Op>& ops();
int find_op(std::string_view name);           // -1: none
const std::vector<Name>& calls();             // system calls for CR_IOC_RUN
const std::vector<Name>& commands();          // commands to a target
const Name* named(const std::vector<Name>& list, uint64_t value);

std::string print(const Program& p);
// Parses a text: one action per line; lines that say "program" separate the programs. Throws std::runtime_error with the
// line number.
std::vector<Program> parse(std::string_view text);

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 1) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  uint64_t below(uint64_t n) { return n ? next() % n : 0; }
  bool one_in(uint64_t n) { return below(n) == 0; }
  template <class T, size_t N>
  T of(const T (&list)[N]) { return list[below(N)]; }

 private:
  uint64_t state_;
};

Program generate(Random& r);
Program mutate(Random& r, const Program& p, const std::vector<Program>& corpus);

}  // namespace fuzz
