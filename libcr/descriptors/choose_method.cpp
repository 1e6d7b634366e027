// SPDX-License-Identifier: LGPL-2.1-or-later
#include "descriptors/choose_method.h"

#include <utility>

#include "base/error.h"
#include "descriptors/classify.h"
#include "descriptors/plan.h"
#include "descriptors/socket_name.h"

namespace reprise {
namespace {

Decision refuse(std::string why, bool dead_helps = false) { return {Way::refuse, std::move(why), dead_helps}; }

bool pseudo_terminal_master(const std::string& path) {
  return path.size() >= 5 && path.compare(path.size() - 5, 5, "/ptmx") == 0;
}

/** @return why a deleted file cannot be made again */
std::string deleted_why(const File& file) {
  const std::string text = "it had been deleted before the checkpoint, and ";
  if (file.links() > 0) return text + "has other names, under which it is not open: a copy would not be the same file";
  return text + "its content was not saved (--deleted-limit 0, or the process had no permission to read it)";
}

struct Decider {
  const Process& image;
  const RestoreOptions& options;
  RestoreMode mode;
  const std::map<std::uint32_t, int>& alive;

  bool restart() const { return mode == RestoreMode::restart; }

  Decision pipe(const Description& description) const {
    if (!description.pipe().outside()) return {Way::make, {}, false};
    // The pipe still exists if the target holds another end of it.
    for (const auto& [index, fd] : alive) {
      const Description& other = image.descriptions(static_cast<int>(index));
      if (other.kind() == description.kind() && other.pipe().ino() == description.pipe().ino())
        return {Way::make, {}, false};
    }
    if (options.dead_sockets) return {Way::dead, {}, false};
    return refuse("its other end belongs to another process", true);
  }

  Decision socket(const Description& description) const {
    if (socket_remakeable(description.socket())) return {Way::make, {}, false};
    if (options.dead_sockets) return {Way::dead, {}, false};
    if (const std::string why = socket_problem(description.socket()); !why.empty()) return refuse(why, true);
    return refuse(restart() ? "its peer would not accept a new socket" : "it was closed since the checkpoint", true);
  }

  Decision inotify(const Description& description) const {
    for (const auto& watch : description.inotify().watches())
      if (watch.path().empty())
        return refuse("the path of its watch " + std::to_string(watch.wd()) +
                      " is not known (the checkpoint needs CAP_DAC_READ_SEARCH to find it)");
    return {Way::make, {}, false};
  }

  Decision without(const Description& description) const {
    switch (description.kind()) {
      case Description::REGULAR:
        if (description.file().deleted() && description.shared_object() == 0) return refuse(deleted_why(description.file()));
        return {Way::make, {}, false};
      case Description::DIRECTORY: return {Way::make, {}, false};
      case Description::CHARDEV:
        if (description.file().deleted()) return refuse("it had been deleted before the checkpoint");
        return {Way::make, {}, false};
      case Description::TERMINAL:
        if (pseudo_terminal_master(description.file().path()))
          return refuse("the master side of a pseudo terminal belongs to its slave");
        return {restart() ? Way::terminal : Way::make, {}, false};
      case Description::PIPE: return pipe(description);
      case Description::FIFO:
        // Like a listening socket: any process can open its path as the other end, unless the path was deleted.
        if (description.file().deleted()) return pipe(description);
        return {Way::make, {}, false};
      case Description::SOCKET: return socket(description);
      case Description::INOTIFY: return inotify(description);
      case Description::PIDFD:
        if (description.owner_pid() <= 0) return refuse("its process had ended before the checkpoint");
        if (restart() && description.owner_pid() != image.pid())
          return refuse("process " + std::to_string(description.owner_pid()) + " is not part of the image");
        return {Way::make, {}, false};
      case Description::EPOLL:
        if (const std::string why = epoll_without(description); !why.empty() && !options.dead_sockets)
          return refuse(why, true);
        return {Way::make, {}, false};
      case Description::EVENTFD:
      case Description::TIMERFD:
      case Description::SIGNALFD:
      case Description::CR_AGENT: return {Way::make, {}, false};
      case Description::MEMFD:
        if (description.shared_object() == 0) return refuse("its content was not saved");
        return {Way::make, {}, false};
      default: return refuse("it is of a kind that cannot be made again");
    }
  }
};

}  // namespace

std::vector<Decision> choose_method(const Process& image, const RestoreOptions& options, RestoreMode mode,
                             const std::map<std::uint32_t, int>& alive) {
  const Decider decider{image, options, mode, alive};
  std::vector<Decision> decisions(static_cast<std::size_t>(image.descriptions_size()));
  for (const Descriptor& descriptor : image.descriptors()) {
    const std::uint32_t index = descriptor.description();
    Decision& decision = decisions.at(index);
    if (alive.count(index))
      decision.way = Way::keep;
    else if (options.substitute.count(descriptor.fd()))
      decision = {Way::substitute, {}, false};
    else if (decision.way == Way::unused)
      decision = decider.without(image.descriptions(static_cast<int>(index)));
  }
  return decisions;
}

std::string description_text(const Process& image, std::uint32_t index) {
  const Description& description = image.descriptions(static_cast<int>(index));
  const std::vector<int> numbers = numbers_of(image, index);
  std::string text = numbers.size() == 1 ? "descriptor" : "descriptors";
  for (std::size_t i = 0; i < numbers.size(); ++i) text += (i ? ", " : " ") + std::to_string(numbers[i]);
  if (description.kind() == Description::SOCKET) return text + " (" + socket_text(description.socket()) + ")";
  text += std::string(" (") + kind_name(description.kind());
  if (!description.file().path().empty()) text += " " + description.file().path();
  return text + ")";
}

void Refusals::add(std::string text, bool substitutable, bool dead_helps) {
  lines_.push_back(std::move(text));
  substitutable_ |= substitutable;
  dead_helps_ |= dead_helps;
}

void Refusals::raise(const std::string& headline) const {
  if (lines_.empty()) return;
  constexpr std::size_t most = 20;
  std::string text = headline + ":";
  for (std::size_t i = 0; i < lines_.size() && i < most; ++i) text += "\n  " + lines_[i];
  if (lines_.size() > most) text += "\n  … and " + std::to_string(lines_.size() - most) + " more";
  if (substitutable_) text += "\ngive a substitute with --fd N=…";
  if (dead_helps_)
    text += std::string(substitutable_ ? ", or" : "\ngive") +
            " --dead-sockets to restore sockets and pipes as if their other end had been closed";
  throw Error(Failure::refused, 0, text);
}

}  // namespace reprise
