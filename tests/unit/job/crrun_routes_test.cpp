// SPDX-License-Identifier: GPL-2.0-only
// By which connection a node is reached, and what is sent again when it has lost the one through others.
#include <gmock/gmock.h>

#include "crrun/routes.h"
#include "job/names.h"

namespace reprise::job {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class RoutesTest : public testing::Test {
 protected:
  static Peer peer(NodeIndex node, const std::string& instance = "i") { return connection_name(node, instance); }
  static Up message(NodeIndex from, const std::string& instance = "i") {
    Up up;
    up.set_from(from);
    up.set_instance(instance);
    up.mutable_log()->set_text("text");
    return up;
  }
  static Up hello(NodeIndex from, std::uint64_t seen = 0, const std::string& instance = "i") {
    Up up = message(from, instance);
    up.mutable_hello()->set_seen(seen);
    return up;
  }
  bool up(const Peer& by, Up up) { return routes.up(by, up); }
  /** "to:sequence" for each that goes out. */
  std::vector<std::string> down(Down message, const std::vector<NodeIndex>& living = {}) {
    message.set_sequence(++sequence);
    std::vector<std::string> out;
    for (const Routes::Copy& copy : routes.down(std::move(message), living))
      out.push_back(std::to_string(*node_of_connection(copy.peer)) + ":" + std::to_string(copy.down->sequence()));
    return out;
  }
  static Down wave() {
    Down out;
    out.mutable_wave_begin();
    return out;
  }
  static Down to(NodeIndex node) {
    Down out;
    out.add_to(node);
    out.mutable_stdin();
    return out;
  }
  static Down welcome(NodeIndex node, bool stale = false) {
    Down out;
    out.add_to(node);
    out.mutable_welcome()->set_stale(stale);
    return out;
  }
  static Down answer(NodeIndex node) {
    Down out;
    out.add_to(node);
    out.mutable_heartbeat();
    return out;
  }
  /** Node 0 is connected, 1 and 2 are below it. */
  void tree() {
    ASSERT_TRUE(up(peer(0), hello(0)));
    ASSERT_TRUE(up(peer(0), hello(1)));
    ASSERT_TRUE(up(peer(0), hello(2)));
  }
  void beat(NodeIndex node, std::uint64_t seen) {
    Up up = message(0);
    RelayedBeat& below = *up.mutable_heartbeat()->add_below();
    below.set_node(node);
    below.set_instance("i");
    below.set_seen(seen);
    ASSERT_TRUE(routes.up(peer(0), up));
    EXPECT_EQ(up.heartbeat().below_size(), 1);
  }

  Routes routes;
  std::uint64_t sequence = 0;
};

TEST_F(RoutesTest, AStarIsSentEachMessageOnceAndKeepsNothing) {
  for (NodeIndex node : {0u, 1u}) ASSERT_TRUE(up(peer(node), hello(node)));
  EXPECT_THAT(down(wave(), {0, 1}), ElementsAre("0:1", "1:1"));
  EXPECT_THAT(down(to(1)), ElementsAre("1:2"));
  EXPECT_THAT(down(to(5)), IsEmpty());
  EXPECT_EQ(routes.kept(), 0u);
  EXPECT_FALSE(routes.via(1));
}

TEST_F(RoutesTest, OneCopyGoesToABranch) {
  tree();
  EXPECT_EQ(routes.via(1), 0u);
  EXPECT_FALSE(routes.via(0));
  EXPECT_THAT(down(wave(), {0, 1, 2}), ElementsAre("0:1"));
  EXPECT_THAT(down(to(2)), ElementsAre("0:2"));
  EXPECT_TRUE(up(peer(0), message(2)));
  EXPECT_FALSE(up(peer(0), message(2, "other"))) << "it is not that process which has said Hello";
  EXPECT_FALSE(up(peer(3), message(2))) << "its way is another one";
}

TEST_F(RoutesTest, WhatWasLostOnTheWayIsSentAgainAfterTheWelcome) {
  tree();
  down(wave(), {0, 1, 2});  // 1
  down(to(1));              // 2
  down(to(2));              // 3
  beat(1, 1);
  EXPECT_TRUE(routes.closed(peer(0)));
  EXPECT_THAT(down(wave(), {0, 1, 2}), ElementsAre("0:4")) << "what is below is not there";
  ASSERT_TRUE(up(peer(1), hello(1, 1)));
  EXPECT_FALSE(routes.via(1));
  EXPECT_THAT(down(to(1)), IsEmpty()) << "it is not its turn yet";  // 5
  EXPECT_THAT(down(answer(1)), ElementsAre("1:6"));
  EXPECT_THAT(down(welcome(1)), ElementsAre("1:7", "1:2", "1:4", "1:5"));
  EXPECT_THAT(down(to(1)), ElementsAre("1:8"));
  // Of the other one, which is still without a way, all is kept.
  ASSERT_TRUE(up(peer(2), hello(2, 3)));
  EXPECT_THAT(down(welcome(2)), ElementsAre("2:9", "2:4"));
}

TEST_F(RoutesTest, WhatComesLateThroughAnotherOneIsVoid) {
  tree();
  ASSERT_TRUE(up(peer(1), hello(1)));
  EXPECT_FALSE(up(peer(0), message(1)));
  EXPECT_FALSE(up(peer(0), hello(1))) << "it has come by itself since";
  Up late = message(0);
  for (NodeIndex node : {1u, 2u}) {
    late.mutable_heartbeat()->add_below()->set_node(node);
    late.mutable_heartbeat()->mutable_below()->rbegin()->set_instance("i");
  }
  ASSERT_TRUE(routes.up(peer(0), late));
  ASSERT_EQ(late.heartbeat().below_size(), 1) << "no sign of life, and no answer";
  EXPECT_EQ(late.heartbeat().below(0).node(), 2u);
}

TEST_F(RoutesTest, AnotherProcessIsSentNothingOfTheOldOne) {
  tree();
  down(wave(), {0, 1, 2});
  ASSERT_TRUE(up(peer(1, "new"), hello(1, 0, "new")));
  EXPECT_THAT(down(welcome(1)), ElementsAre("1:2"));
  ASSERT_TRUE(up(peer(2), hello(2, 0)));
  EXPECT_THAT(down(welcome(2, true)), ElementsAre("2:3")) << "nor is one that was given up";
}

TEST_F(RoutesTest, AGivenUpNodeTakesNobodyWithIt) {
  tree();
  routes.stopped(0);
  EXPECT_THAT(down(wave(), {1, 2}), IsEmpty());
  ASSERT_TRUE(up(peer(1), hello(1)));
  EXPECT_THAT(down(welcome(1)), ElementsAre("1:2", "1:1"));
  routes.stopped(2);
  EXPECT_FALSE(up(peer(0), message(2)));
}

TEST_F(RoutesTest, AChildThatIsGoneIsSentNothingMore) {
  tree();
  Up gone = message(0);
  gone.mutable_child_gone()->set_node(1);
  gone.mutable_child_gone()->set_instance("i");
  ASSERT_TRUE(routes.up(peer(0), gone));
  EXPECT_FALSE(routes.up(peer(0), gone)) << "told once";
  EXPECT_THAT(down(to(1)), IsEmpty());
  EXPECT_THAT(down(to(2)), ElementsAre("0:2"));
}

TEST_F(RoutesTest, KeepsNoMoreThanIsNotKnownToHaveCome) {
  tree();
  for (int i = 0; i < 1000; ++i) {
    down(wave(), {0, 1, 2});
    beat(1, sequence);
    if (i % 2) beat(2, sequence - 1);
  }
  EXPECT_LT(routes.kept(), 100u);
  routes.stopped(2);  // who is gone for good holds nothing back
  for (int i = 0; i < 1000; ++i) {
    down(wave(), {0, 1});
    beat(1, sequence);
  }
  EXPECT_LT(routes.kept(), 100u);
}

TEST_F(RoutesTest, TellsWhereOthersMayConnect) {
  Up up = hello(0);
  up.mutable_hello()->mutable_relaying()->add_endpoints("tcp://10.0.0.1:5");
  up.mutable_hello()->mutable_relaying()->set_public_key("k");
  ASSERT_TRUE(routes.up(peer(0), up));
  ASSERT_TRUE(routes.relaying(0));
  EXPECT_EQ(routes.relaying(0)->public_key(), "k");
  // It has lost its way to crrun, and come back without anybody below it.
  routes.closed(peer(0));
  EXPECT_FALSE(routes.relaying(0));
  ASSERT_TRUE(routes.up(peer(0), up));
  ASSERT_TRUE(this->up(peer(0), hello(0)));
  EXPECT_FALSE(routes.relaying(0));
}

}  // namespace
}  // namespace reprise::job
