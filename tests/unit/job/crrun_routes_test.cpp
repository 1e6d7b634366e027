// SPDX-License-Identifier: GPL-2.0-only
// By which connection a node is reached, and what is sent again on a new one.
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
  static Up message(NodeIndex from, std::uint64_t sequence = 0, const std::string& instance = "i") {
    Up up;
    up.set_from(from);
    up.set_instance(instance);
    up.set_sequence(sequence);
    up.mutable_log()->set_text("text");
    return up;
  }
  static Up hello(NodeIndex from, std::uint64_t seen = 0, const std::string& instance = "i", const std::string& crrun = "this") {
    Up up = message(from, 0, instance);
    up.mutable_hello()->set_seen(seen);
    up.mutable_hello()->set_crrun(crrun);
    return up;
  }
  static Up heartbeat(NodeIndex from, std::uint64_t seen, std::uint64_t sent = 0) {
    Up up = message(from);
    up.mutable_heartbeat()->set_seen(seen);
    up.mutable_heartbeat()->set_sent(sent);
    return up;
  }
  /** A heartbeat of node 0 with that of a node below it. */
  static Up below(NodeIndex node, std::uint64_t seen, std::uint64_t sent = 0) {
    Up up = heartbeat(0, 0);
    RelayedBeat& one = *up.mutable_heartbeat()->add_below();
    one.set_node(node);
    one.set_instance("i");
    one.set_seen(seen);
    one.set_sent(sent);
    return up;
  }
  bool up(const Peer& by, Up up) { return routes.up(by, up); }
  /** "to:sequence" for each that goes out; without a sequence: not counted. */
  std::vector<std::string> down(Down message, const std::vector<NodeIndex>& living = {}) {
    std::vector<std::string> out;
    for (const Routes::Copy& copy : routes.down(std::move(message), living)) {
      const std::uint64_t sequence = copy.down->sequence();
      out.push_back(std::to_string(*node_of_connection(copy.peer)) + ":" + (sequence ? std::to_string(sequence) : ""));
      last = *copy.down;
    }
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
  static Down shutdown() {
    Down out;
    out.mutable_shutdown();
    return out;
  }
  void join(const Peer& by, NodeIndex node) {
    ASSERT_TRUE(up(by, hello(node)));
    down(welcome(node));
  }
  /** Node 0 is connected, 1 and 2 are below it. */
  void tree() {
    for (NodeIndex node : {0u, 1u, 2u}) join(peer(0), node);
  }
  void star() {
    for (NodeIndex node : {0u, 1u}) join(peer(node), node);
  }

  Routes routes{"this"};
  Down last;  ///< the last message that went out
};

TEST_F(RoutesTest, AStarIsSentEachMessageOnce) {
  star();
  EXPECT_THAT(down(wave(), {0, 1}), ElementsAre("0:1", "1:1"));
  EXPECT_THAT(down(to(1)), ElementsAre("1:2"));
  EXPECT_THAT(down(to(5)), IsEmpty());
  EXPECT_FALSE(routes.via(1));
}

TEST_F(RoutesTest, OneCopyGoesToABranch) {
  tree();
  EXPECT_EQ(routes.via(1), 0u);
  EXPECT_FALSE(routes.via(0));
  EXPECT_THAT(down(wave(), {0, 1, 2}), ElementsAre("0:1"));
  EXPECT_THAT(down(to(2)), ElementsAre("0:2"));
  EXPECT_TRUE(up(peer(0), message(2, 1)));
  EXPECT_FALSE(up(peer(0), message(2, 1, "other"))) << "it is not that process which has said Hello";
  EXPECT_FALSE(up(peer(3), message(2, 2))) << "its route is another one";
}

TEST_F(RoutesTest, WhatADaemonHasMissedFollowsItsWelcome) {
  star();
  down(wave(), {0, 1});  // 1
  down(to(1));           // 2
  down(to(0));           // 3
  down(to(1));           // 4
  EXPECT_EQ(routes.kept(1), 3u);
  ASSERT_TRUE(up(peer(1), heartbeat(1, 1)));
  EXPECT_EQ(routes.kept(1), 2u);
  // It connects anew, and has seen one more.
  ASSERT_TRUE(up(peer(1), hello(1, 2)));
  EXPECT_THAT(down(to(1)), IsEmpty()) << "it is not its turn yet";  // 5
  EXPECT_THAT(down(wave(), {0, 1}), ElementsAre("0:6"));
  EXPECT_THAT(down(answer(1)), ElementsAre("1:"));
  EXPECT_THAT(down(welcome(1)), ElementsAre("1:", "1:4", "1:5", "1:6"));
  EXPECT_THAT(down(to(1)), ElementsAre("1:7"));
  EXPECT_EQ(routes.kept(0), 3u) << "the other one has not confirmed anything";
}

TEST_F(RoutesTest, AWelcomeCanBeMissedToo) {
  star();
  down(wave(), {0, 1});
  // The Hello of a daemon that knows no crrun, or an earlier one. Numbers of the earlier one mean nothing.
  for (const char* const crrun : {"", "another"}) {
    ASSERT_TRUE(up(peer(1), hello(1, 1000, "i", crrun)));
    EXPECT_THAT(down(welcome(1)), ElementsAre("1:", "1:1"));
  }
  EXPECT_EQ(last.wave_begin().wave(), 0u);
  ASSERT_TRUE(up(peer(1), hello(1, 1)));
  EXPECT_THAT(down(welcome(1)), ElementsAre("1:"));
  EXPECT_EQ(last.welcome().crrun(), "this");
}

TEST_F(RoutesTest, WhatWasHeardOnceIsDroppedAndConfirmed) {
  star();
  EXPECT_TRUE(up(peer(1), message(1, 1)));
  EXPECT_TRUE(up(peer(1), message(1, 2)));
  EXPECT_FALSE(up(peer(1), message(1, 2)));
  EXPECT_TRUE(up(peer(0), message(0, 2, "i"))) << "another one's numbers are its own";
  EXPECT_TRUE(up(peer(1), message(1, 0)));
  EXPECT_TRUE(up(peer(1), message(1, 0))) << "these are not counted";
  down(answer(1));
  EXPECT_EQ(last.heartbeat().seen(), 2u);
  ASSERT_TRUE(up(peer(1), hello(1)));
  EXPECT_FALSE(up(peer(1), message(1, 1))) << "it connects anew, and says all again";
  down(welcome(1));
  EXPECT_EQ(last.welcome().seen(), 2u);
  EXPECT_TRUE(up(peer(1), message(1, 3)));
}

TEST_F(RoutesTest, WhatWasJoinedOnTheWayIsConfirmedByTheHeartbeatBehindIt) {
  tree();
  // Its first message waits in the daemon above, to be joined with others.
  EXPECT_TRUE(up(peer(0), message(1, 2)));
  Down both = answer(0);
  both.add_to(1);
  both.mutable_heartbeat()->add_below()->set_node(1);
  down(both);
  EXPECT_EQ(last.heartbeat().below(0).seen(), 0u) << "the first one may still be lost";
  EXPECT_TRUE(up(peer(0), message(0, 0)));
  EXPECT_TRUE(up(peer(0), below(1, 0, 2)));
  down(both);
  EXPECT_EQ(last.heartbeat().below(0).seen(), 2u);
  EXPECT_FALSE(up(peer(0), message(1, 1)));
}

TEST_F(RoutesTest, WhatWasLostWithTheDaemonAboveIsSentAgain) {
  tree();
  down(wave(), {0, 1, 2});  // 1
  down(to(1));              // 2
  down(to(2));              // 3
  ASSERT_TRUE(up(peer(0), below(1, 1)));
  EXPECT_TRUE(routes.closed(peer(0)));
  EXPECT_THAT(down(wave(), {0, 1, 2}), ElementsAre("0:4")) << "what is below is not there";
  ASSERT_TRUE(up(peer(1), hello(1, 1)));
  EXPECT_FALSE(routes.via(1));
  EXPECT_THAT(down(welcome(1)), ElementsAre("1:", "1:2", "1:4"));
  // Of the other one, which is still without a route, all is kept.
  ASSERT_TRUE(up(peer(2), hello(2, 3)));
  EXPECT_THAT(down(welcome(2)), ElementsAre("2:", "2:4"));
}

TEST_F(RoutesTest, WhatComesLateThroughAnotherOneIsVoid) {
  tree();
  ASSERT_TRUE(up(peer(1), hello(1)));
  EXPECT_FALSE(up(peer(0), message(1, 1)));
  EXPECT_TRUE(up(peer(1), message(1, 1))) << "so it has not been heard yet";
  EXPECT_FALSE(up(peer(0), hello(1))) << "it has come by itself since";
  Up late = below(1, 9, 9);
  late.mutable_heartbeat()->add_below()->set_node(2);
  late.mutable_heartbeat()->mutable_below()->rbegin()->set_instance("i");
  ASSERT_TRUE(routes.up(peer(0), late));
  ASSERT_EQ(late.heartbeat().below_size(), 1) << "no sign of life, and no answer";
  EXPECT_EQ(late.heartbeat().below(0).node(), 2u);
  EXPECT_TRUE(up(peer(1), message(1, 2)));
}

TEST_F(RoutesTest, AnotherProcessIsSentNothingOfTheOldOne) {
  tree();
  down(wave(), {0, 1, 2});  // 1
  EXPECT_TRUE(up(peer(0), message(1, 7)));
  ASSERT_TRUE(up(peer(1, "new"), hello(1, 0, "new", "")));
  EXPECT_THAT(down(to(1)), IsEmpty()) << "what waited for the disk was for the old one";
  EXPECT_THAT(down(welcome(1)), ElementsAre("1:"));
  EXPECT_EQ(last.welcome().seen(), 0u);
  EXPECT_FALSE(up(peer(1), message(1, 8))) << "the old one's last words";
  EXPECT_TRUE(up(peer(1, "new"), message(1, 1, "new")));
  EXPECT_THAT(down(to(1)), ElementsAre("1:3"));
}

TEST_F(RoutesTest, NothingIsKeptForAGivenUpNodeUntilItIsWelcomeAgain) {
  star();
  down(wave(), {0, 1});
  routes.stopped(1);
  EXPECT_EQ(routes.kept(1), 0u);
  EXPECT_THAT(down(to(1)), IsEmpty());
  ASSERT_TRUE(up(peer(1), hello(1, 0)));
  EXPECT_THAT(down(welcome(1, true)), ElementsAre("1:"));
  EXPECT_THAT(down(to(1)), IsEmpty());
  EXPECT_EQ(routes.kept(1), 0u);
  // Without ranks and images it may stay the same process.
  ASSERT_TRUE(up(peer(1), hello(1, 0)));
  EXPECT_THAT(down(welcome(1)), ElementsAre("1:"));
  EXPECT_THAT(down(to(1)), ElementsAre("1:4"));
  EXPECT_THAT(down(shutdown(), {0, 1}), ElementsAre("0:", "1:"));
}

TEST_F(RoutesTest, TheEndOfTheJobNeedsNoWelcome) {
  ASSERT_TRUE(up(peer(1), hello(1)));
  EXPECT_THAT(down(wave(), {1}), IsEmpty()) << "it was not welcomed yet: this is not for it";
  EXPECT_THAT(down(shutdown(), {1}), ElementsAre("1:"));
  EXPECT_EQ(routes.kept(1), 0u);
}

TEST_F(RoutesTest, AGivenUpNodeTakesNobodyWithIt) {
  tree();
  routes.stopped(0);
  EXPECT_THAT(down(wave(), {1, 2}), IsEmpty());
  ASSERT_TRUE(up(peer(1), hello(1)));
  EXPECT_THAT(down(welcome(1)), ElementsAre("1:", "1:1"));
  routes.stopped(2);
  EXPECT_FALSE(up(peer(0), message(2, 1)));
}

TEST_F(RoutesTest, AChildThatIsGoneIsSentNothingMore) {
  tree();
  Up gone = message(0, 1);
  gone.mutable_child_gone()->set_node(1);
  gone.mutable_child_gone()->set_instance("i");
  ASSERT_TRUE(routes.up(peer(0), gone));
  gone.set_sequence(2);
  EXPECT_FALSE(routes.up(peer(0), gone)) << "told once";
  EXPECT_THAT(down(to(1)), IsEmpty());
  EXPECT_THAT(down(to(2)), ElementsAre("0:2"));
  down(answer(0));
  EXPECT_EQ(last.heartbeat().seen(), 2u);
}

TEST_F(RoutesTest, NothingIsHeardFromADaemonBeforeItsHello) {
  EXPECT_FALSE(up(peer(1), message(1, 1)));
  EXPECT_FALSE(up(peer(1), heartbeat(1, 5, 5)));
  ASSERT_TRUE(up(peer(1), hello(1)));
  EXPECT_TRUE(up(peer(1), message(1, 1)));
}

TEST_F(RoutesTest, TellsWhereOthersMayConnect) {
  Up up = hello(0);
  up.mutable_hello()->mutable_relaying()->add_endpoints("tcp://10.0.0.1:5");
  up.mutable_hello()->mutable_relaying()->set_public_key("k");
  ASSERT_TRUE(routes.up(peer(0), up));
  ASSERT_TRUE(routes.relaying(0));
  EXPECT_EQ(routes.relaying(0)->public_key(), "k");
  // It has lost its connection to crrun, and come back without anybody below it.
  routes.closed(peer(0));
  EXPECT_FALSE(routes.relaying(0));
  ASSERT_TRUE(routes.up(peer(0), up));
  ASSERT_TRUE(this->up(peer(0), hello(0)));
  EXPECT_FALSE(routes.relaying(0));
}

}  // namespace
}  // namespace reprise::job
