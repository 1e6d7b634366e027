// SPDX-License-Identifier: GPL-2.0-only
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <future>
#include <stdexcept>
#include <string>
#include <vector>

#include "crd/framed.h"
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

/** Call a libpmix function that tells of its end by a callback, and wait for it. */
template <class Call>
void complete(const std::string& what, Call call) {
  std::promise<pmix_status_t> promise;
  const pmix_status_t status = call(finished, &promise);
  check(status == PMIX_SUCCESS ? promise.get_future().get() : status, what);
}

/** The ranks of the job by node, as Open MPI asks for them. */
class Layout {
 public:
  explicit Layout(const PmixStart& start) : start_(start), ranks_of_(static_cast<std::size_t>(start.hosts_size())) {
    for (int rank = 0; rank < start.node_of_rank_size(); ++rank)
      ranks_of_.at(start.node_of_rank(rank)).push_back(static_cast<pmix_rank_t>(rank));
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
    const auto size = static_cast<std::uint32_t>(start_.node_of_rank_size());
    const auto here = static_cast<std::uint32_t>(local().size());
    infos.add(PMIX_JOBID, start_.nspace());
    infos.add(PMIX_UNIV_SIZE, size);
    infos.add(PMIX_JOB_SIZE, size);
    infos.add(PMIX_MAX_PROCS, size);
    infos.add(PMIX_JOB_NUM_APPS, std::uint32_t{1});
    infos.add(PMIX_LOCAL_SIZE, here);
    infos.add(PMIX_NODE_SIZE, here);
    infos.add(PMIX_NUM_NODES, nodes);
    add_map(infos, PMIX_NODE_MAP, hosts, PMIx_generate_regex);
    add_map(infos, PMIX_PROC_MAP, ranks, PMIx_generate_ppn);
    infos.add(PMIX_LOCAL_PEERS, list(local()));
    if (!local().empty()) infos.add_rank(PMIX_LOCALLDR, local().front());
    for (std::size_t node = 0; node < ranks_of_.size(); ++node)
      for (std::size_t i = 0; i < ranks_of_[node].size(); ++i) {
        const pmix_rank_t rank = ranks_of_[node][i];
        Infos of_rank;
        of_rank.add_rank(PMIX_RANK, rank);
        of_rank.add(PMIX_APPNUM, std::uint32_t{0});
        of_rank.add(PMIX_LOCAL_RANK, static_cast<std::uint16_t>(i));
        of_rank.add(PMIX_NODE_RANK, static_cast<std::uint16_t>(i));
        of_rank.add(PMIX_NODEID, number[node]);
        of_rank.add(PMIX_HOSTNAME, start_.hosts(static_cast<int>(node)));
        of_rank.add_rank(PMIX_GLOBAL_RANK, rank);
        of_rank.add_rank(PMIX_APP_RANK, rank);
        infos.add(PMIX_PROC_DATA, of_rank);
      }
  }

 private:
  static std::string list(const std::vector<pmix_rank_t>& ranks) {
    std::string text;
    for (const pmix_rank_t rank : ranks) text += (text.empty() ? "" : ",") + std::to_string(rank);
    return text;
  }
  template <class Generate>
  static void add_map(Infos& infos, const char* key, const std::string& list, Generate generate) {
    char* regex = nullptr;
    check(generate(list.c_str(), &regex), "libpmix cannot describe the nodes");
    infos.add_regex(key, regex);
    std::free(regex);
  }
  const PmixStart& start_;
  std::vector<std::vector<pmix_rank_t>> ranks_of_;  ///< by node
};

PmixRankEnvironment environment_of(const PmixStart& start, pmix_rank_t rank) {
  pmix_proc_t proc;
  PMIx_Load_procid(&proc, start.nspace().c_str(), rank);
  complete("libpmix does not take rank " + std::to_string(rank), [&](pmix_op_cbfunc_t call, void* data) {
    return PMIx_server_register_client(&proc, ::getuid(), ::getgid(), nullptr, call, data);
  });
  char** variables = nullptr;
  check(PMIx_server_setup_fork(&proc, &variables), "libpmix has no environment for rank " + std::to_string(rank));
  PmixRankEnvironment result;
  result.set_rank(rank);
  for (char** at = variables; at && *at; ++at) result.add_variables(*at);
  PMIx_Argv_free(variables);
  return result;
}

void serve_events(size_t, pmix_status_t, const pmix_proc_t*, pmix_info_t*, size_t, pmix_info_t*, size_t,
                  pmix_event_notification_cbfunc_fn_t call, void* data) {
  // A default handler: without one libpmix acts on its own when a client's connection is lost.
  if (call) call(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, data);
}

void start_server(int fd, const PmixStart& start) {
  Infos server;
  server.add(PMIX_SERVER_TMPDIR, start.directory());
  server.add(PMIX_SYSTEM_TMPDIR, start.directory());
  server.add(PMIX_HOSTNAME, start.host());
  check(PMIx_server_init(pmix_upcalls(fd, start.nspace()), server.data(), server.size()), "the PMIx server cannot start");
  PMIx_Register_event_handler(nullptr, 0, nullptr, 0, serve_events, nullptr, nullptr);
  const Layout layout(start);
  Infos job;
  layout.fill(job);
  complete("libpmix does not take the job", [&](pmix_op_cbfunc_t call, void* data) {
    return PMIx_server_register_nspace(start.nspace().c_str(), static_cast<int>(layout.local().size()), job.data(), job.size(), call, data);
  });
  FromPmix ready;
  ready.mutable_ready();
  for (const pmix_rank_t rank : layout.local()) *ready.mutable_ready()->add_ranks() = environment_of(start, rank);
  tell_crd(ready);
}

void tell_blob(pmix_status_t status, char* data, size_t size, void* rank) {
  if (status != PMIX_SUCCESS) return;
  FromPmix message;
  message.mutable_blob()->set_rank(static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(rank)));
  message.mutable_blob()->set_data(std::string(data ? data : "", data ? size : 0));
  tell_crd(message);
}

void tell_modex(const PmixStart& start) {
  for (int rank = 0; rank < start.node_of_rank_size(); ++rank) {
    if (start.node_of_rank(rank) != start.node()) continue;
    pmix_proc_t proc;
    PMIx_Load_procid(&proc, start.nspace().c_str(), static_cast<pmix_rank_t>(rank));
    PMIx_server_dmodex_request(&proc, tell_blob, reinterpret_cast<void*>(static_cast<std::uintptr_t>(rank)));
  }
}

void notice_done(pmix_status_t, void* infos) {
  auto* held = static_cast<std::pair<pmix_info_t*, std::size_t>*>(infos);
  if (held->first) PMIx_Info_free(held->first, held->second);
  delete held;
}

void pass_on(const PmixStart& start, const PmixNotice& notice) {
  pmix_proc_t source;
  PMIx_Load_procid(&source, start.nspace().c_str(), notice.source());
  auto* held = new std::pair<pmix_info_t*, std::size_t>();
  held->first = unpack_infos(notice.data(), held->second);
  const pmix_status_t status =
      PMIx_Notify_event(notice.status(), &source, PMIX_RANGE_SESSION, held->first, held->second, notice_done, held);
  if (status != PMIX_SUCCESS) notice_done(status, held);
}

}  // namespace

int run_pmix_server(int fd) {
  // The daemon ends it; signals are the daemon's.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGPIPE, SIG_IGN);
  PmixStart start;
  std::string bytes;
  ToPmix message;
  while (read_framed(fd, bytes)) {
    if (!message.ParseFromString(bytes)) return 1;
    switch (message.what_case()) {
      case ToPmix::kStart:
        start = message.start();
        try {
          start_server(fd, start);
        } catch (const std::exception& error) {
          FromPmix failed;
          failed.set_failed(error.what());
          write_framed(fd, failed);
          return 1;
        }
        break;
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
        pass_on(start, message.notice());
        break;
      case ToPmix::kTellModex:
        tell_modex(start);
        break;
      case ToPmix::kEcho: {
        FromPmix echo;
        echo.set_echo(true);
        tell_crd(echo);
        break;
      }
      case ToPmix::WHAT_NOT_SET:
        break;
    }
  }
  // No PMIx_server_finalize(): it would tell clients, which belong to another server by now.
  ::_exit(0);
}

}  // namespace reprise::crd
