// SPDX-License-Identifier: GPL-2.0-only
#include "crd/environment.h"

#include <unistd.h>

#include <cstdlib>

#include "rank_channel.h"

extern char** environ;

namespace reprise::crd {
namespace {

std::vector<std::string>::iterator position(std::vector<std::string>& environment, const std::string& name) {
  const std::string head = name + "=";
  return std::find_if(environment.begin(), environment.end(), [&](const std::string& one) { return one.starts_with(head); });
}

/** Settings that ranks need; the user's own settings take precedence. */
constexpr std::pair<const char*, const char*> kDefaults[] = {
    {"OMPI_MCA_pml", "ob1"},
    {"OMPI_MCA_btl", "crtcp,self"},
    // Add all peers in MPI_Init: crtcp keeps the addresses of moved ranks for those that it knows.
    {"OMPI_MCA_mpi_add_procs_cutoff", "1000000"},
    // Memory shared between ranks cannot be restored on another node.
    {"OMPI_MCA_coll", "^sm,xhc,han,acoll,ucc,hcoll"},
    {"OMPI_MCA_osc", "^sm,ucx"},
    {"OMPI_MCA_sharedfp", "^sm"},
    // Probing POSIX shared memory leaves a descriptor of a deleted file behind.
    {"OMPI_MCA_shmem", "mmap"},
    {"OMPI_MCA_mca_base_component_path", REPRISE_COMPONENTS},
    // libpmix would also search the default path, and warn about components that it does not know.
    {"PMIX_MCA_mca_base_component_path", REPRISE_PMIX_COMPONENTS},
    {"PMIX_MCA_gds", "hash"},
};

/** Settings of a job whose program is told of failures; as Open MPI's own parameter file ft-mpi has them. */
constexpr std::pair<const char*, const char*> kTellsFailures[] = {
    {"OMPI_MCA_mpi_ft_enable", "1"},
    // The daemons see the end of every process: the ranks need not watch each other.
    {"OMPI_MCA_mpi_ft_detector", "0"},
    {"OMPI_MCA_btl_base_warn_peer_error", "0"},
    {"OMPI_MCA_opal_event_include", "epoll,poll"},
};

/** Settings on a node with more ranks than processors. */
constexpr std::pair<const char*, const char*> kCrowded[] = {
    {"OMPI_MCA_mpi_yield_when_idle", "1"},
    {"OMPI_MCA_btl_crtcp_spin", "200"},
};

}  // namespace

std::vector<std::string> own_environment() {
  std::vector<std::string> all;
  for (char** at = environ; *at; ++at) all.emplace_back(*at);
  return all;
}

const char* find_variable(const std::vector<std::string>& environment, const std::string& name) {
  auto& all = const_cast<std::vector<std::string>&>(environment);
  const auto at = position(all, name);
  return at == all.end() ? nullptr : at->c_str() + name.size() + 1;
}

void set_variable(std::vector<std::string>& environment, const std::string& name, const std::string& value) {
  const auto at = position(environment, name);
  const std::string text = name + "=" + value;
  if (at == environment.end())
    environment.push_back(text);
  else
    *at = text;
}

std::vector<std::string> rank_environment(const job::JobSpec& job, const std::vector<std::string>& pmix, const std::string& socket,
                                          bool crowded, const job::SpawnApp& program) {
  std::vector<std::string> all = own_environment();
  for (const auto* environment : {&job.environment(), &program.environment()})
    for (const auto& variable : *environment) set_variable(all, variable.name(), variable.value());
  if (job.crtcp_interfaces_size()) {
    std::string list;
    for (const std::string& one : job.crtcp_interfaces()) list += (list.empty() ? "" : ",") + one;
    set_variable(all, "OMPI_MCA_btl_crtcp_if_include", list);
  }
  for (const auto& [name, value] : kDefaults)
    if (!find_variable(all, name)) set_variable(all, name, value);
  if (job.tells_failures())
    for (const auto& [name, value] : kTellsFailures)
      if (!find_variable(all, name)) set_variable(all, name, value);
  if (crowded)
    for (const auto& [name, value] : kCrowded)
      if (!find_variable(all, name)) set_variable(all, name, value);
  for (const std::string& variable : pmix) {
    const std::size_t equal = variable.find('=');
    if (equal != std::string::npos) set_variable(all, variable.substr(0, equal), variable.substr(equal + 1));
  }
  // It answers for MPI_Comm_split_type(). Without the file every process of the rank would complain.
  if (::access(REPRISE_NODE_LIBRARY, R_OK) == 0) {
    const char* const before = find_variable(all, "LD_PRELOAD");
    set_variable(all, "LD_PRELOAD", before && *before ? REPRISE_NODE_LIBRARY ":" + std::string(before) : REPRISE_NODE_LIBRARY);
  }
  // Unconditionally: overrides what libpmix chose.
  set_variable(all, "PMIX_MCA_gds", "hash");
  set_variable(all, CR_RANK_SOCKET_VARIABLE, socket);
  return all;
}

std::uint32_t crowded_spin(const job::JobSpec& job) {
  const auto environment = rank_environment(job, {}, "", true);
  const char* const value = find_variable(environment, "OMPI_MCA_btl_crtcp_spin");
  return value ? static_cast<std::uint32_t>(std::strtoul(value, nullptr, 10)) : 0;
}

}  // namespace reprise::crd
