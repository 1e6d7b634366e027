// SPDX-License-Identifier: LGPL-2.1-or-later
#include "process/xstate.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <cpuid.h>

#include "base/error.h"
#include "process/threads.h"

namespace reprise {
namespace {

constexpr std::size_t kLegacy = 512;            // FXSAVE area; the kernel uses the bytes from 464 on
constexpr std::size_t kXcr0At = 464;
constexpr std::size_t kHeader = 64;             // begins with XSTATE_BV, the features in use
constexpr std::size_t kFixed = kLegacy + kHeader;
constexpr unsigned kTileData = 18;              // AMX tile data: allocated on first use
constexpr unsigned kFeatures = 62;              // highest feature bit

std::uint64_t word_at(const std::string& bytes, std::size_t at) {
  std::uint64_t word = 0;
  if (at + sizeof word <= bytes.size()) std::memcpy(&word, bytes.data() + at, sizeof word);
  return word;
}

bool same(const XstateLayout& a, const XstateLayout& b) {
  return std::equal(a.sets.begin(), a.sets.end(), b.sets.begin(), b.sets.end(),
                    [](const auto& x, const auto& y) {
                      return x.feature == y.feature && x.offset == y.offset && x.size == y.size;
                    });
}

const char* feature_name(unsigned feature) {
  switch (feature) {
    case 2: return "AVX";
    case 5: case 6: case 7: return "AVX-512";
    case 9: return "protection key";
    case 17: case kTileData: return "AMX";
    default: return "extended";
  }
}

[[noreturn]] void refuse(const std::string& who, unsigned feature, const char* why) {
  throw Error(Failure::refused, ENOEXEC, who + " has " + feature_name(feature) + " registers in use, " + why);
}

XstateLayout ask_cpu() {
  XstateLayout layout;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return layout;  // no XSAVE: no extended registers
  unsigned low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  layout.features = std::uint64_t{high} << 32 | low;
  if (!__get_cpuid_count(0xd, 0, &a, &b, &c, &d)) return layout;
  layout.size = b;
  for (unsigned feature = 2; feature <= kFeatures; ++feature) {
    if (!(layout.features >> feature & 1) || !__get_cpuid_count(0xd, feature, &a, &b, &c, &d) || !a) continue;
    layout.sets.push_back({feature, b, a});
  }
  return layout;
}

}  // namespace

const XstateLayout& xstate_layout_here() {
  static const XstateLayout layout = ask_cpu();  // cpuid is slow in virtual machines
  return layout;
}

void collect_xstate_layout(Host& host) {
  for (const XstateLayout::Set& set : xstate_layout_here().sets) {
    RegisterSet& saved = *host.add_xstate();
    saved.set_feature(set.feature);
    saved.set_offset(static_cast<std::uint32_t>(set.offset));
    saved.set_size(static_cast<std::uint32_t>(set.size));
  }
}

XstateLayout xstate_layout_of(const Host& host, const std::string& xstate) {
  XstateLayout layout;
  layout.features = word_at(xstate, kXcr0At);
  layout.size = xstate.size();
  for (const RegisterSet& set : host.xstate()) layout.sets.push_back({set.feature(), set.offset(), set.size()});
  return layout;
}

std::string fitted_xstate(const std::string& xstate, const XstateLayout& then, const XstateLayout& here, bool made,
                          const std::string& who) {
  const std::uint64_t used = word_at(xstate, kLegacy);
  for (unsigned feature = 2; feature <= kFeatures; ++feature) {
    if (!(used >> feature & 1)) continue;
    if (!(here.features >> feature & 1))
      refuse(who, feature, "which this machine's processor does not have: restart it on one like the one it was taken on");
    if (feature == kTileData && made)
      refuse(who, feature, "which cannot be restored in a new thread: take the checkpoint when it does not use them");
  }
  if (then.sets.empty() || same(then, here)) return xstate;
  std::string out(std::max(here.size, kFixed), '\0');
  std::copy_n(xstate.begin(), std::min(xstate.size(), kFixed), out.begin());
  for (const XstateLayout::Set& to : here.sets) {
    if (!(used >> to.feature & 1)) continue;
    const auto from = std::find_if(then.sets.begin(), then.sets.end(),
                                   [&](const auto& set) { return set.feature == to.feature; });
    if (from == then.sets.end() || from->size != to.size || from->offset > xstate.size() ||
        from->size > xstate.size() - from->offset || to.offset + to.size > out.size())
      refuse(who, to.feature, "which have another size on this machine's processor");
    std::copy_n(xstate.begin() + static_cast<std::ptrdiff_t>(from->offset), to.size,
                out.begin() + static_cast<std::ptrdiff_t>(to.offset));
  }
  return out;
}

void check_xstate(const Process& image, const std::vector<ThreadRegs>& regs, const std::vector<int>& made,
                  RestoreMode mode, Report& report) {
  const XstateLayout& here = xstate_layout_here();
  for (int i = 0; i < image.threads_size(); ++i) {
    const std::string& xstate = regs[static_cast<std::size_t>(i)].xstate;
    if (xstate.empty()) continue;
    const XstateLayout then = xstate_layout_of(image.host(), xstate);
    if (i == 0 && then.features & ~here.features)
      report.warnings.push_back("this machine's processor lacks features of the one that the program was started on: it "
                                "may use instructions that do not exist here");
    const bool is_new = mode == RestoreMode::restart || std::find(made.begin(), made.end(), i) != made.end();
    fitted_xstate(xstate, then, here, is_new, thread_name(image.threads(i)));
  }
}

}  // namespace reprise
