// SPDX-License-Identifier: GPL-2.0-only
#include "target.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <thread>

#include "base/error.h"
#include "base/proc_stat.h"
#include "base/text.h"

namespace reprise::afl {
namespace {

/** Threads that start up get so long to come to rest before the snapshot is taken. */
constexpr auto kSettle = std::chrono::seconds(1);
/** And so long at the end of a run, so that it does not depend on who was first how far the others have come. */
constexpr auto kRest = std::chrono::milliseconds(50);
constexpr int kRestless = 3;  ///< runs after which threads that never wait are not waited for
constexpr auto kLook = std::chrono::milliseconds(2);
constexpr auto kLookSoon = std::chrono::microseconds(200);

struct Pipe {
  UniqueFd read, write;
  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) fail_errno(errno, "a pipe to the target");
    read.reset(ends[0]);
    write.reset(ends[1]);
  }
};

std::string ended_by(int status) {
  return WIFSIGNALED(status) ? "was killed by signal " + std::to_string(WTERMSIG(status))
                             : "ended with status " + std::to_string(WEXITSTATUS(status));
}

/** @return whether @p holds is true of each thread of the process that can still be looked at */
template <class Holds>
bool all_threads(pid_t pid, Holds holds) {
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task", error)) {
    const auto stat = proc_stat(std::atoi(task.path().filename().c_str()));
    if (stat && !holds(*stat)) return false;
  }
  return true;
}

bool all_sleep(pid_t pid) {
  return all_threads(pid, [](const ProcStat& thread) { return thread.state == 'S'; });
}

/** Whether the process ends: the kernel closes its descriptors some time before its end can be waited for. */
bool exits(pid_t pid) {
  return all_threads(pid, [](const ProcStat& thread) { return thread.exiting(); });
}

}  // namespace

/** What it gets from the server, by number. */
struct Target::Given {
  UniqueFd go, news, session, room;
};

Target::Target(const Command& command) {
  Pipe go, news;
  Given given{std::move(go.read), std::move(news.write), Session::device(), UniqueFd(::memfd_create("afl-reprise", MFD_CLOEXEC))};
  if (!given.room || ::ftruncate(given.room.get(), kRoomSize) != 0) fail_errno(errno, "memory for the target");
  void* const room = ::mmap(nullptr, kRoomSize, PROT_READ | PROT_WRITE, MAP_SHARED, given.room.get(), 0);
  if (room == MAP_FAILED) fail_errno(errno, "memory for the target");
  room_ = static_cast<Room*>(room);
  const pid_t server = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) fail_errno(errno, "starting the target");
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != server) ::_exit(1);
    execute(command, given);
    ::_exit(127);
  }
  go_ = std::move(go.write);
  news_ = std::move(news.read);
  given.news.reset();
  try {
    end_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
    if (!end_) fail_errno(errno, "a descriptor of the target");
    await_ready(std::getenv(kAt));
    settle();
    session_.emplace(Session::attach(pid_, std::move(given.session)));
    snapshot_.emplace(Snapshot::take(*session_, SnapshotOptions{.notify = false}));
    const std::span<char> rest{reinterpret_cast<char*>(room_) + kRequest, kRoomSize - kRequest};
    room_->armed = ready_.room && snapshot_->place_one_call(rest, ready_.room + kRequest);
  } catch (...) {
    end();
    throw;
  }
}

Target::~Target() {
  end();
  if (room_) ::munmap(room_, kRoomSize);
}

void Target::end() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  reap();
}

int Target::reap() {
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {}
  pid_ = -1;
  can_roll_back_ = false;
  return status;
}

void Target::execute(const Command& command, const Given& given) {
  // afl-fuzz writes to its description of the input. In one of its own, only the position changes for the target.
  struct stat input {};
  if (::fstat(STDIN_FILENO, &input) == 0 && S_ISREG(input.st_mode)) {
    const UniqueFd own(::open("/proc/self/fd/0", O_RDONLY | O_CLOEXEC));
    if (!own || ::dup2(own.get(), STDIN_FILENO) < 0) return;
  }
  // Above all numbers first: one of them may be another's.
  int from[] = {given.go.get(), given.news.get(), given.session.get(), given.room.get()};
  constexpr int to[] = {kGo, kNews, kSession, kRoom};
  for (int& fd : from) fd = ::fcntl(fd, F_DUPFD_CLOEXEC, kAnswers + 1);
  for (std::size_t i = 0; i < std::size(to); ++i)
    if (::dup2(from[i], to[i]) < 0) return;
  ::setenv("LD_PRELOAD", command.preload.c_str(), 1);
  ::setenv(kServer, std::to_string(::getppid()).c_str(), 1);
  if (!command.offset.empty()) ::setenv(kOffset, command.offset.c_str(), 1);
  // The runtime of afl-cc starts no fork server of its own, and runs the body of a persistent loop once.
  ::setenv("__AFL_DEFER_FORKSRV", "1", 1);
  ::unsetenv("__AFL_PERSISTENT");
  std::vector<char*> argv;
  for (const std::string& word : command.words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execv(command.program.c_str(), argv.data());
}

void Target::await_ready(const std::string& at) {
  const std::string where = at == kAtInput    ? "reads its input"
                            : at == kAtAccept ? "waits for a connection"
                                              : "calls " + at.substr(1) + "()";
  pollfd fds[] = {{news_.get(), POLLIN, 0}, {end_.get(), POLLIN, 0}};
  while (::poll(fds, 2, -1) < 0 && errno == EINTR) {}
  if (fds[0].revents & POLLIN && ::read(news_.get(), &ready_, sizeof ready_) == sizeof ready_) {
    if (ready_.kind == Message::ready) return;
    if (ready_.kind == Message::no_function)
      throw Error(Failure::refused, ready_.value,
                  "the target cannot begin where it " + where + ": " +
                      (ready_.value == ENOENT ? "neither its symbols nor its libraries have that function (the compiler may have inlined it)" : error_text(ready_.value)));
  }
  // It may have closed the descriptors that it did not open, as daemons do, and live on.
  const std::string how = lives() ? "closed descriptor " + std::to_string(kNews) : ended_by(reap());
  throw Error(Failure::refused, ESRCH,
              "the target " + how + " before it " + where + ": choose another place with --at FUNCTION, --at main say");
}

void Target::rest() {
  if (restless_ >= kRestless) return;
  const auto end = std::chrono::steady_clock::now() + kRest;
  while (!all_sleep(pid_)) {
    if (std::chrono::steady_clock::now() > end) {
      ++restless_;
      return;
    }
    std::this_thread::sleep_for(kLookSoon);
  }
  restless_ = 0;
}

void Target::settle() const {
  const auto end = std::chrono::steady_clock::now() + kSettle;
  for (int quiet = 0; quiet < 2 && std::chrono::steady_clock::now() < end; std::this_thread::sleep_for(kLook))
    quiet = all_sleep(pid_) ? quiet + 1 : 0;
}

bool Target::lives(int wait_ms) const {
  pollfd end{end_.get(), POLLIN, 0};
  return pid_ > 0 && ::poll(&end, 1, wait_ms) == 0;
}

int Target::run() {
  can_roll_back_ = still_runs_ = rolled_back_ = false;
  std::optional<Client> client;
  if (ready_.address_size > 0) client.emplace(ready_.address, ready_.address_size);
  const char go = 0;
  if (::write(go_.get(), &go, 1) == 1) {
    for (bool closed = false;;) {
      pollfd fds[] = {{closed ? -1 : news_.get(), POLLIN, 0}, {end_.get(), POLLIN, 0}, {-1, 0, 0}};
      if (client) client->wants(fds[2]);
      if (::poll(fds, 3, -1) < 0) {
        if (errno == EINTR) continue;
        fail_errno(errno, "waiting for the target");
      }
      Message news{};
      if (fds[0].revents & POLLIN && ::read(news_.get(), &news, sizeof news) == sizeof news) {
        rolled_back_ = news.rolled_back;
        still_runs_ = news.more_threads;
        if (still_runs_) rest();
        // A connection that nobody has accepted would be there for the next run, too.
        can_roll_back_ = news.kind == Message::ended && (!client || news.accepted);
        return W_EXITCODE(news.value & 0xff, 0);
      }
      if (fds[1].revents) break;
      closed = closed || fds[0].revents;  // by the target: then it can only end
      if (fds[2].revents && client->serve()) {
        // The end of the process has closed its end of the connection: a crash, perhaps.
        if (exits(pid_)) break;
        // It was closed by a way that the library does not see.
        still_runs_ = can_roll_back_ = true;
        rest();
        return 0;
      }
    }
  }
  const int status = reap();
  // An error in the middle of a rollback kills it, as afl-fuzz may do: this is no end of the run.
  return room_->rolling ? W_EXITCODE(room_->ended.value & 0xff, 0) : status;
}

void Target::roll_back() {
  RestoreOptions options;
  options.shared_memory = SharedMemory::keep;  // the coverage map
  snapshot_->rollback(options);
}

}  // namespace reprise::afl
