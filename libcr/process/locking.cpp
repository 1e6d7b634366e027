// SPDX-License-Identifier: LGPL-2.1-or-later
#include "process/locking.h"

#include <algorithm>

#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/text.h"

namespace reprise {
namespace {

constexpr std::uint64_t kLock = CR_VMA_LOCKED | CR_VMA_LOCKONFAULT;
constexpr std::uint64_t kOnFault = 1;           // MLOCK_ONFAULT
constexpr std::uint64_t kSetMemoryMerge = 67;   // PR_SET_MEMORY_MERGE, newer than some kernels' headers

Remote::Call call_for(const MappingPlan::Lock& step, std::uint64_t flags) {
  const std::uint64_t size = step.end - step.start;
  if (flags & CR_VMA_LOCKONFAULT) return {SYS_mlock2, {step.start, size, kOnFault}, size};
  if (flags & CR_VMA_LOCKED) return {SYS_mlock, {step.start, size}, size};
  return {SYS_munlock, {step.start, size}, size};
}

/** Check the mappings after an error: with guard pages mlock returns an error although it has locked the range. */
bool is_locked(std::span<const cr_vma> now, const MappingPlan::Lock& step, std::uint64_t flags) {
  for (const cr_vma& vma : now)
    if (vma.start < step.end && step.start < vma.end && ((vma.flags ^ flags) & kLock)) return false;
  return true;
}

}  // namespace

FutureFlags end_future_locks(Remote& remote, std::uint64_t future, MappingPlan& plan, const Process& image) {
  FutureFlags flags{future, image.layout().has_future() ? image.layout().future() : future};
  const bool changes = (flags.now ^ flags.wanted) & kLock;
  if (!(future & kLock) || (!changes && plan.empty())) return flags;
  std::uint64_t all = 0;
  for (const Mapping& mapping : image.mappings()) all += mapping.end() - mapping.start();
  const std::size_t index = remote.add({SYS_munlockall, {}, all}, false);
  if (remote.run()[index] < 0) return flags;
  plan.locks.clear();
  for (int i = 0; i < image.mappings_size(); ++i)
    if (const Mapping& mapping = image.mappings(i); mapping.flags() & kLock)
      plan.locks.push_back({mapping.start(), mapping.end(), i});
  flags.now &= ~kLock;
  return flags;
}

void restore_locks(Session& session, Remote& remote, const FutureFlags& future, const MappingPlan& plan,
                   const Process& image, Report& report) {
  std::vector<cr_vma> now;
  for (const MappingPlan::Lock& step : plan.locks) {
    const std::uint64_t flags = image.mappings(step.mapping).flags();
    // One call at a time: the module waits for a whole batch, and each call may take long.
    const std::size_t index = remote.add(call_for(step, flags), false);
    const std::int64_t ret = remote.run()[index];
    if (ret >= 0) continue;
    if (now.empty()) now = session.vmas();
    if (!is_locked(now, step, flags))
      report.warnings.push_back("mapping " + hex(step.start) + " is " + (flags & kLock ? "no longer" : "still") +
                                " locked in memory: " + error_text(ret));
  }
  const std::uint64_t wanted = future.wanted, differs = future.now ^ wanted;
  if ((differs & kLock) && (wanted & kLock)) {
    const std::uint64_t how = MCL_FUTURE | (wanted & CR_VMA_LOCKONFAULT ? MCL_ONFAULT : 0);
    if (const std::int64_t ret = remote.call(0, SYS_mlockall, how); ret < 0)
      report.warnings.push_back("future mappings are no longer locked (mlockall MCL_FUTURE): " + error_text(ret));
  }
  if (differs & CR_VMA_MERGEABLE) {
    const std::int64_t ret = remote.call(0, SYS_prctl, kSetMemoryMerge, (wanted & CR_VMA_MERGEABLE) != 0);
    if (ret < 0)
      report.warnings.push_back("PR_SET_MEMORY_MERGE (merging of equal pages) stays as it is: " + error_text(ret));
  }
}

}  // namespace reprise
