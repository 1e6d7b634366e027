// SPDX-License-Identifier: GPL-2.0-only
// The library with the real module. Run it as root in a node (tests/vm); the tests are skipped without the module. Each
// scenario is a process of its own that writes its results to a file, because pipes to it would be in its image.
#include <elf.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "libcr.h"

namespace {

std::string g_notes;  // path of the file with a scenario's results

void note(const std::string& line) {
  const int fd = open(g_notes.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  const std::string text = line + "\n";
  if (write(fd, text.data(), text.size()) < 0) _exit(9);
  close(fd);
}

std::string notes() {
  std::ifstream file(g_notes);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class Module : public testing::Test {
 protected:
  void SetUp() override {
    if (access("/dev/cr", F_OK) != 0) GTEST_SKIP() << "the module is not loaded";
    char pattern[] = "/tmp/cr-module-XXXXXX";
    dir_ = mkdtemp(pattern);
    g_notes = dir_ + "/notes";
    image_ = dir_ + "/image";
  }
  void TearDown() override {
    if (!dir_.empty() && !HasFailure()) std::system(("rm -r " + dir_).c_str());
  }

  /** Run @p scenario in a child process without our standard streams. */
  void start(const std::function<void()>& scenario) {
    child_ = fork();
    if (child_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; ++fd) dup2(null, fd);
    for (int fd = 3; fd < 1024; ++fd) close(fd);
    scenario();
    _exit(0);
  }
  /** Wait until the scenario has written @p line. */
  bool noted(const std::string& line, int seconds = 60) {
    for (int i = 0; i < seconds * 20; ++i) {
      if (("\n" + notes()).find("\n" + line + "\n") != std::string::npos) return true;
      usleep(50'000);
    }
    return false;
  }
  /** @return its status from waitpid */
  int finish() {
    int status = -1;
    waitpid(child_, &status, 0);
    return status;
  }
  int command(const std::string& line) {
    const int status = std::system((line + " >" + dir_ + "/output 2>&1").c_str());
    if (status != 0) {
      std::ifstream file(dir_ + "/output");
      std::stringstream text;
      text << file.rdbuf();
      ADD_FAILURE() << line << ": " << text.str();
    }
    return status;
  }
  std::string pid() const { return std::to_string(child_); }

  std::string dir_, image_;
  pid_t child_ = -1;
};

int g_value;
int noting(void* arg) {
  const std::string name = static_cast<const char*>(arg);
  const int result = cr_checkpoint(CR_CHECKPOINT_READY);
  note(name + " " + std::to_string(result) + " value " + std::to_string(g_value));
  return 0;
}
char g_thread[] = "thread", g_signal[] = "signal";

[[noreturn]] void count_for_ever() {
  note("up");
  for (;;) {
    ++g_value;
    usleep(1000);
  }
}

TEST_F(Module, CallbacksHearOfCheckpointAndPause) {
  start([] {
    cr_init();
    cr_register_callback(noting, g_thread, CR_THREAD_CONTEXT);
    cr_register_callback(noting, g_signal, CR_SIGNAL_CONTEXT);
    count_for_ever();
  });
  ASSERT_TRUE(noted("up"));
  ASSERT_EQ(command("cr_checkpoint " + pid() + " " + image_), 0);
  for (int i = 0; i < 3; ++i) {
    usleep(100'000);
    ASSERT_EQ(command("cr_pause " + pid() + " " + image_), 0);
  }
  usleep(200'000);
  kill(child_, SIGKILL);
  finish();
  int continued = 0, paused = 0;
  std::istringstream lines(notes());
  for (std::string line; std::getline(lines, line);) {
    continued += line.find(" 0 value") != std::string::npos;
    paused += line.find(" 2 value") != std::string::npos;
  }
  EXPECT_EQ(continued, 2) << notes();
  EXPECT_EQ(paused, 6) << notes();
}

TEST_F(Module, CallbacksHearOfRestart) {
  start([] {
    cr_init();
    cr_register_callback(noting, g_thread, CR_THREAD_CONTEXT);
    cr_register_callback(noting, g_signal, CR_SIGNAL_CONTEXT);
    note("up");
    for (;;) pause();
  });
  ASSERT_TRUE(noted("up"));
  ASSERT_EQ(command("cr_checkpoint --kill " + pid() + " " + image_), 0);
  finish();
  const pid_t launcher = fork();
  if (launcher == 0) {
    const int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; ++fd) dup2(null, fd);
    execlp("cr_restart", "cr_restart", image_.c_str(), nullptr);
    _exit(127);
  }
  EXPECT_TRUE(noted("thread 1 value 0")) << notes();
  EXPECT_TRUE(noted("signal 1 value 0")) << notes();
  // A second checkpoint, of the restarted process.
  EXPECT_EQ(command("cr_checkpoint " + pid() + " " + image_ + ".2"), 0);
  EXPECT_TRUE(noted("thread 0 value 0"));
  kill(child_, SIGKILL);
  waitpid(launcher, nullptr, 0);
}

/** Tell by standard output, too. */
int telling(void*) {
  const int rc = cr_checkpoint(CR_CHECKPOINT_READY);
  const char digit = static_cast<char>('0' + rc);
  if (write(1, &digit, 1) != 1) _exit(9);
  note("told " + std::to_string(rc));
  return 0;
}

/** Request the restart of @p image and wait. @return the result of cr_poll_restart() */
int restart(const std::string& image, int signal = 0, unsigned flags = CR_RSTRT_RESTORE_PID) {
  cr_restart_args_t args;
  cr_restart_handle_t handle;
  cr_initialize_restart_args_t(&args);
  args.cr_fd = open(image.c_str(), O_RDONLY | O_CLOEXEC);
  args.cr_signal = signal;
  args.cr_flags = flags;
  int rc = cr_request_restart(&args, &handle);
  if (rc == 0) rc = cr_poll_restart(&handle, nullptr);
  const int err = errno;
  close(args.cr_fd);
  errno = err;
  return rc;
}

/** Restart @p image as @p copies. @return what cr_poll_restart() returns; sets @p pids */
int restart_copies(const std::string& image, unsigned copies, unsigned flags, const std::vector<cr_rstrt_fd>& fds,
                   std::vector<pid_t>& pids) {
  std::vector<char> room(CR_RSTRT_FDS_SIZE(fds.size()));
  auto* const replaced = reinterpret_cast<cr_rstrt_fds*>(room.data());
  replaced->count = static_cast<unsigned>(fds.size());
  std::copy(fds.begin(), fds.end(), replaced->fd);
  cr_restart_args_t args;
  cr_restart_handle_t handle;
  cr_initialize_restart_args_t(&args);
  args.cr_fd = open(image.c_str(), O_RDONLY | O_CLOEXEC);
  args.cr_flags = flags;
  args.cr_copies = copies;
  args.cr_fds = replaced;
  int rc = cr_request_restart(&args, &handle);
  if (rc == 0) rc = cr_wait_restart(&handle, nullptr) > 0 ? 0 : -1;
  if (rc == 0) {
    pids.assign(copies ? copies : 1, 0);
    cr_restart_pids(&handle, pids.data(), static_cast<unsigned>(pids.size()));
    rc = cr_reap_restart(&handle);
  }
  const int err = errno;
  close(args.cr_fd);
  errno = err;
  return rc;
}

/** Descriptors for the standard output of each of @p copies, which are to be closed. */
struct Outputs {
  explicit Outputs(unsigned copies) {
    for (unsigned copy = 1; copy <= copies; ++copy) {
      int pair[2];
      EXPECT_EQ(pipe2(pair, O_CLOEXEC), 0);
      fds.push_back({copy, 1, pair[1]});
      ends.push_back(pair[0]);
    }
  }
  ~Outputs() {
    for (const cr_rstrt_fd& fd : fds) close(fd.with);
    for (const int end : ends) close(end);
  }
  std::string text(std::size_t index) const {
    char got[64] = "";
    return read(ends[index], got, sizeof got - 1) > 0 ? got : "";
  }
  std::vector<cr_rstrt_fd> fds;
  std::vector<int> ends;
};

/**
 * Waits for a file, and writes its pid and a number to standard output: 1, or 2 if the id of its other thread has changed
 * while that ran.
 */
void tell_ids_when_asked() {
  static std::atomic<int> threads{0};
  std::thread([] {
    const pid_t tid = gettid();
    ++threads;
    for (;;) {
      usleep(10'000);
      if (gettid() != tid) break;  // it has another id now
    }
    ++threads;
    for (;;) pause();
  }).detach();
  while (threads == 0) usleep(1000);
  note("up");
  while (access((g_notes + ".go").c_str(), F_OK) != 0) usleep(10'000);
  usleep(100'000);
  char text[64];
  const int size = std::snprintf(text, sizeof text, "%d %d", getpid(), threads.load());
  _exit(write(1, text, static_cast<std::size_t>(size)) == size ? 7 : 8);
}

TEST_F(Module, CopiesOfAProcess) {
  start(tell_ids_when_asked);
  ASSERT_TRUE(noted("up"));
  usleep(100'000);
  ASSERT_EQ(command("cr_checkpoint --kill " + pid() + " " + image_), 0);
  finish();
  const std::string go = g_notes + ".go";
  constexpr unsigned kCopies = 12;
  for (const unsigned flags : {0U, static_cast<unsigned>(CR_RSTRT_PID_NAMESPACE | CR_RSTRT_RESTORE_PID)}) {
    SCOPED_TRACE(flags);
    unlink(go.c_str());
    const Outputs outputs(kCopies);
    std::vector<pid_t> pids;
    const int first = restart_copies(image_, kCopies, flags, outputs.fds, pids);
    ASSERT_GT(first, 0) << cr_last_error();
    EXPECT_EQ(first, pids[0]);
    EXPECT_EQ(std::set<pid_t>(pids.begin(), pids.end()).size(), kCopies);
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), 0) << "there are children, and none of them has ended: the first one is reaped";
    close(creat(go.c_str(), 0600));
    for (unsigned i = 0; i < kCopies; ++i) {
      int status = -1;
      EXPECT_EQ(waitpid(pids[i], &status, 0), pids[i]);
      EXPECT_EQ(status, 7 << 8);
      EXPECT_EQ(outputs.text(i), flags ? pid() + " 1" : std::to_string(pids[i]) + " 2");
    }
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "no other child is there";
    EXPECT_EQ(errno, ECHILD);
  }
  // One by itself, with a descriptor of ours.
  const Outputs output(1);
  std::vector<pid_t> pids;
  ASSERT_EQ(restart_copies(image_, 0, CR_RSTRT_RESTORE_PID, {{0, 1, output.fds[0].with}}, pids), child_) << cr_last_error();
  EXPECT_EQ(finish(), 7 << 8);
  EXPECT_EQ(output.text(0), pid() + " 1");
}

// A restarted process has other pipes than the image, and none of its connections.
TEST_F(Module, ARestartedProcessIsRolledBackAsOneAndKeepsItsPipes) {
  start([] {
    int ends[2];
    if (pipe(ends) != 0) _exit(9);
    if (fork() == 0) {  // the other process, so that the pipe's content is not in the image
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(ends[1]);
      for (;;) pause();
    }
    dup2(ends[1], 1);
    close(ends[0]);
    close(ends[1]);
    cr_init();
    cr_register_callback(telling, nullptr, CR_THREAD_CONTEXT);
    note("up");
    for (;;) pause();
  });
  ASSERT_TRUE(noted("up"));
  ASSERT_EQ(command("cr_checkpoint --kill " + pid() + " " + image_), 0);
  finish();
  const Outputs output(1);
  std::vector<pid_t> pids;
  ASSERT_EQ(restart_copies(image_, 0, CR_RSTRT_RESTORE_PID, {{0, 1, output.fds[0].with}}, pids), child_) << cr_last_error();
  ASSERT_TRUE(noted("told 1"));
  EXPECT_EQ(output.text(0), "1");
  for (int i = 0; i < 2; ++i) {
    unlink(g_notes.c_str());
    ASSERT_EQ(command("cr_pause --keep-pipe 1 " + pid() + " " + image_), 0);
    ASSERT_TRUE(noted("told 1")) << notes();
    EXPECT_EQ(output.text(0), "1");
  }
  // It is the process of an image that was taken since.
  ASSERT_EQ(command("cr_checkpoint " + pid() + " " + image_ + ".2"), 0);
  ASSERT_TRUE(noted("told 0"));
  ASSERT_EQ(command("cr_pause " + pid() + " " + image_ + ".2"), 0);
  ASSERT_TRUE(noted("told 2")) << notes();
  EXPECT_EQ(output.text(0), "02");
  kill(child_, SIGKILL);
  finish();
}

TEST_F(Module, CopiesThatFailLeaveNoChildren) {
  start([] {
    cr_init();
    cr_register_callback([](void*) { return cr_checkpoint(CR_CHECKPOINT_READY) == CR_RESTARTED ? 1 : 0; }, nullptr,
                         CR_THREAD_CONTEXT);
    note("up");
    for (;;) pause();
  });
  ASSERT_TRUE(noted("up"));
  ASSERT_EQ(command("cr_checkpoint --kill " + pid() + " " + image_), 0);
  finish();
  std::vector<pid_t> pids;
  // Descriptors that one copy or the image does not have: before there are any. Callbacks that fail: when all are there.
  EXPECT_EQ(restart_copies(image_, 5, 0, {{2, 1, 1}}, pids), -1);
  EXPECT_NE(std::string(cr_last_error()).find("descriptor 1 has no substitute in copy 1"), std::string::npos) << cr_last_error();
  EXPECT_EQ(restart_copies(image_, 5, 0, {{0, 77, 1}}, pids), -1);
  EXPECT_NE(std::string(cr_last_error()).find("77"), std::string::npos) << cr_last_error();
  for (const unsigned flags : {0U, static_cast<unsigned>(CR_RSTRT_PID_NAMESPACE | CR_RSTRT_RESTORE_PID)}) {
    EXPECT_EQ(restart_copies(image_, 5, flags, {}, pids), -1);
    EXPECT_EQ(errno, CR_ERSTRTABRT) << cr_last_error();
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "no child is left";
    EXPECT_EQ(errno, ECHILD);
  }
}

TEST_F(Module, ARestartTakesKeptMemory) {
  start([] {
    void* at = nullptr;
    const int fd = cr_kept_alloc("log", 1 << 20, 0, &at);
    auto* const text = static_cast<char*>(at);
    std::strcpy(text, "at the checkpoint");
    note(fd == 3 ? "up" : "another descriptor");
    while (std::strcmp(text, "go") != 0 && *text != 0) usleep(10'000);
    _exit(*text == 0 ? 5 : 6);
  });
  ASSERT_TRUE(noted("up")) << notes();
  const int held = open(("/proc/" + pid() + "/fd/3").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(held, 0);
  ASSERT_EQ(command("cr_checkpoint --kill " + pid() + " " + image_), 0);
  finish();
  cr_restart_args_t args;
  cr_initialize_restart_args_t(&args);
  args.cr_fd = open(image_.c_str(), O_RDONLY | O_CLOEXEC);
  alignas(cr_rstrt_kept) char room[CR_RSTRT_KEPT_SIZE(1)];
  auto* const kept = reinterpret_cast<cr_rstrt_kept*>(room);
  kept->count = 1;
  cr_restart_handle_t handle;
  const auto restart = [&](const char* name) {
    kept->memory[0] = {name, held};
    args.cr_kept = name ? kept : nullptr;
    const int rc = cr_request_restart(&args, &handle);
    return rc == 0 ? cr_poll_restart(&handle, nullptr) : rc;
  };
  ASSERT_EQ(restart("log"), child_) << cr_last_error();
  EXPECT_EQ(waitpid(child_, nullptr, WNOHANG), 0) << "it has its old content, and so it waits";
  ASSERT_EQ(pwrite(held, "go", 3, 0), 3);
  EXPECT_EQ(finish(), 6 << 8);
  ASSERT_EQ(restart(nullptr), child_) << cr_last_error();
  EXPECT_EQ(finish(), 5 << 8) << "it is empty";
  EXPECT_LT(restart("other"), 0);
  EXPECT_NE(std::string(cr_last_error()).find("no kept memory named other; it has log"), std::string::npos) << cr_last_error();
  close(args.cr_fd);
  close(held);
}

int lingering(void*) {
  const int rc = cr_checkpoint(CR_CHECKPOINT_READY);
  usleep(500'000);
  note("callback " + std::to_string(rc));
  return 0;
}
void noting_signal(int) { note("signal"); }

TEST_F(Module, RestartedProcessesAreSignalledWhenTheirCallbacksHaveReturned) {
  start([] {
    signal(SIGUSR1, noting_signal);
    cr_init();
    cr_register_callback(lingering, nullptr, CR_THREAD_CONTEXT);
    note("up");
    for (;;) pause();
  });
  ASSERT_TRUE(noted("up"));
  ASSERT_EQ(command("cr_checkpoint --kill " + pid() + " " + image_), 0);
  finish();
  unlink(g_notes.c_str());
  ASSERT_EQ(restart(image_, SIGUSR1), child_) << cr_last_error();
  EXPECT_TRUE(noted("signal"));
  EXPECT_EQ(notes(), "callback 1\nsignal\n");
  kill(child_, SIGKILL);
  finish();
  unlink(g_notes.c_str());
  ASSERT_EQ(restart(image_, -SIGUSR1), child_) << cr_last_error();
  EXPECT_EQ(notes(), "signal\ncallback 1\n") << "a negative signal is sent before the callbacks run";
  kill(child_, SIGKILL);
  finish();
}

int failing_on_restart(void*) { return cr_checkpoint(CR_CHECKPOINT_READY) == CR_RESTARTED; }

TEST_F(Module, CallbacksFailARestart) {
  start([] {
    cr_init();
    cr_register_callback(failing_on_restart, nullptr, CR_THREAD_CONTEXT);
    note("up");
    for (;;) pause();
  });
  ASSERT_TRUE(noted("up"));
  ASSERT_EQ(command("cr_checkpoint --kill " + pid() + " " + image_), 0);
  finish();
  EXPECT_EQ(restart(image_), CR_POLL_RSTRT_ERR_POST);
  EXPECT_EQ(errno, CR_ERSTRTABRT) << cr_last_error();
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "and no child is left to wait for";
  EXPECT_EQ(errno, ECHILD);
}

int informing(void*) {
  const cr_checkpoint_info* before = cr_get_checkpoint_info();
  note(std::string("to ") + before->dest + " for " + std::to_string(before->requester));
  if (cr_checkpoint(CR_CHECKPOINT_READY) <= 0) return 0;
  const cr_restart_info* after = cr_get_restart_info();
  note(std::string("from ") + after->src + " for " + std::to_string(after->requester));
  return 0;
}

TEST_F(Module, CallbacksHearWhoAsksForWhichImage) {
  start([] {
    cr_init();
    cr_register_callback(informing, nullptr, CR_THREAD_CONTEXT);
    note("up");
    for (;;) pause();
  });
  ASSERT_TRUE(noted("up"));
  ASSERT_EQ(command("cd " + dir_ + " && cr_checkpoint --kill " + pid() + " image"), 0);
  finish();
  EXPECT_NE(notes().find("to " + image_ + " for "), std::string::npos) << notes();
  ASSERT_EQ(restart(image_), child_) << cr_last_error();
  EXPECT_TRUE(noted("from " + image_ + " for " + std::to_string(getpid()))) << notes();
  kill(child_, SIGKILL);
  finish();
}

TEST_F(Module, PipesToOthersBecomeStandardInputAndOutputOfARestart) {
  start([] {
    int in[2], out[2];
    if (pipe(in) != 0 || pipe(out) != 0) _exit(1);
    const pid_t other = fork();
    if (other == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(in[0]);
      close(out[1]);
      for (;;) pause();
    }
    close(in[1]);
    close(out[0]);
    note("up");
    char text[16];
    const ssize_t got = read(in[0], text, sizeof text);
    _exit(write(out[1], text, static_cast<std::size_t>(got)) == got ? 7 : 8);
  });
  ASSERT_TRUE(noted("up"));
  usleep(100'000);
  ASSERT_EQ(command("cr_checkpoint --kill " + pid() + " " + image_), 0);
  finish();
  int in[2], out[2];
  ASSERT_EQ(pipe2(in, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(out, O_CLOEXEC), 0);
  const int own_in = dup(0), own_out = dup(1);
  dup2(in[0], 0);
  dup2(out[1], 1);
  const pid_t made = restart(image_);
  dup2(own_in, 0);
  dup2(own_out, 1);
  ASSERT_EQ(made, child_) << cr_last_error();
  ASSERT_EQ(write(in[1], "hello", 5), 5);
  EXPECT_EQ(finish(), 7 << 8);
  char text[16] = "";
  EXPECT_EQ(read(out[0], text, sizeof text), 5);
  EXPECT_STREQ(text, "hello");
}

int refusing(void*) {
  cr_checkpoint(CR_CHECKPOINT_TEMP_FAILURE_CODE(77));
  return 0;
}

int request(const std::string& image, pid_t target, cr_checkpoint_handle_t* handle) {
  cr_checkpoint_args_t args;
  cr_initialize_checkpoint_args_t(&args);
  args.cr_scope = CR_SCOPE_PROC;
  args.cr_target = target;
  args.cr_fd = open(image.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const int rc = cr_request_checkpoint(&args, handle);
  return rc < 0 ? rc : args.cr_fd;
}

TEST_F(Module, RefusalsReachTheRequester) {
  start([] {
    cr_init();
    cr_register_callback(refusing, nullptr, CR_THREAD_CONTEXT);
    count_for_ever();
  });
  ASSERT_TRUE(noted("up"));
  cr_checkpoint_handle_t handle;
  const int fd = request(image_, child_, &handle);
  ASSERT_GE(fd, 0) << cr_last_error();
  EXPECT_EQ(cr_poll_checkpoint(&handle, nullptr), CR_POLL_CHKPT_ERR_POST);
  EXPECT_EQ(errno, 77) << cr_last_error();
  close(fd);
  kill(child_, SIGKILL);
  finish();
}

TEST_F(Module, RequestsReturnWhenTheirTargetKnows) {
  const std::string image = image_;
  start([image] {
    const auto id = cr_init();
    cr_register_callback(noting, g_thread, CR_THREAD_CONTEXT);
    cr_checkpoint_handle_t handle, second;
    cr_enter_cs(id);
    const int fd = request(image, 0, &handle);
    note(cr_status() == CR_STATE_PENDING ? "pending" : "not pending");
    const int again = request(image + ".2", 0, &second) < 0 ? errno : 0;
    note(again == EBUSY ? "busy" : "not busy");
    cr_leave_cs(id);
    note(cr_poll_checkpoint(&handle, nullptr) > 0 ? "saved" : cr_last_error());
    close(fd);
  });
  EXPECT_EQ(finish(), 0);
  EXPECT_EQ(notes(), "pending\nbusy\nthread 0 value 0\nsaved\n");
}

TEST_F(Module, BusyTargetsRefuseAtOnce) {
  start([] {
    const auto id = cr_init();
    cr_enter_cs(id);
    note("up");
    for (;;) pause();
  });
  ASSERT_TRUE(noted("up"));
  cr_checkpoint_handle_t first, second;
  const int fd = request(image_, child_, &first);
  ASSERT_GE(fd, 0) << cr_last_error();
  const time_t began = time(nullptr);
  EXPECT_EQ(request(image_ + ".2", child_, &second), -1);
  EXPECT_EQ(errno, EBUSY) << cr_last_error();
  EXPECT_LT(time(nullptr) - began, 5);
  kill(child_, SIGKILL);
  finish();
  EXPECT_EQ(cr_poll_checkpoint(&first, nullptr), CR_POLL_CHKPT_ERR_POST);
  close(fd);
}

TEST_F(Module, TracedTargetsAreRefusedByTheirName) {
  start([] {
    note("up");
    for (;;) pause();
  });
  ASSERT_TRUE(noted("up"));
  ASSERT_EQ(ptrace(PTRACE_SEIZE, child_, nullptr, nullptr), 0);
  cr_checkpoint_handle_t handle;
  EXPECT_EQ(request(image_, child_, &handle), -1);
  EXPECT_EQ(errno, CR_EPTRACED) << cr_last_error();
  EXPECT_EQ(request(image_, getpid(), &handle), -1);
  EXPECT_EQ(errno, CR_EPTRACER) << cr_last_error();
  cr_snapshot_t snapshot;
  EXPECT_EQ(cr_snapshot_take(child_, 0, &snapshot), -1);
  EXPECT_EQ(errno, CR_EPTRACED) << cr_last_error();
  kill(child_, SIGKILL);
  finish();
}

// A program that saves itself, continues, and rolls itself back once.
TEST_F(Module, ProgramsSaveAndRollBackThemselves) {
  const std::string image = image_;
  start([image] {
    cr_init();
    cr_register_callback(noting, g_thread, CR_THREAD_CONTEXT);
    cr_checkpoint_handle_t handle;
    g_value = 1;
    const int fd = request(image, 0, &handle);
    if (fd < 0) note(std::string("request: ") + cr_last_error());
    int rc;
    while ((rc = cr_poll_checkpoint(&handle, nullptr)) == CR_POLL_CHKPT_ERR_PRE && errno == EINTR) {}
    const int err = errno;
    close(fd);
    if (rc == CR_POLL_CHKPT_ERR_POST && err == CR_ERESTARTED) {
      note("back with " + std::to_string(g_value));
      _exit(g_value == 1 ? 5 : 6);
    }
    note(rc > 0 ? "saved" : std::string("failed: ") + cr_last_error());
    g_value = 2;
    cr_pause_args_t args;
    cr_pause_handle_t pause_handle;
    cr_initialize_pause_args_t(&args);
    args.cr_fd = open(image.c_str(), O_RDONLY | O_CLOEXEC);
    cr_request_pause(&args, &pause_handle);
    while (cr_poll_pause(&pause_handle, nullptr) == CR_POLL_PAUSE_ERR_PRE && errno == EINTR) {}
    note(std::string("not rolled back: ") + cr_last_error());
    _exit(7);
  });
  EXPECT_EQ(finish(), 5 << 8) << notes();
  EXPECT_NE(notes().find("thread 2 value 1"), std::string::npos) << notes();

  // Then again, by a restart requested from here.
  unlink(g_notes.c_str());
  cr_restart_args_t args;
  cr_restart_handle_t handle;
  cr_initialize_restart_args_t(&args);
  args.cr_fd = open(image_.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(cr_request_restart(&args, &handle), 0) << cr_last_error();
  EXPECT_EQ(cr_poll_restart(&handle, nullptr), child_) << cr_last_error();
  close(args.cr_fd);
  EXPECT_EQ(finish(), 5 << 8) << "it is our child";
  EXPECT_TRUE(noted("back with 1")) << notes();
  EXPECT_NE(notes().find("thread 1 value 1"), std::string::npos) << notes();
}

void snapshot_loop(unsigned flags) {
  constexpr int kRounds = 20;
  cr_init();
  cr_register_callback(noting, g_thread, CR_THREAD_CONTEXT);
  std::vector<int> data(100'000, 7);
  cr_snapshot_t snapshot;
  volatile bool stop = false;
  std::thread other([&] {
    while (!stop) usleep(100);
  });
  const int times = cr_snapshot_take(0, flags, &snapshot);
  if (times < 0) {
    note(std::string("take: ") + cr_last_error());
    _exit(3);
  }
  for (int value : data)
    if (value != 7) _exit(4);
  if (times == kRounds) {
    if (cr_snapshot_drop(snapshot) != 0) _exit(5);
    stop = true;
    other.join();
    note("done");
    return;
  }
  for (int& value : data) value = times;
  cr_snapshot_rollback(snapshot);
  note(std::string("rollback: ") + cr_last_error());
  _exit(6);
}

TEST_F(Module, SnapshotsOfOneself) {
  start([] { snapshot_loop(0); });
  EXPECT_EQ(finish(), 0) << notes();
  EXPECT_EQ(notes(), "done\n");
}

TEST_F(Module, SnapshotsOfOneselfWithCallbacks) {
  start([] { snapshot_loop(CR_SNAPSHOT_CALLBACKS); });
  EXPECT_EQ(finish(), 0) << notes();
  std::size_t paused = 0;
  for (std::size_t at = 0; (at = notes().find("thread 2", at)) != std::string::npos; ++at) ++paused;
  EXPECT_EQ(paused, 20U) << notes();
}

TEST_F(Module, SnapshotsWithinSnapshots) {
  start([] {
    cr_snapshot_t outer, inner;
    g_value = 1;
    const int first = cr_snapshot_take(0, 0, &outer);
    if (first == 2) _exit(g_value == 1 ? 0 : 3);
    g_value = 10 + first;
    const int second = cr_snapshot_take(0, 0, &inner);
    if (second < 0 || g_value != 10 + first) _exit(4);
    g_value = 99;
    if (second < 2) cr_snapshot_rollback(inner);
    cr_snapshot_rollback(outer);
    note(cr_last_error());
    _exit(5);
  });
  EXPECT_EQ(finish(), 0) << notes();
}

TEST_F(Module, SnapshotsOfOthers) {
  static volatile int* shared_nothing = new int(0);
  start([] {
    note("up");
    for (;;) {
      *shared_nothing = *shared_nothing + 1;
      note("count " + std::to_string(*shared_nothing));
      usleep(20'000);
    }
  });
  ASSERT_TRUE(noted("up"));
  cr_snapshot_t snapshot;
  ASSERT_EQ(cr_snapshot_take(child_, 0, &snapshot), 0) << cr_last_error();
  ASSERT_TRUE(noted("count 40"));
  for (int i = 0; i < 5; ++i) {
    // Not removed: the file may have been open when the snapshot was taken.
    EXPECT_EQ(truncate(g_notes.c_str(), 0), 0);
    EXPECT_EQ(cr_snapshot_rollback(snapshot), 0) << cr_last_error();
    ASSERT_TRUE(noted("count 40"));
  }
  kill(child_, SIGKILL);
  finish();
  EXPECT_EQ(cr_snapshot_rollback(snapshot), -1);
  EXPECT_EQ(errno, ESRCH) << cr_last_error();
  EXPECT_EQ(cr_snapshot_drop(snapshot), 0);
}

TEST_F(Module, ImagesOfOthersAreKept) {
  static volatile int* count = new int(0);
  start([] {
    note("up");
    for (;;) {
      *count = *count + 1;
      note("count " + std::to_string(*count));
      usleep(20'000);
    }
  });
  const auto counted = [] {
    const std::string all = notes();
    const auto at = all.rfind("count ");
    return at == std::string::npos ? 0 : std::stoi(all.substr(at + 6));
  };
  const auto reaches = [&](int number) {
    for (int i = 0; i < 1200 && counted() < number; ++i) usleep(50'000);
    return counted() >= number;
  };
  ASSERT_TRUE(reaches(5));
  ASSERT_EQ(command("cr_checkpoint " + pid() + " " + image_), 0);
  const int limit = counted() + 40;  // far above what the image has
  const int fd = open(image_.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  cr_snapshot_t kept = 0;
  EXPECT_EQ(cr_snapshot_load(0, fd, 0, &kept), -1);
  EXPECT_EQ(errno, EINVAL) << cr_last_error();
  EXPECT_EQ(cr_snapshot_load(child_, -1, 0, &kept), -1);
  EXPECT_EQ(errno, EBADF) << cr_last_error();
  const int none = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(cr_snapshot_load(child_, none, 0, &kept), -1);
  EXPECT_EQ(errno, CR_EBADARCH) << cr_last_error();
  EXPECT_EQ(kept, 0U);
  close(none);
  const auto goes_back = [&](const char* when) {
    // What it notes from now on. The same file: it may have been open when the snapshot was taken.
    EXPECT_EQ(truncate(g_notes.c_str(), 0), 0);
    EXPECT_TRUE(reaches(1)) << when;
    EXPECT_LT(counted(), limit) << when;
  };
  ASSERT_TRUE(reaches(limit));
  ASSERT_EQ(cr_snapshot_load(child_, fd, 0, &kept), 0) << cr_last_error();
  goes_back("load");
  close(fd);
  unlink(image_.c_str());
  ASSERT_TRUE(reaches(limit));
  cr_snapshot_t later = 0;
  ASSERT_EQ(cr_snapshot_take(child_, 0, &later), 0) << cr_last_error();
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(cr_snapshot_rollback(kept), 0) << cr_last_error();
    goes_back("rollback");
    EXPECT_EQ(cr_snapshot_rollback(later), 0) << cr_last_error();
    EXPECT_TRUE(reaches(limit)) << "forward";
  }
  EXPECT_EQ(cr_snapshot_drop(kept), 0);
  EXPECT_EQ(cr_snapshot_drop(later), 0);
  kill(child_, SIGKILL);
  finish();
}

TEST_F(Module, CriticalSectionsDelay) {
  start([] {
    const auto id = cr_init();
    cr_enter_cs(id);
    note("up");
    while (cr_status() == CR_STATE_IDLE) usleep(1000);
    note("pending");
    usleep(300'000);
    g_value = 1;
    cr_register_callback(noting, g_thread, CR_THREAD_CONTEXT);
    cr_leave_cs(id);
    for (;;) pause();
  });
  ASSERT_TRUE(noted("up"));
  ASSERT_EQ(command("cr_checkpoint " + pid() + " " + image_), 0);
  EXPECT_EQ(notes(), "up\npending\nthread 0 value 1\n");
  kill(child_, SIGKILL);
  finish();
}

TEST_F(Module, ImagesAreRead) {
  static const char marker[] = "a text that is easily found";
  static char* text = strdup(marker);
  start([] { count_for_ever(); });
  ASSERT_TRUE(noted("up"));
  cr_checkpoint_handle_t handle;
  const int fd = request(image_, child_, &handle);
  ASSERT_GE(fd, 0) << cr_last_error();
  ASSERT_GT(cr_poll_checkpoint(&handle, nullptr), 0) << cr_last_error();
  EXPECT_GT(lseek(fd, 0, SEEK_END), 0) << "the descriptor refers to the finished image";
  close(fd);
  kill(child_, SIGKILL);
  finish();

  cr_image_t* image = nullptr;
  ASSERT_EQ(cr_image_open(image_.c_str(), &image), 0) << cr_last_error();
  EXPECT_EQ(cr_image_pid(image), child_);
  EXPECT_GE(cr_image_threads(image), 1);
  EXPECT_EQ(cr_image_tid(image, 0), child_);
  EXPECT_GT(cr_image_runs(image), 0);
  char found[sizeof marker] = "";
  EXPECT_EQ(cr_image_read(image, reinterpret_cast<std::uint64_t>(text), found, sizeof found),
            static_cast<ssize_t>(sizeof found));
  EXPECT_STREQ(found, marker);
  EXPECT_EQ(cr_image_read(image, 0x1000, found, 1), -1);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(cr_image_verify(image), 0) << cr_last_error();
  std::unique_ptr<char, void (*)(void*)> json(cr_image_json(image), free);
  ASSERT_NE(json, nullptr);
  EXPECT_NE(strstr(json.get(), "\"pid\""), nullptr);
  cr_image_close(image);
}

// A file of no image, and images whose header or content is not as it was written.
TEST_F(Module, WhatIsNoImageIsToldFromADamagedOne) {
  start([] { count_for_ever(); });
  ASSERT_TRUE(noted("up"));
  ASSERT_EQ(command("cr_checkpoint " + pid() + " " + image_), 0);
  kill(child_, SIGKILL);
  finish();
  const std::string text = dir_ + "/text", damaged = dir_ + "/damaged", foreign = dir_ + "/foreign", cut = dir_ + "/cut";
  std::ofstream(text) << "no image\n";
  const auto copy = [&](const std::string& to, off_t at, unsigned short value) {
    ASSERT_EQ(command("cp " + image_ + " " + to), 0);
    const int fd = open(to.c_str(), O_WRONLY | O_CLOEXEC);
    EXPECT_EQ(pwrite(fd, &value, sizeof value, at), static_cast<ssize_t>(sizeof value));
    close(fd);
  };
  copy(damaged, 64 + 40, 0xffff);               // in the first program header
  copy(foreign, offsetof(Elf64_Ehdr, e_machine), EM_AARCH64);
  ASSERT_EQ(command("cp " + image_ + " " + cut + " && truncate -s -4096 " + cut), 0);

  for (const auto& [path, code] : {std::pair{text, int{CR_EBADARCH}}, {foreign, CR_EBADARCH}, {damaged, CR_EIMAGE}, {cut, CR_EIMAGE}}) {
    cr_image_t* image = nullptr;
    EXPECT_EQ(cr_image_open(path.c_str(), &image), -1) << path;
    EXPECT_EQ(errno, code) << path << ": " << cr_last_error();
    EXPECT_NE(std::string(cr_last_error()).find(path), std::string::npos) << cr_last_error();

    cr_restart_args_t args;
    cr_initialize_restart_args_t(&args);
    args.cr_fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    cr_restart_handle_t handle;
    const int requested = cr_request_restart(&args, &handle);
    EXPECT_LT(requested < 0 ? requested : cr_poll_restart(&handle, nullptr), 0) << path;
    EXPECT_EQ(errno, code) << path << ": " << cr_last_error();
    close(args.cr_fd);
  }
}

TEST_F(Module, SnapshotsBelongToTheProcessThatTookThem) {
  start([] {
    alarm(60);
    cr_snapshot_t handle = 0;
    const int times = cr_snapshot_take(0, 0, &handle);
    note("taken " + std::to_string(times));
    if (times != 0) return;
    const pid_t other = fork();
    if (other == 0) {
      errno = 0;
      const int back = cr_snapshot_rollback(handle);
      note("rollback " + std::to_string(back) + (errno == EINVAL ? " EINVAL" : ""));
      errno = 0;
      const int drop = cr_snapshot_drop(handle);
      note("drop " + std::to_string(drop) + (errno == EINVAL ? " EINVAL" : ""));
      cr_snapshot_t own = 0;
      const int taken = cr_snapshot_take(0, 0, &own);
      note("own " + std::to_string(taken));
      if (taken == 0) cr_snapshot_rollback(own);
      _exit(cr_snapshot_drop(own) == 0 ? 0 : 1);
    }
    int status = -1;
    waitpid(other, &status, 0);
    note("child " + std::to_string(status));
    cr_snapshot_rollback(handle);
    note("not reached");
  });
  EXPECT_EQ(finish(), 0);
  EXPECT_EQ(notes(), "taken 0\nrollback -1 EINVAL\ndrop -1 EINVAL\nown 0\nown 1\nchild 0\ntaken 1\n");
}

std::atomic<bool> g_enough;
void* take_and_drop(void* target) {
  while (!g_enough) {
    cr_snapshot_t handle = 0;
    if (cr_snapshot_take(*static_cast<pid_t*>(target), 0, &handle) == 0) cr_snapshot_drop(handle);
  }
  return nullptr;
}

TEST_F(Module, AForkWhileAnotherThreadTakesASnapshotLeavesTheChildAble) {
  start([] {
    alarm(120);
    static pid_t target = fork();
    if (target == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) pause();
    }
    pthread_t thread;
    pthread_create(&thread, nullptr, take_and_drop, &target);
    usleep(200'000);
    for (int i = 0; i < 10; ++i) {
      const pid_t other = fork();
      if (other == 0) {
        alarm(60);
        cr_snapshot_t own = 0;
        if (cr_snapshot_take(0, 0, &own) < 0) note(cr_last_error());
        _exit(cr_snapshot_drop(own) == 0 ? 0 : 1);
      }
      int status = -1;
      waitpid(other, &status, 0);
      if (status != 0) note("child " + std::to_string(i) + ": " + std::to_string(status));
      usleep(3'000);
    }
    g_enough = true;
    pthread_join(thread, nullptr);
    kill(target, SIGKILL);
    note("done");
  });
  EXPECT_EQ(finish(), 0);
  EXPECT_EQ(notes(), "done\n");
}

cr_snapshot_t g_snapshot;
int dropping(void*) {
  const int drop = cr_snapshot_drop(g_snapshot);
  const int err = errno;
  const pid_t other = fork();
  if (other == 0) _exit(7);
  int status = -1;
  waitpid(other, &status, 0);
  note("drop " + std::to_string(drop) + (drop < 0 && err == EBUSY ? " EBUSY" : "") + ", forked " +
       std::to_string(WEXITSTATUS(status)));
  return 0;
}

// Whoever takes the snapshot waits for the callback: it must not wait for the snapshot.
TEST_F(Module, ACallbackOfASnapshotMayForkAndIsRefusedSnapshots) {
  start([] {
    alarm(60);
    cr_init();
    note("taken " + std::to_string(cr_snapshot_take(0, 0, &g_snapshot)));
    cr_register_callback(dropping, nullptr, CR_THREAD_CONTEXT);
    cr_register_callback(dropping, nullptr, CR_SIGNAL_CONTEXT);
    cr_snapshot_t second = 0;
    note("taken " + std::to_string(cr_snapshot_take(0, CR_SNAPSHOT_CALLBACKS, &second)));
    note("dropped " + std::to_string(cr_snapshot_drop(second)) + std::to_string(cr_snapshot_drop(g_snapshot)));
  });
  EXPECT_EQ(finish(), 0);
  EXPECT_EQ(notes(),
            "taken 0\ndrop -1 EBUSY, forked 7\ndrop -1 EBUSY, forked 7\ntaken 0\ndropped 00\n");
}

int forwarding(void* arg) {
  const int rc = cr_forward_checkpoint(CR_SCOPE_PROC, *static_cast<pid_t*>(arg));
  note("forward " + std::to_string(rc));
  return 0;
}

bool exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

int forwarding_all(void*) {
  // Both include the process itself.
  const int tree = cr_forward_checkpoint(CR_SCOPE_TREE, 0), group = cr_forward_checkpoint(CR_SCOPE_PGRP, 0);
  note("forward " + std::to_string(tree) + " " + std::to_string(group));
  return 0;
}

// BLCR: "processes in the overlap will be checkpointed exactly once".
TEST_F(Module, ForwardingMayNameTheForwardingProcess) {
  const std::string image = image_;
  start([image] {
    setpgid(0, 0);
    cr_init();
    const pid_t other = fork();
    if (other == 0) {
      cr_init();
      cr_register_callback(noting, g_thread, CR_THREAD_CONTEXT);
      note("up");
      for (;;) pause();
    }
    while (notes().find("up") == std::string::npos) usleep(10'000);
    cr_register_callback(forwarding_all, nullptr, CR_THREAD_CONTEXT);
    cr_checkpoint_handle_t handle;
    const int fd = request(image, 0, &handle);
    const time_t began = time(nullptr);
    const int rc = cr_poll_checkpoint(&handle, nullptr);
    note(rc > 0 ? "saved" : cr_last_error());
    note(time(nullptr) - began < 20 ? "quickly" : "slowly");
    note(exists(image + "." + std::to_string(getpid())) ? "twice" : "once");
    note(exists(image + "." + std::to_string(other)) ? "both" : "one");
    kill(other, SIGKILL);
    close(fd);
  });
  EXPECT_EQ(finish(), 0);
  EXPECT_EQ(notes(), "up\nforward 0 0\nthread 0 value 0\nsaved\nquickly\nonce\nboth\n");
}

TEST_F(Module, ForwardedProcessesAreSaved) {
  const std::string image = image_;
  start([image] {
    cr_init();
    static pid_t other = fork();
    if (other == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) pause();
    }
    cr_register_callback(forwarding, &other, CR_THREAD_CONTEXT);
    cr_checkpoint_handle_t handle;
    const int fd = request(image, 0, &handle);
    const int rc = cr_poll_checkpoint(&handle, nullptr);
    note(rc > 0 ? "saved" : cr_last_error());
    close(fd);
    cr_image_t* second = nullptr;
    const int opened = cr_image_open((image + "." + std::to_string(other)).c_str(), &second);
    note(opened == 0 && cr_image_pid(second) == other ? "both" : cr_last_error());
  });
  EXPECT_EQ(finish(), 0);
  EXPECT_EQ(notes(), "forward 0\nsaved\nboth\n");
}

}  // namespace
