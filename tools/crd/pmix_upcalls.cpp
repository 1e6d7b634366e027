// SPDX-License-Identifier: GPL-2.0-only
#include "crd/pmix_upcalls.h"

#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "crd/framed.h"
#include "crd/pmix_clients.h"
#include "crd/pmix_values.h"
#include "job/messages.pb.h"

namespace reprise::crd {
namespace {

/** The state of the process's one server. */
struct Host {
  int fd = -1;
  const PmixNames* names = nullptr;
  std::mutex writing;  ///< guards fd: messages are written whole
  std::mutex asking;   ///< guards the fields below
  std::uint64_t last = 0;
  std::map<std::uint64_t, std::function<void(pmix_status_t, const std::string&)>> blobs;  ///< modex requests
  std::map<std::uint64_t, std::function<void(const PmixLookupReply&)>> lookups;
  std::map<std::uint64_t, std::function<void(const PmixFenceDone&)>> fences;
  std::map<std::uint64_t, std::function<void(const PmixSpawnReply&)>> spawns;
};
Host host;

/** Free a blob when libpmix does not need it any more. */
void release(void* blob) { delete static_cast<std::string*>(blob); }

void give_blob(pmix_modex_cbfunc_t call, void* data, pmix_status_t status, const std::string& bytes) {
  auto* copy = new std::string(bytes);
  call(status, copy->empty() ? nullptr : copy->data(), copy->size(), data, release, copy);
}

/** Store @p answer in @p table of the host until the answer arrives. @return the request's number */
template <class Table, class Answer>
std::uint64_t ask(Table& table, Answer answer) {
  const std::lock_guard lock(host.asking);
  table.emplace(++host.last, std::move(answer));
  return host.last;
}

/** @return the number of a client */
std::uint32_t number_of(const pmix_proc_t& proc) { return host.names->number(proc).value_or(PMIX_RANK_UNDEF); }

void log(std::uint32_t rank, const std::string& text) {
  FromPmix message;
  message.mutable_log()->set_rank(rank);
  message.mutable_log()->set_text(text);
  tell_crd(message);
}

/** Answer from another thread: libpmix may hold a lock in the upcall that its callback takes. */
void answer_later(pmix_op_cbfunc_t call, pmix_status_t status, void* cbdata) {
  if (call) std::thread(call, status, cbdata).detach();
}

/** @return false when a process belongs to no namespace of the job */
bool set_members(const pmix_proc_t* procs, std::size_t count, PmixFence& fence) {
  const auto members = host.names->members(procs, count);
  if (members) fence.mutable_members()->Assign(members->begin(), members->end());
  return members.has_value();
}

pmix_status_t fence(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t info[], size_t ninfo, char* data,
                    size_t ndata, pmix_modex_cbfunc_t call, void* cbdata) {
  FromPmix message;
  PmixFence& fence = *message.mutable_fence();
  if (!set_members(procs, nprocs, fence)) return PMIX_ERR_NOT_FOUND;
  for (std::size_t i = 0; i < ninfo; ++i)
    if (PMIX_CHECK_KEY(&info[i], PMIX_COLLECT_DATA)) fence.set_collect(PMIX_INFO_TRUE(&info[i]));
  fence.set_data(std::string(data ? data : "", data ? ndata : 0));
  fence.set_id(ask(host.fences, [call, cbdata](const PmixFenceDone& done) { give_blob(call, cbdata, done.status(), done.data()); }));
  tell_crd(message);
  return PMIX_SUCCESS;
}

/** A collective without data: connect and disconnect. */
pmix_status_t together(const pmix_proc_t procs[], size_t nprocs, const pmix_info_t[], size_t, pmix_op_cbfunc_t call, void* cbdata) {
  FromPmix message;
  if (!set_members(procs, nprocs, *message.mutable_fence())) return PMIX_ERR_NOT_FOUND;
  message.mutable_fence()->set_whole(true);
  message.mutable_fence()->set_id(ask(host.fences, [call, cbdata](const PmixFenceDone& done) { call(done.status(), cbdata); }));
  tell_crd(message);
  return PMIX_SUCCESS;
}

void release_infos(void* infos) { delete static_cast<Infos*>(infos); }

/** A process group is constructed or destructed. */
pmix_status_t group(pmix_group_operation_t operation, char name[], const pmix_proc_t procs[], size_t nprocs,
                    const pmix_info_t directives[], size_t ndirs, pmix_info_cbfunc_t call, void* cbdata) {
  bool context = false, barrier = false, local = false;
  FromPmix message;
  PmixFence& fence = *message.mutable_fence();
  for (std::size_t i = 0; i < ndirs; ++i) {
    const pmix_info_t& one = directives[i];
    if (PMIX_CHECK_KEY(&one, PMIX_GROUP_ASSIGN_CONTEXT_ID)) context = PMIX_INFO_TRUE(&one);
    if (PMIX_CHECK_KEY(&one, PMIX_EMBED_BARRIER)) barrier = PMIX_INFO_TRUE(&one);
    if (PMIX_CHECK_KEY(&one, PMIX_GROUP_LOCAL_ONLY)) local = PMIX_INFO_TRUE(&one);
    if (PMIX_CHECK_KEY(&one, PMIX_GROUP_ENDPT_DATA)) fence.set_data(one.value.data.bo.bytes, one.value.data.bo.size);
  }
  // libpmix itself completes a group whose members are all local and which needs nothing from other nodes.
  if (local || (!context && !barrier)) return PMIX_OPERATION_SUCCEEDED;
  if (!set_members(procs, nprocs, fence)) return PMIX_ERR_NOT_FOUND;
  fence.set_group(std::string(operation == PMIX_GROUP_CONSTRUCT ? "+" : "-") + name);
  fence.set_context(context);
  fence.set_whole(operation == PMIX_GROUP_CONSTRUCT);
  std::vector<pmix_proc_t> members(procs, procs + nprocs);
  fence.set_id(ask(host.fences, [call, cbdata, members](const PmixFenceDone& done) {
    auto* infos = new Infos;
    infos->add(PMIX_GROUP_MEMBERSHIP, members);
    if (done.context()) infos->add_size(PMIX_GROUP_CONTEXT_ID, done.context());
    // libpmix expects the concatenation of the data that each server has collected from its clients.
    if (!done.data().empty()) infos->add_bytes(PMIX_GROUP_ENDPT_DATA, done.data());
    call(done.status(), infos->data(), infos->size(), cbdata, release_infos, infos);
  }));
  tell_crd(message);
  return PMIX_SUCCESS;
}

pmix_status_t direct_modex(const pmix_proc_t* proc, const pmix_info_t[], size_t, pmix_modex_cbfunc_t call, void* cbdata) {
  const auto number = host.names->number(*proc);
  if (!number) return PMIX_ERR_NOT_FOUND;
  FromPmix message;
  message.mutable_modex()->set_rank(*number);
  message.mutable_modex()->set_id(
      ask(host.blobs, [call, cbdata](pmix_status_t status, const std::string& bytes) { give_blob(call, cbdata, status, bytes); }));
  tell_crd(message);
  return PMIX_SUCCESS;
}

pmix_status_t publish(const pmix_proc_t* proc, const pmix_info_t info[], size_t ninfo, pmix_op_cbfunc_t call, void* cbdata) {
  FromPmix message;
  PmixPublish& publish = *message.mutable_publish();
  publish.set_rank(number_of(*proc));
  for (std::size_t i = 0; i < ninfo; ++i) {
    if (PMIX_CHECK_KEY(&info[i], PMIX_PERSISTENCE)) publish.set_once(info[i].value.data.persist == PMIX_PERSIST_FIRST_READ);
    if (std::strncmp(info[i].key, "pmix.", 5) == 0) continue;  // a directive, not data
    (*publish.mutable_values())[info[i].key] = pack_value(info[i].value);
  }
  publish.set_id(ask(host.lookups, [call, cbdata](const PmixLookupReply& reply) { call(reply.status(), cbdata); }));
  tell_crd(message);
  return PMIX_SUCCESS;
}

pmix_status_t unpublish(const pmix_proc_t* proc, char** keys, const pmix_info_t[], size_t, pmix_op_cbfunc_t call, void* cbdata) {
  FromPmix message;
  PmixPublish& publish = *message.mutable_publish();
  publish.set_rank(number_of(*proc));
  publish.set_unpublish(true);
  for (; keys && *keys; ++keys) publish.add_keys(*keys);
  publish.set_id(ask(host.lookups, [call, cbdata](const PmixLookupReply& reply) { call(reply.status(), cbdata); }));
  tell_crd(message);
  return PMIX_SUCCESS;
}

pmix_status_t lookup(const pmix_proc_t*, char** keys, const pmix_info_t info[], size_t ninfo, pmix_lookup_cbfunc_t call, void* cbdata) {
  FromPmix message;
  PmixLookup& lookup = *message.mutable_lookup();
  for (; keys && *keys; ++keys) lookup.add_keys(*keys);
  for (std::size_t i = 0; i < ninfo; ++i)
    if (PMIX_CHECK_KEY(&info[i], PMIX_WAIT)) lookup.set_wait(true);
  lookup.set_id(ask(host.lookups, [call, cbdata](const PmixLookupReply& reply) {
    std::vector<pmix_pdata_t> found;
    const auto number = static_cast<std::uint32_t>(std::strtoul(reply.publisher().c_str(), nullptr, 10));
    for (const auto& [key, bytes] : reply.values()) {
      pmix_pdata_t data;
      PMIx_Pdata_construct(&data);
      if (!unpack_value(bytes, data.value)) continue;
      data.proc = host.names->proc(number);
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
  message.mutable_abort()->set_rank(number_of(*proc));
  message.mutable_abort()->set_status(status);
  message.mutable_abort()->set_message(text ? text : "");
  tell_crd(message);
  answer_later(call, PMIX_SUCCESS, cbdata);
  return PMIX_SUCCESS;
}

pmix_status_t connected(const pmix_proc_t* proc, void*, pmix_info_t[], size_t, pmix_op_cbfunc_t, void*) {
  pmix_client_connected(*proc);
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t finalized(const pmix_proc_t* proc, void*, pmix_op_cbfunc_t, void*) {
  pmix_client_gone(*proc);  // libpmix does not tell of the end of its connection
  FromPmix message;
  message.set_finalized(number_of(*proc));
  tell_crd(message);
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t register_events(pmix_status_t*, size_t, const pmix_info_t[], size_t, pmix_op_cbfunc_t, void*) {
  return PMIX_OPERATION_SUCCEEDED;  // events go to all
}
pmix_status_t deregister_events(pmix_status_t*, size_t, pmix_op_cbfunc_t, void*) { return PMIX_OPERATION_SUCCEEDED; }

pmix_status_t notify(pmix_status_t code, const pmix_proc_t* source, pmix_data_range_t range, pmix_info_t info[], size_t ninfo,
                     pmix_op_cbfunc_t, void*) {
  if (range == PMIX_RANGE_LOCAL || range == PMIX_RANGE_PROC_LOCAL || !host.names->number(*source)) return PMIX_OPERATION_SUCCEEDED;
  FromPmix message;
  PmixNotice& notice = *message.mutable_notice();
  notice.set_status(code);
  notice.set_source(number_of(*source));
  notice.set_data(pack_infos(info, ninfo));
  for (std::size_t i = 0; i < ninfo; ++i) {
    if (!PMIX_CHECK_KEY(&info[i], PMIX_EVENT_CUSTOM_RANGE)) continue;
    const pmix_value_t& value = info[i].value;
    const bool one = value.type == PMIX_PROC;
    if (!one && (value.type != PMIX_DATA_ARRAY || value.data.darray->type != PMIX_PROC)) continue;
    auto targets = host.names->members(one ? value.data.proc : static_cast<const pmix_proc_t*>(value.data.darray->array),
                                       one ? 1 : value.data.darray->size);
    if (targets) notice.mutable_targets()->Assign(targets->begin(), targets->end());
  }
  tell_crd(message);
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t spawn(const pmix_proc_t* proc, const pmix_info_t job[], size_t njob, const pmix_app_t apps[], size_t napps,
                    pmix_spawn_cbfunc_t call, void* cbdata) {
  FromPmix message;
  PmixSpawn& spawn = *message.mutable_spawn();
  spawn.set_rank(number_of(*proc));
  for (std::size_t i = 0; i < napps; ++i) {
    const pmix_app_t& app = apps[i];
    job::SpawnApp out;
    for (char** word = app.argv; word && *word; ++word) out.add_argv(*word);
    if (app.cmd) out.set_program(app.cmd);
    if (out.argv().empty()) out.add_argv(out.program());
    for (char** variable = app.env; variable && *variable; ++variable) {
      const std::string text = *variable;
      const std::size_t equal = text.find('=');
      if (equal == std::string::npos) continue;
      out.add_environment()->set_name(text.substr(0, equal));
      out.mutable_environment()->rbegin()->set_value(text.substr(equal + 1));
    }
    if (app.cwd) out.set_working_directory(app.cwd);
    out.set_processes(app.maxprocs > 0 ? static_cast<std::uint32_t>(app.maxprocs) : 0);
    const auto wishes = [&](const pmix_info_t* infos, std::size_t count) {
      for (std::size_t k = 0; k < count; ++k) {
        if (infos[k].value.type != PMIX_STRING || !infos[k].value.data.string) continue;
        if (PMIX_CHECK_KEY(&infos[k], PMIX_WDIR)) out.set_working_directory(infos[k].value.data.string);
        if (PMIX_CHECK_KEY(&infos[k], PMIX_HOST)) out.set_hosts(infos[k].value.data.string);
      }
    };
    wishes(job, njob);
    wishes(app.info, app.ninfo);
    spawn.add_apps(out.SerializeAsString());
  }
  spawn.set_id(ask(host.spawns, [call, cbdata](const PmixSpawnReply& reply) {
    std::string nspace = reply.nspace();
    call(reply.status(), nspace.empty() ? nullptr : nspace.data(), cbdata);
  }));
  tell_crd(message);
  return PMIX_SUCCESS;
}

void log_for(const pmix_proc_t* client, const pmix_info_t data[], size_t ndata, const pmix_info_t[], size_t, pmix_op_cbfunc_t call,
             void* cbdata) {
  bool any = false;
  for (std::size_t i = 0; i < ndata; ++i)
    if (data[i].value.type == PMIX_STRING && data[i].value.data.string) log(number_of(*client), data[i].value.data.string), any = true;
  answer_later(call, any ? PMIX_SUCCESS : PMIX_ERR_NOT_SUPPORTED, cbdata);
}

}  // namespace

pmix_server_module_t* pmix_upcalls(int fd, const PmixNames& names) {
  host.fd = fd;
  host.names = &names;
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
  module.group = group;
  return &module;
}

void tell_crd(const FromPmix& message) {
  const std::lock_guard lock(host.writing);
  write_framed(host.fd, message);
}

/** Pass the answer to the function that waits for it, once. */
template <class Table, class... Answer>
static void answer(Table& table, std::uint64_t id, const Answer&... what) {
  std::unique_lock lock(host.asking);
  auto found = table.extract(id);
  lock.unlock();
  if (found) found.mapped()(what...);
}

void answer_fence(const PmixFenceDone& said) { answer(host.fences, said.id(), said); }
void answer_modex(const PmixModexReply& said) { answer(host.blobs, said.id(), said.status(), said.data()); }
void answer_lookup(const PmixLookupReply& said) { answer(host.lookups, said.id(), said); }
void answer_spawn(const PmixSpawnReply& said) { answer(host.spawns, said.id(), said); }

}  // namespace reprise::crd
