// SPDX-License-Identifier: GPL-2.0-only
// Growth of messages and time of a wave and a recovery with the number of nodes: crrun's real coordinator and relays,
// with simulated daemons and network. Prints CSV.
#include <cstdio>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "simulation.h"

using namespace reprise::job;

namespace {

struct Row {
  const char* what;
  double ms;
  sim::Cluster::Traffic traffic;
};

double between(const sim::Cluster& cluster, const std::string& first, const std::string& last) {
  double from = 0, to = 0;
  for (const auto& line : cluster.timeline()) {
    if (line.at("event") == first) from = line.at("t").get<double>();
    if (line.at("event") == last) to = line.at("t").get<double>();
  }
  return (to - from) / 1e6;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Simulate waves and recoveries of 10 to 10000 nodes, reached by crrun directly (star) or through others (tree).",
               "simulate"};
  std::vector<std::uint32_t> nodes{10, 30, 100, 300, 1000, 3000, 10000};
  sim::Model base;
  double gbit = 10;
  std::uint32_t fan_out = 64;
  base.message_us = 10;
  base.latency_us = 50;
  base.image_us = 100'000;
  app.add_option("--nodes", nodes, "numbers of nodes")->delimiter(',');
  app.add_option("--slots", base.slots, "ranks per node")->capture_default_str();
  app.add_option("--latency-us", base.latency_us, "latency of the network")->capture_default_str();
  app.add_option("--message-us", base.message_us, "processing time of a message, at each end")->capture_default_str();
  app.add_option("--gbit", gbit, "bandwidth of each end")->capture_default_str();
  app.add_option("--image-us", base.image_us, "time to take or restore an image, same for all ranks")->capture_default_str();
  app.add_option("--fan-out", fan_out, "fan-out of the tree")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  base.bytes_per_us = gbit * 1e9 / 8 / 1e6;

  std::printf("nodes,ranks,shape,what,ms,messages_at_crrun,bytes_at_crrun,messages,bytes\n");
  for (std::uint32_t count : nodes)
    for (const bool tree : {false, true}) {
      sim::Model model = base;
      model.nodes = count;
      model.spares = 1;
      model.ranks = count * model.slots;
      model.fan_out = tree ? fan_out : 0;
      model.fixed_times = true;
      model.output = false;
      model.leases = false;
      model.step_ms = model.work_ms = 3'600'000;
      model.settings.staging_nodes = 64;
      model.settings.lost_after_ms = 30'000;
      model.settings.start_timeout_ms = 3'600'000;
      model.settings.spec.set_heartbeat_ms(5000);
      sim::Cluster cluster(model);
      std::vector<Row> rows;
      const auto fail = [&](const char* what) {
        std::fprintf(stderr, "simulate: %u nodes: %s did not happen\n", count, what);
        return 1;
      };
      const auto wait = [&](const char* event) {
        const std::size_t before = cluster.count(event);
        return cluster.run_while([&] { return cluster.count(event) == before; }, 3'600'000);
      };
      if (!wait("launch")) return fail("the launch");
      cluster.run_until(cluster.now_ms() + 30'000);
      cluster.reset_traffic();
      cluster.coordinator().request_checkpoint(1, {cluster.now_ms() + 1000, 1'000'000'000 + cluster.now_ms() * 1'000'000});
      if (!cluster.run_while([&] { return cluster.count("wave-commit") == 0; }, 3'600'000)) return fail("the wave");
      rows.push_back({"wave", between(cluster, "wave-begin", "wave-commit"), cluster.traffic()});
      if (!cluster.run_while([&] { return cluster.count("wave-staged") == 0; }, 3'600'000)) return fail("staging");
      cluster.reset_traffic();
      cluster.kill_node(count - 1);
      if (!wait("recovery-begin")) return fail("the recovery");
      if (!wait("resume")) return fail("the resume");
      rows.push_back({"restore", between(cluster, "recovery-begin", "resume"), cluster.traffic()});
      cluster.reset_traffic();
      if (!wait("recovery-done")) return fail("the end of the recovery");
      rows.push_back({"resume", between(cluster, "resume", "recovery-done"), cluster.traffic()});
      for (const Row& row : rows)
        std::printf("%u,%u,%s,%s,%.3f,%lu,%lu,%lu,%lu\n", count, model.ranks, tree ? "tree" : "star", row.what, row.ms,
                    row.traffic.at_crrun, row.traffic.crrun_bytes, row.traffic.all, row.traffic.all_bytes);
      std::fflush(stdout);
    }
  return 0;
}
