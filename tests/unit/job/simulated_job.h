// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file What tests of whole jobs in the simulation have in common. */
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "simulation.h"

namespace reprise::job::sim {

class SimulatedJob : public testing::Test {
 protected:
  /** The job ends well, having said exactly what it says without failures. */
  void ends_well(Cluster& cluster) {
    ASSERT_TRUE(cluster.run()) << "it hangs, " << name(cluster.coordinator().phase());
    EXPECT_EQ(cluster.code(), 0);
    for (Rank rank = 0; rank < model.ranks; ++rank) EXPECT_EQ(cluster.output(rank), cluster.expected_output(rank));
    EXPECT_THAT(cluster.violations(), testing::IsEmpty());
  }
  /** Let @p act happen once: in a span of time, or at an event of one of these names. @param any a random number below its argument */
  template <class Any, class Act>
  static void at_random(Cluster& cluster, Any any, std::uint64_t from_ms, std::uint64_t span_ms, std::span<const char* const> moments, Act act) {
    if (any(2)) return cluster.at(from_ms + any(span_ms), act);
    cluster.when([event = moments[any(moments.size())], skip = static_cast<int>(any(3))](const nlohmann::json& line) mutable {
      return line.at("event") == event && skip-- == 0;
    }, act);
  }
  /** Whatever has happened, it ends: well, or with a clear word. @param attached whether another crrun may have forgotten output */
  void ends_clearly(Cluster& cluster, bool attached = false) {
    ASSERT_TRUE(cluster.run(1'800'000)) << "it hangs, " << name(cluster.coordinator().phase());
    EXPECT_THAT(cluster.violations(), testing::IsEmpty());
    EXPECT_TRUE(cluster.code() == 0 || cluster.said("the job is ended")) << cluster.code();
    // After waves that counted, a job that begins anew says again what was forgotten.
    if (cluster.code() != 0 || cluster.said("the job begins anew") || attached) return;
    for (Rank rank = 0; rank < model.ranks; ++rank) EXPECT_EQ(cluster.output(rank), cluster.expected_output(rank)) << rank;
  }
  Model model;
};

/** Nodes keep what others have; there is no shared storage. */
class RedundantJob : public SimulatedJob {
 protected:
  RedundantJob() {
    model.shared = false;
    model.nodes = 4;
    model.spares = 2;
    model.ranks = 8;
    model.settings.wave_interval_ms = 1000;
    set(Redundancy::PARTNER, 1);
  }
  void set(Redundancy::Kind kind, std::uint32_t count) {
    model.settings.spec.mutable_redundancy()->set_kind(kind);
    model.settings.spec.mutable_redundancy()->set_count(count);
  }
  static bool safe(Cluster& cluster) { return cluster.coordinator().store().newest_safe().has_value(); }
  /** Number of times that the job was begun anew. */
  static std::size_t begun_anew(const Cluster& cluster) {
    return static_cast<std::size_t>(std::count_if(cluster.timeline().begin(), cluster.timeline().end(), [](const nlohmann::json& line) {
      return line.at("event") == "recovery-begin" && line.at("wave") == 0;
    }));
  }
};

}  // namespace reprise::job::sim
