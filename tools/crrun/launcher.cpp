// SPDX-License-Identifier: GPL-2.0-only
#include "launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <asio/buffer.hpp>
#include <asio/post.hpp>

#include "crrun/hosts.h"

extern char** environ;

namespace reprise::job {

namespace {

constexpr std::size_t kAtOnce = 32;
// Exit codes of the script that runs on a node before the daemon.
constexpr int kNoDirectory = 66, kNoAgent = 67, kNoWorking = 68, kNoProgram = 69;

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

std::string remote_script(const LaunchOptions& options) {
  std::string out;
  const auto require = [&out](const std::string& test, int code) {
    out += test + " || exit " + std::to_string(code) + "; ";
  };
  for (const std::string& directory : options.path) out += "PATH=$PATH:" + quoted(directory) + "; ";
  if (!options.job_directory.empty()) require("test -r " + quoted(options.job_directory + "/job.json"), kNoDirectory);
  // The agent may be a command with arguments; test the command only.
  const std::string agent = options.agent.substr(0, options.agent.find(' '));
  require("command -v " + quoted(agent) + " >/dev/null", kNoAgent);
  if (!options.working_directory.empty()) require("cd " + quoted(options.working_directory), kNoWorking);
  if (!options.program.empty()) require("command -v " + quoted(options.program) + " >/dev/null", kNoProgram);
  return out + "exec " + options.agent + " --job-from-stdin";
}

Launcher::Launcher(asio::io_context& loop, LaunchOptions options, Ended ended, Line line)
    : loop_(loop), options_(std::move(options)), ended_(std::move(ended)), line_(std::move(line)) {}

Launcher::~Launcher() {
  for (auto& [node, link] : links_) ::kill(link->pid, SIGTERM);
}

void Launcher::start(const Node& node, DaemonStart start) {
  waiting_.push_back({node, std::move(start)});
  begin_next();
}

void Launcher::begin_next() {
  const auto starting = static_cast<std::size_t>(
      std::count_if(links_.begin(), links_.end(), [](const auto& link) { return link.second->starting; }));
  for (std::size_t room = kAtOnce > starting ? kAtOnce - starting : 0; room && !waiting_.empty(); --room) {
    const Wanted wanted = std::move(waiting_.front());
    waiting_.pop_front();
    begin(wanted);
  }
}

void Launcher::begin(const Wanted& wanted) {
  const std::uint32_t node = wanted.node.index();
  stop(node);
  const std::string script = remote_script(options_);
  const bool local = !options_.srun && is_this_host(wanted.node.host());
  std::vector<std::string> words;
  if (options_.srun)
    words = {"srun", "--nodes=1", "--ntasks=1", "--overlap", "--mpi=none", "--cpu-bind=none", "--export=ALL",
             "--quiet", "-w", wanted.node.host(), "sh", "-c", script};
  else if (local)
    words = {"sh", "-c", script};
  else
    words = {"ssh", "-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=10",
             "--", wanted.node.host(), "sh -c " + quoted(script)};

  int input[2], output[2];
  if (::pipe2(input, O_CLOEXEC) || ::pipe2(output, O_CLOEXEC)) {
    ended_(node, true, std::string("no pipe: ") + std::strerror(errno));
    return;
  }
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, input[0], 0);
  ::posix_spawn_file_actions_adddup2(&actions, output[1], 1);
  ::posix_spawn_file_actions_adddup2(&actions, output[1], 2);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  // A session of its own: Ctrl-C at the terminal must reach only crrun, which informs the daemons.
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  sigset_t none, all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  auto link = std::make_shared<Link>();
  link->local = local;
  const int error = ::posix_spawnp(&link->pid, argv[0], &actions, &attributes, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  ::close(input[0]);
  ::close(output[1]);
  if (error) {
    ::close(input[1]);
    ::close(output[0]);
    asio::post(loop_, [this, node, program = words[0], error] {
      ended_(node, true, program + " cannot be run: " + std::strerror(error));
    });
    return;
  }
  // The line is far smaller than a pipe's capacity, so the write does not block. SIGPIPE is ignored in crrun.
  const std::string line = daemon_start_line(wanted.start) + "\n";
  [[maybe_unused]] const ssize_t written = ::write(input[1], line.data(), line.size());
  ::close(input[1]);
  link->output = std::make_unique<asio::posix::stream_descriptor>(loop_, output[0]);
  links_[node] = link;
  read(node, link);
}

void Launcher::read(std::uint32_t node, const std::shared_ptr<Link>& link) {
  auto buffer = std::make_shared<std::array<char, 4096>>();
  link->output->async_read_some(asio::buffer(*buffer), [this, node, link, buffer](std::error_code error, std::size_t got) {
    if (error) return;
    link->rest.append(buffer->data(), got);
    for (std::size_t end; (end = link->rest.find('\n')) != std::string::npos;) {
      std::string line = link->rest.substr(0, end);
      link->rest.erase(0, end + 1);
      if (!line.empty() && line.back() == '\r') line.pop_back();
      if (line.empty()) continue;
      link->last = line;
      line_(node, line);
    }
    if (link->rest.size() > 65536) link->rest.clear();
    read(node, link);
  });
}

void Launcher::said_hello(std::uint32_t node) {
  const auto found = links_.find(node);
  if (found == links_.end() || !found->second->starting) return;
  found->second->starting = false;
  begin_next();
}

void Launcher::stop(std::uint32_t node) {
  std::erase_if(waiting_, [&](const Wanted& wanted) { return wanted.node.index() == node; });
  const auto found = links_.find(node);
  if (found == links_.end()) return;
  // Do not report its end; reap() still collects it. A local daemon is a child of this process: SIGKILL ends it for
  // certain.
  ::kill(found->second->pid, found->second->local ? SIGKILL : SIGTERM);
  links_.erase(found);
}

std::string Launcher::words(const Link& link, int status) const {
  const std::string said = link.last.empty() ? "" : ": " + link.last;
  if (WIFSIGNALED(status)) return std::string("its daemon was killed by signal ") + std::to_string(WTERMSIG(status)) + said;
  switch (WEXITSTATUS(status)) {
    case kNoDirectory:
      return options_.job_directory + " does not exist there: --shared must be the same directory on all nodes";
    case kNoAgent:
      return options_.agent + " is not installed there: install reprise on the node, or give its path with --launch-agent";
    case kNoWorking:
      return "the working directory " + options_.working_directory + " does not exist there: choose another one with --wdir";
    case kNoProgram:
      return "the program " + options_.program + " does not exist there, or is not executable";
    case 255:
      if (!link.local && !options_.srun && link.starting)
        return "ssh could not connect" + said + " (try `ssh -o BatchMode=yes HOST true`: it must work without a password)";
      return "its connection ended" + said;
    default: return "its daemon ended with exit code " + std::to_string(WEXITSTATUS(status)) + said;
  }
}

void Launcher::reap() {
  int status = 0;
  for (pid_t pid; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
    const auto found =
        std::find_if(links_.begin(), links_.end(), [pid](const auto& link) { return link.second->pid == pid; });
    if (found == links_.end()) continue;
    const std::uint32_t node = found->first;
    const std::shared_ptr<Link> link = found->second;
    links_.erase(found);
    // Its last output may still be in the pipe.
    char buffer[4096];
    ::fcntl(link->output->native_handle(), F_SETFL, O_NONBLOCK);
    for (ssize_t got; (got = ::read(link->output->native_handle(), buffer, sizeof buffer)) > 0;) {
      link->rest.append(buffer, static_cast<std::size_t>(got));
    }
    for (std::size_t end; (end = link->rest.find('\n')) != std::string::npos; link->rest.erase(0, end + 1)) {
      if (end) line_(node, link->last = link->rest.substr(0, end));
    }
    const bool certain = link->local || (!options_.srun && WIFEXITED(status) && WEXITSTATUS(status) != 255);
    ended_(node, certain, words(*link, status));
  }
  begin_next();
}

}  // namespace reprise::job
