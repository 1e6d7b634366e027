// SPDX-License-Identifier: GPL-2.0-only
// A wave that the program asks for, and that all recoveries go back to: when it is taken, what goes back to it, and how it ends.
#include <gmock/gmock.h>

#include <csignal>

#include "crrun/coordinator/pin.h"
#include "simulated_job.h"

namespace reprise::job::sim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(Pin, IsWantedWhenAllHaveAskedAndEndsWhenAllHaveReleasedIt) {
  Pin pin(2);
  pin.ask(0, false, {});
  pin.ask(0, false, {});
  pin.ask(7, false, {});
  EXPECT_FALSE(pin.wanted());
  pin.begun(1);
  pin.ask(1, false, {});
  EXPECT_TRUE(pin.wanted());
  EXPECT_FALSE(pin.takes(1)) << "it had begun before";
  pin.begun(2);
  EXPECT_TRUE(pin.takes(2));
  pin.pinned(2);
  EXPECT_FALSE(pin.wanted());
  EXPECT_EQ(pin.wave(), 2u);
  EXPECT_FALSE(pin.release(1));
  EXPECT_FALSE(pin.release(1));
  EXPECT_TRUE(pin.release(0));
  EXPECT_EQ(pin.wave(), 0u);
  EXPECT_FALSE(pin.release(0));
}

TEST(Pin, IsForgottenByARecoveryUnlessThatGoesBackToIt) {
  StoredWave before, pinned;
  before.wave = 1, pinned.wave = 2, pinned.pinned = true;
  Pin pin(2);
  pin.ask(0, false, {});
  pin.rolled_back(&before);
  pin.ask(1, false, {});
  EXPECT_FALSE(pin.wanted()) << "rank 0 has to ask again";
  pin.pinned(2);
  pin.release(0);
  pin.rolled_back(&pinned);
  EXPECT_EQ(pin.wave(), 2u);
  EXPECT_FALSE(pin.release(1)) << "rank 0 is back before it has released it";
  EXPECT_TRUE(pin.release(0));
  pin.rolled_back(&pinned);
  EXPECT_EQ(pin.wave(), 2u) << "no later wave was taken";
  pin.rolled_back(nullptr);
  EXPECT_EQ(pin.wave(), 0u);
}

TEST(Pin, IsRefusedIfAllCanDoWithoutAndHaveWaitedLong) {
  Pin pin(2);
  pin.ask(0, true, {1000, 0});
  EXPECT_FALSE(pin.hopeless({50'000, 0})) << "rank 1 has not asked";
  pin.ask(1, true, {3000, 0});
  pin.ask(0, true, {4000, 0});
  EXPECT_FALSE(pin.hopeless({12'999, 0}));
  EXPECT_TRUE(pin.hopeless({13'000, 0}));
  pin.refuse();
  EXPECT_TRUE(pin.refused());
  EXPECT_FALSE(pin.hopeless({50'000, 0})) << "it is said once";
  pin.ask(0, false, {51'000, 0});
  EXPECT_FALSE(pin.refused()) << "now it is needed";
  pin.ask(1, true, {51'000, 0});
  EXPECT_FALSE(pin.hopeless({90'000, 0}));
  pin.rolled_back(nullptr);
  pin.ask(0, true, {91'000, 0});
  pin.ask(1, true, {91'000, 0});
  EXPECT_TRUE(pin.hopeless({101'000, 0}));
}

class PinnedJob : public SimulatedJob {
 protected:
  static constexpr std::uint64_t kPin = 3000;  ///< progress
  PinnedJob() {
    model.settings.wave_interval_ms = 2000;
    model.settings.start_timeout_ms = 10'000;
    model.work_ms = 20'000;
  }
  static auto is(const std::string& name) {
    return [name](const nlohmann::json& line) { return line.at("event") == name; };
  }
  /** @return the wave; 0: it was not taken */
  static WaveNumber pinned(const Cluster& cluster) {
    WaveNumber out = 0;
    for (const auto& line : cluster.timeline())
      if (line.at("event") == "wave-commit" && line.at("pinned") == true) out = line.at("wave");
    return out;
  }
  static std::size_t times_pinned(const Cluster& cluster) {
    std::size_t out = 0;
    for (const auto& line : cluster.timeline()) out += line.at("event") == "wave-commit" && line.at("pinned") == true;
    return out;
  }
  static WaveNumber newest(const Cluster& cluster) {
    WaveNumber out = 0;
    for (const auto& line : cluster.timeline())
      if (line.at("event") == "wave-commit") out = line.at("wave");
    return out;
  }
  bool until_staged(Cluster& cluster) {
    return cluster.run_while([&] { return !pinned(cluster) || !cluster.coordinator().store().find(pinned(cluster))->staged(); });
  }
};

TEST_F(PinnedJob, TakesTheWaveAtOnceAndNoLaterOne) {
  model.settings.wave_interval_ms = 0;  // nothing but the request leads to a wave
  Cluster cluster(model);
  cluster.pin(kPin, 0);
  ends_well(cluster);
  EXPECT_EQ(cluster.count("wave-commit"), 1u);
  EXPECT_EQ(pinned(cluster), 1u);
}

TEST_F(PinnedJob, TakesPeriodicWavesBeforeItAndAfterItsRelease) {
  Cluster cluster(model);
  cluster.pin(kPin, 9000);
  bool late = false;  // while it is pinned
  ASSERT_TRUE(until_staged(cluster));
  const WaveNumber wave = pinned(cluster);
  EXPECT_GE(wave, 2u);
  cluster.run_while([&] {
    late |= newest(cluster) != wave;
    return !cluster.count("wave-released");
  });
  EXPECT_FALSE(late);
  ends_well(cluster);
  EXPECT_GT(newest(cluster), wave + 2);
  EXPECT_EQ(cluster.coordinator().store().find(wave), nullptr) << "it is dropped as others are";
  EXPECT_EQ(times_pinned(cluster), 1u);
}

TEST_F(PinnedJob, GoesBackToItAgainAndAgain) {
  model.spares = 5;
  model.work_ms = 60'000;
  Cluster cluster(model);
  cluster.pin(kPin, 0);
  ASSERT_TRUE(until_staged(cluster));
  const WaveNumber wave = pinned(cluster);
  for (std::size_t lost = 1; lost <= 5; ++lost) {
    cluster.run_until(cluster.now_ms() + 4000);
    const auto node = cluster.where(2);
    ASSERT_TRUE(node);
    cluster.kill_node(*node);
    ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") < lost; }));
    EXPECT_EQ(cluster.recoveries().back().wave(), wave);
    ASSERT_EQ(cluster.resumes().size(), lost);
    EXPECT_EQ(cluster.resumes().back().pinned(), wave);
    EXPECT_THAT(cluster.resumes().back().lost(), ElementsAre(2, 3)) << "others are not lost, whoever is restarted";
  }
  ends_well(cluster);
  EXPECT_EQ(newest(cluster), wave);
  EXPECT_EQ(times_pinned(cluster), 1u);
}

/** No wave is committed that would show progress: the program has to say that it has come further. */
TEST_F(PinnedJob, ARankMayDieAgainAndAgainIfTheProgramGoesOn) {
  model.work_ms = 200'000;
  model.settings.max_restarts = 3;
  // It may say so before crrun has heard that all ranks run again.
  for (const auto& [goes_on, moment] : {std::pair{true, "recovery-done"}, {true, "resume"}, {false, "recovery-done"}}) {
    Cluster cluster(model);
    cluster.pin(kPin, 0);
    ASSERT_TRUE(until_staged(cluster));
    for (std::size_t died = 1; died <= 7; ++died) {
      cluster.run_until(cluster.now_ms() + 4000);
      cluster.kill_rank(2, SIGKILL);
      if (!cluster.run_while([&] { return cluster.count(moment) < died; })) break;
      Up up;
      up.set_from(*cluster.where(0));
      up.set_instance(cluster.coordinator().members().at(*cluster.where(0)).instance);
      up.mutable_pin_wave()->set_rank(0);
      up.mutable_pin_wave()->set_progress(true);
      up.mutable_pin_wave()->set_recovery(cluster.coordinator().recovery() - (goes_on ? 0 : 1));
      cluster.coordinator().message(up, {cluster.now_ms() + 1000, 0});
    }
    cluster.run_while([&] { return goes_on && cluster.count("recovery-done") < 7; });
    EXPECT_EQ(cluster.count("recovery-done"), goes_on ? 7u : 3u);
    if (goes_on) ends_well(cluster);
  }
}

TEST_F(PinnedJob, SaysWhichRanksAreLost) {
  model.spares = 2;
  model.work_ms = 40'000;
  Cluster cluster(model);
  cluster.pin(kPin, 0);
  ASSERT_TRUE(until_staged(cluster));
  cluster.kill_rank(5, SIGKILL);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") < 1; }));
  EXPECT_THAT(cluster.resumes().back().lost(), ElementsAre(5)) << "though it is restarted on its node";
  cluster.run_until(cluster.now_ms() + 2000);
  cluster.kill_node(0);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") < 2; }));
  EXPECT_THAT(cluster.recoveries().back().restart(), ElementsAre(0, 1)) << "rank 5 is a new process since the wave, which is paused";
  EXPECT_THAT(cluster.resumes().back().moved(), ElementsAre(0, 1, 5)) << "its connections are not those of the wave";
  EXPECT_THAT(cluster.resumes().back().lost(), ElementsAre(0, 1));
  ends_well(cluster);
}

TEST_F(PinnedJob, AddsUpWhatIsLostUntilARecoveryIsComplete) {
  model.spares = 3;
  model.work_ms = 40'000;
  model.image_us = 500'000;
  Cluster cluster(model);
  cluster.pin(kPin, 0);
  ASSERT_TRUE(until_staged(cluster));
  bool again = false;
  cluster.when(is("recovery-begin"), [&] {
    if (!std::exchange(again, true)) cluster.kill_node(1);
  });
  cluster.kill_node(0);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") < 1; }));
  EXPECT_GE(cluster.count("recovery-begin"), 2u);
  EXPECT_THAT(cluster.resumes().back().lost(), ElementsAre(0, 1, 2, 3));
  ends_well(cluster);
}

TEST_F(PinnedJob, BeginsAnewIfItIsLostBeforeItIsStaged) {
  model.shared = false;
  model.settings.wave_interval_ms = 0;
  Cluster cluster(model);
  cluster.pin(kPin, 0);
  ASSERT_TRUE(cluster.run_while([&] { return !pinned(cluster); }));
  cluster.kill_node(1);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("launch") < 2; }));
  EXPECT_EQ(cluster.saved().pinned, 0u);
  ends_well(cluster);
  EXPECT_EQ(times_pinned(cluster), 2u) << "the ranks come to it again";
}

TEST_F(PinnedJob, IsAskedForAgainAfterARecoveryToAnEarlierWave) {
  Cluster cluster(model);
  cluster.pin(kPin, 0);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("wave-staged") < 1; }));
  EXPECT_EQ(pinned(cluster), 0u);
  cluster.kill_node(1);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") < 1; }));
  EXPECT_EQ(cluster.resumes().back().pinned(), 0u);
  EXPECT_THAT(cluster.resumes().back().lost(), IsEmpty());
  ends_well(cluster);
  EXPECT_EQ(times_pinned(cluster), 1u);
}

TEST_F(PinnedJob, TriesAgainWhileItCannotBeTaken) {
  model.settings.wave_interval_ms = 0;
  Cluster cluster(model);
  cluster.pin(kPin, 0);
  cluster.local_full(1, true);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("wave-abort") < 3; }));
  EXPECT_EQ(pinned(cluster), 0u);
  EXPECT_EQ(cluster.times_said("no space left"), 1u);
  cluster.local_full(1, false);
  ends_well(cluster);
  EXPECT_EQ(times_pinned(cluster), 1u);
}

TEST_F(PinnedJob, IsDoneWithoutIfItCannotBeTaken) {
  model.work_ms = 60'000;
  Cluster cluster(model);
  cluster.pin(kPin, 0, true);
  cluster.local_full(1, true);
  ASSERT_TRUE(cluster.run_while([&] { return !cluster.count("wave-refused"); }));
  EXPECT_GE(cluster.count("wave-abort"), 3u) << "it was tried";
  EXPECT_EQ(cluster.times_said("goes on without the wave"), 1u);
  EXPECT_TRUE(cluster.saved().pin_refused);
  cluster.local_full(1, false);
  cluster.run_until(cluster.now_ms() + 20'000);
  EXPECT_EQ(newest(cluster), 0u) << "the program cannot go back to any other wave";
  cluster.kill_rank(2, SIGKILL);
  ASSERT_TRUE(cluster.run_while([&] { return !pinned(cluster); }));
  EXPECT_EQ(cluster.count("launch"), 2u) << "the program begins anew, and asks again";
  ends_well(cluster);
  EXPECT_EQ(times_pinned(cluster), 1u);
  EXPECT_EQ(cluster.count("wave-refused"), 1u);
}

TEST_F(PinnedJob, IsDoneWithoutThoughCrrunDiesMeanwhile) {
  model.work_ms = 30'000;
  for (std::uint64_t after = 0; after <= 300; after += 10) {  // some ranks may not have heard of it
    Cluster cluster(model);
    cluster.pin(kPin, 0, true);
    cluster.local_full(1, true);
    ASSERT_TRUE(cluster.run_while([&] { return !cluster.count("wave-refused"); }));
    cluster.run_until(cluster.now_ms() + after);
    cluster.break_crrun();
    ends_well(cluster);
    EXPECT_EQ(cluster.count("wave-refused"), 1u);
    EXPECT_EQ(newest(cluster), 0u);
  }
}

TEST_F(PinnedJob, IsKnownToACrrunThatAttaches) {
  model.spares = 2;
  model.work_ms = 40'000;
  Cluster cluster(model);
  cluster.pin(kPin, 30'000);
  ASSERT_TRUE(until_staged(cluster));
  const WaveNumber wave = pinned(cluster);
  EXPECT_EQ(cluster.saved().pinned, wave);
  cluster.break_crrun();
  cluster.run_until(cluster.now_ms() + 8000);
  EXPECT_EQ(newest(cluster), wave);
  cluster.kill_node(1);
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") < 1; }));
  EXPECT_EQ(cluster.recoveries().back().wave(), wave);
  EXPECT_THAT(cluster.resumes().back().lost(), ElementsAre(2, 3));
  ends_well(cluster);
  EXPECT_GT(newest(cluster), wave) << "it was released in the end";
}

TEST_F(PinnedJob, IsReleasedThoughCrrunDiesMeanwhile) {
  constexpr std::uint64_t kRelease = 10'000;
  model.work_ms = 30'000;
  for (std::uint64_t after = 0; after <= 1500; after += 50) {  // before, while and after all release it
    Cluster cluster(model);
    cluster.pin(kPin, kRelease);
    cluster.at(kRelease + after, [&] { cluster.break_crrun(); });
    ends_well(cluster);
    EXPECT_GT(newest(cluster), pinned(cluster)) << "crrun died at " << kRelease + after << " ms, and waves were never taken again";
  }
}

TEST_F(PinnedJob, IsAskedForAgainWhenCrrunIsStartedAgain) {
  model.settings.wave_interval_ms = 0;
  for (const std::uint64_t before : {1u, 30u, 60u}) {  // before, while and after all ask
    Cluster cluster(model);
    cluster.pin(kPin, 0);
    cluster.at(kPin + 700 + before, [&] { cluster.break_crrun(); });
    ends_well(cluster);
    EXPECT_EQ(times_pinned(cluster), 1u);
  }
}

TEST_F(PinnedJob, IsWhatARestartGoesBackTo) {
  model.work_ms = 30'000;
  Cluster cluster(model);
  cluster.pin(kPin, 0);
  ASSERT_TRUE(until_staged(cluster));
  const WaveNumber wave = pinned(cluster);
  cluster.run_until(cluster.now_ms() + 5000);
  cluster.restart_with({});
  ASSERT_TRUE(cluster.run_while([&] { return cluster.count("recovery-done") < 1; }));
  EXPECT_EQ(cluster.resumes().back().pinned(), wave);
  EXPECT_THAT(cluster.resumes().back().lost(), ElementsAre(0, 1, 2, 3, 4, 5));
  ASSERT_TRUE(cluster.run());
  EXPECT_EQ(cluster.code(), 0);
  EXPECT_THAT(cluster.violations(), IsEmpty());
}

TEST_F(PinnedJob, RefusesWhatNeedsALaterWaveAndSaysWhy) {
  Cluster cluster(model);
  cluster.pin(kPin, 0);
  ASSERT_TRUE(until_staged(cluster));
  const std::string reason = "all recoveries go back to wave " + std::to_string(pinned(cluster));
  cluster.coordinator().request_checkpoint(7, {cluster.now_ms() + 1000, 1});
  cluster.coordinator().request_drain(8, "node1", {cluster.now_ms() + 1000, 1});
  ASSERT_TRUE(cluster.run_while([&] { return cluster.replies().size() < 2; }, 5000));
  for (const std::uint64_t request : {7u, 8u}) {
    EXPECT_FALSE(cluster.replies().at(request).first);
    EXPECT_THAT(cluster.replies().at(request).second, HasSubstr(reason));
  }
  const nlohmann::json status = cluster.coordinator().status({cluster.now_ms() + 1000, 1});
  EXPECT_THAT(status.at("no_wave").get<std::string>(), HasSubstr(reason));
  EXPECT_FALSE(status.contains("next_wave_ms"));
  EXPECT_EQ(status.at("waves").back().at("pinned"), true);
  ends_well(cluster);
}

TEST_F(PinnedJob, LeavesWithoutAnotherWave) {
  model.settings.leave_on = {SIGUSR2};
  Cluster cluster(model);
  cluster.pin(kPin, 0);
  ASSERT_TRUE(until_staged(cluster));
  const WaveNumber wave = pinned(cluster);
  cluster.run_until(cluster.now_ms() + 3000);
  cluster.coordinator().signal(SIGUSR2, {cluster.now_ms() + 1000, 1});
  ASSERT_TRUE(cluster.run(60'000));
  EXPECT_EQ(cluster.code(), kRestartable);
  EXPECT_EQ(newest(cluster), wave);
  EXPECT_TRUE(cluster.is_staged(wave));
  EXPECT_TRUE(cluster.said("what it has computed since is lost"));
}

TEST_F(PinnedJob, SaysThatItCannotLeaveWithoutAWave) {
  model.work_ms = 200'000;
  model.settings.wall_end_unix_s = 150;  // the time of day is that of the simulation and a second
  Cluster cluster(model);
  cluster.pin(kPin, 0, true);
  cluster.local_full(1, true);
  ASSERT_TRUE(cluster.run_while([&] { return !cluster.count("wave-refused"); }));
  ASSERT_TRUE(cluster.run_while([&] { return !cluster.count("leave"); }));
  EXPECT_TRUE(cluster.said("in the batch system ends in"));
  EXPECT_TRUE(cluster.said("no last wave can be taken now"));
  EXPECT_TRUE(cluster.said("if it is ended, it begins anew"));
  EXPECT_FALSE(cluster.said("the job takes a last wave"));
  ends_well(cluster);
}

TEST_F(PinnedJob, SurvivesLossesAtAnyTime) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    model.seed = seed;
    model.spares = 4;
    model.again = seed % 3 ? 0 : 0.3;
    model.settings.wave_interval_ms = seed % 2 ? 0 : 2000;
    Cluster cluster(model);
    cluster.pin(kPin, seed % 4 ? 0 : 15'000);
    const auto some = [&] { return std::uniform_int_distribution<std::uint64_t>(500, 25'000)(cluster.random()); };
    for (int i = 0; i < 2; ++i) {
      const auto node = static_cast<NodeIndex>(std::uniform_int_distribution<>(0, 2)(cluster.random()));
      cluster.at(some(), [&, node] { cluster.kill_node(node); });
    }
    cluster.at(some(), [&] { cluster.kill_rank(4, SIGKILL); });
    if (seed % 5 == 0) cluster.at(some(), [&] { cluster.break_crrun(); });
    SCOPED_TRACE("seed " + std::to_string(seed));
    ends_well(cluster);
    EXPECT_GE(times_pinned(cluster), 1u);
    if (HasFailure()) break;
  }
}

}  // namespace
}  // namespace reprise::job::sim
