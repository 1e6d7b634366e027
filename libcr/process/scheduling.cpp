// SPDX-License-Identifier: LGPL-2.1-or-later
#include "process/scheduling.h"

#include <cerrno>
#include <cstring>

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/text.h"
#include "process/threads.h"

namespace reprise {
namespace {

/** The first version of the kernel's struct sched_attr. Not under its own name: newer C libraries declare that. */
struct Attributes {
  std::uint32_t size = sizeof(Attributes);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0, deadline = 0, period = 0;
};

constexpr int kDeadline = 6;  // SCHED_DEADLINE

bool get(pid_t tid, Attributes& attributes) {
  return ::syscall(SYS_sched_getattr, tid, &attributes, sizeof attributes, 0) == 0;
}

std::string affinity(pid_t tid) {
  char mask[1024];  // 8192 CPUs, the maximum of CONFIG_NR_CPUS
  const long got = ::syscall(SYS_sched_getaffinity, tid, sizeof mask, mask);
  if (got <= 0) return {};
  auto used = static_cast<std::size_t>(got);
  while (used > 8 && mask[used - 1] == 0) --used;
  return {mask, (used + 7) & ~std::size_t{7}};
}

}  // namespace

void collect_scheduling(Thread& thread) {
  Attributes attributes;
  if (get(thread.tid(), attributes)) {
    thread.set_sched_policy(static_cast<std::int32_t>(attributes.policy));
    thread.set_sched_priority(static_cast<std::int32_t>(attributes.priority));
    thread.set_nice(attributes.nice);
  }
  thread.set_cpu_affinity(affinity(thread.tid()));
}

void restore_scheduling(const Thread& thread, Remote* by_itself, Report& report) {
  const auto check = [&](const char* what, std::int64_t result) {
    if (result < 0)
      report.warnings.push_back(thread_name(thread) + ": its " + what + " stays as it is: " + error_text(result));
  };
  Attributes now;
  if (get(thread.tid(), now)) {
    const bool policy = static_cast<int>(now.policy) != thread.sched_policy() ||
                        static_cast<int>(now.priority) != thread.sched_priority();
    // The image does not hold the parameters of SCHED_DEADLINE.
    if ((policy || now.nice != thread.nice()) && thread.sched_policy() != kDeadline) {
      Attributes wanted = now;
      wanted.policy = static_cast<std::uint32_t>(thread.sched_policy());
      wanted.priority = static_cast<std::uint32_t>(thread.sched_priority());
      wanted.nice = thread.nice();
      if (by_itself)
        check("scheduling", by_itself->call(thread.tid(), SYS_sched_setattr, 0, by_itself->argument_of(wanted), 0));
      else
        check("scheduling", ::syscall(SYS_sched_setattr, thread.tid(), &wanted, 0) == 0 ? 0 : -errno);
    }
  }
  const std::string& cpus = thread.cpu_affinity();
  if (cpus.empty() || affinity(thread.tid()) == cpus) return;
  if (by_itself) {
    std::uint64_t mask;
    std::memcpy(by_itself->argument(cpus.size(), mask), cpus.data(), cpus.size());
    check("set of CPUs", by_itself->call(thread.tid(), SYS_sched_setaffinity, 0, cpus.size(), mask));
  } else {
    check("set of CPUs", ::syscall(SYS_sched_setaffinity, thread.tid(), cpus.size(), cpus.data()) == 0 ? 0 : -errno);
  }
}

}  // namespace reprise
