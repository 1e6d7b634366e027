// SPDX-License-Identifier: GPL-2.0-only
// Tests of daemons below another daemon: messages pass through it, and they continue without it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fstream>

#include <sys/wait.h>
#include <unistd.h>

#include "fake_crrun.h"

namespace reprise::crd::test {
namespace {

using namespace std::chrono_literals;

/** Node 0 connects to crrun, node 1 to node 0, node 2 to node 1. Each has one rank. */
class CrdTree : public ::testing::Test {
 protected:
  void start(const std::string& script) {
    for (const std::string& word : {std::string("sh"), std::string("-c"), script}) crrun.job.add_argv(word);
    crrun.job.set_ranks(3);
    for (unsigned rank = 0; rank < 3; ++rank) crrun.place(rank, rank);
    crrun.parents = {{1, 0}, {2, 1}};
    crrun.start_daemons();
    ASSERT_EQ(crrun.routes.via(1), 0u);
    ASSERT_EQ(crrun.routes.via(2), 0u);
    crrun.launch();
    ASSERT_TRUE(crrun.until([&] { return crrun.started.size() == 3; }, 20s));
  }
  char state(std::uint32_t rank) { return state_of(crrun.started.at(rank).pid()); }
  /** Whether the module has parked a rank that sleeps. */
  bool parked(std::uint32_t rank) { return test::parked(crrun.started.at(rank).pid()); }
  /** @return whether a rank was seen parked or gone within @p time */
  bool troubled(const std::vector<std::uint32_t>& ranks, std::chrono::milliseconds time) {
    return crrun.until(
        [&] {
          return std::any_of(ranks.begin(), ranks.end(), [&](std::uint32_t rank) { return parked(rank) || !state(rank); });
        },
        time);
  }
  bool direct(std::uint32_t node) {
    return crrun.until([&] { return !crrun.routes.via(node); }, 10s);
  }
  FakeCrrun crrun{3};
};

TEST_F(CrdTree, WhatIsSaidGoesThroughOthers) {
  start("trap 'echo got; exit 3' USR1; echo out; while :; do sleep 0.1; done");
  ASSERT_TRUE(crrun.until([&] { return crrun.output.size() == 3; }, 20s));
  job::Down down;
  down.mutable_signal()->set_signal(SIGUSR1);
  crrun.send(2, down);
  ASSERT_TRUE(crrun.until([&] { return crrun.exits.count(2) > 0; }, 20s));
  EXPECT_EQ(crrun.exits.size(), 1u) << "it was for node 2 alone";
  crrun.send_all(down);
  ASSERT_TRUE(crrun.wait_exits(20s));
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ((crrun.output[{rank, 1}]), "out\ngot\n");
    EXPECT_EQ(WEXITSTATUS(crrun.exits[rank]), 3);
  }
  EXPECT_TRUE(crrun.until([&] { return crrun.relayed_heartbeats[1] > 3 && crrun.relayed_heartbeats[2] > 3; }, 5s));
  EXPECT_EQ(crrun.hello_count, 3u) << "nobody had to turn to crrun itself";
  crrun.shut_down();
}

TEST_F(CrdTree, TheAnswersKeepRanksRunning) {
  start("sleep 100");
  EXPECT_FALSE(troubled({0, 1, 2}, 4s)) << "each needs one within a second and a half";
  EXPECT_EQ(crrun.hello_count, 3u);
  EXPECT_EQ(crrun.routes.via(2), 0u);
}

TEST_F(CrdTree, WithoutAnswersOfCrrunRanksStandStillWhateverTheParentSays) {
  if (::access("/dev/cr", R_OK | W_OK) != 0) GTEST_SKIP() << "the module is not loaded";
  start("sleep 100");
  crrun.answers = false;
  EXPECT_TRUE(crrun.until([&] { return parked(0) && parked(1) && parked(2); }, 10s))
      << state(0) << state(1) << state(2);
  crrun.answers = true;
  EXPECT_TRUE(crrun.until([&] { return state(0) == 'S' && state(1) == 'S' && state(2) == 'S'; }, 15s))
      << state(0) << state(1) << state(2);
}

TEST_F(CrdTree, TheDeathOfADaemonLeavesThoseBelowItRunning) {
  start("sleep 100");
  crrun.kill_daemon(0);
  EXPECT_FALSE(troubled({1, 2}, 4s));
  EXPECT_TRUE(direct(1));
  EXPECT_TRUE(direct(2));
  EXPECT_EQ(crrun.hello_count, 5u);
}

TEST_F(CrdTree, ADaemonThatIsSilentIsLeftInTime) {
  start("sleep 100");
  ::kill(crrun.daemon(1), SIGSTOP);
  EXPECT_FALSE(troubled({2}, 4s));
  EXPECT_FALSE(crrun.routes.via(2));
  EXPECT_EQ(crrun.routes.via(1), 0u);
  ::kill(crrun.daemon(1), SIGCONT);
}

TEST_F(CrdTree, NothingIsLostWithADaemon) {
  start("trap 'echo got; exit 7' USR1; echo up; while :; do sleep 0.1; done");
  ASSERT_TRUE(crrun.until([&] { return (crrun.output[{2, 1}]) == "up\n"; }, 20s));
  crrun.until([] { return false; }, 500ms);
  ::kill(crrun.daemon(1), SIGSTOP);
  // The message down does not get beyond node 1; nor does the report up that the rank has ended.
  job::Down down;
  down.mutable_signal()->set_signal(SIGUSR1);
  crrun.send(1, down);
  crrun.send(2, down);
  ASSERT_TRUE(crrun.until([&] { return crrun.exits.count(2) > 0 && crrun.ended.count({2, 1}) > 0; }, 10s));
  EXPECT_EQ(WEXITSTATUS(crrun.exits[2]), 7);
  EXPECT_EQ((crrun.output[{2, 1}]), "up\ngot\n");
  EXPECT_EQ(crrun.contradictions, 0u);
  ::kill(crrun.daemon(1), SIGKILL);
}

TEST_F(CrdTree, WhatARankDidIsToldThoughTheParentDied) {
  start("echo up; sleep 1.2; exit 7");
  unsigned told = 0;
  crrun.seen = [&](const job::Up& up) { told += up.has_rank_exited() && up.rank_exited().rank() == 2; };
  ASSERT_TRUE(crrun.until([&] { return (crrun.output[{2, 1}]) == "up\n"; }, 20s));
  // The rank ends while its daemon still waits for answers through its parent.
  crrun.until([] { return false; }, 700ms);
  ::kill(crrun.daemon(1), SIGSTOP);
  ASSERT_TRUE(crrun.until([&] { return crrun.exits.count(2) > 0; }, 10s));
  EXPECT_EQ(WEXITSTATUS(crrun.exits[2]), 7);
  EXPECT_EQ(told, 1u);
  EXPECT_FALSE(crrun.routes.via(2));
  ::kill(crrun.daemon(1), SIGKILL);
}

TEST_F(CrdTree, AnswersThatWereJoinedAreSaidAgainOneByOne) {
  start("sleep 100");
  std::map<std::uint32_t, unsigned> told;  // by node
  crrun.seen = [&](const job::Up& up) { told[up.from()] += up.has_wave_done(); };
  job::Down down;
  down.mutable_wave_begin()->set_wave(1);
  down.mutable_wave_begin()->set_timeout_ms(30000);
  crrun.hears = false;
  crrun.send_all(down);
  crrun.until([] { return false; }, 700ms);
  crrun.break_connections();
  // Whether the images can be written depends on the module.
  ASSERT_TRUE(crrun.until([&] { return crrun.wave_done.size() == 3; }, 10s));
  crrun.until([] { return false; }, 500ms);
  for (std::uint32_t node = 0; node < 3; ++node) {
    EXPECT_FALSE(crrun.routes.via(node));
    EXPECT_EQ(told[node], 1u);
  }
}

TEST_F(CrdTree, AnswersThatWereJoinedAndHeardAreNotSaidAgain) {
  start("sleep 100");
  unsigned told = 0;
  crrun.seen = [&](const job::Up& up) { told += up.has_wave_done(); };
  job::Down down;
  down.mutable_wave_begin()->set_wave(1);
  down.mutable_wave_begin()->set_timeout_ms(30000);
  crrun.send_all(down);
  ASSERT_TRUE(crrun.until([&] { return crrun.wave_done.size() == 3; }, 10s));
  crrun.until([] { return false; }, 1s);  // heartbeats confirm them
  const unsigned before = told;
  crrun.kill_daemon(0);
  EXPECT_TRUE(direct(1));
  EXPECT_TRUE(direct(2));
  crrun.until([] { return false; }, 1s);
  EXPECT_EQ(told, before);
}

TEST_F(CrdTree, TheDeathOfCrrunIsSeenByAll) {
  start("sleep 100");
  crrun.die();
  EXPECT_FALSE(troubled({0, 1, 2}, 4s));
  crrun.come_back();
  EXPECT_TRUE(crrun.until([&] { return crrun.hello_count == 6; }, 10s)) << crrun.hello_count;
  for (std::uint32_t node = 0; node < 3; ++node) {
    EXPECT_FALSE(crrun.routes.via(node));
    EXPECT_EQ(crrun.hellos[node].ranks_size(), 1);
  }
  EXPECT_FALSE(troubled({0, 1, 2}, 2s));
}

TEST_F(CrdTree, AParentThatCannotBeReachedIsDoneWithout) {
  for (const char* word : {"sleep", "100"}) crrun.job.add_argv(word);
  crrun.parents = {{1, 0}};
  crrun.start_daemon(0);
  ASSERT_TRUE(crrun.until([&] { return crrun.routes.relaying(0) != nullptr; }, 10s));
  ::kill(crrun.daemon(0), SIGSTOP);  // the kernel still accepts connections for it
  crrun.start_daemon(1);
  EXPECT_TRUE(crrun.until([&] { return crrun.hellos.count(1) > 0; }, 10s));
  EXPECT_FALSE(crrun.routes.via(1));
}

}  // namespace
}  // namespace reprise::crd::test
