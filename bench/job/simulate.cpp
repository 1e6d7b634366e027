// SPDX-License-Identifier: GPL-2.0-only
// Growth of messages, time and crrun's own CPU time with the number of nodes: crrun's real coordinator, routes and encoding,
// the real relays, with simulated daemons, network and disks. Prints CSV.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "simulation.h"

using namespace reprise::job;

namespace {

struct Case {
  std::uint32_t nodes;
  bool tree;
  bool all_to_all;
};

/** What one phase has cost. */
class Phases {
 public:
  Phases(sim::Cluster& cluster, const Case& which, std::uint32_t ranks) : cluster_(cluster), case_(which), ranks_(ranks) {}
  void begin() {
    cluster_.reset_traffic();
    begun_ms_ = cluster_.now_ms();
  }
  /** Since begin(), nothing but heartbeats came. */
  void only_heartbeats() {
    beats_per_ms_ = static_cast<double>(cluster_.cpu().loop_ns) / 1e6 / static_cast<double>(cluster_.now_ms() - begun_ms_);
  }
  void end(const char* what, double ms) {
    const sim::Cluster::Traffic& sent = cluster_.traffic();
    const sim::Meter::Sum& cpu = cluster_.cpu();
    // Heartbeats come as long as something lasts; growth is without them.
    const double beats_ms = beats_per_ms_ * static_cast<double>(cluster_.now_ms() - begun_ms_);
    const double all_ms = std::max(0.001, static_cast<double>(cpu.loop_ns + cpu.disks_ns) / 1e6 - beats_ms);
    const std::string key = std::string(what) + (case_.tree ? "tree" : "star") + (case_.all_to_all ? "all" : "");
    const auto before = last_.find(key);
    const double per_rank = all_ms / ranks_;
    char growth[32] = "";
    if (before != last_.end()) std::snprintf(growth, sizeof growth, "%.2f", per_rank / before->second);
    last_[key] = per_rank;
    std::printf("%u,%u,%s,%s,%.3f,%lu,%lu,%lu,%lu,%lu,%lu,%.3f,%.3f,%.3f,%.3f,%s\n", case_.nodes, ranks_,
                case_.all_to_all ? "all-to-all" : case_.tree ? "tree" : "star", what, ms, sent.at_crrun, sent.crrun_bytes,
                sent.all, sent.all_bytes, sent.saved_bytes, sent.timeline_bytes, static_cast<double>(cpu.loop_ns) / 1e6,
                static_cast<double>(cpu.disks_ns) / 1e6, static_cast<double>(cpu.longest_ns) / 1e6, beats_ms, growth);
    std::fflush(stdout);
  }

 private:
  sim::Cluster& cluster_;
  Case case_;
  std::uint32_t ranks_;
  std::uint64_t begun_ms_ = 0;
  double beats_per_ms_ = 0;
  static inline std::map<std::string, double> last_;  ///< CPU per rank, of the next smaller size
};

double between(const sim::Cluster& cluster, const std::string& first, const std::string& last) {
  double from = 0, to = 0;
  for (const auto& line : cluster.timeline()) {
    if (line.at("event") == first) from = line.at("t").get<double>();
    if (line.at("event") == last) to = line.at("t").get<double>();
  }
  return (to - from) / 1e6;
}

/** Run one job through all phases. @return what did not happen; "" */
std::string run(const sim::Model& base, const Case& which, std::uint32_t fan_out) {
  sim::Model model = base;
  model.nodes = which.nodes;
  model.spares = 2;
  model.ranks = which.nodes * model.slots;
  model.fan_out = which.tree ? fan_out : 0;
  if (which.all_to_all) model.costs.links = model.ranks - 1;
  sim::Cluster cluster(model);
  Phases phases(cluster, which, model.ranks);
  const auto wait = [&](const char* event) {
    const std::size_t before = cluster.count(event);
    return cluster.run_while([&] { return cluster.count(event) == before; }, 100'000'000);
  };
  const auto now = [&] { return Now{cluster.now_ms() + 1000, 1'000'000'000 + cluster.now_ms() * 1'000'000}; };

  if (!wait("launch")) return "the launch";
  cluster.run_until(cluster.now_ms() + 60'000);
  phases.end("launch", 0);
  phases.begin();
  cluster.run_until(cluster.now_ms() + 30'000);
  phases.end("30 s of running", 0);
  phases.only_heartbeats();
  phases.begin();
  cluster.coordinator().request_checkpoint(1, now());
  if (!wait("wave-commit")) return "the wave";
  cluster.run_until(cluster.now_ms() + 1000);  // the state is saved
  phases.end("wave", between(cluster, "wave-begin", "wave-commit"));
  phases.begin();
  if (!wait("wave-staged")) return "staging";
  cluster.run_until(cluster.now_ms() + 1000);
  phases.end("staging", between(cluster, "wave-commit", "wave-staged"));

  const auto recover = [&](const std::string& cause) -> std::string {
    phases.begin();
    if (!wait("recovery-begin")) return "the recovery";
    if (!wait("resume")) return "the resume";
    phases.end((cause + ": restore").c_str(), between(cluster, "recovery-begin", "resume"));
    phases.begin();
    if (!wait("recovery-done")) return "the end of the recovery";
    phases.end((cause + ": resume").c_str(), between(cluster, "resume", "recovery-done"));
    return "";
  };
  cluster.kill_node(which.nodes - 1);
  if (const std::string why = recover("silent node"); !why.empty()) return why;
  if (!wait("wave-commit")) return "the wave after the recovery";
  cluster.run_until(cluster.now_ms() + 1000);
  cluster.kill_daemon(which.nodes - 2);
  return recover("killed daemon");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Simulate waves, staging and recoveries of 10 to 10000 nodes, reached by crrun directly (star) or through "
               "others (tree).",
               "simulate"};
  std::vector<std::uint32_t> nodes{10, 30, 100, 300, 1000, 3000, 10000};
  sim::Model base;
  double gbit = 10, image_mb = 64, local = 2000, to_shared = 1000, shared = 100'000, sync_ms = 2, disk = 500;
  std::uint32_t fan_out = 64, star_up_to = 1000, all_to_all = 32;
  base.slots = 64;
  base.message_us = 10;
  base.latency_us = 50;
  base.image_us = 100'000;
  base.costs.links = 26;
  base.settings.staging_nodes = 64;
  app.add_option("--nodes", nodes, "numbers of nodes")->delimiter(',');
  app.add_option("--slots", base.slots, "ranks per node")->capture_default_str();
  app.add_option("--star-up-to", star_up_to, "largest star")->capture_default_str();
  app.add_option("--all-to-all", all_to_all, "nodes of the job whose ranks are all connected with each other; 0: none")
      ->capture_default_str();
  app.add_option("--links", base.costs.links, "connections of a rank in the others")->capture_default_str();
  app.add_option("--latency-us", base.latency_us, "latency of the network")->capture_default_str();
  app.add_option("--message-us", base.message_us, "processing time of a message, at each end")->capture_default_str();
  app.add_option("--gbit", gbit, "bandwidth of each end")->capture_default_str();
  app.add_option("--image-mb", image_mb, "size of an image")->capture_default_str();
  app.add_option("--local", local, "bandwidth of a node's disk, MB/s")->capture_default_str();
  app.add_option("--to-shared", to_shared, "bandwidth between a node and shared storage, MB/s")->capture_default_str();
  app.add_option("--shared", shared, "bandwidth of shared storage, MB/s")->capture_default_str();
  app.add_option("--staging-nodes", base.settings.staging_nodes, "nodes that copy at the same time")->capture_default_str();
  app.add_option("--sync-ms", sync_ms, "time of an fsync on crrun's disk")->capture_default_str();
  app.add_option("--disk", disk, "bandwidth of crrun's disk, MB/s")->capture_default_str();
  app.add_option("--fan-out", fan_out, "fan-out of the tree")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  base.bytes_per_us = gbit * 1e9 / 8 / 1e6;
  base.image_bytes = static_cast<std::uint64_t>(image_mb * 1e6);
  base.costs.local_disk = local;
  base.costs.node_to_shared = to_shared;
  base.costs.shared = shared;
  base.costs.sync_us = static_cast<std::uint64_t>(sync_ms * 1000);
  base.costs.crrun_disk = disk;
  base.costs.measure = true;
  base.fixed_times = true;
  base.output = base.leases = false;
  base.work_ms = 0;
  base.settings.lost_after_ms = 30'000;
  base.settings.start_timeout_ms = 3'600'000;
  base.settings.spec.set_heartbeat_ms(5000);

  std::printf("nodes,ranks,shape,what,ms,messages_at_crrun,bytes_at_crrun,messages,bytes,bytes_saved,bytes_timeline,"
              "cpu_loop_ms,cpu_disks_ms,longest_turn_ms,of_it_heartbeats_ms,growth\n");
  std::vector<Case> cases;
  for (std::uint32_t count : nodes)
    for (const bool tree : {false, true})
      if (tree || count <= star_up_to) cases.push_back({count, tree, false});
  if (all_to_all) cases.push_back({all_to_all, false, true});
  for (const Case& one : cases) {
    const auto begun = std::chrono::steady_clock::now();
    const std::string missing = run(base, one, fan_out);
    if (!missing.empty()) {
      std::fprintf(stderr, "simulate: %u nodes: %s did not happen\n", one.nodes, missing.c_str());
      return 1;
    }
    std::fprintf(stderr, "simulate: %u nodes, %s: %.1f s\n", one.nodes, one.tree ? "tree" : "star",
                 std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count());
  }
  return 0;
}
