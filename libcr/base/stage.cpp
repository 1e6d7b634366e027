// SPDX-License-Identifier: LGPL-2.1-or-later
#include "base/stage.h"

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <new>
#include <string>
#include <thread>

#include "base/error.h"
#include "base/silence.h"

namespace reprise {
namespace {

constexpr const char* kNames[] = {"",       "open",     "child",  "callbacks", "freeze",      "collect", "snapshot", "compare",
                                  "verify", "birth",    "commit", "surplus",   "mappings",    "pages",   "hold",     "descriptors",
                                  "shared", "process",  "threads", "outcome",  "thaw",        "write"};
static_assert(std::size(kNames) == static_cast<std::size_t>(Stage::write) + 1);

}  // namespace

const char* stage_name(Stage stage) { return kNames[static_cast<std::size_t>(stage)]; }

#ifdef REPRISE_FAULTS
namespace {

struct Fault {
  std::string stage;
  unsigned long left = 0;  ///< requests to the module before the failure; 0: fail when the stage begins
  bool memory = false, done = true;
  std::chrono::milliseconds sleep{0};  ///< not 0: sleep this long instead of failing
  Fault() {
    const char* const wanted = ::secure_getenv("CR_FAULT");
    if (!wanted) return;
    const std::string text = wanted;
    const std::size_t colon = text.find(':');
    stage = text.substr(0, colon);
    memory = colon != std::string::npos && text.substr(colon) == ":memory";
    if (colon != std::string::npos) left = std::strtoul(text.c_str() + colon + 1, nullptr, 10);
    if (const std::size_t at = text.find(":sleep="); at != std::string::npos)
      sleep = std::chrono::milliseconds(std::strtoul(text.c_str() + at + 7, nullptr, 10));
    done = false;
  }
};

Fault& fault() {
  static Fault one;
  return one;
}

}  // namespace

bool fault_here() {
  Fault& wanted = fault();
  if (wanted.done || !wanted.left || wanted.stage != stage_name(current_stage())) return false;
  return wanted.done = --wanted.left == 0;
}
#endif

unsigned silence_ms() {
#ifdef REPRISE_FAULTS
  if (const char* const wanted = ::secure_getenv("CR_SILENCE_MS"))
    if (const unsigned long ms = std::strtoul(wanted, nullptr, 10); ms > 0 && ms < kSilenceMs) return static_cast<unsigned>(ms);
#endif
  return kSilenceMs;
}

void enter(Stage stage) {
  stage_of_thread = stage;
#ifdef REPRISE_FAULTS
  Fault& wanted = fault();
  if (wanted.done || wanted.left || wanted.stage != stage_name(stage)) return;
  wanted.done = true;
  if (wanted.sleep.count()) return std::this_thread::sleep_for(wanted.sleep);
  if (wanted.memory) throw std::bad_alloc();
  throw Error(Failure::permanent, EIO, std::string("CR_FAULT: failed on purpose as stage ") + stage_name(stage) + " began");
#endif
}

}  // namespace reprise
