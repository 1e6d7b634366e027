// SPDX-License-Identifier: GPL-2.0-only
// Critical sections, status, spinlocks.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

#include "agent_fake.h"
#include "libcr.h"

namespace {

class Sections : public testing::Test {
 protected:
  void SetUp() override { ASSERT_GE(id_ = cr_init(), 0); }
  /** Wait until the agent has received the request. */
  static void until_pending() {
    while (cr_status() == CR_STATE_IDLE) usleep(500);
  }
  cr_client_id_t id_ = -1;
};

TEST_F(Sections, HoldRequestsUp) {
  ASSERT_EQ(cr_enter_cs(id_), 0);
  fake::notify(CR_PHASE_CHECKPOINT);
  until_pending();
  EXPECT_EQ(cr_status(), CR_STATE_PENDING);
  EXPECT_FALSE(fake::ready(50).has_value());
  EXPECT_EQ(cr_enter_cs(id_), 0) << "sections of one thread nest";
  EXPECT_EQ(cr_leave_cs(id_), 0);

  std::atomic<int> tried{-1}, entered{0};
  std::thread other([&] {
    const auto id = cr_init();  // also waits
    entered = 1;
    cr_leave_cs(id);
  });
  std::thread session([&] {
    EXPECT_EQ(fake::ready(), 0);
    EXPECT_EQ(entered, 0);
    tried = 1;
    fake::outcome(CR_PHASE_CONTINUE);
  });
  EXPECT_EQ(cr_leave_cs(id_), 0);
  EXPECT_EQ(tried, 1) << "the request is served before cr_leave_cs() returns";
  session.join();
  other.join();
  EXPECT_EQ(cr_status(), CR_STATE_IDLE);
}

TEST_F(Sections, TryDoesNotWait) {
  std::atomic<bool> inside{false}, leave{false};
  std::thread holder([&] {
    const auto id = cr_init();
    cr_enter_cs(id);
    inside = true;
    while (!leave) usleep(500);
    cr_leave_cs(id);
  });
  while (!inside) usleep(500);
  EXPECT_EQ(cr_tryenter_cs(id_), 0);
  EXPECT_EQ(cr_leave_cs(id_), 0);
  fake::notify(CR_PHASE_CHECKPOINT);
  until_pending();
  EXPECT_GT(cr_tryenter_cs(id_), 0);
  leave = true;
  EXPECT_EQ(fake::ready(), 0);
  EXPECT_EQ(cr_status(), CR_STATE_ACTIVE);
  EXPECT_GT(cr_tryenter_cs(id_), 0);
  fake::outcome(CR_PHASE_CONTINUE);
  holder.join();
  EXPECT_EQ(cr_tryenter_cs(id_), 0);
  EXPECT_EQ(cr_leave_cs(id_), 0);
}

TEST_F(Sections, MustBeBalanced) {
  EXPECT_EQ(cr_leave_cs(id_), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(cr_enter_cs(CR_ID_CALLBACK), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Sections, EndWithTheirThread) {
  std::thread([] { cr_enter_cs(cr_init()); }).join();
  EXPECT_EQ(fake::serve(CR_PHASE_CONTINUE), 0);
}

cr_client_id_t g_id;
void enter_and_leave(int) {
  cr_enter_cs(g_id);
  cr_leave_cs(g_id);
}

// Sections entered by several threads and by their signal handlers while requests come.
TEST_F(Sections, SurviveSignalsAndRequests) {
  std::atomic<bool> stop{false};
  std::atomic<long> rounds{0};
  std::atomic<int> inside{0};
  g_id = id_;
  struct sigaction action {};
  action.sa_handler = enter_and_leave;
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
  const pthread_t main_thread = pthread_self();

  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      const auto id = cr_init();
      while (!stop) {
        cr_enter_cs(id);
        ++inside;
        ++rounds;
        --inside;
        cr_leave_cs(id);
      }
    });
  threads.emplace_back([&] {
    while (!stop) {
      pthread_kill(main_thread, SIGUSR1);
      usleep(100);
    }
  });
  std::thread session([&] {
    for (int i = 0; i < 200; ++i) {
      fake::notify(CR_PHASE_CHECKPOINT);
      EXPECT_EQ(fake::ready(), 0);
      EXPECT_EQ(inside, 0);
      fake::outcome(CR_PHASE_CONTINUE);
    }
    stop = true;
  });
  while (!stop) {
    cr_enter_cs(id_);
    ++rounds;
    cr_leave_cs(id_);
  }
  session.join();
  for (auto& thread : threads) thread.join();
  EXPECT_GT(rounds, 200);
}

TEST(Spinlocks, Exclude) {
  cr_spinlock_t lock = CR_SPINLOCK_INITIALIZER;
  EXPECT_NE(cr_spinlock_trylock(&lock), 0);
  EXPECT_EQ(cr_spinlock_trylock(&lock), 0);
  cr_spinlock_unlock(&lock);
  long sum = 0;
  cr_spinlock_init(&lock);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int k = 0; k < 10'000; ++k) {
        cr_spinlock_lock(&lock);
        ++sum;
        cr_spinlock_unlock(&lock);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(sum, 40'000);
}

TEST(Errors, HaveTexts) {
  for (int code = CR_MIN_ERRCODE + 1; code < CR_MAX_ERRCODE; ++code)
    EXPECT_EQ(std::string(cr_strerror(code)).find("Unknown"), std::string::npos) << code;
  EXPECT_STREQ(cr_strerror(ENOENT), strerror(ENOENT));
  EXPECT_EQ(CR_ETEMPFAIL, 2354) << "BLCR's value";
  EXPECT_EQ(CR_ENOINIT, 2365);
}

}  // namespace
