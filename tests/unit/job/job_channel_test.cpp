// SPDX-License-Identifier: GPL-2.0-only
// What is numbered, kept, confirmed and dropped between crrun and a daemon.
#include <gmock/gmock.h>

#include "job/channel.h"

namespace reprise::job {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Up log(const std::string& text) {
  Up up;
  up.mutable_log()->set_text(text);
  return up;
}

Down signal(std::uint64_t sequence) {
  Down down;
  down.set_sequence(sequence);
  down.mutable_signal();
  return down;
}

Welcome welcome(const std::string& crrun, std::uint64_t seen = 0) {
  Welcome out;
  out.set_crrun(crrun);
  out.set_seen(seen);
  return out;
}

std::vector<std::string> kept(const DaemonChannel& channel) {
  std::vector<std::string> out;
  for (const auto& up : channel.kept()) out.push_back(up->log().text() + ":" + std::to_string(up->sequence()));
  return out;
}

TEST(Outgoing, KeepsWhatIsNotConfirmedAndSharesIt) {
  Outgoing<Down> one, other;
  for (std::uint64_t sequence : {1u, 3u, 4u}) {
    const auto down = std::make_shared<const Down>(signal(sequence));
    one.add(down);
    if (sequence != 3) other.add(down);
  }
  one.confirm(2);
  ASSERT_EQ(one.kept().size(), 2u);
  EXPECT_EQ(one.kept().front()->sequence(), 3u);
  EXPECT_EQ(one.kept().back(), other.kept().back());
  one.confirm(1);
  EXPECT_EQ(one.kept().size(), 2u);
  one.confirm(9);
  EXPECT_THAT(one.kept(), IsEmpty());
}

TEST(Incoming, TakesEachOnce) {
  Incoming incoming;
  EXPECT_TRUE(incoming.accept(1));
  EXPECT_FALSE(incoming.accept(1));
  EXPECT_TRUE(incoming.accept(2));
  EXPECT_FALSE(incoming.accept(1));
  EXPECT_EQ(incoming.last(), 2u);
}

TEST(Incoming, ConfirmsNothingBeyondAGap) {
  Incoming incoming;
  for (std::uint64_t sequence : {2u, 3u, 5u}) EXPECT_TRUE(incoming.accept(sequence));
  EXPECT_EQ(incoming.last(), 0u);
  EXPECT_FALSE(incoming.accept(3));
  EXPECT_TRUE(incoming.accept(1));
  EXPECT_EQ(incoming.last(), 3u);
  incoming.complete(4);
  EXPECT_EQ(incoming.last(), 5u);
  EXPECT_FALSE(incoming.accept(4));
  incoming.complete(2);
  EXPECT_EQ(incoming.last(), 5u);
  EXPECT_TRUE(incoming.accept(6));
}

TEST(DaemonChannel, SaysOnlyHelloAndHeartbeatsBeforeTheWelcome) {
  DaemonChannel channel;
  Up up = log("early"), hello, beat, output;
  EXPECT_FALSE(channel.send(up));
  hello.mutable_hello();
  beat.mutable_heartbeat();
  output.mutable_output();
  EXPECT_TRUE(channel.send(hello));
  EXPECT_FALSE(channel.send(output)) << "it says that again itself";
  channel.fill(*beat.mutable_heartbeat());
  EXPECT_EQ(beat.heartbeat().sent(), 0u) << "nothing has gone ahead of it";
  EXPECT_FALSE(channel.welcome(welcome("A"))) << "it must introduce itself";
  EXPECT_THAT(kept(channel), ElementsAre("early:1"));
  up = log("later");
  EXPECT_TRUE(channel.send(up));
  EXPECT_EQ(up.sequence(), 2u);
  EXPECT_TRUE(channel.send(output));
  EXPECT_EQ(output.sequence(), 0u);
  channel.fill(*beat.mutable_heartbeat());
  EXPECT_EQ(beat.heartbeat().sent(), 2u);
}

TEST(DaemonChannel, RepeatsToTheSameCrrunWhatItHasNotHeard) {
  DaemonChannel channel;
  channel.welcome(welcome("A"));
  for (const char* const text : {"one", "two", "three"}) {
    Up up = log(text);
    EXPECT_TRUE(channel.send(up));
  }
  channel.confirm(1);
  channel.connected();
  Up up = log("four");
  EXPECT_FALSE(channel.send(up));
  EXPECT_TRUE(channel.welcome(welcome("A", 2)));
  EXPECT_THAT(kept(channel), ElementsAre("three:3", "four:4"));
}

TEST(DaemonChannel, AnotherCrrunHearsNothingThatWasForTheLast) {
  DaemonChannel channel;
  channel.welcome(welcome("A"));
  Up up = log("to A");
  channel.send(up);
  EXPECT_TRUE(channel.accept(signal(500)));
  channel.connected();
  Hello hello;
  channel.fill(hello);
  EXPECT_EQ(hello.crrun(), "A");
  EXPECT_EQ(hello.seen(), 500u);
  Heartbeat beat;
  channel.fill(beat);
  EXPECT_EQ(beat.seen(), 0u) << "that was another's";
  EXPECT_FALSE(channel.welcome(welcome("B")));
  EXPECT_THAT(kept(channel), IsEmpty());
  EXPECT_TRUE(channel.accept(signal(1)));
  channel.fill(hello);
  EXPECT_EQ(hello.crrun(), "B");
  EXPECT_EQ(hello.seen(), 1u);
}

TEST(DaemonChannel, ObeysOnceAndInItsTurn) {
  DaemonChannel channel;
  Down shutdown;
  shutdown.mutable_shutdown();
  EXPECT_TRUE(channel.accept(shutdown));
  EXPECT_FALSE(channel.accept(signal(3))) << "something before it may be missing";
  channel.welcome(welcome("A"));
  EXPECT_TRUE(channel.accept(signal(3)));
  EXPECT_FALSE(channel.accept(signal(3)));
  EXPECT_FALSE(channel.accept(signal(2)));
  EXPECT_TRUE(channel.accept(signal(9))) << "those between were for others";
  channel.connected();
  EXPECT_FALSE(channel.accept(signal(11)));
  Hello hello;
  channel.fill(hello);
  EXPECT_EQ(hello.seen(), 9u);
  channel.welcome(welcome("A"));
  EXPECT_TRUE(channel.accept(signal(10)));
  EXPECT_TRUE(channel.accept(signal(11)));
}

}  // namespace
}  // namespace reprise::job
