// SPDX-License-Identifier: GPL-2.0-only
#include "crd/tool.h"

#include <cerrno>
#include <csignal>
#include <optional>
#include <system_error>

#include <asio/posix/stream_descriptor.hpp>
#include <asio/post.hpp>
#include <asio/read_until.hpp>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "crd/commands.h"
#include "crd/environment.h"
#include "job/log.h"

namespace reprise::crd {
namespace {

/** Whether @p line reports that the tool is ready and has not changed anything yet. */
bool is_held(const std::string& line) {
  const auto said = nlohmann::json::parse(line, nullptr, false);
  return said.is_object() && said.contains("held") && said["held"] == true;
}

ToolResult result_of(const std::string& name, const std::string& line) {
  ToolResult result;
  try {
    result.report = nlohmann::json::parse(line);
    result.ok = result.report.at("ok");
    if (result.ok) return result;
    const std::string kind = result.report.at("kind");
    result.refused = kind == "refused";
    result.temporary = kind == "temporary";
    result.permanent = kind == "permanent";
    result.message = result.report.at("message");
  } catch (const nlohmann::json::exception&) {
    result.ok = false;
    result.message = name + " printed an unexpected line: " + line;
  }
  return result;
}

}  // namespace

struct Tool::State : std::enable_shared_from_this<State> {
  explicit State(asio::io_context& io) : loop(io), output(io) {}
  asio::io_context& loop;
  asio::posix::stream_descriptor output;
  std::unique_ptr<Process> process;
  std::string name, text, start_error;
  std::function<void(const ToolResult&)> said;
  std::function<void(int)> ended;
  UniqueFd go;                       ///< write a line here to let the tool continue
  std::optional<ToolResult> result;  ///< the report, until a caller wants it
  int status = -1;
  bool over = false, reported = false;

  void start(std::vector<std::string> argv, std::vector<std::pair<int, int>> fds, int input);
  void read() {
    asio::async_read_until(output, asio::dynamic_buffer(text, 1 << 20), '\n',
                           [self = shared_from_this()](const asio::error_code& error, std::size_t size) {
                             if (!error) {
                               const std::string line = self->text.substr(0, size);
                               self->text.erase(0, size);
                               if (is_held(line)) return self->read();
                               self->tell(result_of(self->name, line));
                             }
                             self->over = true;
                             self->silent_end();
                           });
  }
  /** The tool has ended without a report. */
  void silent_end() {
    if (!over || status < 0 || reported) return;
    ToolResult silent;
    if (!start_error.empty())
      silent.message = start_error;
    else if (WIFSIGNALED(status))
      silent.message = fmt::format("{} was ended by signal {}", name, WTERMSIG(status));
    else
      silent.message = fmt::format("{} ended with status {} and no report", name, WEXITSTATUS(status));
    tell(silent);
  }
  void tell(const ToolResult& what) {
    if (std::exchange(reported, true)) return;
    if (auto call = std::exchange(said, nullptr))
      call(what);
    else
      result = what;
  }
};

namespace {

std::pair<UniqueFd, UniqueFd> pipe_to(const std::string& name) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "no pipe to " + name);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

}  // namespace

void Tool::State::start(std::vector<std::string> argv, std::vector<std::pair<int, int>> fds, int input) {
  auto [read_end, write_end] = pipe_to(argv[0]);
  name = argv[0];
  ProcessSpec spec;
  spec.argv = std::move(argv);
  spec.argv[0] = command_path(name);
  spec.argv.insert(spec.argv.begin() + 1, "--json");
  spec.environment = own_environment();
  spec.fds = std::move(fds);
  spec.fds.insert(spec.fds.end(), {{0, input}, {1, write_end.get()}, {2, 2}});
  const std::weak_ptr<State> weak = weak_from_this();
  process = std::make_unique<Process>(
      loop, spec, [weak](const std::string& error) { if (const auto state = weak.lock()) state->start_error = error; },
      [weak](int status) {
        const auto state = weak.lock();
        if (!state) return;
        state->status = status;
        state->silent_end();
        if (auto call = std::exchange(state->ended, nullptr)) call(status);
      });
  output.assign(read_end.release());
  read();
}

Tool::Tool(asio::io_context& loop, std::vector<std::string> argv, std::vector<std::pair<int, int>> fds,
           std::function<void(const ToolResult&)> said, std::function<void(int)> ended)
    : state_(std::make_shared<State>(loop)) {
  const UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  state_->said = std::move(said);
  state_->ended = std::move(ended);
  state_->start(std::move(argv), std::move(fds), nothing.get());
}

std::unique_ptr<Tool> Tool::held(asio::io_context& loop, std::vector<std::string> argv, std::vector<std::pair<int, int>> fds) {
  auto [read_end, write_end] = pipe_to(argv[0]);
  argv.insert(argv.begin() + 1, "--hold");
  const auto state = std::make_shared<State>(loop);
  state->go = std::move(write_end);
  state->start(std::move(argv), std::move(fds), read_end.get());
  return std::unique_ptr<Tool>(new Tool(state));
}

void Tool::go(std::function<void(const ToolResult&)> said, std::function<void(int)> ended) {
  // A tool that has ended by now does not read it.
  [[maybe_unused]] const ssize_t put = ::write(state_->go.get(), "\n", 1);
  state_->go.reset();
  state_->ended = std::move(ended);
  if (!state_->result) {
    state_->said = std::move(said);
    return;
  }
  asio::post(state_->loop, [state = state_, said = std::move(said)] { said(*state->result); });
}

bool Tool::over() const { return state_->reported || state_->status >= 0; }

Tool::~Tool() {
  state_->said = nullptr;
  state_->ended = nullptr;
  state_->process.reset();
  asio::error_code ignored;
  state_->output.close(ignored);
}

std::vector<pid_t> Tool::kill() {
  state_->said = nullptr;
  state_->ended = nullptr;
  Process& process = *state_->process;
  if (!process.running()) return {};
  process.signal(SIGSTOP);  // it must not make more processes while we read the list
  const std::vector<pid_t> made = children_of(process.pid());
  for (const pid_t pid : made) ::kill(pid, SIGKILL);
  process.signal(SIGKILL);
  return made;
}

Process& Tool::process() { return *state_->process; }

}  // namespace reprise::crd
