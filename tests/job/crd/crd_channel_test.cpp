// SPDX-License-Identifier: GPL-2.0-only
// Tests of what daemons and crrun say again when a connection between them has broken.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

#include <sys/wait.h>

#include "fake_crrun.h"
#include "rank_channel.h"

namespace reprise::crd::test {
namespace {

using namespace std::chrono_literals;

/** Two daemons without parents, each with one rank. */
class CrdChannel : public ::testing::Test {
 protected:
  void start(const std::string& script) {
    for (const std::string& word : {std::string("sh"), std::string("-c"), script}) crrun.job.add_argv(word);
    crrun.job.set_ranks(2);
    for (unsigned rank = 0; rank < 2; ++rank) crrun.place(rank, rank);
    crrun.seen = [this](const job::Up& up) { ++told[up.what_case()]; };
    crrun.start_daemons();
    crrun.launch();
    ASSERT_TRUE(crrun.until([&] { return crrun.output[{0, 1}] == "up\n" && crrun.output[{1, 1}] == "up\n"; }, 20s));
  }
  void signal(std::uint32_t node) {
    job::Down down;
    down.mutable_signal()->set_signal(SIGUSR1);
    crrun.send(node, down);
  }
  void wait(std::chrono::milliseconds time) {
    crrun.until([] { return false; }, time);
  }
  bool connected_again() {
    return crrun.until([&] { return crrun.hello_count == 4; }, 10s);
  }
  FakeCrrun crrun{2};
  std::map<job::Up::WhatCase, unsigned> told;
};

TEST_F(CrdChannel, WhatADaemonSaidAndCrrunDidNotHearIsSaidAgainOnce) {
  start("trap 'echo bye; exit 7' USR1; echo up; while :; do sleep 0.1; done");
  crrun.hears = false;
  signal(0);
  wait(800ms);
  EXPECT_TRUE(crrun.exits.empty());
  crrun.break_connections();
  ASSERT_TRUE(crrun.until([&] { return crrun.exits.count(0) > 0 && crrun.ended.count({0, 1}) > 0; }, 10s));
  wait(500ms);
  EXPECT_EQ(told[job::Up::kRankExited], 1u);
  EXPECT_EQ(WEXITSTATUS(crrun.exits[0]), 7);
  EXPECT_EQ((crrun.output[{0, 1}]), "up\nbye\n");
  EXPECT_EQ(crrun.contradictions, 0u);
}

TEST_F(CrdChannel, WhatCrrunHasHeardIsNotSaidToItTwice) {
  start("trap 'exit 7' USR1; echo up; while :; do sleep 0.1; done");
  signal(0);
  wait(20ms);
  crrun.is_heard = false;  // so the daemon does not learn what crrun has heard
  ASSERT_TRUE(crrun.until([&] { return crrun.exits.count(0) > 0; }, 10s));
  crrun.break_connections();
  ASSERT_TRUE(connected_again());
  wait(1s);
  EXPECT_EQ(told[job::Up::kRankExited], 1u);
}

TEST_F(CrdChannel, WhatCrrunSaidAndADaemonDidNotHearIsSaidAgainOnce) {
  start("trap 'echo got' USR1; echo up; while :; do sleep 0.1; done");
  crrun.is_heard = false;
  signal(0);
  wait(400ms);
  crrun.break_connections();
  signal(1);
  ASSERT_TRUE(crrun.until([&] { return crrun.output[{0, 1}] == "up\ngot\n" && crrun.output[{1, 1}] == "up\ngot\n"; }, 10s))
      << crrun.output[{0, 1}] << crrun.output[{1, 1}];
  // What has arrived is not repeated by the next break.
  crrun.is_heard = true;
  crrun.hears = false;  // so crrun does not learn what the daemon has heard
  signal(0);
  wait(400ms);
  crrun.break_connections();
  ASSERT_TRUE(crrun.until([&] { return crrun.hello_count == 6; }, 10s));
  wait(1s);
  EXPECT_EQ((crrun.output[{0, 1}]), "up\ngot\ngot\n");
  EXPECT_EQ((crrun.output[{1, 1}]), "up\ngot\n");
}

TEST_F(CrdChannel, AnotherCrrunIsToldHowThingsStandInstead) {
  start("trap 'exit 7' USR1; echo up; while :; do sleep 0.1; done");
  crrun.hears = false;
  signal(0);
  wait(800ms);
  crrun.die();
  crrun.hears = true;
  crrun.come_back();
  ASSERT_TRUE(connected_again());
  ASSERT_TRUE(crrun.until([&] { return crrun.ended.count({0, 1}) > 0; }, 10s));
  ASSERT_EQ(crrun.hellos[0].ranks_size(), 1);
  EXPECT_TRUE(crrun.hellos[0].ranks(0).exited());
  EXPECT_EQ(WEXITSTATUS(crrun.hellos[0].ranks(0).status()), 7);
  EXPECT_EQ(told[job::Up::kRankExited], 0u);
  // And it is obeyed, though its numbers begin anew.
  signal(1);
  EXPECT_TRUE(crrun.until([&] { return crrun.exits.count(1) > 0; }, 10s));
}

// A rank says once that it needs its pinned wave no more.
TEST_F(CrdChannel, AnotherCrrunIsToldWhichRanksHaveReleasedTheirWave) {
  // The rank speaks as crtcp does: HELLO, and WAVE_REQUEST with `release`; rank 1 asks for a wave again after that.
  // The sizes are those of the header: what a message has gained at its end is 0.
  start("export HELLO=" + std::to_string(sizeof(cr_rank_hello)) +
        " REQUEST=" + std::to_string(sizeof(cr_rank_wave_request)) + " PROTOCOL=" + std::to_string(CR_RANK_PROTOCOL) +
        R"(; exec python3 -c '
import os, socket, struct, time
rank = int(os.environ["PMIX_RANK"])
daemon = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
daemon.connect(os.environ["CR_RANK_SOCKET"])
def say(kind, size, fields):
    daemon.send((struct.pack("=IIII", kind, size, rank, 0) + fields).ljust(size, bytes(1)))
say(1, int(os.environ["HELLO"]), struct.pack("=Ii", int(os.environ["PROTOCOL"]), os.getpid()))
daemon.recv(65536)
for release in [1] if rank == 0 else [1, 0]:
    say(20, int(os.environ["REQUEST"]), struct.pack("=I", release))
print("up", flush=True)
time.sleep(1000)')");
  ASSERT_TRUE(crrun.until([&] { return told[job::Up::kPinWave] == 3; }, 10s));
  std::vector<job::PinWave> again;
  crrun.die();
  crrun.seen = [&](const job::Up& up) {
    if (up.has_pin_wave()) again.push_back(up.pin_wave());
  };
  crrun.come_back();
  ASSERT_TRUE(connected_again());
  wait(1s);
  ASSERT_EQ(again.size(), 1u) << "a rank that has asked for the next wave has not released that";
  EXPECT_EQ(again[0].rank(), 0u);
  EXPECT_TRUE(again[0].release());
  crrun.seen = nullptr;
}

TEST_F(CrdChannel, AWaveAndARecoveryGoOnOverABrokenConnection) {
  start("echo up; sleep 100");
  crrun.hears = false;
  job::Down down;
  down.mutable_wave_begin()->set_wave(1);
  down.mutable_wave_begin()->set_timeout_ms(30000);
  crrun.send_all(down);
  wait(700ms);
  crrun.break_connections();
  // Whether the images can be written depends on the module.
  ASSERT_TRUE(crrun.until([&] { return crrun.wave_done.size() == 2; }, 20s));
  wait(500ms);
  EXPECT_EQ(told[job::Up::kWaveDone], 2u);
  // There are no images of wave 9: every rank is reported as not restored.
  crrun.is_heard = false;
  crrun.recovery = 1;
  job::Recover& recover = *down.mutable_recover();
  recover.set_recovery(1);
  recover.set_wave(9);
  recover.set_deadline_ms(60000);
  for (const auto& one : crrun.placement) *recover.add_placement() = one;
  crrun.send_all(down);
  wait(400ms);
  EXPECT_TRUE(crrun.restored.empty());
  crrun.break_connections();
  ASSERT_TRUE(crrun.until([&] { return crrun.restored.size() == 2; }, 20s));
  EXPECT_TRUE(crrun.restored[1].image_bad());
}

TEST_F(CrdChannel, TheFirstWelcomeAndTheLaunchMayBeLost) {
  for (const char* const word : {"echo", "up"}) crrun.job.add_argv(word);
  crrun.job.set_ranks(2);
  for (unsigned rank = 0; rank < 2; ++rank) crrun.place(rank, rank);
  crrun.seen = [this](const job::Up& up) { ++told[up.what_case()]; };
  crrun.is_heard = false;
  crrun.start_daemons();
  crrun.launch();
  wait(200ms);
  crrun.break_connections();
  ASSERT_TRUE(crrun.wait_exits(20s));
  EXPECT_EQ(told[job::Up::kRankStarted], 2u);
}

}  // namespace
}  // namespace reprise::crd::test
