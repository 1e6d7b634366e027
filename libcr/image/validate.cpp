// SPDX-License-Identifier: LGPL-2.1-or-later
#include "image/validate.h"

#include <limits.h>

#include <cerrno>
#include <cstring>
#include <set>

#include "base/text.h"
#include "cr.h"
#include "image/own_id.h"
#include "image/validate_parts.h"

namespace reprise {
namespace image {

void Checker::bad(const std::string& what) const {
  throw Error(Failure::permanent, EBADMSG,
              name_ + ": " + what + "; the image cannot be used: take a new checkpoint or use another image");
}

void Checker::address(std::uint64_t value, const std::string& what) const {
  need(value < kTaskSize, [&] { return what + " " + hex(value) + " is outside of the address space"; });
}

void Checker::file(const File& file, const std::string& what) const {
  need(file.path().size() < PATH_MAX && file.path().find('\0') == std::string::npos,
       [&] { return what + " has an impossible path"; });
}

void Checker::pending(const PendingSignal& pending, const std::string& what) const {
  std::int32_t signal = 0;
  need(pending.siginfo().size() == 128, [&] { return what + " has a pending signal without its siginfo"; });
  std::memcpy(&signal, pending.siginfo().data(), sizeof signal);
  need(signal >= 1 && signal <= 64,
       [&] { return what + " has impossible signal " + std::to_string(signal) + " pending"; });
}

namespace {

/** Check that a thread can have these credentials, which are those of the leader (Environment) or another thread. */
template <class Credentials>
void validate_credentials(const Checker& check, const Credentials& has, const std::string& whose) {
  check.need(has.groups_size() <= 65536, [&] { return whose + " holds too many groups"; });
  check.need(!(has.cap_effective() & ~has.cap_permitted()) &&
                 !(has.cap_ambient() & ~(has.cap_permitted() & has.cap_inheritable())),
             [&] { return whose + " has impossible capabilities"; });
}

}  // namespace

void validate_threads(const Checker& check, const Process& process) {
  check.need(process.threads_size() > 0, "it holds no thread");
  check.need(process.threads_size() <= CR_MAX_THREADS, "it holds too many threads");
  check.need(process.threads(0).tid() == process.pid(), "its first thread is not the leader");
  std::set<std::int32_t> tids, own_tids;
  for (const auto& thread : process.threads()) {
    const std::string who = "thread " + std::to_string(thread.tid());
    check.need(thread.tid() > 0 && tids.insert(thread.tid()).second,
               [&] { return who + " is impossible or there twice"; });
    check.need(thread.own_tid() >= 0 && own_tids.insert(own_id(thread)).second,
               [&] { return who + " has an impossible id of its own"; });
    check.need(thread.comm().size() < 16 && thread.comm().find('\0') == std::string::npos,
               [&] { return who + " has an impossible name"; });
    check.address(thread.rseq_addr(), who + ": rseq area");
    check.address(thread.robust_list(), who + ": robust list");
    check.address(thread.clear_child_tid(), who + ": clear_child_tid");
    check.address(thread.altstack_sp(), who + ": alternate stack");
    check.need(thread.altstack_size() <= kTaskSize - thread.altstack_sp(),
               [&] { return who + ": alternate stack is too large"; });
    check.need((thread.altstack_flags() & ~(1U | 2U | (1U << 31))) == 0,
               [&] { return who + ": unknown flags of the alternate stack"; });
    check.need(thread.attributes() <= 15, [&] { return who + " has unknown attributes"; });
    check.need(thread.rseq_len() <= kPage, [&] { return who + ": rseq area is too large"; });
    check.need(thread.sched_policy() >= 0 && thread.sched_policy() <= 7 && thread.sched_priority() >= 0 &&
                   thread.sched_priority() <= 99 && thread.nice() >= -20 && thread.nice() <= 19,
               [&] { return who + ": impossible scheduling"; });
    check.need(thread.cpu_affinity().size() <= 8192, [&] { return who + ": CPU set is too large"; });
    check.need(thread.pdeath_signal() >= 0 && thread.pdeath_signal() <= 64,
               [&] { return who + ": impossible parent-death signal"; });
    for (const auto& pending : thread.pending()) check.pending(pending, who);
    if (!thread.has_credentials()) continue;
    check.need(&thread != &process.threads(0), "the leader's credentials are there twice");
    check.need(thread.credentials().uids_size() == 4 && thread.credentials().gids_size() == 4,
               [&] { return who + ": user and group ids are incomplete"; });
    validate_credentials(check, thread.credentials(), who);
  }
}

void validate_signals_timers(const Checker& check, const Process& process) {
  std::set<std::uint32_t> signals;
  for (const auto& action : process.sigactions()) {
    const std::string what = "disposition of signal " + std::to_string(action.signal());
    check.need(action.signal() >= 1 && action.signal() <= 64 && action.signal() != 9 && action.signal() != 19 &&
                   signals.insert(action.signal()).second,
               [&] { return what + " is impossible or there twice"; });
    check.address(action.handler(), what + ": handler");
    check.address(action.restorer(), what + ": restorer");
  }
  for (const auto& pending : process.pending()) check.pending(pending, "the process");

  std::set<std::int32_t> which, ids, tids;
  for (const auto& timer : process.timers().itimers())
    check.need(timer.which() >= 0 && timer.which() <= 2 && which.insert(timer.which()).second &&
                   timer.value_ns() <= INT64_MAX && timer.interval_ns() <= INT64_MAX,
               [&] { return "interval timer " + std::to_string(timer.which()) + " is impossible or there twice"; });
  for (const auto& thread : process.threads()) tids.insert(thread.tid());
  for (const auto& timer : process.timers().posix()) {
    const std::string what = "POSIX timer " + std::to_string(timer.id());
    check.need(timer.id() >= 0 && ids.insert(timer.id()).second,
               [&] { return what + " is impossible or there twice"; });
    check.need((timer.notify() == 0 || timer.notify() == 1 || timer.notify() == 2 || timer.notify() == 4) &&
                   timer.signal() >= 0 && timer.signal() <= 64 && timer.value_ns() >= 0 && timer.interval_ns() >= 0,
               [&] { return what + " has impossible settings"; });
    check.need(timer.notify() != 4 || tids.count(timer.tid()),
               [&] { return what + " belongs to thread " + std::to_string(timer.tid()) + ", which is not there"; });
  }
}

void validate_environment(const Checker& check, const Process& process) {
  const auto& env = process.env();
  check.file(env.cwd(), "the working directory");
  check.file(env.root(), "the root directory");
  check.need(env.umask() <= 0777, "the umask is impossible");
  std::set<std::uint32_t> resources;
  for (const auto& limit : env.limits())
    check.need(limit.resource() < 16 && limit.soft() <= limit.hard() && resources.insert(limit.resource()).second,
               [&] { return "resource limit " + std::to_string(limit.resource()) + " is impossible or there twice"; });
  check.need((env.uids_size() == 4 || env.uids_size() == 0) && (env.gids_size() == 4 || env.gids_size() == 0),
             "its user and group ids are incomplete");
  validate_credentials(check, env, "it");
  check.need(env.ldt().size() <= 65536 && env.ldt().size() % 8 == 0, "its local descriptor table is malformed");
  check.need(env.pkeys() <= 0xffff, "its protection keys are impossible");
  check.need(env.mdwe() <= 3, "its memory protection (PR_SET_MDWE) is unknown");
  check.need(env.oom_score_adj() >= -1000 && env.oom_score_adj() <= 1000, "the OOM score adjustment is impossible");
}

}  // namespace image

void validate_process(const std::string& name, const Process& process, std::uint64_t blob_size) {
  const image::Checker check(name);
  check.need(process.format() >= 1, "its state has no format number");
  check.need(process.format() <= image::kStateFormat, [&] {
    return "its state has format " + std::to_string(process.format()) + ", newer than this version knows";
  });
  check.need(process.id().size() == CR_ID_SIZE, "its identity is missing");
  check.need(process.parent_id().empty() || process.parent_id().size() == CR_ID_SIZE,
             "its parent's identity is malformed");
  check.need(process.pid() > 0, "its pid is impossible");
  check.need(process.comm().size() < 16, "the name of the process is too long");
  check.file(process.exe(), "the executable");
  image::validate_threads(check, process);
  image::validate_memory(check, process, blob_size);
  image::validate_descriptors(check, process);
  image::validate_signals_timers(check, process);
  image::validate_environment(check, process);
  image::validate_bases(check, name, process);
}

}  // namespace reprise
