// SPDX-License-Identifier: GPL-2.0-only
// Both ends of the channel, over connections that break at any moment: everything arrives once and in order.
#include <gmock/gmock.h>

#include <algorithm>
#include <deque>
#include <random>

#include "crrun/routes.h"
#include "job/names.h"

namespace reprise::job {
namespace {

/** crrun and daemons without parents. crrun cannot tell a daemon's new connection from its old one: their names are equal. */
class ChannelTest : public testing::TestWithParam<std::uint32_t> {
 protected:
  static constexpr NodeIndex kNodes = 3;
  struct Daemon {
    DaemonChannel channel;
    std::deque<Up> up;      ///< on their way to crrun, on the newest connection
    std::deque<Up> late;    ///< arrived on earlier connections; crrun has not read them yet
    std::deque<Down> down;  ///< on their way to the daemon
    std::uint64_t said = 0;  ///< number of messages
    bool welcomed = false;
    bool arrived() const { return !up.empty() || !late.empty(); }
  };
  static Peer peer(NodeIndex node) { return connection_name(node, "i"); }

  bool chance(unsigned percent) { return random() % 100 < percent; }
  void connect(NodeIndex node) {
    Daemon& daemon = daemons[node];
    if (!daemon.up.empty()) daemon.up.resize(random() % daemon.up.size());
    for (Up& up : std::exchange(daemon.up, {})) daemon.late.push_back(std::move(up));
    daemon.down.clear();
    daemon.channel.connected();
    Up up;
    daemon.channel.fill(*up.mutable_hello());
    put(node, std::move(up));
  }
  void put(NodeIndex node, Up up) {
    up.set_from(node);
    up.set_instance("i");
    daemons[node].up.push_back(std::move(up));
  }
  void daemon_says(NodeIndex node) {
    Up up;
    up.mutable_log()->set_text(std::to_string(++daemons[node].said));
    up.set_from(node);
    up.set_instance("i");
    if (daemons[node].channel.send(up)) put(node, std::move(up));
  }
  void beat(NodeIndex node) {
    Up up;
    daemons[node].channel.fill(*up.mutable_heartbeat());
    put(node, std::move(up));
  }
  void crrun_sends(Down down) {
    for (const Routes::Copy& copy : routes.down(std::move(down), {0, 1, 2}))
      daemons[*node_of_connection(copy.peer)].down.push_back(*copy.down);
  }
  void crrun_says(std::vector<NodeIndex> to) {
    Down down;
    down.mutable_to()->Assign(to.begin(), to.end());
    down.mutable_stdin()->set_data(std::to_string(++said));
    for (NodeIndex node = 0; node < kNodes; ++node)
      if (daemons[node].welcomed && (to.empty() || std::count(to.begin(), to.end(), node))) expected[node].push_back(said);
    crrun_sends(std::move(down));
  }
  void crrun_takes(NodeIndex node) {
    Daemon& daemon = daemons[node];
    std::deque<Up>& from = daemon.up.empty() || (!daemon.late.empty() && chance(50)) ? daemon.late : daemon.up;
    Up up = std::move(from.front());
    from.pop_front();
    if (!routes.up(peer(node), up)) return;
    Down down;
    down.add_to(node);
    if (up.has_hello()) {
      down.mutable_welcome();
      daemon.welcomed = true;
      crrun_sends(std::move(down));
    } else if (up.has_heartbeat()) {
      down.mutable_heartbeat();
      crrun_sends(std::move(down));
    } else {
      ASSERT_EQ(up.log().text(), std::to_string(++heard[node]));
    }
  }
  void daemon_takes(NodeIndex node) {
    Daemon& daemon = daemons[node];
    const Down down = std::move(daemon.down.front());
    daemon.down.pop_front();
    if (down.has_heartbeat()) return daemon.channel.confirm(down.heartbeat().seen());
    if (!daemon.channel.accept(down)) return;
    if (down.has_welcome()) {
      daemon.channel.welcome(down.welcome());
      for (const auto& up : daemon.channel.kept()) put(node, *up);
      return;
    }
    ASSERT_FALSE(expected[node].empty());
    ASSERT_EQ(down.stdin().data(), std::to_string(expected[node].front()));
    expected[node].pop_front();
  }
  void settle() {
    for (NodeIndex node = 0; node < kNodes; ++node)
      while (daemons[node].arrived() || !daemons[node].down.empty()) {
        while (daemons[node].arrived()) ASSERT_NO_FATAL_FAILURE(crrun_takes(node));
        while (!daemons[node].down.empty()) ASSERT_NO_FATAL_FAILURE(daemon_takes(node));
      }
  }

  std::mt19937 random{GetParam()};
  Routes routes{"this"};
  Daemon daemons[kNodes];
  std::uint64_t said = 0;
  std::uint64_t heard[kNodes] = {};
  std::deque<std::uint64_t> expected[kNodes];  ///< by crrun's messages that the daemon has not carried out
};

TEST_P(ChannelTest, EachMessageArrivesOnceAndInOrder) {
  for (NodeIndex node = 0; node < kNodes; ++node) connect(node);
  for (int i = 0; i < 3000; ++i) {
    const NodeIndex node = random() % kNodes;
    if (chance(2)) connect(node);
    if (chance(15)) daemon_says(node);
    if (chance(10)) beat(node);
    if (chance(5)) crrun_says({});
    if (chance(10)) crrun_says({node});
    for (int many = random() % 3; many && daemons[node].arrived(); --many) ASSERT_NO_FATAL_FAILURE(crrun_takes(node));
    for (int many = random() % 3; many && !daemons[node].down.empty(); --many) ASSERT_NO_FATAL_FAILURE(daemon_takes(node));
  }
  for (NodeIndex node = 0; node < kNodes; ++node) connect(node);
  ASSERT_NO_FATAL_FAILURE(settle());
  for (NodeIndex node = 0; node < kNodes; ++node) beat(node);
  ASSERT_NO_FATAL_FAILURE(settle());
  for (NodeIndex node = 0; node < kNodes; ++node) {
    EXPECT_GT(heard[node], 50u);
    EXPECT_EQ(heard[node], daemons[node].said);
    EXPECT_TRUE(expected[node].empty());
    EXPECT_TRUE(daemons[node].channel.kept().empty());
    EXPECT_EQ(routes.kept(node), 0u);
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, ChannelTest, testing::Range(1u, 31u));

}  // namespace
}  // namespace reprise::job
