// SPDX-License-Identifier: GPL-2.0-only
#include "crd/process.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>

#include <asio/posix/stream_descriptor.hpp>
#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "job/log.h"

namespace reprise::crd {
namespace {

/** Processes that exist and that we have started. */
std::set<pid_t> unreaped;

/** The child's report when it cannot run the program. */
struct StartFailure {
  int error;
  int step;  ///< 0: working directory, 1: descriptors, 2: program, 3: processors
};

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> all;
  for (const std::string& string : strings) all.push_back(const_cast<char*>(string.c_str()));
  all.push_back(nullptr);
  return all;
}

/** Paths to try for the program, computed before the fork: the child of a multi-threaded process may not allocate. */
std::vector<std::string> candidates(const ProcessSpec& spec) {
  const std::string& name = spec.program.empty() ? spec.argv.at(0) : spec.program;
  if (name.find('/') != std::string::npos) return {name};
  std::string path = "/usr/local/bin:/usr/bin:/bin";
  for (const std::string& variable : spec.environment)
    if (variable.starts_with("PATH=")) path = variable.substr(5);
  std::vector<std::string> all;
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    all.push_back((end == at ? "." : path.substr(at, end - at)) + "/" + name);
    at = end + 1;
  }
  return all;
}

}  // namespace

struct Process::State : std::enable_shared_from_this<State> {
  explicit State(asio::io_context& loop) : pidfd(loop), report(loop) {}
  asio::posix::stream_descriptor pidfd, report;
  pid_t pid = -1;
  bool running = true;
  std::string name;
  Started started;
  Ended ended;
  std::vector<std::function<void()>> waiting;

  void watch_start() {
    report.async_wait(asio::posix::stream_descriptor::wait_read, [self = shared_from_this()](const asio::error_code& error) {
      if (!error) self->tell_start();
    });
  }
  void tell_start() {
    if (!report.is_open()) return;
    StartFailure failure{};
    const ssize_t got = ::read(report.native_handle(), &failure, sizeof failure);
    asio::error_code ignored;
    report.close(ignored);
    std::string text;
    if (got == sizeof failure) {
      constexpr const char* kSteps[] = {"cannot enter its working directory", "cannot set its descriptors", "cannot run it",
                                        "cannot be bound to its processors"};
      text = name + ": " + kSteps[failure.step] + ": " + std::strerror(failure.error);
    }
    if (auto call = std::exchange(started, nullptr)) call(text);
  }
  void watch_end() {
    pidfd.async_wait(asio::posix::stream_descriptor::wait_read, [self = shared_from_this()](const asio::error_code& error) {
      int status = 0;
      if (error) return;
      const pid_t got = ::waitpid(self->pid, &status, WNOHANG);
      if (got == 0) return self->watch_end();
      unreaped.erase(self->pid);
      self->running = false;
      asio::error_code ignored;
      self->pidfd.close(ignored);
      self->tell_start();
      if (auto call = std::exchange(self->ended, nullptr)) call(got < 0 ? 0 : status);
      for (auto& then : std::exchange(self->waiting, {})) then();
    });
  }
};

Process::Process(asio::io_context& loop, const ProcessSpec& spec, Started started, Ended ended)
    : state_(std::make_shared<State>(loop)) {
  const std::vector<std::string> programs = candidates(spec);
  const std::vector<char*> argv = pointers(spec.argv), environment = pointers(spec.environment);
  std::vector<int> high(spec.fds.size());
  const bool bound = spec.cpus.any();
  const cpu_set_t cpus = cpu_set(spec.cpus);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "no pipe for a new process");
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "cannot start a process for " + spec.argv[0]);
  if (pid == 0) {
    // The child of a multi-threaded process may call async-signal-safe functions only.
    const auto fail = [&](int step) {
      const StartFailure failure{errno, step};
      [[maybe_unused]] const ssize_t put = ::write(write_end.get(), &failure, sizeof failure);
      ::_exit(127);
    };
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(127);
    if (spec.own_session) ::setsid();
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
    if (bound && ::sched_setaffinity(0, sizeof cpus, &cpus) != 0) fail(3);
    if (!spec.directory.empty() && ::chdir(spec.directory.c_str()) != 0) fail(0);
    // Descriptors that our libraries opened must not reach the program: they would be in its image.
    ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    // First duplicate to numbers above all targets, so that no source is overwritten before it is copied.
    for (std::size_t i = 0; i < spec.fds.size(); ++i)
      if ((high[i] = ::fcntl(spec.fds[i].second, F_DUPFD_CLOEXEC, 256)) < 0) fail(1);
    const int report = ::fcntl(write_end.get(), F_DUPFD_CLOEXEC, 256);
    if (report < 0) fail(1);
    for (std::size_t i = 0; i < spec.fds.size(); ++i)
      if (::dup2(high[i], spec.fds[i].first) < 0) fail(1);
    int error = ENOENT;
    for (const std::string& program : programs) {
      ::execve(program.c_str(), argv.data(), environment.data());
      if (errno != ENOENT && errno != ENOTDIR) error = errno;
    }
    const StartFailure failure{error, 2};
    [[maybe_unused]] const ssize_t put = ::write(report, &failure, sizeof failure);
    ::_exit(127);
  }
  state_->pid = pid;
  state_->name = spec.argv[0];
  state_->started = std::move(started);
  state_->ended = std::move(ended);
  const int pidfd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) {
    const int error = errno;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    throw std::system_error(error, std::generic_category(), "no descriptor for a new process");
  }
  unreaped.insert(pid);
  state_->pidfd.assign(pidfd);
  state_->report.assign(read_end.release());
  state_->watch_start();
  state_->watch_end();
}

Process::~Process() {
  state_->started = nullptr;
  state_->ended = nullptr;
  if (state_->running) signal_group(state_->pid, SIGKILL);
}

bool Process::reaps(pid_t pid) { return unreaped.contains(pid); }
pid_t Process::pid() const { return state_->pid; }
bool Process::running() const { return state_->running; }
void Process::signal(int number) const {
  if (state_->running) ::kill(state_->pid, number);
}
void Process::on_end(std::function<void()> then) {
  if (state_->running)
    state_->waiting.push_back(std::move(then));
  else
    then();
}

bool process_runs(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name = text.rfind(") ");
  return name != std::string::npos && name + 2 < text.size() && text[name + 2] != 'Z' && text[name + 2] != 'X';
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> all;
  std::error_code error;
  // increment() does not throw when the process ends meanwhile.
  std::filesystem::directory_iterator task("/proc/" + std::to_string(pid) + "/task", error);
  for (; !error && task != std::filesystem::directory_iterator(); task.increment(error)) {
    std::ifstream list(task->path() / "children");
    for (pid_t child = 0; list >> child;) all.push_back(child);
  }
  return all;
}

void signal_group(pid_t pid, int number) {
  if (pid <= 1) return;
  if (::getpgid(pid) == pid)
    ::kill(-pid, number);
  else
    ::kill(pid, number);
}

}  // namespace reprise::crd
