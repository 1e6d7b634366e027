// SPDX-License-Identifier: GPL-2.0-only
#include "crd/rehearsal.h"

#include <csignal>

#include <fcntl.h>
#include <unistd.h>

#include "crd/environment.h"
#include "job/log.h"

namespace reprise::crd {

void Rehearsal::begin() {
  if (std::exchange(begun_, true)) return;
  image_ = node_.run_directory + "/rehearsal.img";
  const UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ProcessSpec spec;
  spec.argv = {"crd", "--wait"};
  spec.program = "/proc/self/exe";
  spec.environment = own_environment();
  spec.fds = {{0, nothing.get()}, {1, nothing.get()}, {2, nothing.get()}};
  try {
    subject_ = std::make_unique<Process>(
        node_.loop, spec, [this](const std::string& error) { error.empty() ? checkpoint() : end(error); }, nullptr);
  } catch (const std::exception& error) {
    end(error.what());
  }
}

/** @param next is called when the command has succeeded */
void Rehearsal::run(std::vector<std::string> argv, std::function<void()> next) try {
  node_.end_tool(std::move(tool_));
  tool_ = std::make_unique<Tool>(node_.loop, std::move(argv), std::vector<std::pair<int, int>>{},
                                 [this, next = std::move(next)](const ToolResult& result) { result.ok ? next() : end(result.message); });
} catch (const std::exception& error) {
  end(error.what());
}

void Rehearsal::checkpoint() {
  run({"cr_checkpoint", std::to_string(subject_->pid()), image_}, [this] { pause(); });
}

void Rehearsal::pause() {
  run({"cr_pause", std::to_string(subject_->pid()), image_}, [this] {
    subject_->on_end([this, turn = tool_.get()] {
      if (tool_ && tool_.get() == turn) restart();
    });
    subject_->signal(SIGKILL);
  });
}

void Rehearsal::restart() {
  run({"cr_restart", image_}, [this] { end(""); });
}

void Rehearsal::end(const std::string& error) {
  abandon();
  if (error.empty())
    node_.say(job::Log::DEBUG, "this node has rolled back and restarted a process as a test");
  else
    node_.say(job::Log::WARNING, "this node could not roll back and restart a process as a test; it will fail with ranks, too: " + error);
}

void Rehearsal::abandon() {
  node_.end_tool(std::move(tool_));
  subject_.reset();
  if (!image_.empty()) ::unlink(image_.c_str());
}

}  // namespace reprise::crd
