// SPDX-License-Identifier: GPL-2.0-only
// The master's connection to a booster (liboffload/reprise/line.h); the test is the booster.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/socket.h>
#include <unistd.h>

#include "reprise/line.h"

namespace croff {
namespace {

class LineTest : public testing::Test {
 protected:
  LineTest() {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    line = std::make_unique<Line>(ends[0]);
    booster = ends[1];
  }
  ~LineTest() override { close(booster); }

  template <class Word>
  Word take() {
    Word word;
    EXPECT_EQ(recv(booster, &word, sizeof word, MSG_WAITALL), static_cast<ssize_t>(sizeof word));
    return word;
  }
  void say(const wire::Notice &notice) { EXPECT_EQ(send(booster, &notice, sizeof notice, 0), static_cast<ssize_t>(sizeof notice)); }
  std::vector<Report> reports() {
    std::vector<Report> out;
    alive = line->progress(out);
    return out;
  }

  std::unique_ptr<Line> line;
  int booster = -1;
  bool alive = true;
};

TEST_F(LineTest, AnOrderIsFollowedByRegionsValuesAndInputs) {
  const std::vector<std::byte> values(3, std::byte{7}), data(5, std::byte{9});
  Order order;
  order.task = 4;
  order.code.object = "a";
  order.values = &values;
  order.regions = {{data.data(), data.size(), true, false}, {nullptr, 100, false, true}};
  line->launch(order);
  const auto head = take<wire::Order>();
  EXPECT_EQ(head.op, wire::Op::run);
  EXPECT_EQ(head.task, 4u);
  EXPECT_EQ(head.regions, 2);
  EXPECT_EQ(take<wire::Region>().bytes, 5u);
  EXPECT_EQ(take<wire::Region>().writes, 1u);
  std::byte rest[8];
  EXPECT_EQ(recv(booster, rest, sizeof rest, MSG_WAITALL), 8);
  EXPECT_EQ(rest[0], std::byte{7});
  EXPECT_EQ(rest[7], std::byte{9});
  const auto said = reports();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].kind, Report::sent);
}

TEST_F(LineTest, InputsAreTheCallersUntilAllAreSent) {
  const std::vector<std::byte> values, data(8 << 20);
  Order order;
  order.task = 1;
  order.values = &values;
  order.regions = {{data.data(), data.size(), true, false}};
  line->launch(order);
  EXPECT_TRUE(reports().empty()) << "the socket does not take 8 MB";
  std::vector<std::byte> taken(sizeof(wire::Order) + sizeof(wire::Region) + data.size());
  std::vector<Report> said;
  for (std::size_t got = 0; got < taken.size();) {
    const ssize_t n = recv(booster, taken.data() + got, taken.size() - got, MSG_DONTWAIT);
    if (n > 0) got += static_cast<std::size_t>(n);
    for (Report &one : reports()) said.push_back(one);
  }
  for (Report &one : reports()) said.push_back(one);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].kind, Report::sent);
}

TEST_F(LineTest, OutputsOfTwoTasksComeBetweenNotices) {
  std::vector<std::byte> a(4), b(2), c(3);
  line->fetch(1, {{a.data(), a.size()}, {nullptr, 0}, {b.data(), b.size()}});
  line->fetch(2, {{c.data(), c.size()}});
  say(wire::notice(wire::Note::done, 5));
  say(wire::notice(wire::Note::outputs, 1));
  EXPECT_EQ(send(booster, "abcdef", 6, 0), 6);
  say(wire::notice(wire::Note::failed, 6, Code::task, "no"));
  say(wire::notice(wire::Note::outputs, 2));
  EXPECT_EQ(send(booster, "g", 1, 0), 1);
  auto said = reports();
  ASSERT_EQ(said.size(), 3u);
  EXPECT_EQ(said[0].kind, Report::done);
  EXPECT_EQ(said[1].kind, Report::received);
  EXPECT_EQ(said[1].task, 1u);
  EXPECT_EQ(said[2].text, "no");
  EXPECT_EQ(b[1], std::byte{'f'});
  EXPECT_EQ(send(booster, "hi", 2, 0), 2);
  said = reports();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].task, 2u);
  EXPECT_EQ(c[2], std::byte{'i'});
  EXPECT_TRUE(alive);
}

TEST_F(LineTest, ABoosterThatGoesIsNoticedAlsoBetweenOrders) {
  line->command(wire::Op::leave);
  EXPECT_EQ(take<wire::Order>().op, wire::Op::leave);
  say(wire::notice(wire::Note::leaves));
  reports();
  EXPECT_TRUE(alive && line->left());
  shutdown(booster, SHUT_RDWR);
  reports();
  EXPECT_FALSE(alive);
}

}  // namespace
}  // namespace croff
