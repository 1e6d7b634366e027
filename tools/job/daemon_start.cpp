// SPDX-License-Identifier: GPL-2.0-only
#include "job/daemon_start.h"

#include <map>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "job/names.h"

namespace reprise::job {

namespace {

nlohmann::json common_part(const DaemonStart& start) {
  return {{"job", start.job},
          {"addresses", start.addresses},
          {"boot", start.boot},
          {"server_public_key", start.server_public_key},
          {"client_public_key", start.client.public_key},
          {"client_secret_key", start.client.secret_key},
          {"log_level", start.log_level},
          {"run_directory", start.run_directory}};
}

nlohmann::json own_part(const DaemonStart& start) {
  nlohmann::json json{{"node", start.node}};
  if (start.relays) {
    json["relays"] = true;
    json["interfaces"] = start.interfaces;
  }
  return json;
}

nlohmann::json parent_part(const DaemonStart& start) {
  return {{"parent_addresses", start.parent_addresses}, {"parent_public_key", start.parent_public_key}};
}

}  // namespace

std::string daemon_start_line(const DaemonStart& start) {
  nlohmann::json json = common_part(start);
  json.update(own_part(start));
  if (!start.parent_addresses.empty()) json.update(parent_part(start));
  return json.dump();
}

std::string daemon_start_line(const std::vector<DaemonStart>& starts, const std::vector<std::string>& hosts) {
  nlohmann::json json = common_part(starts.at(0)), nodes = nlohmann::json::object(), parents = nlohmann::json::array();
  std::map<std::vector<std::string>, std::size_t> known;  // hundreds of daemons have the same parent
  for (std::size_t i = 0; i < starts.size(); ++i) {
    nlohmann::json own = own_part(starts[i]);
    if (!starts[i].parent_addresses.empty()) {
      const auto [at, fresh] = known.emplace(starts[i].parent_addresses, parents.size());
      if (fresh) parents.push_back(parent_part(starts[i]));
      own["parent"] = at->second;
    }
    nodes[hosts.at(i)] = std::move(own);
  }
  json["nodes"] = std::move(nodes);
  json["parents"] = std::move(parents);
  return json.dump();
}

DaemonStart parse_daemon_start(const std::string& line, const std::string& host) {
  try {
    nlohmann::json json = nlohmann::json::parse(line);
    if (json.contains("nodes")) {
      if (!json.at("nodes").contains(host)) throw std::runtime_error("no daemon is to run on \"" + host + "\" (SLURMD_NODENAME)");
      const nlohmann::json own = json.at("nodes").at(host);
      if (own.contains("parent")) json.update(json.at("parents").at(own.at("parent").get<std::size_t>()));
      json.update(own);
    }
    DaemonStart start;
    start.job = json.at("job");
    start.node = json.at("node");
    start.addresses = json.at("addresses").get<std::vector<std::string>>();
    start.boot = json.value("boot", "");
    start.server_public_key = json.at("server_public_key");
    start.client.public_key = json.at("client_public_key");
    start.client.secret_key = json.at("client_secret_key");
    start.log_level = json.value("log_level", start.log_level);
    start.run_directory = json.at("run_directory");
    start.relays = json.value("relays", false);
    start.interfaces = json.value("interfaces", start.interfaces);
    start.parent_addresses = json.value("parent_addresses", start.parent_addresses);
    start.parent_public_key = json.value("parent_public_key", "");
    if (!valid_job_id(start.job)) throw std::runtime_error("\"" + start.job + "\" is not a valid job id");
    // The daemon removes it with all that is in it.
    if (!start.run_directory.starts_with("/tmp/") || start.run_directory.find("/..") != std::string::npos || start.run_directory == "/tmp/")
      throw std::runtime_error("\"" + start.run_directory + "\" is not a valid directory for the daemon");
    if (start.addresses.empty()) throw std::runtime_error("the list of crrun's addresses is empty");
    for (const std::string* key : {&start.server_public_key, &start.client.public_key, &start.client.secret_key})
      if (key->size() != 40) throw std::runtime_error("a CURVE key does not have 40 characters");
    if (!start.parent_addresses.empty() && start.parent_public_key.size() != 40)
      throw std::runtime_error("the parent's CURVE key does not have 40 characters");
    return start;
  } catch (const nlohmann::json::exception& error) {
    throw std::runtime_error(std::string("what came on standard input is not what crrun sends: ") + error.what());
  }
}

}  // namespace reprise::job
