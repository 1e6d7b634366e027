// SPDX-License-Identifier: GPL-2.0-only
// --redundancy, --failure-groups, racks of the hostfile, and what they say about what cannot work; the metrics.
#include <fstream>
#include <functional>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crrun/hosts.h"
#include "crrun/metrics_text.h"
#include "crrun/options.h"
#include "crrun/redundancy_options.h"
#include "crrun/settings_json.h"

namespace reprise::job {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string refusal(const std::function<void()>& what) {
  try {
    what();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "none";
}

TEST(RedundancyOptionsTest, KindAndNumber) {
  EXPECT_EQ(redundancy_words(parse_redundancy("partner")), "partner:1");
  EXPECT_EQ(redundancy_words(parse_redundancy("partner:2")), "partner:2");
  EXPECT_EQ(redundancy_words(parse_redundancy("xor:4")), "xor:4");
  EXPECT_EQ(redundancy_words(parse_redundancy("none")), "none");
  for (const char* bad : {"", "partner:", "partner:0", "partner:9", "partner:1x", "xor", "xor:2", "xor:65", "raid:5", "none:1", "partner:-1"})
    EXPECT_THAT(refusal([&] { parse_redundancy(bad); }), HasSubstr("use partner, partner:COPIES (1 to 8), xor:NODES (3 to 64) or none")) << bad;
}

TEST(RedundancyOptionsTest, TooFewNodesAreRefused) {
  const auto two = make_nodes(parse_hosts("a,b"), {});
  EXPECT_EQ(refusal([&] { check_redundancy(parse_redundancy("partner"), two); }), "none");
  EXPECT_EQ(refusal([&] { check_redundancy(parse_redundancy("none"), make_nodes(parse_hosts("a"), {})); }), "none");
  EXPECT_THAT(refusal([&] { check_redundancy(parse_redundancy("partner:2"), two); }), HasSubstr("needs at least 3 nodes, and the job has 2"));
}

TEST(RedundancyOptionsTest, FailureGroups) {
  const auto nodes = make_nodes(parse_hosts("a,b,c,d"), parse_hosts("e"));
  const auto groups = parse_failure_groups("# racks\nr1: a c\n\nr2: e # one\nr1: d\n", "f", nodes);
  EXPECT_EQ(groups[0], groups[2]);
  EXPECT_EQ(groups[0], groups[3]);
  EXPECT_NE(groups[0], groups[1]);
  EXPECT_NE(groups[0], groups[4]);
  EXPECT_NE(groups[1], groups[4]);
  EXPECT_THAT(refusal([&] { parse_failure_groups("r1: a\nr2: x\n", "racks", nodes); }), HasSubstr("racks:2: x is no node of this job"));
  EXPECT_THAT(refusal([&] { parse_failure_groups("r1: a\n\nr2: b a\n", "racks", nodes); }), HasSubstr("racks:3: a is in line 1 already"));
  EXPECT_THAT(refusal([&] { parse_failure_groups("a r1\n", "racks", nodes); }), HasSubstr("racks:1: a line is GROUP: NODE NODE..., not \"a\""));
}

TEST(RedundancyOptionsTest, RacksAndSwitchesOfTheHostfile) {
  const auto hosts = parse_hostfile("a slots=2 rack=r1\nb rack=r2 slots=1\nc switch=r1\nd rack=r1\nx rack=r9\n", "f");
  const auto nodes = make_nodes(parse_hosts("a,b,c"), parse_hosts("d,e"));
  const auto groups = failure_groups_of(hosts, nodes);
  ASSERT_EQ(groups.size(), 5u);
  EXPECT_EQ(groups[0], groups[3]) << "a spare may be in a rack, too";
  EXPECT_EQ(std::set<std::uint32_t>(groups.begin(), groups.end()).size(), 4u) << "a switch is no rack of the same name; e is its own group";
  EXPECT_THAT(failure_groups_of(parse_hostfile("a\nb slots=2\n", "f"), nodes), IsEmpty());
  EXPECT_THAT(refusal([&] { parse_hostfile("a\nb rack=1 switch=2\n", "f"); }), HasSubstr("f:2: rack=1 and switch=2: name one"));
  EXPECT_THAT(refusal([&] { parse_hostfile("b rack=1\nb rack=2\n", "f"); }), HasSubstr("b is in rack=1 and in rack=2"));
  EXPECT_THAT(refusal([&] { parse_hostfile("b rack=\n", "f"); }), HasSubstr("\"rack=\" is not known here"));
}

TEST(RedundancyOptionsTest, TheHostfileCountsUnlessThereAreFailureGroups) {
  const std::string hostfile = testing::TempDir() + "hosts", racks = testing::TempDir() + "racks";
  std::ofstream(hostfile) << "a slots=2 rack=1\nb slots=2 rack=1\n";
  std::ofstream(racks) << "r: a\n";
  Options options;
  options.hostfile = hostfile;
  options.program = {"true"};
  EXPECT_THAT(make_settings(options, "cr-1").failure_groups, IsEmpty());
  options.redundancy = "partner";
  EXPECT_THAT(make_settings(options, "cr-1").failure_groups, ElementsAre(2, 2));
  options.failure_groups = racks;
  EXPECT_THAT(make_settings(options, "cr-1").failure_groups, ElementsAre(2, 1));
}

TEST(RedundancyOptionsTest, ALaterCrrunKnowsTheGroups) {
  Settings settings, again;
  settings.failure_groups = {4, 4, 5};
  settings_from_json(again, settings_json(settings));
  EXPECT_THAT(again.failure_groups, ElementsAre(4, 4, 5));
}

TEST(RedundancyOptionsTest, WhatDoesNotGoTogetherIsRefused) {
  Options options;
  options.hosts = {"a:2,b:2"};
  options.program = {"true"};
  options.failure_groups = "/dev/null";
  EXPECT_THAT(refusal([&] { make_settings(options, "cr-1"); }), HasSubstr("--failure-groups is for --redundancy"));
  options.redundancy = "partner";
  EXPECT_EQ(redundancy_words(make_settings(options, "cr-1").spec.redundancy()), "partner:1");
  options.recover = "ulfm";
  EXPECT_THAT(refusal([&] { make_settings(options, "cr-1"); }), HasSubstr("does not go with --redundancy"));
}

TEST(RedundancyMetricsTest, AreThereWithRedundancyOnly) {
  Metrics metrics;
  metrics.job = "cr-1";
  metrics.newest_safe_unix_ns = 1'764'000'060'000'000'000;
  EXPECT_THAT(metrics_text(metrics), Not(HasSubstr("safe_wave")));
  metrics.redundant = true;
  metrics.tally.copied_bytes = 500;
  metrics.tally.protection.add(2'000'000'000);
  const std::string text = metrics_text(metrics);
  EXPECT_THAT(text, HasSubstr("\nreprise_newest_safe_wave_timestamp_seconds{job_id=\"cr-1\"} 1764000060\n"));
  EXPECT_THAT(text, HasSubstr("\nreprise_image_copied_bytes_total{job_id=\"cr-1\"} 500\n"));
  EXPECT_THAT(text, HasSubstr("\nreprise_wave_protection_seconds_sum{job_id=\"cr-1\"} 2\n"));
}

}  // namespace
}  // namespace reprise::job
