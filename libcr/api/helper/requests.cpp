// SPDX-License-Identifier: LGPL-2.1-or-later
#include "api/helper/requests.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <vector>

#include "api/helper/destination.h"
#include "api/helper/program_as_parent.h"
#include "base/request_flags.h"
#include "base/error.h"
#include "libcr.h"
#include "process/scope.h"
#include "request/requests.h"

namespace reprise::api {
namespace {

// Negative: send the signal before the program continues. After a checkpoint this holds for every signal.
int signal_of(const Order& order) { return std::abs(order.signal); }

unsigned flags_for_callbacks(const Order& order) { return pack_request(signal_of(order), order.scope, order.target, (order.flags & CR_CHKPT_PROHIBIT_SELF) != 0); }

static_assert(CR_MAX_RSTRT_COPIES == kMostCopies);

// How long a restart waits for callbacks: the default of a checkpoint.
constexpr unsigned kCallbacksMs = 60'000;

void log_warnings(Service& service, const Report& report) {
  for (const std::string& warning : report.warnings) service.log(warning);
}

/** @return false when the order's flags exclude the process. Throws Error (refused) when it is traced or traces. */
bool admit(pid_t pid, const Order& order) {
  if (const pid_t tracer = tracer_of(pid); tracer != 0) {
    if ((order.flags & CR_CHKPT_PTRACED_SKIP) != 0) return false;
    throw Error(Failure::refused, CR_EPTRACED,
                "process " + std::to_string(pid) + " is traced by process " + std::to_string(tracer));
  }
  const pid_t tracee = traced_by(pid);
  if (tracee == 0) return true;
  if ((order.flags & CR_CHKPT_PTRACER_SKIP) != 0) return false;
  throw Error(Failure::refused, CR_EPTRACER,
              "process " + std::to_string(pid) + " traces process " + std::to_string(tracee));
}

/** @return the processes that callbacks have named, each once, without those that the served request itself saves */
std::vector<pid_t> forwarded(const Service& service, const Order& order) {
  const std::vector<pid_t> served = processes_in(static_cast<cr_scope_t>(order.scope), order.target);
  std::set<pid_t> known(served.begin(), served.end());
  known.insert(service.owner());
  std::vector<pid_t> pids;
  for (unsigned i = 0; i < order.forwards; ++i) {
    int scope = -1, target = 0;
    if (std::sscanf(service.text(kForwards + i).c_str(), "%d %d", &scope, &target) != 2)
      throw Error(Failure::usage, EINVAL, "malformed forwarded request: library and helper are of different versions");
    for (const pid_t pid : processes_in(static_cast<cr_scope_t>(scope), target))
      if (known.insert(pid).second) pids.push_back(pid);
  }
  return pids;
}

/** @return for each process the descriptors to replace by those that we have inherited. Throws Error. */
std::vector<std::map<int, int>> substitutes_of(const Service& service, const Order& order) {
  std::vector<std::map<int, int>> all(order.copies == 0 ? 1 : order.copies);
  for (unsigned i = 0; i < order.substitutes; ++i) {
    unsigned copy = 0;
    int fd = -1, with = -1;
    if (std::sscanf(service.text(2 * order.relocations + i).c_str(), "%u %d %d", &copy, &fd, &with) != 3 || copy > all.size())
      throw Error(Failure::usage, EINVAL, "malformed descriptors to replace: library and helper are of different versions");
    if (copy != 0)
      all[copy - 1][fd] = with;
    else
      for (std::map<int, int>& each : all) each[fd] = with;
  }
  return all;
}

/** @return the kept memory to give, by name: descriptors that we have inherited. Throws Error. */
std::map<std::string, int> kept_memory_of(const Service& service, const Order& order) {
  std::map<std::string, int> all;
  for (unsigned i = 0; i < order.kept; ++i) {
    const std::string text = service.text(2 * order.relocations + order.substitutes + i);
    int with = -1, name = 0;
    if (std::sscanf(text.c_str(), "%d %n", &with, &name) != 1 || name == 0)
      throw Error(Failure::usage, EINVAL, "malformed kept memory: library and helper are of different versions");
    all[text.substr(static_cast<std::size_t>(name))] = with;
  }
  return all;
}

}  // namespace

std::string image_name(const UniqueFd& fd) {
  const std::string name = name_of(fd);
  return name.empty() ? "the image" : name;
}

Outcome carry_out_checkpoint(Service& service, const Order& order) {
  const auto scope = static_cast<cr_scope_t>(order.scope);
  const Destination destination(service.image(), service.text(kImagePath));
  const std::vector<pid_t> pids =
      order.forwards != 0 ? forwarded(service, order) : processes_in(scope, order.target);
  if (pids.size() > 1 && !destination.takes_many())
    throw Error(Failure::usage, EINVAL, "for several processes cr_fd must be a directory or CR_DEST_CWD");
  const std::string parent = service.text(kParentPath), compress = service.text(kCompression);
  std::error_code ignored;
  const bool parents = std::filesystem::is_directory(parent, ignored);
  if (pids.size() > 1 && !parent.empty() && !parents)
    throw Error(Failure::usage, EINVAL, "for several processes cr_parent must be the directory with their images");
  if (pids.size() > 1) service.log("the processes are saved one after the other");
  if ((order.flags & CR_CHKPT_DUMP_ALL) != 0)
    service.log("CR_CHKPT_DUMP_*: images hold what differs from the program's files: keep the files, too");

  std::size_t saved = 0;
  for (const pid_t pid : pids) {
    if (!admit(pid, order)) continue;
    CheckpointOptions options;
    options.pid = pid;
    options.sync = (order.flags & CR_CHKPT_NO_SYNC) == 0;
    options.signal = signal_of(order);
    options.agent_timeout_ms = order.timeout_s * 1000;
    options.request_flags = flags_for_callbacks(order);
    options.requester = service.owner();
    options.told = [&service] { service.started(); };
    // A process that has begun since has no image there: it is saved whole.
    options.parent = parents ? context_in(parent, pid) : parent;
    options.delta = (order.flags & CR_CHKPT_DELTA) != 0 && !options.parent.empty();
    if (!compress.empty()) options.compression = Compression::parse(compress);
    destination.put(options);
    try {
      log_warnings(service, checkpoint(options));
      ++saved;
    } catch (const Error& error) {
      const bool omitted = error.code() == CR_EOMITTED;
      const bool ended = (scope != CR_SCOPE_PROC || order.forwards != 0) && error.code() == ESRCH;
      if (!omitted && !ended) throw;
    }
  }
  if (saved == 0 && order.forwards == 0) return {ESRCH, 0, "no process is left to be saved"};
  return {};
}

Outcome carry_out_restart(Service& service, const Order& order) {
  ProgramAsParent parent(service);
  RestartOptions options;
  options.image = image_name(service.image());
  options.image_fd = service.image().get();
  options.requester = service.owner();
  options.signal = signal_of(order);
  options.signal_first = order.signal < 0;
  options.callbacks_ms = kCallbacksMs;
  options.parent = &parent;
  options.restore.pipes_from_streams = (order.flags & CR_RSTRT_DEAD_SOCKETS) == 0;
  options.restore.trust = (order.flags & CR_RSTRT_TRUST) != 0;
  options.restore.restore_pgid = (order.flags & CR_RSTRT_RESTORE_PGID) != 0;
  options.restore.restore_sid = (order.flags & CR_RSTRT_RESTORE_SID) != 0;
  options.restore.restore_pid = (order.flags & CR_RSTRT_RESTORE_PID) != 0;
  options.restore.pid_namespace = (order.flags & CR_RSTRT_PID_NAMESPACE) != 0;
  options.restore.dead_sockets = (order.flags & CR_RSTRT_DEAD_SOCKETS) != 0;
  options.restore.rewind_files = (order.flags & CR_RSTRT_REWIND_FILES) != 0;
  options.restore.shared_memory = shared_memory(order.flags, CR_RSTRT_KEEP_SHARED, CR_RSTRT_RESTORE_SHARED);
  for (unsigned i = 0; i < order.relocations; ++i)
    options.restore.relocate.emplace_back(service.text(2 * i), service.text(2 * i + 1));
  options.restore.kept_memory = kept_memory_of(service, order);
  const std::vector<std::map<int, int>> substitutes = substitutes_of(service, order);
  if (order.copies == 0) {
    options.restore.substitute = substitutes.front();
    const Report report = restart(options);
    log_warnings(service, report);
    return {0, report.pid, {}};
  }
  const std::vector<Report> reports = restart_copies(options, substitutes, order.several != 0);
  std::set<std::string> logged;
  for (const Report& report : reports)
    for (const std::string& warning : report.warnings)
      if (logged.insert(warning).second) service.log(warning);
  return {0, reports.front().pid, {}};
}

Outcome carry_out_pause(Service& service, const Order& order) {
  PauseOptions options;
  options.pid = order.target;
  options.image = image_name(service.image());
  options.image_fd = service.image().get();
  options.requester = service.owner();
  options.signal = signal_of(order);
  options.timeout_ms = order.timeout_s * 1000;
  options.restore.rewind_files = (order.flags & CR_PAUSE_REWIND_FILES) != 0;
  options.restore.shared_memory = shared_memory(order.flags, CR_PAUSE_KEEP_SHARED, CR_PAUSE_RESTORE_SHARED);
  options.use_tracking = (order.flags & CR_PAUSE_NO_TRACKING) == 0;
  log_warnings(service, pause(options));
  return {};
}

}  // namespace reprise::api
