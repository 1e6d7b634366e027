// SPDX-License-Identifier: GPL-2.0-only
#include "crd/pmix_clients.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace reprise::crd {
namespace {

using Name = std::pair<std::string, pmix_rank_t>;

/** The state of the process's one server. */
struct {
  std::mutex lock;
  std::condition_variable changed;
  std::set<Name> connected;
} clients;

Name name_of(const pmix_proc_t& proc) { return {proc.nspace, proc.rank}; }

}  // namespace

void pmix_client_connected(const pmix_proc_t& proc) {
  const std::lock_guard hold(clients.lock);
  clients.connected.insert(name_of(proc));
}

void pmix_client_gone(const pmix_proc_t& proc) {
  const std::lock_guard hold(clients.lock);
  clients.connected.erase(name_of(proc));
  clients.changed.notify_all();
}

void await_pmix_clients_gone(const std::vector<pmix_proc_t>& procs, std::chrono::milliseconds at_most) {
  std::unique_lock hold(clients.lock);
  clients.changed.wait_for(hold, at_most, [&] {
    return std::none_of(procs.begin(), procs.end(), [](const pmix_proc_t& proc) { return clients.connected.contains(name_of(proc)); });
  });
}

}  // namespace reprise::crd
