// SPDX-License-Identifier: GPL-2.0-only
#include "crd/pmix_upcalls.h"

#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "crd/framed.h"
#include "crd/pmix_values.h"

namespace reprise::crd {
namespace {

/** What is the process's one server. */
struct Host {
  int fd = -1;
  std::string nspace;
  std::mutex writing;  ///< guards fd: messages are written whole
  std::mutex asking;   ///< guards the fields below
  std::uint64_t last = 0;
  std::map<std::uint64_t, std::function<void(pmix_status_t, const std::string&)>> blobs;  ///< fence and modex
  std::map<std::uint64_t, std::function<void(const PmixLookupReply&)>> lookups;
};
Host host;

/** Keeps a blob alive until libpmix has done with it. */
void release(void* blob) { delete static_cast<std::string*>(blob); }

void give_blob(pmix_modex_cbfunc_t call, void* data, pmix_status_t status, const std::string& bytes) {
  auto* copy = new std::string(bytes);
  call(status, copy->empty() ? nullptr : copy->data(), copy->size(), data, release, copy);
}

std::uint64_t ask_blob(std::function<void(pmix_status_t, const std::string&)> answer) {
  const std::lock_guard lock(host.asking);
  host.blobs.emplace(++host.last, std::move(answer));
  return host.last;
}

std::uint64_t ask_lookup(std::function<void(const PmixLookupReply&)> answer) {
  const std::lock_guard lock(host.asking);
  host.lookups.emplace(++host.last, std::move(answer));
  return host.last;
}

void log(pmix_rank_t rank, const std::string& text) {
  FromPmix message;
  message.mutable_log()->set_rank(rank);
  message.mutable_log()->set_text(text);
  tell_crd(message);
}

/** Not from within the upcall: libpmix may hold a lock that its callback takes. */
void answer_later(pmix_op_cbfunc_t call, pmix_status_t status, void* cbdata) {
  if (call) std::thread(call, status, cbdata).detach();
}

/** @return false when some are of another job */
bool set_members(const pmix_proc_t* procs, std::size_t count, PmixFence& fence) {
  for (std::size_t i = 0; i < count; ++i) {
    if (host.nspace != procs[i].nspace) return false;
    if (procs[i].rank != PMIX_RANK_WILDCARD) fence.add_members(procs[i].rank);
  }
  return true;
}

pmix_status_t fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo, char* data,
                    size_t ndata, pmix_modex_cbfunc_t call, void* cbdata) {
  FromPmix message;
  PmixFence& fence = *message.mutable_fence();
  if (!set_members(procs, nprocs, fence)) return PMIX_ERR_NOT_SUPPORTED;
  for (std::size_t i = 0; i < ninfo; ++i)
    if (PMIX_CHECK_KEY(&info[i], PMIX_COLLECT_DATA)) fence.set_collect(PMIX_INFO_TRUE(&info[i]));
  fence.set_data(std::string(data ? data : "", data ? ndata : 0));
  fence.set_id(ask_blob([call, cbdata](pmix_status_t status, const std::string& bytes) { give_blob(call, cbdata, status, bytes); }));
  tell_crd(message);
  return PMIX_SUCCESS;
}

/** A collective without data: connect and disconnect. */
pmix_status_t together(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t[], size_t, pmix_op_cbfunc_t call, void* cbdata) {
  FromPmix message;
  if (!set_members(procs, nprocs, *message.mutable_fence())) return PMIX_ERR_NOT_SUPPORTED;
  message.mutable_fence()->set_id(ask_blob([call, cbdata](pmix_status_t status, const std::string&) { call(status, cbdata); }));
  tell_crd(message);
  return PMIX_SUCCESS;
}

pmix_status_t direct_modex(const pmix_proc_t* proc, const pmix_info_t[], size_t, pmix_modex_cbfunc_t call, void* cbdata) {
  if (host.nspace != proc->nspace) return PMIX_ERR_NOT_FOUND;
  FromPmix message;
  message.mutable_modex()->set_rank(proc->rank);
  message.mutable_modex()->set_id(
      ask_blob([call, cbdata](pmix_status_t status, const std::string& bytes) { give_blob(call, cbdata, status, bytes); }));
  tell_crd(message);
  return PMIX_SUCCESS;
}

pmix_status_t publish(const pmix_proc_t* proc, const pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t call, void* cbdata) {
  FromPmix message;
  PmixPublish& publish = *message.mutable_publish();
  publish.set_rank(proc->rank);
  for (std::size_t i = 0; i < ninfo; ++i) {
    if (std::strncmp(info[i].key, "pmix.", 5) == 0) continue;  // a wish about how, not what
    (*publish.mutable_values())[info[i].key] = pack_value(info[i].value);
  }
  publish.set_id(ask_lookup([call, cbdata](const PmixLookupReply& reply) { call(reply.status(), cbdata); }));
  tell_crd(message);
  return PMIX_SUCCESS;
}

pmix_status_t unpublish(const pmix_proc_t* proc, char** keys, const pmix_info_t[], size_t, pmix_op_cbfunc_t call, void* cbdata) {
  FromPmix message;
  PmixPublish& publish = *message.mutable_publish();
  publish.set_rank(proc->rank);
  publish.set_unpublish(true);
  for (; keys && *keys; ++keys) publish.add_keys(*keys);
  publish.set_id(ask_lookup([call, cbdata](const PmixLookupReply& reply) { call(reply.status(), cbdata); }));
  tell_crd(message);
  return PMIX_SUCCESS;
}

pmix_status_t lookup(const pmix_proc_t*, char** keys, const pmix_info_t info[], size_t ninfo, pmix_lookup_cbfunc_t call, void* cbdata) {
  FromPmix message;
  PmixLookup& lookup = *message.mutable_lookup();
  for (; keys && *keys; ++keys) lookup.add_keys(*keys);
  for (std::size_t i = 0; i < ninfo; ++i)
    if (PMIX_CHECK_KEY(&info[i], PMIX_WAIT)) lookup.set_wait(true);
  lookup.set_id(ask_lookup([call, cbdata](const PmixLookupReply& reply) {
    std::vector<pmix_pdata_t> found;
    const auto rank = static_cast<pmix_rank_t>(std::strtoul(reply.publisher().c_str(), nullptr, 10));
    for (const auto& [key, bytes] : reply.values()) {
      pmix_pdata_t data;
      PMIx_Pdata_construct(&data);
      if (!unpack_value(bytes, data.value)) continue;
      PMIx_Load_procid(&data.proc, host.nspace.c_str(), rank);
      PMIx_Load_key(data.key, key.c_str());
      found.push_back(data);
    }
    const pmix_status_t status = found.empty() && reply.status() == PMIX_SUCCESS ? PMIX_ERR_NOT_FOUND : reply.status();
    call(status, found.empty() ? nullptr : found.data(), found.size(), cbdata);
    for (pmix_pdata_t& data : found) PMIx_Pdata_destruct(&data);
  }));
  tell_crd(message);
  return PMIX_SUCCESS;
}

pmix_status_t abort_job(const pmix_proc_t* proc, void*, int status, const char text[], pmix_proc_t[], size_t, pmix_op_cbfunc_t call,
                        void* cbdata) {
  FromPmix message;
  message.mutable_abort()->set_rank(proc->rank);
  message.mutable_abort()->set_status(status);
  message.mutable_abort()->set_message(text ? text : "");
  tell_crd(message);
  answer_later(call, PMIX_SUCCESS, cbdata);
  return PMIX_SUCCESS;
}

pmix_status_t connected(const pmix_proc_t*, void*, pmix_info_t[], size_t, pmix_op_cbfunc_t, void*) {
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t finalized(const pmix_proc_t* proc, void*, pmix_op_cbfunc_t, void*) {
  FromPmix message;
  message.set_finalized(proc->rank);
  tell_crd(message);
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t register_events(pmix_status_t*, size_t, const pmix_info_t[], size_t, pmix_op_cbfunc_t, void*) {
  return PMIX_OPERATION_SUCCEEDED;  // events go to all
}
pmix_status_t deregister_events(pmix_status_t*, size_t, pmix_op_cbfunc_t, void*) { return PMIX_OPERATION_SUCCEEDED; }

pmix_status_t notify(pmix_status_t code, const pmix_proc_t* source, pmix_data_range_t range, pmix_info_t info[], size_t ninfo,
                     pmix_op_cbfunc_t, void*) {
  if (range == PMIX_RANGE_LOCAL || range == PMIX_RANGE_PROC_LOCAL || host.nspace != source->nspace) return PMIX_OPERATION_SUCCEEDED;
  FromPmix message;
  PmixNotice& notice = *message.mutable_notice();
  notice.set_status(code);
  notice.set_source(source->rank);
  notice.set_data(pack_infos(info, ninfo));
  tell_crd(message);
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t spawn(const pmix_proc_t* proc, const pmix_info_t[], size_t, const pmix_app_t apps[], size_t napps, pmix_spawn_cbfunc_t,
                    void*) {
  log(proc->rank, std::string("MPI_Comm_spawn of ") + (napps ? apps[0].cmd : "a program") +
                      " is refused: crrun starts no further processes in a job; start it with all its ranks");
  return PMIX_ERR_NOT_SUPPORTED;
}

void log_for(const pmix_proc_t* client, const pmix_info_t data[], size_t ndata, const pmix_info_t[], size_t, pmix_op_cbfunc_t call,
             void* cbdata) {
  bool any = false;
  for (std::size_t i = 0; i < ndata; ++i)
    if (data[i].value.type == PMIX_STRING && data[i].value.data.string) log(client->rank, data[i].value.data.string), any = true;
  answer_later(call, any ? PMIX_SUCCESS : PMIX_ERR_NOT_SUPPORTED, cbdata);
}

}  // namespace

pmix_server_module_t* pmix_upcalls(int fd, const std::string& nspace) {
  host.fd = fd;
  host.nspace = nspace;
  static pmix_server_module_t module{};
  module.client_connected2 = connected;
  module.client_finalized = finalized;
  module.abort = abort_job;
  module.fence_nb = fence;
  module.direct_modex = direct_modex;
  module.publish = publish;
  module.lookup = lookup;
  module.unpublish = unpublish;
  module.spawn = spawn;
  module.connect = together;
  module.disconnect = together;
  module.register_events = register_events;
  module.deregister_events = deregister_events;
  module.notify_event = notify;
  module.log = log_for;
  return &module;
}

void tell_crd(const FromPmix& message) {
  const std::lock_guard lock(host.writing);
  write_framed(host.fd, message);
}

static void answer_blob(std::uint64_t id, pmix_status_t status, const std::string& bytes) {
  std::unique_lock lock(host.asking);
  auto found = host.blobs.extract(id);
  lock.unlock();
  if (found) found.mapped()(status, bytes);
}

void answer_fence(const PmixFenceDone& answer) { answer_blob(answer.id(), answer.status(), answer.data()); }
void answer_modex(const PmixModexReply& answer) { answer_blob(answer.id(), answer.status(), answer.data()); }
void answer_lookup(const PmixLookupReply& answer) {
  std::unique_lock lock(host.asking);
  auto found = host.lookups.extract(answer.id());
  lock.unlock();
  if (found) found.mapped()(answer);
}

}  // namespace reprise::crd
