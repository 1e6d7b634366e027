// SPDX-License-Identifier: GPL-2.0-only
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <future>
#include <stdexcept>
#include <string>
#include <vector>

#include "crd/framed.h"
#include "crd/pmix_clients.h"
#include "crd/pmix_messages.pb.h"
#include "crd/pmix_process.h"
#include "crd/pmix_upcalls.h"
#include "crd/pmix_values.h"

extern char** environ;

namespace reprise::crd {
namespace {

void check(pmix_status_t status, const std::string& what) {
  if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED)
    throw std::runtime_error(what + ": " + PMIx_Error_string(status));
}

void finished(pmix_status_t status, void* promise) { static_cast<std::promise<pmix_status_t>*>(promise)->set_value(status); }

/** Call an asynchronous libpmix function and wait for its callback. */
template <class Call>
void complete(const std::string& what, Call call) {
  std::promise<pmix_status_t> promise;
  const pmix_status_t status = call(finished, &promise);
  check(status == PMIX_SUCCESS ? promise.get_future().get() : status, what);
}

/** A namespace: the job's own, or one of spawned processes. */
struct Namespace {
  std::string name;
  std::uint32_t first = 0;  ///< number of its rank 0
  std::vector<std::uint32_t> node_of_rank, app_of_rank;
  pmix_proc_t parent{};  ///< rank PMIX_RANK_UNDEF: none
  bool served = false;   ///< its processes of this node are clients of this server
};

Namespace own_namespace(const PmixStart& start) {
  Namespace out{start.nspace(),
                0,
                {start.node_of_rank().begin(), start.node_of_rank().end()},
                {start.app_of_rank().begin(), start.app_of_rank().end()}};
  out.app_of_rank.resize(out.node_of_rank.size());
  out.parent.rank = PMIX_RANK_UNDEF;
  out.served = !start.serves_spawned();
  return out;
}

Namespace spawned_namespace(const PmixStart& start, const PmixSpawned& spawned, const PmixNames& names) {
  return {spawned.nspace(),
          spawned.first(),
          {spawned.node_of_rank().begin(), spawned.node_of_rank().end()},
          {spawned.app_of_rank().begin(), spawned.app_of_rank().end()},
          names.proc(spawned.parent()),
          start.serves_spawned()};
}

/** The ranks of a namespace by node, in the form that Open MPI asks for. */
class Layout {
 public:
  Layout(const PmixStart& start, const Namespace& space)
      : start_(start), space_(space), ranks_of_(static_cast<std::size_t>(start.hosts_size())) {
    for (std::size_t rank = 0; rank < space.node_of_rank.size(); ++rank) {
      ranks_of_.at(space.node_of_rank[rank]).push_back(static_cast<pmix_rank_t>(rank));
      const std::uint32_t app = space.app_of_rank[rank];
      if (first_of_app_.size() <= app) first_of_app_.resize(app + 1, static_cast<pmix_rank_t>(rank));
    }
  }
  const std::vector<pmix_rank_t>& local() const { return ranks_of_.at(start_.node()); }

  void fill(Infos& infos) const {
    std::string hosts, ranks;
    std::uint32_t nodes = 0;
    std::vector<std::uint32_t> number(ranks_of_.size());
    for (std::size_t node = 0; node < ranks_of_.size(); ++node) {
      if (ranks_of_[node].empty()) continue;
      number[node] = nodes;
      hosts += (nodes ? "," : "") + start_.hosts(static_cast<int>(node));
      ranks += (nodes++ ? ";" : "") + list(ranks_of_[node]);
    }
    const auto size = static_cast<std::uint32_t>(space_.node_of_rank.size());
    const auto here = static_cast<std::uint32_t>(local().size());
    infos.add(PMIX_JOBID, space_.name);
    infos.add(PMIX_UNIV_SIZE, size);
    infos.add(PMIX_JOB_SIZE, size);
    infos.add(PMIX_MAX_PROCS, size);
    infos.add(PMIX_JOB_NUM_APPS, static_cast<std::uint32_t>(first_of_app_.size()));
    infos.add(PMIX_LOCAL_SIZE, here);
    infos.add(PMIX_NODE_SIZE, here);
    infos.add(PMIX_NUM_NODES, nodes);
    add_map(infos, PMIX_NODE_MAP, hosts, PMIx_generate_regex);
    add_map(infos, PMIX_PROC_MAP, ranks, PMIx_generate_ppn);
    if (!local().empty()) {
      // An empty list crashes MPI_Comm_spawn in a rank whose node gets none of the new processes.
      infos.add(PMIX_LOCAL_PEERS, list(local()));
      infos.add_rank(PMIX_LOCALLDR, local().front());
    }
    for (std::uint32_t app = 0; app < first_of_app_.size(); ++app) {
      Infos of_app;
      of_app.add(PMIX_APPNUM, app);
      of_app.add(PMIX_APP_SIZE, size_of_app(app));
      of_app.add_rank(PMIX_APPLDR, first_of_app_[app]);
      infos.add(PMIX_APP_INFO_ARRAY, of_app);
    }
    for (std::size_t node = 0; node < ranks_of_.size(); ++node)
      for (std::size_t i = 0; i < ranks_of_[node].size(); ++i) {
        const pmix_rank_t rank = ranks_of_[node][i];
        Infos of_rank;
        of_rank.add_rank(PMIX_RANK, rank);
        const std::uint32_t app = space_.app_of_rank[rank];
        of_rank.add(PMIX_APPNUM, app);
        of_rank.add(PMIX_LOCAL_RANK, static_cast<std::uint16_t>(i));
        of_rank.add(PMIX_NODE_RANK, static_cast<std::uint16_t>(i));
        of_rank.add(PMIX_NODEID, number[node]);
        of_rank.add(PMIX_HOSTNAME, start_.hosts(static_cast<int>(node)));
        of_rank.add_rank(PMIX_GLOBAL_RANK, space_.first + rank);
        of_rank.add_rank(PMIX_APP_RANK, rank - first_of_app_[app]);
        if (space_.parent.rank != PMIX_RANK_UNDEF) of_rank.add_proc(PMIX_PARENT_ID, space_.parent);
        infos.add(PMIX_PROC_DATA, of_rank);
      }
  }

 private:
  std::uint32_t size_of_app(std::uint32_t app) const {
    return static_cast<std::uint32_t>(std::count(space_.app_of_rank.begin(), space_.app_of_rank.end(), app));
  }
  static std::string list(const std::vector<pmix_rank_t>& ranks) {
    std::string text;
    for (const pmix_rank_t rank : ranks) text += (text.empty() ? "" : ",") + std::to_string(rank);
    return text;
  }
  template <class Generate>
  static void add_map(Infos& infos, const char* key, const std::string& list, Generate generate) {
    char* regex = nullptr;
    check(generate(list.c_str(), &regex), "libpmix cannot encode the list of nodes");
    infos.add_regex(key, regex);
    std::free(regex);
  }
  const PmixStart& start_;
  const Namespace& space_;
  std::vector<std::vector<pmix_rank_t>> ranks_of_;  ///< by node
  std::vector<pmix_rank_t> first_of_app_;
};

PmixRankEnvironment environment_of(const Namespace& space, pmix_rank_t rank) {
  pmix_proc_t proc;
  PMIx_Load_procid(&proc, space.name.c_str(), rank);
  complete("libpmix does not accept rank " + std::to_string(rank), [&](pmix_op_cbfunc_t call, void* data) {
    return PMIx_server_register_client(&proc, ::getuid(), ::getgid(), nullptr, call, data);
  });
  char** variables = nullptr;
  check(PMIx_server_setup_fork(&proc, &variables), "libpmix gives no environment for rank " + std::to_string(rank));
  PmixRankEnvironment result;
  result.set_rank(space.first + rank);
  for (char** at = variables; at && *at; ++at) result.add_variables(*at);
  PMIx_Argv_free(variables);
  return result;
}

/** Register the namespace with libpmix. @return the environment variables that its clients need */
std::vector<PmixRankEnvironment> register_namespace(const PmixStart& start, const Namespace& space, PmixNames& names) {
  names.add(space.name, space.first, static_cast<std::uint32_t>(space.node_of_rank.size()));
  const Layout layout(start, space);
  Infos job;
  layout.fill(job);
  const std::vector<pmix_rank_t> clients = space.served ? layout.local() : std::vector<pmix_rank_t>{};
  complete("libpmix does not accept the job", [&](pmix_op_cbfunc_t call, void* data) {
    return PMIx_server_register_nspace(space.name.c_str(), static_cast<int>(clients.size()), job.data(), job.size(), call, data);
  });
  std::vector<PmixRankEnvironment> all;
  for (const pmix_rank_t rank : clients) all.push_back(environment_of(space, rank));
  return all;
}

void serve_events(size_t, pmix_status_t status, const pmix_proc_t* source, pmix_info_t* infos, size_t count, pmix_info_t*, size_t,
                  pmix_event_notification_cbfunc_fn_t call, void* data) {
  // A default handler is needed: without one libpmix acts on its own when a client's connection is lost.
  if (status == PMIX_ERR_LOST_CONNECTION) {
    pmix_client_gone(*source);
    // Others that were lost in the same moment.
    for (size_t i = 0; i < count; ++i)
      if (PMIX_CHECK_KEY(&infos[i], PMIX_PROCID)) pmix_client_gone(*infos[i].value.data.proc);
  }
  if (call) call(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, data);
}

void begin_server(int fd, const PmixInit& init, PmixNames& names) {
  Infos server;
  server.add(PMIX_SERVER_TMPDIR, init.directory());
  server.add(PMIX_SYSTEM_TMPDIR, init.directory());
  server.add(PMIX_HOSTNAME, init.host());
  check(PMIx_server_init(pmix_upcalls(fd, names), server.data(), server.size()), "the PMIx server cannot start");
  PMIx_Register_event_handler(nullptr, 0, nullptr, 0, serve_events, nullptr, nullptr);
}

void serve_job(const PmixStart& start, PmixNames& names) {
  FromPmix ready;
  ready.mutable_ready();
  for (PmixRankEnvironment& one : register_namespace(start, own_namespace(start), names))
    *ready.mutable_ready()->add_ranks() = std::move(one);
  for (const PmixSpawned& spawned : start.spawned())
    for (PmixRankEnvironment& one : register_namespace(start, spawned_namespace(start, spawned, names), names))
      *ready.mutable_ready()->add_ranks() = std::move(one);
  tell_crd(ready);
}

void tell_blob(pmix_status_t status, char* data, size_t size, void* rank) {
  if (status != PMIX_SUCCESS) return;
  FromPmix message;
  message.mutable_blob()->set_rank(static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(rank)));
  message.mutable_blob()->set_data(std::string(data ? data : "", data ? size : 0));
  tell_crd(message);
}

/** Send the data that the clients have put; libpmix answers for each process as soon as it has put its data. */
void tell_modex(const PmixStart& start, const Namespace& space) {
  if (!space.served) return;
  for (std::size_t rank = 0; rank < space.node_of_rank.size(); ++rank) {
    if (space.node_of_rank[rank] != start.node()) continue;
    pmix_proc_t proc;
    PMIx_Load_procid(&proc, space.name.c_str(), static_cast<pmix_rank_t>(rank));
    PMIx_server_dmodex_request(&proc, tell_blob, reinterpret_cast<void*>(static_cast<std::uintptr_t>(space.first + rank)));
  }
}

void take_spawned(const PmixStart& start, const PmixSpawned& spawned, PmixNames& names) {
  FromPmix message;
  PmixKnown& known = *message.mutable_known();
  known.set_first(spawned.first());
  try {
    const Namespace space = spawned_namespace(start, spawned, names);
    for (PmixRankEnvironment& one : register_namespace(start, space, names)) *known.add_ranks() = std::move(one);
    tell_crd(message);
    tell_modex(start, space);
  } catch (const std::exception& error) {
    known.set_error(error.what());
    tell_crd(message);
  }
}

void notice_done(pmix_status_t, void* infos) {
  auto* held = static_cast<std::pair<pmix_info_t*, std::size_t>*>(infos);
  if (held->first) PMIx_Info_free(held->first, held->second);
  delete held;
}

void pass_on(const PmixNames& names, const PmixNotice& notice) {
  const pmix_proc_t source = names.proc(notice.source());
  auto* held = new std::pair<pmix_info_t*, std::size_t>();
  held->first = unpack_infos(notice.data(), held->second);
  // The infos name the targets.
  const pmix_data_range_t range = notice.targets().empty() ? PMIX_RANGE_SESSION : PMIX_RANGE_CUSTOM;
  const pmix_status_t status = PMIx_Notify_event(notice.status(), &source, range, held->first, held->second, notice_done, held);
  if (status != PMIX_SUCCESS) notice_done(status, held);
}

/** Open MPI takes the affected process for failed when it gets one of three events, this one among them. */
void tell_failed(const PmixNames& names, const PmixFailed& message) {
  constexpr std::chrono::seconds kPatience{2};
  std::vector<pmix_proc_t> failed;
  for (const std::uint32_t rank : message.ranks()) {
    const pmix_proc_t proc = names.proc(rank);
    if (proc.rank != PMIX_RANK_UNDEF) failed.push_back(proc);
  }
  await_pmix_clients_gone(failed, kPatience);
  for (const pmix_proc_t& proc : failed) {
    auto* infos = new Infos;
    infos->add_proc(PMIX_EVENT_AFFECTED_PROC, proc);
    const pmix_status_t status = PMIx_Notify_event(
        PMIX_ERR_PROC_ABORTED_BY_SIG, &proc, PMIX_RANGE_LOCAL, infos->data(), infos->size(),
        [](pmix_status_t, void* held) { delete static_cast<Infos*>(held); }, infos);
    if (status != PMIX_SUCCESS) delete infos;
    // A collective that begins later does not wait for it.
    PMIx_server_deregister_client(&proc, nullptr, nullptr);
  }
}

}  // namespace

int run_pmix_server(int fd) {
  // The daemon ends this process; signals are for the daemon.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGPIPE, SIG_IGN);
  PmixStart start;
  PmixNames names;
  std::string bytes;
  ToPmix message;
  while (read_framed(fd, bytes)) {
    if (!message.ParseFromString(bytes)) return 1;
    try {
      if (message.has_init()) begin_server(fd, message.init(), names);
      if (message.has_start()) serve_job(start = message.start(), names);
    } catch (const std::exception& error) {
      FromPmix failed;
      failed.set_failed(error.what());
      write_framed(fd, failed);
      return 1;
    }
    switch (message.what_case()) {
      case ToPmix::kFenceDone:
        answer_fence(message.fence_done());
        break;
      case ToPmix::kModexReply:
        answer_modex(message.modex_reply());
        break;
      case ToPmix::kLookupReply:
        answer_lookup(message.lookup_reply());
        break;
      case ToPmix::kNotice:
        pass_on(names, message.notice());
        break;
      case ToPmix::kFailed:
        tell_failed(names, message.failed());
        break;
      case ToPmix::kTellModex:
        tell_modex(start, own_namespace(start));
        break;
      case ToPmix::kSpawned:
        take_spawned(start, message.spawned(), names);
        break;
      case ToPmix::kSpawnReply:
        answer_spawn(message.spawn_reply());
        break;
      case ToPmix::kEcho: {
        FromPmix echo;
        echo.set_echo(true);
        tell_crd(echo);
        break;
      }
      default:
        break;
    }
  }
  // No PMIx_server_finalize(): it would notify clients, which by now belong to another server.
  ::_exit(0);
}

}  // namespace reprise::crd
