// SPDX-License-Identifier: GPL-2.0-only
#include "launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <regex>
#include <system_error>

#include <asio/buffer.hpp>
#include <asio/post.hpp>
#include <asio/write.hpp>

#include "crrun/hosts.h"
#include "crrun/shell.h"
#include "crrun/slurm_step.h"

extern char** environ;

namespace reprise::job {

namespace {

constexpr std::size_t kAtOnce = 32;
// Exit codes of the script that runs on a node before the daemon.
constexpr int kNoDirectory = 66, kNoAgent = 67, kNoWorking = 68, kNoProgram = 69;

}  // namespace

std::string remote_script(const LaunchOptions& options) {
  std::string out;
  const auto require = [&out](const std::string& test, int code) {
    out += test + " || exit " + std::to_string(code) + "; ";
  };
  for (const std::string& directory : options.path) out += "PATH=$PATH:" + shell_word(directory) + "; ";
  if (!options.job_directory.empty()) require("test -r " + shell_word(options.job_directory + "/job.json"), kNoDirectory);
  // The agent may be a command with arguments; test the command only.
  const std::string agent = options.agent.substr(0, options.agent.find(' '));
  require("command -v " + shell_word(agent) + " >/dev/null", kNoAgent);
  if (!options.working_directory.empty()) require("cd " + shell_word(options.working_directory), kNoWorking);
  if (!options.program.empty()) require("command -v " + shell_word(options.program) + " >/dev/null", kNoProgram);
  return out + "exec " + options.agent + " --job-from-stdin";
}

Launcher::Launcher(asio::io_context& loop, LaunchOptions options, Ended ended, Line line)
    : loop_(loop), options_(std::move(options)), ended_(std::move(ended)), line_(std::move(line)) {}

Launcher::~Launcher() {
  for (auto& [node, link] : links_) ::kill(link->pid, SIGTERM);
}

void Launcher::start(const Node& node, DaemonStart start) {
  waiting_.push_back({node, std::move(start)});
  // Those that are wanted in the same turn of the loop start together.
  if (!std::exchange(gathering_, true)) asio::post(loop_, [this] {
      gathering_ = false;
      begin_next();
    });
}

void Launcher::begin_next() {
  if (waiting_.empty()) return;
  if (options_.srun) {
    std::vector<Wanted> all(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(waiting_.end()));
    waiting_.clear();
    return begin(std::move(all));
  }
  auto starting = static_cast<std::size_t>(
      std::count_if(links_.begin(), links_.end(), [](const auto& link) { return !link.second->starting.empty(); }));
  for (; starting < kAtOnce && !waiting_.empty(); ++starting) {
    Wanted wanted = std::move(waiting_.front());
    waiting_.pop_front();
    begin({std::move(wanted)});
  }
}

void Launcher::begin(std::vector<Wanted> wanted) {
  const Node& first = wanted[0].node;
  const std::string script = remote_script(options_);
  auto link = std::make_shared<Link>();
  link->local = !options_.srun && is_this_host(first.host());
  std::vector<DaemonStart> starts;
  std::vector<std::string> hosts;
  for (const Wanted& one : wanted) {
    stop(one.node.index());
    starts.push_back(one.start);
    hosts.push_back(one.node.host());
    link->nodes[one.node.host()] = one.node.index();
    link->starting.insert(one.node.index());
  }
  std::vector<std::string> words;
  if (options_.srun)
    words = step_command(hosts, script);
  else if (link->local)
    words = {"sh", "-c", script};
  else
    words = {"ssh", "-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=10",
             "--", first.host(), "sh -c " + shell_word(script)};
  const auto failed = [&](const std::string& why) {
    for (const Wanted& one : wanted) asio::post(loop_, [this, node = one.node.index(), why] { ended_(node, true, why); });
  };

  int input[2], output[2];
  if (::pipe2(input, O_CLOEXEC)) return failed(std::string("no pipe: ") + std::strerror(errno));
  if (::pipe2(output, O_CLOEXEC)) {
    const int error = errno;
    ::close(input[0]);
    ::close(input[1]);
    return failed(std::string("no pipe: ") + std::strerror(error));
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
  const int error = ::posix_spawnp(&link->pid, argv[0], &actions, &attributes, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  ::close(input[0]);
  ::close(output[1]);
  if (error) {
    ::close(input[1]);
    ::close(output[0]);
    return failed(words[0] + " cannot be run: " + std::strerror(error));
  }
  link->input = (options_.srun ? daemon_start_line(starts, hosts) : daemon_start_line(starts[0])) + "\n";
  link->to = std::make_unique<asio::posix::stream_descriptor>(loop_, input[1]);
  link->output = std::make_unique<asio::posix::stream_descriptor>(loop_, output[0]);
  for (const Wanted& one : wanted) links_[one.node.index()] = link;
  write(link);
  read(link);
}

void Launcher::write(const std::shared_ptr<Link>& link) {
  asio::async_write(*link->to, asio::buffer(link->input), [link](std::error_code, std::size_t) {
    link->to.reset();
    link->input.clear();
  });
}

void Launcher::read(const std::shared_ptr<Link>& link) {
  auto buffer = std::make_shared<std::array<char, 4096>>();
  link->output->async_read_some(asio::buffer(*buffer), [this, link, buffer](std::error_code error, std::size_t got) {
    if (error) return;
    link->rest.append(buffer->data(), got);
    for (std::size_t end; (end = link->rest.find('\n')) != std::string::npos;) {
      std::string line = link->rest.substr(0, end);
      link->rest.erase(0, end + 1);
      if (!line.empty() && line.back() == '\r') line.pop_back();
      if (!line.empty()) take_line(link, line);
    }
    if (link->rest.size() > 65536) link->rest.clear();
    if (link->output) read(link);
  });
}

std::optional<TaskEnd> task_end(const std::string& line) {
  static const std::regex form("srun: error: (\\S+): tasks? [0-9,-]+: (.+)");
  std::smatch match;
  if (!std::regex_match(line, match, form)) return std::nullopt;
  return TaskEnd{match[1], match[2]};
}

void Launcher::take_line(const std::shared_ptr<Link>& link, const std::string& line) {
  line_(link->nodes.size() == 1 ? link->nodes.begin()->first : "", line);
  const auto end = options_.srun ? task_end(line) : std::nullopt;
  if (!end) {
    link->last = line;
    return;
  }
  // srun itself runs on, for the other nodes.
  int code = 0;
  const int status = std::sscanf(end->how.c_str(), "Exited with exit code %d", &code) == 1 ? W_EXITCODE(code, 0) : 0;
  for (const std::string& host : slurm_names(end->hosts)) {
    const auto node = link->nodes.find(host);
    if (node == link->nodes.end()) continue;
    const std::uint32_t index = node->second;
    const bool starting = link->starting.count(index) > 0;
    ended(link, index, false, status ? words(*link, status, starting) : "its daemon has ended: " + end->how);
  }
}

/** A daemon's connection by ssh or srun is gone. */
void Launcher::ended(const std::shared_ptr<Link>& link, std::uint32_t node, bool certain, const std::string& why) {
  if (const auto found = links_.find(node); found == links_.end() || found->second != link) return;
  links_.erase(node);
  link->starting.erase(node);
  std::erase_if(link->nodes, [&](const auto& one) { return one.second == node; });
  ended_(node, certain, why);
}

void Launcher::said_hello(std::uint32_t node) {
  const auto found = links_.find(node);
  if (found != links_.end() && found->second->starting.erase(node)) begin_next();
}

void Launcher::stop(std::uint32_t node) {
  std::erase_if(waiting_, [&](const Wanted& wanted) { return wanted.node.index() == node; });
  const auto found = links_.find(node);
  if (found == links_.end()) return;
  const std::shared_ptr<Link> link = found->second;
  links_.erase(found);
  link->starting.erase(node);
  std::erase_if(link->nodes, [&](const auto& one) { return one.second == node; });
  // Do not report its end; reap() still collects it. A local daemon is a child of this process: SIGKILL ends it for
  // certain. An srun still serves other nodes.
  if (link->nodes.empty()) ::kill(link->pid, link->local ? SIGKILL : SIGTERM);
}

std::string Launcher::words(const Link& link, int status, bool starting) const {
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
      if (!link.local && !options_.srun && starting)
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
    const std::shared_ptr<Link> link = found->second;
    // Its last output may still be in the pipe.
    char buffer[4096];
    ::fcntl(link->output->native_handle(), F_SETFL, O_NONBLOCK);
    for (ssize_t got; (got = ::read(link->output->native_handle(), buffer, sizeof buffer)) > 0;) {
      link->rest.append(buffer, static_cast<std::size_t>(got));
    }
    for (std::size_t end; (end = link->rest.find('\n')) != std::string::npos; link->rest.erase(0, end + 1)) {
      if (end) take_line(link, link->rest.substr(0, end));
    }
    const bool certain = link->local || (!options_.srun && WIFEXITED(status) && WEXITSTATUS(status) != 255);
    for (const auto& [host, node] : std::map(link->nodes))
      ended(link, node, certain, words(*link, status, link->starting.count(node) > 0));
  }
  begin_next();
}

}  // namespace reprise::job
