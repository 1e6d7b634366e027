// SPDX-License-Identifier: GPL-2.0-only
// Callbacks, their order and nesting, and what cr_checkpoint() returns.
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <string>
#include <thread>

#include "agent_fake.h"
#include "base/request_flags.h"
#include "libcr.h"

namespace {

/** What the callbacks did; usable in signal handlers. */
class Trace {
 public:
  void operator+=(char c) {
    cr_spinlock_lock(&lock_);
    if (used_ + 1 < sizeof text_) text_[used_++] = c;
    cr_spinlock_unlock(&lock_);
  }
  void clear() { used_ = 0; }
  std::string text() const { return std::string(text_, used_); }

 private:
  cr_spinlock_t lock_ = CR_SPINLOCK_INITIALIZER;
  char text_[64] = "";
  std::size_t used_ = 0;
};
Trace g_trace;
std::atomic<int> g_result;
std::atomic<pid_t> g_tid;

pid_t tid() { return static_cast<pid_t>(syscall(SYS_gettid)); }

int traced(void* arg) {
  const char name = *static_cast<const char*>(arg);
  g_trace += name;
  g_result = cr_checkpoint(CR_CHECKPOINT_READY);
  g_trace += static_cast<char>(name - 'a' + 'A');
  return 0;
}

int silent(void* arg) {
  g_trace += *static_cast<const char*>(arg);
  return 0;
}

int refusing(void* arg) {
  g_trace += 'r';
  g_result = cr_checkpoint(*static_cast<const int*>(arg));
  g_trace += 'R';
  return 0;
}

char a = 'a', b = 'b', c = 'c', s = 's', t = 't';

class Callbacks : public testing::Test {
 protected:
  void SetUp() override {
    g_trace.clear();
    g_result = -1;
    ASSERT_GE(cr_init(), 0);
  }
  void TearDown() override {
    for (cr_callback_id_t id : ids_)
      cr_replace_callback(id, nullptr, nullptr, id & (CR_THREAD_CONTEXT | CR_SIGNAL_CONTEXT));
  }
  cr_callback_id_t add(cr_callback_t func, void* arg, int context = CR_THREAD_CONTEXT) {
    const cr_callback_id_t id = cr_register_callback(func, arg, context);
    EXPECT_GE(id, 0);
    ids_.push_back(id);
    return id;
  }

 private:
  std::vector<cr_callback_id_t> ids_;
};

TEST_F(Callbacks, NestInReverseOrder) {
  add(traced, &a);
  add(traced, &b);
  EXPECT_EQ(fake::serve(CR_PHASE_CONTINUE), 0);
  EXPECT_EQ(g_trace.text(), "baAB");
  EXPECT_EQ(g_result, CR_CONTINUED);
}

TEST_F(Callbacks, TellOutcomesApart) {
  add(traced, &a);
  fake::serve(CR_PHASE_RESTARTED);
  EXPECT_EQ(g_result, CR_RESTARTED);
  fake::serve(CR_PHASE_PAUSED);
  EXPECT_EQ(g_result, CR_PAUSED);
  fake::serve(CR_PHASE_ABORTED);
  EXPECT_EQ(g_result, -ECANCELED);
}

TEST_F(Callbacks, AreReadyWhenTheyReturn) {
  add(traced, &a);
  add(silent, &b);
  add(traced, &c);
  fake::serve(CR_PHASE_CONTINUE);
  EXPECT_EQ(g_trace.text(), "cbaAC");
}

TEST_F(Callbacks, ServeWithoutAny) { EXPECT_EQ(fake::serve(CR_PHASE_CONTINUE), 0); }

TEST_F(Callbacks, RefuseForNow) {
  int flags = CR_CHECKPOINT_TEMP_FAILURE;
  add(traced, &a);
  add(refusing, &flags);
  add(traced, &b);
  EXPECT_EQ(fake::serve(CR_PHASE_CONTINUE), CR_ETEMPFAIL);
  EXPECT_EQ(g_trace.text(), "brRB") << "callbacks after a refusal are not called";
  EXPECT_EQ(g_result, -CR_ETEMPFAIL);
}

TEST_F(Callbacks, RefuseWithOwnCode) {
  int flags = CR_CHECKPOINT_TEMP_FAILURE_CODE(911);
  add(refusing, &flags);
  EXPECT_EQ(fake::serve(CR_PHASE_CONTINUE), 911);
  EXPECT_EQ(g_result, -911);
}

TEST_F(Callbacks, OmitTheirProcess) {
  int flags = CR_CHECKPOINT_OMIT;
  add(refusing, &flags);
  EXPECT_EQ(fake::serve(CR_PHASE_CONTINUE), CR_EOMITTED);
  EXPECT_EQ(g_result, -CR_EOMITTED);
}

TEST(CallbacksAlone, GiveUpForGood) {
  const pid_t child = fork();
  if (child == 0) {
    static int flags = CR_CHECKPOINT_PERM_FAILURE;
    cr_init();
    cr_register_callback(refusing, &flags, CR_THREAD_CONTEXT);
    fake::notify(CR_PHASE_CHECKPOINT);
    if (fake::ready() != CR_EPERMFAIL) _exit(1);
    fake::outcome(CR_PHASE_ABORTED, false);
    sleep(20);
    _exit(2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
}

/** @return the wait status of a process that runs @p body and then sleeps */
int status_of(void (*body)()) {
  const pid_t child = fork();
  if (child == 0) {
    cr_init();
    body();
    sleep(20);
    _exit(2);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

int giving_up(void*) {
  cr_checkpoint(CR_CHECKPOINT_PERM_FAILURE);
  _exit(3);
}

TEST(CallbacksAlone, DoNotComeBackFromGivingUp) {
  for (const int context : {CR_THREAD_CONTEXT, CR_SIGNAL_CONTEXT}) {
    static int where;
    where = context;
    EXPECT_EQ(status_of([] {
                cr_register_callback(giving_up, nullptr, where);
                fake::serve(CR_PHASE_CONTINUE);
              }),
              SIGKILL)
        << context;
  }
}

int failing_before(void*) { return 1; }
int failing_after(void*) {
  cr_checkpoint(CR_CHECKPOINT_READY);
  return 1;
}

TEST(CallbacksAlone, FailByTheirReturnValue) {
  EXPECT_EQ(status_of([] {
              cr_register_callback(failing_before, nullptr, CR_THREAD_CONTEXT);
              fake::notify(CR_PHASE_CHECKPOINT);
              if (fake::ready() != CR_EPERMFAIL) _exit(1);
              fake::outcome(CR_PHASE_ABORTED, false);
            }),
            SIGKILL)
      << "before the checkpoint";
  EXPECT_EQ(status_of([] {
              cr_register_callback(failing_after, nullptr, CR_SIGNAL_CONTEXT);
              fake::serve(CR_PHASE_RESTARTED);
            }),
            SIGKILL)
      << "after the restart";
  EXPECT_EQ(status_of([] {
              cr_register_callback(failing_after, nullptr, CR_THREAD_CONTEXT);
              fake::serve(CR_PHASE_ABORTED);
              _exit(4);
            }),
            4 << 8)
      << "there was no checkpoint, so the process must not be killed";
}

volatile sig_atomic_t g_signals;
void counting(int) { g_signals = g_signals + 1; }

// The program uses CR_SIGNUM itself.
TEST_F(Callbacks, LeaveTheSignalToTheProgram) {
  struct sigaction own {}, before, after;
  own.sa_handler = counting;
  sigaction(CR_SIGNUM, &own, &before);
  g_signals = 0;
  add(traced, &s, CR_SIGNAL_CONTEXT);
  raise(CR_SIGNUM);
  EXPECT_EQ(g_signals, 1);
  EXPECT_EQ(fake::serve(CR_PHASE_CONTINUE), 0);
  EXPECT_EQ(g_trace.text(), "sS");
  EXPECT_EQ(g_signals, 1) << "the program's handler must not run for the library's signals";
  sigaction(CR_SIGNUM, nullptr, &after);
  EXPECT_EQ(after.sa_handler, counting);
  raise(CR_SIGNUM);
  EXPECT_EQ(g_signals, 2);
  sigaction(CR_SIGNUM, &before, nullptr);
}

int where(void* arg) {
  traced(arg);
  g_tid = tid();
  return 0;
}

TEST_F(Callbacks, SignalContextRunsInItsThreadAfterAllThreadContexts) {
  std::atomic<bool> stop{false}, known{false};
  pid_t worker_tid = 0;
  std::thread worker([&] {
    cr_init();
    worker_tid = tid();
    cr_register_callback(traced, &t, CR_SIGNAL_CONTEXT);
    cr_register_callback(where, &s, CR_SIGNAL_CONTEXT);
    known = true;
    while (!stop) usleep(1000);
  });
  while (!known) usleep(1000);
  add(traced, &a);
  EXPECT_EQ(fake::serve(CR_PHASE_RESTARTED), 0);
  // After the outcome the two contexts run concurrently.
  EXPECT_EQ(g_trace.text().substr(0, 3), "ast");
  EXPECT_EQ(g_tid, worker_tid);
  EXPECT_EQ(g_result, CR_RESTARTED);
  stop = true;
  worker.join();
  g_trace.clear();
  EXPECT_EQ(fake::serve(CR_PHASE_CONTINUE), 0) << "callbacks of a thread that has ended are removed";
  EXPECT_EQ(g_trace.text(), "aA");
}

TEST_F(Callbacks, SignalContextRefuses) {
  int flags = CR_CHECKPOINT_TEMP_FAILURE_CODE(12);
  add(refusing, &flags, CR_SIGNAL_CONTEXT);
  add(traced, &a);
  EXPECT_EQ(fake::serve(CR_PHASE_CONTINUE), 12);
  EXPECT_EQ(g_result, -12);
}

int replacing(void*) {
  g_trace += 'x';
  EXPECT_EQ(cr_replace_self(silent, &c, CR_THREAD_CONTEXT), 0);
  return 0;
}

TEST_F(Callbacks, ReplaceThemselves) {
  add(replacing, nullptr);
  fake::serve(CR_PHASE_CONTINUE);
  fake::serve(CR_PHASE_CONTINUE);
  EXPECT_EQ(g_trace.text(), "xc");
}

TEST_F(Callbacks, AreReplaced) {
  const auto id = add(traced, &a);
  EXPECT_EQ(cr_replace_callback(id, silent, &b, CR_THREAD_CONTEXT), 0);
  fake::serve(CR_PHASE_CONTINUE);
  EXPECT_EQ(g_trace.text(), "b");
  EXPECT_EQ(cr_replace_callback(id, silent, &b, CR_SIGNAL_CONTEXT), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(cr_replace_callback(id + 1000, silent, &b, CR_THREAD_CONTEXT), -1);
  EXPECT_EQ(errno, EINVAL);
}

int g_checks;
int asking(void*) {
  const cr_checkpoint_info* info = cr_get_checkpoint_info();
  if (info != nullptr && info->signal == SIGSTOP && info->requester == 4711 && info->target == 12345 &&
      info->scope == CR_SCOPE_TREE && std::string(info->dest) == "/the/image")
    ++g_checks;
  if (cr_register_callback(silent, nullptr, CR_THREAD_CONTEXT) == -1 && errno == EBUSY) ++g_checks;
  if (cr_enter_cs(CR_ID_CALLBACK) == 0 && cr_leave_cs(CR_ID_CALLBACK) == 0) ++g_checks;
  if (cr_status() == CR_STATE_ACTIVE) ++g_checks;
  cr_checkpoint(0);
  const cr_restart_info* restart = cr_get_restart_info();
  if (restart != nullptr && restart->requester == 4711 && std::string(restart->src) == "/the/image") ++g_checks;
  return 0;
}

TEST_F(Callbacks, LearnAboutTheRequest) {
  g_checks = 0;
  fake::set_origin("/the/image");
  add(asking, nullptr);
  fake::serve(CR_PHASE_RESTARTED, reprise::api::pack_request(SIGSTOP, CR_SCOPE_TREE, 12345));
  EXPECT_EQ(g_checks, 5);
}

TEST(CallbacksAlone, NeedInitAndContext) {
  std::thread([] {
    EXPECT_EQ(cr_register_callback(traced, &a, CR_THREAD_CONTEXT), -1);
    EXPECT_EQ(errno, CR_ENOINIT);
    EXPECT_EQ(cr_status(), -1);
    EXPECT_EQ(errno, CR_ENOINIT);
    EXPECT_EQ(cr_enter_cs(1), -1);
    EXPECT_EQ(errno, CR_ENOINIT);
    EXPECT_EQ(cr_inc_persist(), -1);
    EXPECT_EQ(errno, CR_ENOINIT);
  }).join();
  ASSERT_GE(cr_init(), 0);
  EXPECT_EQ(cr_checkpoint(0), -CR_ENOTCB);
  EXPECT_EQ(cr_replace_self(traced, nullptr, CR_THREAD_CONTEXT), -1);
  EXPECT_EQ(errno, CR_ENOTCB);
  EXPECT_EQ(cr_get_checkpoint_info(), nullptr);
  EXPECT_EQ(cr_get_restart_info(), nullptr);
  EXPECT_EQ(cr_forward_checkpoint(CR_SCOPE_PROC, 1), -1);
  EXPECT_EQ(errno, CR_ENOTCB);
  EXPECT_EQ(cr_register_callback(traced, &a, 0), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(cr_register_callback(traced, &a, CR_THREAD_CONTEXT | CR_SIGNAL_CONTEXT), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST(CallbacksAlone, InitFailsWithoutModule) {
  const pid_t child = fork();
  if (child == 0) {
    fake::set_open_error(ENOSYS);
    _exit(cr_init() == -1 && errno == ENOSYS ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(CallbacksAlone, InitNamesThreads) {
  const auto first = cr_init();
  EXPECT_EQ(cr_init(), first);
  cr_client_id_t second = first;
  std::thread([&] { second = cr_init(); }).join();
  EXPECT_NE(first, second);
  EXPECT_EQ(cr_enter_cs(second), -1);
  EXPECT_EQ(errno, EINVAL);
}

}  // namespace
