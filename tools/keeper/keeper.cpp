// SPDX-License-Identifier: GPL-2.0-only
#include "keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "exchange.h"
#include "pause_command.h"
#include "place.h"
#include "snapshot_options.h"
#include "states.h"

namespace reprise::snapshots {
namespace {

constexpr int kPatienceMs = 10'000;

/** Directs our standard output and error, and our working directory, to those of the command. */
class AtCommand {
 public:
  explicit AtCommand(const Request& request) {
    ::dup2(request.out.get(), STDOUT_FILENO);
    ::dup2(request.err.get(), STDERR_FILENO);
    if (::fchdir(request.folder.get()) != 0)
      throw Error(Failure::permanent, errno, "the working directory: " + error_text(errno));
  }
  ~AtCommand() {
    std::fflush(stdout);
    std::fflush(stderr);
    // What cannot be written, to a full disk say, is not for the next command.
    std::clearerr(stdout);
    std::clearerr(stderr);
    nowhere();
  }
  AtCommand(const AtCommand&) = delete;
  AtCommand& operator=(const AtCommand&) = delete;
  static void nowhere() {
    const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null.get(), fd);
    if (::chdir("/") != 0) ::_exit(static_cast<int>(Failure::permanent));
  }
};

class Keeper {
 public:
  Keeper(pid_t target, UniqueFd listening)
      : target_(target), listening_(std::move(listening)), end_(static_cast<int>(::syscall(SYS_pidfd_open, target, 0))), states_(target) {}

  void run() {
    bool asked = false;
    for (;;) {
      pollfd fds[] = {{listening_.get(), POLLIN, 0}, {end_.get(), POLLIN, 0}};
      // Without a snapshot wait only for the command that has started us.
      const int ready = ::poll(fds, 2, !states_.empty() ? -1 : asked ? 0 : kPatienceMs);
      if (ready < 0) {
        if (errno == EINTR) continue;
        return;
      }
      if (fds[0].revents) {
        serve();
        asked = true;
      } else {
        const StartLock lock;
        // A command may have connected before the lock.
        if (::poll(fds, 1, 0) > 0) continue;
        remove_socket(target_);
        return;
      }
    }
  }

 private:
  void serve() {
    const UniqueFd command(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    Request request;
    if (!command || !receive_request(command.get(), request)) return;
    send_status(command.get(), carry_out(request));
  }

  int carry_out(const Request& request) {
    if (request.words.front() == kPauseCommand)
      return carry_out<PauseCommand>(request, [&](PauseCommand& command) {
        command.complete();
        return states_.pause(command, request.sender) ? 0 : kNotKept;
      });
    return carry_out<Options>(request, [&](Options& options) {
      states_.carry_out(options, request.sender);
      return 0;
    });
  }

  template <class Command, class Work>
  int carry_out(const Request& request, Work work) {
    Command command;
    CLI::App app{"", command.common.name};
    declare(app, command);
    std::vector<char*> argv;
    for (const std::string& word : request.words) argv.push_back(const_cast<char*>(word.c_str()));
    const AtCommand there(request);
    return tool::run(app, command.common, static_cast<int>(argv.size()), argv.data(), [&] { return work(command); });
  }

  const pid_t target_;
  UniqueFd listening_, end_;
  States states_;
};

/** Each snapshot needs descriptors. */
void raise_limit() {
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

}  // namespace

void start_keeper(pid_t target, UniqueFd listening) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) throw Error(Failure::temporary, errno, "cannot start the keeper of the snapshots: " + error_text(errno));
  if (child > 0) {
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {}
    return;
  }
  // A child of init, so that nobody has to wait for it, and out of the reach of the terminal.
  ::setsid();
  if (::fork() != 0) ::_exit(0);
  ::signal(SIGPIPE, SIG_IGN);
  // Nothing else of the command's: a lock would be held as long as a copy of its descriptor is open.
  constexpr int kOnly = STDERR_FILENO + 1;
  if (listening.get() != kOnly) {
    if (::dup2(listening.get(), kOnly) < 0) ::_exit(static_cast<int>(Failure::permanent));
    listening.release();
    listening = UniqueFd(kOnly);
  }
  ::fcntl(kOnly, F_SETFD, FD_CLOEXEC);
  ::close_range(kOnly + 1, ~0U, 0);
  AtCommand::nowhere();
  raise_limit();
  ::prctl(PR_SET_NAME, "cr_snapshot");
  int status = 0;
  try {
    Keeper(target, std::move(listening)).run();
  } catch (const std::exception&) {
    status = static_cast<int>(Failure::permanent);
  }
  ::_exit(status);
}

}  // namespace reprise::snapshots
