// SPDX-License-Identifier: GPL-2.0-only
// Daemons that say what they never should, and states that are of no job.
#include <gmock/gmock.h>

#include <limits>
#include <variant>

#include "crrun/coordinator/coordinator.h"

namespace reprise::job {
namespace {

constexpr Now kNow{1000, 1'000'000'000};

Settings two_nodes() {
  Settings settings;
  settings.spec.set_id("cr-1");
  settings.spec.set_ranks(2);
  for (NodeIndex index : {0u, 1u}) {
    Node node;
    node.set_index(index);
    node.set_host("node" + std::to_string(index));
    node.set_slots(1);
    settings.nodes.push_back(node);
  }
  return settings;
}

Coordinator started(Coordinator::Begin begin = Coordinator::Begin::launch, std::optional<State> state = std::nullopt) {
  Coordinator out(two_nodes(), [] { return std::string(32, 'n'); }, begin, std::move(state));
  out.start(kNow);
  out.take();
  return out;
}

Up hello(NodeIndex from) {
  Up up;
  up.set_from(from);
  up.set_instance("i");
  up.mutable_hello()->set_module_loaded(true);
  return up;
}

State running() {
  State state;
  state.id = "cr-1";
  state.phase = "running";
  state.placement = {0, 1};
  state.incarnation = {0, 0};
  return state;
}

TEST(HostileDaemon, TellsOfARankBeforeTheLaunch) {
  Coordinator coordinator = started();
  coordinator.message(hello(0), kNow);
  Up exited;
  exited.set_from(0);
  exited.set_instance("i");
  exited.mutable_rank_exited()->set_rank(1);
  coordinator.message(exited, kNow);
  coordinator.message(hello(1), kNow);
  EXPECT_EQ(coordinator.phase(), Coordinator::Phase::running);
  for (const Effect& effect : coordinator.take()) EXPECT_FALSE(std::holds_alternative<Finish>(effect));
  // The end of a rank that was not started is none.
  EXPECT_EQ(coordinator.status(kNow).dump().find("\"exited\":true"), std::string::npos);
}

TEST(HostileDaemon, HasImagesOfWavesThatCannotHaveBeenBegun) {
  Coordinator coordinator = started(Coordinator::Begin::attach, running());
  Up up = hello(0);
  StoredImage& image = *up.mutable_hello()->add_images();
  image.set_wave(std::numeric_limits<WaveNumber>::max() - 1);
  coordinator.message(up, kNow);
  coordinator.message(hello(1), kNow);
  EXPECT_LT(coordinator.take().size(), 1000u);
  EXPECT_LT(coordinator.state().next_wave, 1000u);
}

TEST(HostileDaemon, WantsMoreProcessesThanAnyNodeCanHave) {
  SpawnApp app;
  app.add_argv("child");
  app.set_processes(4'000'000'000);
  EXPECT_FALSE(place_spawned({app}, {{0, 2}}, {}, {}));
}

TEST(DamagedState, NamesNodesThatTheJobDoesNotHave) {
  State state = running();
  state.placement = {0, 7};
  EXPECT_THROW(started(Coordinator::Begin::attach, state), std::runtime_error);
  state.placement.clear();
  EXPECT_THROW(started(Coordinator::Begin::attach, state), std::runtime_error);
}

TEST(DamagedState, HasNumbersThatHaveComeToAnEnd) {
  State state = running();
  state.next_wave = std::numeric_limits<WaveNumber>::max();
  EXPECT_THROW(started(Coordinator::Begin::attach, state), std::runtime_error);
  state = running();
  state.waves[5].wave = 5;
  state.waves[5].ranks.resize(2);
  EXPECT_THROW(started(Coordinator::Begin::restart, state), std::runtime_error);
}

}  // namespace
}  // namespace reprise::job
