// SPDX-License-Identifier: LGPL-2.1-or-later
#include "request/state.h"

#include <cerrno>

#include <sys/random.h>

#include "descriptors/descriptors.h"
#include "process/credentials_of_threads.h"
#include "process/environment.h"
#include "process/generation.h"
#include "process/guards.h"
#include "process/layout.h"
#include "process/ldt.h"
#include "process/mappings.h"
#include "process/numa.h"
#include "process/pid_namespace.h"
#include "process/signals.h"
#include "process/stop.h"
#include "process/threads.h"
#include "process/timers.h"
#include "request/identity.h"
#include "request/room.h"
#include "request/stopwatch.h"
#include "request/unchanged.h"

namespace reprise {

CheckpointId new_checkpoint_id() {
  CheckpointId id{};
  if (::getrandom(id.data(), id.size(), 0) != static_cast<ssize_t>(id.size()))
    throw Error(Failure::permanent, errno, "cannot get random numbers from the kernel");
  return id;
}

void collect_running(Session& session, State& state) {
  state.id = new_checkpoint_id();
  state.process.set_id(state.id.data(), state.id.size());
  collect_identity(session, state.process);
  check_room(session.pid());
}

void collect_frozen(Session& session, State& state, Report& report, std::uint64_t deleted_limit, std::vector<KeptFile>* kept) {
  Stopwatch watch;
  Process& process = state.process;
  collect_host(session, process);
  const std::vector<cr_thread> threads = session.threads();
  const cr_process data = session.process();
  const std::vector<cr_vma> vmas = session.vmas();
  collect_threads(session, threads, process, state.regs);
  collect_own_ids(session.pid(), process);
  collect_layout(data, process);
  collect_mappings(session, vmas, process);
  collect_guards(session, process);
  collect_generation(session, vmas, process);
  collect_descriptors(session, process, deleted_limit > 0);
  collect_signals(session, data, threads, process);
  LazyRemote remote(session);
  collect_numa(remote, process);
  collect_timers(session, data, remote, process);
  collect_environment(session, data, process);
  collect_ldt(data, remote, process);
  collect_credentials(session, threads, process);
  state.shared.collect(session, process, deleted_limit, kept);
  if (!threads.empty()) process.set_personality(threads.front().personality);
  process.set_stopped(is_stopped(data, threads));
  collect_digests(session, process);

  report.pid = session.pid();
  report.comm = process.comm();
  report.threads = threads.size();
  report.mappings = static_cast<std::uint64_t>(process.mappings_size());
  report.descriptors = static_cast<std::uint64_t>(process.descriptors_size());
  for (const Descriptor& one : process.descriptors()) {
    const Description& description = process.descriptions(static_cast<int>(one.description()));
    if (description.has_pipe() && description.pipe().outside()) report.pipes[one.fd()] = description.pipe().queued();
  }
  report.collect_ns = watch.lap();
}

}  // namespace reprise
