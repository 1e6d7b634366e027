// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file What tests of whole jobs in the simulation have in common. */
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
  Model model;
};

}  // namespace reprise::job::sim
