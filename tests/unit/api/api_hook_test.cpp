// SPDX-License-Identifier: GPL-2.0-only
// Hooks, hold control, fork.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "agent_fake.h"
#include "libcr.h"

namespace {

std::atomic<int> g_events[CR_NUM_HOOKS];

void hook(cr_hook_event_t event) { ++g_events[event]; }

class Hooks : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_GE(cr_init(), 0);
    for (auto& count : g_events) count = 0;
  }
  void TearDown() override {
    for (int event = 0; event < CR_NUM_HOOKS; ++event) cr_register_hook(static_cast<cr_hook_event_t>(event), nullptr);
    cr_hold_ctrl(CR_HOLD_SCOPE_INIT, CR_HOLD_NONE);
    cr_hold_ctrl(CR_HOLD_SCOPE_UNINIT, CR_HOLD_NONE);
  }
};

int nothing(void*) { return 0; }

TEST_F(Hooks, RunByContextAndOutcome) {
  cr_register_callback(nothing, nullptr, CR_THREAD_CONTEXT);
  EXPECT_EQ(cr_register_hook(CR_HOOK_CONT_THREAD_CONTEXT, hook), nullptr);
  EXPECT_EQ(cr_register_hook(CR_HOOK_CONT_THREAD_CONTEXT, hook), hook);
  cr_register_hook(CR_HOOK_CONT_SIGNAL_CONTEXT, hook);
  cr_register_hook(CR_HOOK_RSTRT_THREAD_CONTEXT, hook);
  fake::serve(CR_PHASE_CONTINUE);
  EXPECT_EQ(g_events[CR_HOOK_CONT_THREAD_CONTEXT], 1);
  EXPECT_EQ(g_events[CR_HOOK_CONT_SIGNAL_CONTEXT], 1) << "only for this thread";
  EXPECT_EQ(g_events[CR_HOOK_RSTRT_THREAD_CONTEXT], 0);
  fake::serve(CR_PHASE_RESTARTED);
  EXPECT_EQ(g_events[CR_HOOK_RSTRT_THREAD_CONTEXT], 1);
  fake::serve(CR_PHASE_PAUSED);
  EXPECT_EQ(g_events[CR_HOOK_RSTRT_THREAD_CONTEXT], 2) << "used for a pause that has no hook of its own";
  cr_register_hook(CR_HOOK_PAUSED_THREAD_CONTEXT, hook);
  fake::serve(CR_PHASE_PAUSED);
  EXPECT_EQ(g_events[CR_HOOK_PAUSED_THREAD_CONTEXT], 1);
  EXPECT_EQ(g_events[CR_HOOK_RSTRT_THREAD_CONTEXT], 2);
}

TEST_F(Hooks, ReachThreadsThatNeverCalledInit) {
  std::atomic<bool> stop{false}, up{false};
  std::thread plain([&] {
    up = true;
    while (!stop) usleep(1000);
  });
  while (!up) usleep(500);
  cr_register_hook(CR_HOOK_CONT_NO_CALLBACKS, hook);
  fake::serve(CR_PHASE_CONTINUE);
  EXPECT_GE(g_events[CR_HOOK_CONT_NO_CALLBACKS], 1);
  stop = true;
  plain.join();
}

// The listing of /proc/PID/task stops at a thread that ends while it is read.
std::atomic<pid_t> g_awaited;
std::atomic<int> g_reached;
void reached(cr_hook_event_t) { g_reached += gettid() == g_awaited; }

TEST_F(Hooks, ReachThreadsBehindThoseThatEnd) {
  cr_register_hook(CR_HOOK_CONT_NO_CALLBACKS, reached);
  for (int round = 0; round < 100; ++round) {
    std::atomic<bool> ending{false}, stop{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 50; ++i) threads.emplace_back([&] { ending.wait(false); });
    g_awaited = 0;
    g_reached = 0;
    threads.emplace_back([&] {
      g_awaited = gettid();
      while (!stop) usleep(1000);
    });
    while (g_awaited == 0) usleep(500);
    ending = true;
    ending.notify_all();
    fake::serve(CR_PHASE_CONTINUE);
    EXPECT_EQ(g_reached, 1) << "in round " << round;
    stop = true;
    for (auto& thread : threads) thread.join();
  }
}

TEST_F(Hooks, PrepareForPause) {
  cr_register_hook(CR_HOOK_PAUSE_PREPARE, hook);
  fake::notify(CR_PHASE_PAUSE);
  EXPECT_EQ(fake::ready(), 0);
  EXPECT_EQ(g_events[CR_HOOK_PAUSE_PREPARE], 1);
  fake::outcome(CR_PHASE_ABORTED);
}

TEST_F(Hooks, RefuseNonsense) {
  EXPECT_EQ(cr_register_hook(CR_NUM_HOOKS, hook), CR_HOOK_FN_ERROR);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(cr_hold_ctrl(17, CR_HOLD_READ), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(cr_hold_ctrl(CR_HOLD_SCOPE_INIT, CR_HOLD_DFLT), -1);
  EXPECT_EQ(errno, EINVAL);
}

std::atomic<bool> g_slow, g_in_slow;
int slow_after(void*) {
  cr_checkpoint(0);
  g_in_slow = true;
  while (g_slow) usleep(500);
  g_in_slow = false;
  return 0;
}

TEST_F(Hooks, ThreadsAreHeldUntilAllCallbacksAreThrough) {
  EXPECT_EQ(cr_hold_ctrl(CR_HOLD_SCOPE_THREAD, CR_HOLD_READ), CR_HOLD_DFLT);
  EXPECT_EQ(cr_hold_ctrl(CR_HOLD_SCOPE_UNINIT, CR_HOLD_BOTH), CR_HOLD_NONE);
  std::atomic<bool> stop{false}, up{false};
  std::atomic<long> rounds{0};
  std::thread plain([&] {
    up = true;
    while (!stop) ++rounds;
  });
  // The session is a thread of this process and must not be held.
  std::atomic<bool> done{false};
  while (!up) usleep(500);
  const auto id = cr_register_callback(slow_after, nullptr, CR_THREAD_CONTEXT);
  cr_hold_ctrl(CR_HOLD_SCOPE_THREAD, CR_HOLD_NONE);
  g_slow = true;
  fake::notify(CR_PHASE_CHECKPOINT);
  ASSERT_EQ(fake::ready(), 0);
  fake::outcome(CR_PHASE_CONTINUE, false);
  while (!g_in_slow) usleep(500);
  const long before = rounds;
  usleep(50'000);
  EXPECT_EQ(rounds, before) << "the thread is held";
  g_slow = false;
  EXPECT_TRUE(fake::idle());
  const long after = rounds;
  while (rounds == after) usleep(500);
  stop = true;
  plain.join();
  cr_replace_callback(id, nullptr, nullptr, CR_THREAD_CONTEXT);
}

TEST_F(Hooks, ManyRequestsInterruptManyThreads) {
  std::atomic<bool> stop{false};
  std::atomic<int> calls{0};
  static std::atomic<int>* counter = &calls;
  const auto count = +[](void*) {
    ++*counter;
    return 0;
  };
  std::vector<std::thread> threads;
  std::atomic<int> up{0};
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      cr_init();
      cr_register_callback(count, nullptr, CR_SIGNAL_CONTEXT);
      ++up;
      while (!stop) {
        const std::vector<char> work(1000);
        if (work[10] != 0) abort();
      }
    });
  while (up < 8) usleep(500);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(fake::serve(CR_PHASE_CONTINUE), 0);
  EXPECT_EQ(calls, 800);
  // Threads that end while requests are served.
  std::thread session([] {
    for (int i = 0; i < 100; ++i) fake::serve(CR_PHASE_CONTINUE);
  });
  stop = true;
  for (auto& thread : threads) thread.join();
  session.join();
}

TEST_F(Hooks, ChildOfForkStartsAnew) {
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    const auto id = cr_init();
    while (!stop) {
      cr_enter_cs(id);
      cr_leave_cs(id);
    }
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      const auto id = cr_init();
      if (id < 0 || cr_enter_cs(id) != 0 || cr_leave_cs(id) != 0) _exit(1);
      // The fake module is the child's own copy; its agent is a new thread.
      _exit(cr_status() == CR_STATE_IDLE ? 0 : 2);
    }
    int status = -1;
    waitpid(child, &status, 0);
    ASSERT_EQ(status, 0);
  }
  stop = true;
  busy.join();
}

}  // namespace
