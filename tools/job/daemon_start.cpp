// SPDX-License-Identifier: GPL-2.0-only
#include "job/daemon_start.h"

#include <stdexcept>

#include <nlohmann/json.hpp>

#include "job/names.h"

namespace reprise::job {

std::string daemon_start_line(const DaemonStart& start) {
  nlohmann::json json{{"job", start.job},
                      {"node", start.node},
                      {"addresses", start.addresses},
                      {"boot", start.boot},
                      {"server_public_key", start.server_public_key},
                      {"client_public_key", start.client.public_key},
                      {"client_secret_key", start.client.secret_key},
                      {"log_level", start.log_level},
                      {"run_directory", start.run_directory}};
  if (start.relays) {
    json["relays"] = true;
    json["interfaces"] = start.interfaces;
  }
  if (!start.parent_addresses.empty()) {
    json["parent_addresses"] = start.parent_addresses;
    json["parent_public_key"] = start.parent_public_key;
  }
  return json.dump();
}

DaemonStart parse_daemon_start(const std::string& line) {
  try {
    const nlohmann::json json = nlohmann::json::parse(line);
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
