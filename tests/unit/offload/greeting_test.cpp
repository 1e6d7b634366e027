// SPDX-License-Identifier: GPL-2.0-only
// How a booster and its master prove that they know the group's secret (liboffload/reprise/greeting.h).
#include <gtest/gtest.h>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <future>

#include "reprise/greeting.h"

namespace croff {
namespace {

Secret secret_of(unsigned char first) {
  Secret out{};
  out[0] = first;
  return out;
}

void wait(int socket, short events) {
  pollfd one{socket, events, 0};
  poll(&one, 1, -1);
}

std::future<int> coming(const Arrivals &arrivals, const Secret &secret, int rank) {
  return std::async(std::launch::async, [where = arrivals.where(), secret, rank] { return greet(where, secret, rank, wait); });
}

/** Until it has an answer. @return its socket, or -1 */
int let_in(Arrivals &arrivals, std::future<int> &one) {
  while (one.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) arrivals.serve();
  arrivals.serve();
  return one.get();
}

TEST(Greeting, LetsInWhoKnowsTheSecret) {
  Arrivals arrivals(2, secret_of(1));
  for (int rank : {1, 0}) {
    EXPECT_FALSE(arrivals.all());
    auto one = coming(arrivals, secret_of(1), rank);
    EXPECT_GE(let_in(arrivals, one), 0);
    for (int turn = 0; turn < 1000 && !arrivals.any(); ++turn) arrivals.serve();
    EXPECT_TRUE(arrivals.any());
  }
  for (int turn = 0; turn < 1000 && !arrivals.all(); ++turn) arrivals.serve(), usleep(1000);
  ASSERT_TRUE(arrivals.all());
  const std::vector<int> sockets = arrivals.take();
  EXPECT_EQ(sockets.size(), 2u);
  EXPECT_FALSE(arrivals.any());
  for (int socket : sockets) close(socket);
}

TEST(Greeting, RefusesWhoDoesNot) {
  Arrivals arrivals(1, secret_of(1));
  auto wrong = coming(arrivals, secret_of(2), 0);
  EXPECT_EQ(let_in(arrivals, wrong), -1) << "a master without the booster's secret is none";
  auto no_such = coming(arrivals, secret_of(1), 1);
  EXPECT_EQ(let_in(arrivals, no_such), -1) << "there is no booster 1";
  EXPECT_FALSE(arrivals.any());
}

TEST(Greeting, AStrangerWhoSendsTheBoostersWordsGetsNothing) {
  Arrivals arrivals(1, secret_of(1));
  const int socket = connect_to(arrivals.where());
  ASSERT_GE(socket, 0);
  const Greeting greeting;
  ASSERT_EQ(send(socket, &greeting, sizeof greeting, MSG_NOSIGNAL), static_cast<ssize_t>(sizeof greeting));
  Challenge challenge;
  for (int turn = 0; turn < 1000 && recv(socket, &challenge, sizeof challenge, MSG_DONTWAIT | MSG_PEEK) != sizeof challenge; ++turn)
    arrivals.serve(), usleep(1000);
  ASSERT_EQ(recv(socket, &challenge, sizeof challenge, 0), static_cast<ssize_t>(sizeof challenge));
  const Proof reflected{challenge.proof};  // the master's own proof is none of a booster
  send(socket, &reflected, sizeof reflected, MSG_NOSIGNAL);
  char byte;
  for (int turn = 0; turn < 1000 && recv(socket, &byte, 1, MSG_DONTWAIT) != 0; ++turn) arrivals.serve(), usleep(1000);
  EXPECT_EQ(recv(socket, &byte, 1, 0), 0) << "it is sent away";
  EXPECT_FALSE(arrivals.any());
  close(socket);
}

TEST(Greeting, WhoHasGoneAgainDoesNotCountAndTheNewestDoes) {
  Arrivals arrivals(1, secret_of(1));
  auto first = coming(arrivals, secret_of(1), 0);
  const int old = let_in(arrivals, first);
  auto second = coming(arrivals, secret_of(1), 0);
  const int fresh = let_in(arrivals, second);
  for (int turn = 0; turn < 1000 && !arrivals.all(); ++turn) arrivals.serve(), usleep(1000);
  char byte;
  EXPECT_EQ(recv(old, &byte, 1, 0), 0) << "the earlier connection is closed";
  close(old);
  close(fresh);
  for (int turn = 0; turn < 1000 && arrivals.any(); ++turn) arrivals.serve(), usleep(1000);
  EXPECT_FALSE(arrivals.any());
}

}  // namespace
}  // namespace croff
