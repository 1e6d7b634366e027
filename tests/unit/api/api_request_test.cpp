// SPDX-License-Identifier: GPL-2.0-only
// Requests and snapshots as the program sees them; the helper is helper_fake.cpp.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "agent_fake.h"
#include "base/request_flags.h"
#include "libcr.h"

namespace {

enum Behaviour : unsigned { succeeds = 1, refuses = 2, dies = 3, hangs = 4, counts = 5, never_begins = 6, repeats = 7 };

class Requests : public testing::Test {
 protected:
  void SetUp() override {
    setenv("REPRISE_HELPER", API_HELPER_FAKE, 1);
    ASSERT_GE(cr_init(), 0);
    fd_ = open("/dev/null", O_WRONLY | O_CLOEXEC);
    ASSERT_EQ(cr_initialize_checkpoint_args_t(&args_), 0);
    args_.cr_scope = CR_SCOPE_PROC;
    args_.cr_fd = fd_;
  }
  void TearDown() override { close(fd_); }
  int request(unsigned behaviour) {
    args_.cr_timeout = behaviour;
    return cr_request_checkpoint(&args_, &handle_);
  }
  int fd_ = -1;
  cr_checkpoint_args_t args_;
  cr_checkpoint_handle_t handle_ = 0;
};

TEST_F(Requests, Succeed) {
  ASSERT_EQ(request(succeeds), 0) << cr_last_error();
  char* log = nullptr;
  EXPECT_GT(cr_poll_checkpoint_msg(&handle_, nullptr, &log), 0) << cr_last_error();
  EXPECT_STREQ(log, "it went well\n");
  free(log);
  EXPECT_EQ(cr_reap_checkpoint(&handle_), -1) << "reaped already";
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Requests, NameAParentAndACompression) {
  EXPECT_EQ(args_.cr_parent, nullptr);
  EXPECT_EQ(args_.cr_compress, nullptr);
  const auto said = [this] {
    char* log = nullptr;
    EXPECT_EQ(request(repeats), 0) << cr_last_error();
    EXPECT_GT(cr_poll_checkpoint_msg(&handle_, nullptr, &log), 0) << cr_last_error();
    const std::string text = log ? log : "";
    free(log);
    return text;
  };
  EXPECT_EQ(said(), "|||0\n");
  args_.cr_parent = "/images/one";
  args_.cr_compress = "zstd:3";
  args_.cr_flags = CR_CHKPT_DELTA;
  EXPECT_EQ(said(), "|/images/one|zstd:3|" + std::to_string(CR_CHKPT_DELTA) + "\n");
  args_.cr_parent = nullptr;
  EXPECT_EQ(request(repeats), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_STREQ(cr_last_error(), "CR_CHKPT_DELTA needs cr_parent");
}

// Programs that were built with BLCR's header have a shorter structure.
TEST_F(Requests, OfOldProgramsAreWithoutThem) {
  struct {
    cr_checkpoint_args_t args;
    char behind[sizeof(void*)];
  } old;
  std::memset(&old, 'x', sizeof old);
  ASSERT_EQ(cri_init_checkpoint_args_t(1, &old.args), 0);
  const std::string untouched(sizeof old - offsetof(cr_checkpoint_args_t, cr_parent), 'x');
  EXPECT_EQ(std::string(reinterpret_cast<char*>(&old) + offsetof(cr_checkpoint_args_t, cr_parent), untouched.size()), untouched);
  old.args.cr_scope = CR_SCOPE_PROC;
  old.args.cr_fd = fd_;
  old.args.cr_timeout = repeats;
  ASSERT_EQ(cr_request_checkpoint(&old.args, &handle_), 0) << cr_last_error();
  char* log = nullptr;
  EXPECT_GT(cr_poll_checkpoint_msg(&handle_, nullptr, &log), 0) << cr_last_error();
  EXPECT_STREQ(log, "|||0\n");
  free(log);
  EXPECT_EQ(cri_init_checkpoint_args_t(3, &old.args), -1);
  EXPECT_EQ(errno, EINVAL);
}

// A process must not have its own image open while it is saved.
TEST_F(Requests, ParkTheirDescriptor) {
  char path[] = "/tmp/cr-parked-XXXXXX";
  args_.cr_fd = mkstemp(path);
  struct stat before, meanwhile, after;
  fstat(args_.cr_fd, &before);
  ASSERT_EQ(request(hangs), 0);
  fstat(args_.cr_fd, &meanwhile);
  EXPECT_TRUE(S_ISCHR(meanwhile.st_mode));
  std::thread session([] { fake::serve(CR_PHASE_PAUSED); });
  EXPECT_EQ(cr_poll_checkpoint(&handle_, nullptr), CR_POLL_CHKPT_ERR_POST);
  session.join();
  close(args_.cr_fd);

  args_.cr_fd = open(path, O_WRONLY);
  ASSERT_EQ(request(succeeds), 0);
  EXPECT_GT(cr_poll_checkpoint(&handle_, nullptr), 0);
  fstat(args_.cr_fd, &after);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_EQ(fcntl(args_.cr_fd, F_GETFD), 0);

  ASSERT_EQ(request(succeeds), 0);
  close(args_.cr_fd);  // as some programs do at once
  EXPECT_GT(cr_poll_checkpoint(&handle_, nullptr), 0);
  EXPECT_EQ(fcntl(args_.cr_fd, F_GETFD), -1);
  unlink(path);
}

TEST_F(Requests, FailWithAReason) {
  ASSERT_EQ(request(refuses), 0);
  EXPECT_EQ(cr_poll_checkpoint(&handle_, nullptr), CR_POLL_CHKPT_ERR_POST);
  EXPECT_EQ(errno, CR_EREFUSED);
  EXPECT_STREQ(cr_last_error(), "descriptor 7 is a teapot");
}

TEST_F(Requests, TellAtOnceWhatFailsBeforeTheyBegin) {
  EXPECT_EQ(request(never_begins), -1);
  EXPECT_EQ(errno, EACCES);
  EXPECT_STREQ(cr_last_error(), "descriptor 7 is somebody's");
  args_.cr_flags = CR_CHKPT_ASYNC_ERR;
  ASSERT_EQ(request(never_begins), 0) << "CR_CHKPT_ASYNC_ERR defers the error to cr_poll_checkpoint()";
  EXPECT_EQ(cr_poll_checkpoint(&handle_, nullptr), CR_POLL_CHKPT_ERR_POST);
  EXPECT_EQ(errno, EACCES);
}

int g_nested;
int asking_again(void* arg) {
  cr_checkpoint_handle_t handle;
  g_nested = cr_request_checkpoint(static_cast<cr_checkpoint_args_t*>(arg), &handle) == -1 ? errno : 0;
  return 0;
}

TEST_F(Requests, AreNotMadeOfOneselfInCallbacks) {
  const auto id = cr_register_callback(asking_again, &args_, CR_THREAD_CONTEXT);
  EXPECT_EQ(fake::serve(CR_PHASE_CONTINUE), 0);
  EXPECT_EQ(g_nested, EBUSY);
  cr_replace_callback(id, nullptr, nullptr, CR_THREAD_CONTEXT);
}

TEST_F(Requests, NoticeADeadHelper) {
  ASSERT_EQ(request(dies), 0);
  EXPECT_EQ(cr_poll_checkpoint(&handle_, nullptr), CR_POLL_CHKPT_ERR_POST);
  EXPECT_EQ(errno, CR_EHELPER);
}

TEST_F(Requests, AreWaitedForWithALimit) {
  ASSERT_EQ(request(hangs), 0);
  timeval limit{0, 50'000};
  EXPECT_EQ(cr_wait_checkpoint(&handle_, &limit), 0);
  EXPECT_EQ(limit.tv_sec + limit.tv_usec, 0);
  EXPECT_EQ(cr_reap_checkpoint(&handle_), -1);
  EXPECT_EQ(errno, EAGAIN);
  char text[8];
  EXPECT_EQ(cr_log_checkpoint(&handle_, sizeof text, text), 0);

  // After a restart from the image that was being written, no helper answers any more.
  std::thread session([] { fake::serve(CR_PHASE_RESTARTED); });
  EXPECT_EQ(cr_poll_checkpoint(&handle_, nullptr), CR_POLL_CHKPT_ERR_POST);
  EXPECT_EQ(errno, CR_ERESTARTED);
  session.join();
}

TEST_F(Requests, LeaveNoTraceInTheProgram) {
  static volatile sig_atomic_t children;
  struct sigaction action {};
  action.sa_handler = [](int) { children = children + 1; };
  action.sa_flags = SA_RESTART;
  sigaction(SIGCHLD, &action, nullptr);
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);  // not close-on-exec, as in many programs
  const int before = dup(0);
  close(before);
  ASSERT_EQ(request(counts), 0);
  EXPECT_EQ(cr_poll_checkpoint(&handle_, nullptr), 3) << "the helper inherits only image, block and /proc/PID/mem";
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
  EXPECT_EQ(children, 0);
  const int after = dup(0);
  EXPECT_EQ(before, after) << "no descriptor is left open";
  close(after);
  close(pipe_fds[0]);
  close(pipe_fds[1]);
  signal(SIGCHLD, SIG_DFL);
}

TEST_F(Requests, CheckTheirArguments) {
  cr_checkpoint_args_t bad = args_;
  bad.cr_version = 99;
  EXPECT_EQ(cr_request_checkpoint(&bad, &handle_), -1);
  EXPECT_EQ(errno, EINVAL);
  ASSERT_EQ(cr_initialize_checkpoint_args_t(&bad), 0);
  bad.cr_fd = fd_;
  EXPECT_EQ(cr_request_checkpoint(&bad, &handle_), -1) << "the scope has no default";
  EXPECT_EQ(errno, EINVAL);
  bad = args_;
  bad.cr_fd = 12345;
  EXPECT_EQ(cr_request_checkpoint(&bad, &handle_), -1);
  EXPECT_EQ(errno, EBADF);
  bad = args_;
  bad.cr_target = 0x3FFFFFFF;
  EXPECT_EQ(cr_request_checkpoint(&bad, &handle_), -1);
  EXPECT_EQ(errno, ESRCH);
  bad = args_;
  bad.cr_flags |= CR_CHKPT_PROHIBIT_SELF;
  EXPECT_EQ(cr_request_checkpoint(&bad, &handle_), -1);
  EXPECT_EQ(errno, EDEADLK);
  cr_checkpoint_handle_t none = 1;
  EXPECT_EQ(cr_wait_checkpoint(&none, nullptr), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Requests, NeedAHelper) {
  setenv("REPRISE_HELPER", "/nonexistent", 1);
  EXPECT_EQ(request(succeeds), -1);
  EXPECT_EQ(errno, CR_EHELPER);
}

TEST_F(Requests, OldFormsWait) {
  char path[] = "/tmp/cr-legacy-XXXXXX";
  close(mkstemp(path));
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  cr_request_file(path);
  cr_request_fd(fd_);
  cr_request();
  unlink(path);
}

TEST_F(Requests, RestartAndPause) {
  cr_restart_args_t restart;
  cr_restart_handle_t restart_handle;
  ASSERT_EQ(cr_initialize_restart_args_t(&restart), 0);
  EXPECT_EQ(restart.cr_flags, static_cast<unsigned>(CR_RSTRT_RESTORE_PID));
  restart.cr_fd = fd_;
  ASSERT_EQ(cr_request_restart(&restart, &restart_handle), 0) << cr_last_error();
  EXPECT_GT(cr_poll_restart(&restart_handle, nullptr), 1) << "the pid of the new process";

  cr_pause_args_t pause;
  cr_pause_handle_t pause_handle;
  ASSERT_EQ(cr_initialize_pause_args_t(&pause), 0);
  pause.cr_fd = fd_;
  pause.cr_timeout = succeeds;
  ASSERT_EQ(cr_request_pause(&pause, &pause_handle), 0) << cr_last_error();
  EXPECT_GT(cr_poll_pause(&pause_handle, nullptr), 0);
}

TEST_F(Requests, ArgumentsOfARestart) {
  cr_restart_args_t args;
  cr_restart_handle_t handle;
  const auto refusal = [&](int fd_count = 0, cr_rstrt_fd one = {0, 0, 0}) {
    std::vector<char> room(CR_RSTRT_FDS_SIZE(1));
    auto* const fds = reinterpret_cast<cr_rstrt_fds*>(room.data());
    fds->count = static_cast<unsigned>(fd_count);
    fds->fd[0] = one;
    args.cr_fds = fd_count ? fds : nullptr;
    errno = 0;
    return cr_request_restart(&args, &handle) == 0 ? std::string("none") : std::to_string(errno) + " " + cr_last_error();
  };
  const auto begin = [&] {
    ASSERT_EQ(cr_initialize_restart_args_t(&args), 0);
    args.cr_fd = fd_;
  };
  begin();
  EXPECT_EQ(args.cr_copies, 0U);
  EXPECT_EQ(args.cr_fds, nullptr);
  args.cr_copies = 3;
  EXPECT_NE(refusal().find("22 copies cannot have the same ids"), std::string::npos) << refusal();
  args.cr_flags = 0;
  args.cr_copies = 1001;
  EXPECT_NE(refusal().find("CR_MAX_RSTRT_COPIES"), std::string::npos) << refusal();
  args.cr_copies = 0;
  args.cr_flags = CR_RSTRT_PID_NAMESPACE;
  EXPECT_NE(refusal().find("needs CR_RSTRT_RESTORE_PID"), std::string::npos) << refusal();
  begin();
  EXPECT_NE(refusal(5000).find("CR_MAX_RSTRT_FDS"), std::string::npos) << refusal(5000);
  EXPECT_NE(refusal(1, {1, 0, fd_}).find("not asked for"), std::string::npos) << refusal(1, {1, 0, fd_});
  EXPECT_NE(refusal(1, {0, -1, fd_}).find("negative"), std::string::npos) << refusal(1, {0, -1, fd_});
  EXPECT_EQ(refusal(1, {0, 0, 4711}).substr(0, 2), "9 ") << refusal(1, {0, 0, 4711});
  for (const cr_version_t unknown : {-1, 0, CR_RESTART_ARGS_VERSION + 1}) {
    args.cr_version = unknown;
    EXPECT_EQ(refusal().substr(0, 3), "22 ");
  }
}

TEST_F(Requests, RestartRefusesKeptMemoryThatItCannotPass) {
  cr_restart_args_t args;
  ASSERT_EQ(cr_initialize_restart_args_t(&args), 0);
  EXPECT_EQ(args.cr_kept, nullptr);
  args.cr_fd = fd_;
  const auto refusal = [&](unsigned count, cr_rstrt_kept_one one) {
    alignas(cr_rstrt_kept) char room[CR_RSTRT_KEPT_SIZE(1)];
    auto* const kept = reinterpret_cast<cr_rstrt_kept*>(room);
    kept->count = count;
    kept->memory[0] = one;
    args.cr_kept = kept;
    cr_restart_handle_t handle;
    return cr_request_restart(&args, &handle) == 0 ? "" : std::to_string(errno) + " " + cr_last_error();
  };
  EXPECT_EQ(refusal(5000, {"log", fd_}), "22 more than CR_MAX_RSTRT_KEPT pieces of kept memory");
  EXPECT_EQ(refusal(1, {nullptr, fd_}), "22 kept memory has no name");
  EXPECT_EQ(refusal(1, {"log", 4711}), "9 a descriptor of kept memory is not open");
}

TEST_F(Requests, RestartByOlderVersionsOfItsArguments) {
  // As a program that was compiled with BLCR's structure has it: without what follows cr_relocate. The second lacks cr_kept.
  for (const auto& [version, size] : {std::pair<cr_version_t, std::size_t>{1, offsetof(cr_restart_args_t, cr_fds)},
                                      {2, offsetof(cr_restart_args_t, cr_kept)}}) {
    alignas(cr_restart_args_t) unsigned char memory[sizeof(cr_restart_args_t)];
    std::memset(memory, 0xa5, sizeof memory);
    auto* const args = reinterpret_cast<cr_restart_args_t*>(memory);
    cr_restart_handle_t handle;
    ASSERT_EQ(cri_init_restart_args_t(version, args), 0);
    EXPECT_EQ(memory[size], 0xa5) << "what it does not have is not written";
    args->cr_fd = fd_;
    ASSERT_EQ(cr_request_restart(args, &handle), 0) << cr_last_error();
    EXPECT_GT(cr_poll_restart(&handle, nullptr), 1);
  }
}

TEST_F(Requests, ARestartWaitsUntilItsHelperNeedsUs) {
  // Longer than other requests wait for their start: nobody else can make the process.
  cr_restart_args_t args;
  cr_restart_handle_t handle;
  ASSERT_EQ(cr_initialize_restart_args_t(&args), 0);
  args.cr_fd = fd_;
  args.cr_signal = SIGUSR2;
  ASSERT_EQ(cr_request_restart(&args, &handle), 0) << cr_last_error();
  timeval limit{5, 0};
  ASSERT_GT(cr_wait_restart(&handle, &limit), 0);
  const pid_t child = cr_reap_restart(&handle);
  ASSERT_GT(child, 1);
  kill(child, SIGKILL);
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

TEST_F(Requests, PidsOfARestart) {
  cr_restart_args_t args;
  cr_restart_handle_t handle;
  ASSERT_EQ(cr_initialize_restart_args_t(&args), 0);
  args.cr_fd = fd_;
  ASSERT_EQ(cr_request_restart(&args, &handle), 0) << cr_last_error();
  EXPECT_GT(cr_wait_restart(&handle, nullptr), 0);
  pid_t pids[2] = {-1, -1};
  EXPECT_EQ(cr_restart_pids(&handle, pids, 0), 1);
  EXPECT_EQ(pids[0], -1);
  EXPECT_EQ(cr_restart_pids(&handle, pids, 2), 1);
  EXPECT_EQ(pids[1], -1);
  EXPECT_EQ(cr_reap_restart(&handle), pids[0]);
  EXPECT_EQ(cr_restart_pids(&handle, pids, 2), -1);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Requests, Snapshots) {
  cr_snapshot_t first = 0, second = 0;
  ASSERT_EQ(cr_snapshot_take(0, 0, &first), 0) << cr_last_error();
  ASSERT_EQ(cr_snapshot_take(0, 0, &second), 0);
  EXPECT_NE(first, second);
  EXPECT_EQ(cr_snapshot_drop(second), 0);
  EXPECT_EQ(cr_snapshot_drop(second), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(cr_snapshot_take(0, 0x8000, &second), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(cr_snapshot_drop(first), 0);
}

TEST_F(Requests, SnapshotsOfOthers) {
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  cr_snapshot_t first = 0, second = 0;
  ASSERT_EQ(cr_snapshot_take(child, 0, &first), 0) << cr_last_error();
  ASSERT_EQ(cr_snapshot_take(child, 0, &second), 0);
  EXPECT_EQ(cr_snapshot_rollback(first), 0);
  EXPECT_EQ(cr_snapshot_rollback(second), 0) << "they are a tree: one goes forward, too";
  EXPECT_EQ(cr_snapshot_drop(first), 0);
  EXPECT_EQ(cr_snapshot_rollback(second), 0);
  EXPECT_EQ(cr_snapshot_rollback(first), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(cr_snapshot_drop(second), 0);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

int g_forwarded, g_forward_error;
int forwarding(void* arg) {
  g_forwarded = cr_forward_checkpoint(CR_SCOPE_PROC, *static_cast<pid_t*>(arg));
  g_forward_error = errno;
  return 0;
}

TEST_F(Requests, AreForwarded) {
  pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  const auto id = cr_register_callback(forwarding, &child, CR_THREAD_CONTEXT);
  g_forwarded = -1;
  EXPECT_EQ(fake::serve(CR_PHASE_CONTINUE), 0);
  EXPECT_EQ(g_forwarded, 0);

  fake::set_busy(EBUSY);
  EXPECT_EQ(fake::serve(CR_PHASE_CONTINUE), 0);
  EXPECT_EQ(g_forwarded, -1) << "the other process has a request in progress";
  EXPECT_EQ(g_forward_error, EBUSY);
  fake::set_busy(0);
  // A request must not be forwarded to its requester, here the process itself.
  const pid_t self = getpid(), other = child;
  child = self;
  EXPECT_EQ(fake::serve(CR_PHASE_CONTINUE, reprise::api::pack_request(0, CR_SCOPE_PROC, self, true), self), 0);
  EXPECT_EQ(g_forwarded, -1);
  EXPECT_EQ(g_forward_error, EDEADLK);
  child = other;
  cr_replace_callback(id, nullptr, nullptr, CR_THREAD_CONTEXT);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

}  // namespace
