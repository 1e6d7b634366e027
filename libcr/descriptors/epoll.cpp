// SPDX-License-Identifier: LGPL-2.1-or-later
//
// epoll sets. An entry is a pair of open file description and descriptor number. If the description has that number,
// the target changes the set by its own calls once its descriptors are in place. Otherwise we do, with the description
// at that number in a descriptor table of ours.
#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/proc_dir.h"
#include "base/text.h"
#include "descriptors/epoll_controls.h"
#include "descriptors/epoll_files.h"
#include "descriptors/fdinfo.h"
#include "descriptors/kinds.h"
#include "descriptors/plan.h"

namespace reprise {
namespace {

using How = EpollChanges::How;

/** @return the image's descriptor numbers -> descriptions */
std::map<int, std::uint32_t> described(const Process& image) {
  std::map<int, std::uint32_t> numbers;
  for (const Descriptor& descriptor : image.descriptors()) numbers[descriptor.fd()] = descriptor.description();
  return numbers;
}

/** Images of older versions have no description in an entry: take the one at the entry's number. */
Epoll resolved(const Epoll& set, const std::map<int, std::uint32_t>& numbers) {
  Epoll all = set;
  for (Epoll::Entry& entry : *all.mutable_entries())
    if (!entry.description() && !entry.elsewhere())
      if (const auto under = numbers.find(entry.fd()); under != numbers.end()) entry.set_description(1 + under->second);
  return all;
}

bool is_epoll(const Restorer& restorer, std::uint32_t index) {
  const Description& description = restorer.description(index);
  return description.kind() == Description::EPOLL && !(description.flags() & O_PATH);
}

std::vector<LiveEntry> live_entries(const std::string& fdinfo, int number, const EpollFiles& files,
                                    const std::map<int, std::uint32_t>& of_number) {
  std::vector<LiveEntry> all;
  const Epoll now = parse_epoll(fdinfo);
  const std::vector<int> found = files.find(number, now);
  for (int i = 0; i < now.entries_size(); ++i) {
    LiveEntry live = {now.entries(i), found[static_cast<std::size_t>(i)]};
    if (const auto known = of_number.find(live.file); known != of_number.end())
      live.entry.set_description(1 + known->second);
    all.push_back(std::move(live));
  }
  return all;
}

/** Restores one set, when all descriptors are in place. */
class SetRestorer {
 public:
  SetRestorer(Restorer& restorer, Remote& remote, std::uint32_t index, const std::map<int, std::uint32_t>& numbers)
      : restorer_(restorer), index_(index), number_(restorer.number(index)), numbers_(numbers),
        image_(resolved(restorer.description(index).epoll(), numbers)), controls_(restorer, remote, index, number_) {}

  /** @param look  reads the live entries again */
  template <class Look>
  void run(std::vector<LiveEntry> live, const Look& look) {
    EpollChanges changes = plan_epoll(image_, live);
    if (std::any_of(changes.set.begin(), changes.set.end(), [](const auto& one) { return has_fired(one.entry); })) {
      fire(changes);
      changes = plan_epoll(image_, look());
    }
    for (const auto& [entry, how] : changes.set) {
      change(entry, how, entry.events());
      if (has_fired(entry))
        restorer_.warn(index_, entry_text(entry) + ", which had fired, waits for errors and hang-up again");
    }
    controls_.flush();
    left_out();
  }

 private:
  /**
   * Disarm one-shot entries that had fired. The kernel clears the events only when it reports one, so arm the entries
   * for all events and call epoll_wait(). An entry with nothing ready stays armed.
   */
  void fire(const EpollChanges& changes) {
    constexpr std::uint32_t anything = EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLRDNORM | EPOLLRDBAND | EPOLLWRNORM |
                                       EPOLLWRBAND | EPOLLMSG | EPOLLRDHUP;
    std::size_t most = restorer_.way(index_) == Way::keep ? static_cast<std::size_t>(image_.entries_size()) : 0;
    for (const auto& [entry, how] : changes.set) {
      if (!has_fired(entry)) continue;
      change(entry, how, entry.events() | anything);
      ++most;
    }
    controls_.flush();
    // Other events reported here are level-triggered, so reported again, or their entries are armed again below.
    const UniqueFd set = restorer_.source.get(number_);
    std::vector<epoll_event> events(most);
    ::epoll_wait(set.get(), events.data(), static_cast<int>(events.size()), 0);
  }

  void change(const Epoll::Entry& entry, How how, std::uint32_t events) {
    const std::uint32_t of = entry.description() - 1;
    const auto under = numbers_.find(entry.fd());
    const bool in_place = under != numbers_.end() && under->second == of;
    const auto control = [&](int operation) {
      if (in_place)
        controls_.at_number(operation, entry, events);
      else
        controls_.elsewhere(operation, entry, events, restorer_.source.get(restorer_.number(of)));
    };
    if (how == How::replace) control(EPOLL_CTL_DEL);
    control(how == How::modify ? EPOLL_CTL_MOD : EPOLL_CTL_ADD);
  }

  void left_out() {
    if (restorer_.way(index_) == Way::keep) return;
    for (const Epoll::Entry& entry : image_.entries())
      if (!entry.description()) restorer_.warn(index_, entry_text(entry) + " is left out: no descriptor led to its file");
  }

  Restorer& restorer_;
  std::uint32_t index_;
  int number_;
  const std::map<int, std::uint32_t>& numbers_;
  Epoll image_;
  EpollControls controls_;
};

}  // namespace

void collect_epoll(Collector& collector, const cr_fd& fd, Description& description) {
  *description.mutable_epoll() = parse_epoll(collector.fdinfo(fd.fd));
}

void finish_epolls(Collector& collector, const std::map<std::uint32_t, int>& numbers) {
  std::optional<EpollFiles> files;
  std::map<int, std::uint32_t> of_number;
  for (const auto& [index, number] : numbers) of_number[number] = index;
  for (const auto& [index, number] : numbers) {
    Description& description = *collector.image.mutable_descriptions(static_cast<int>(index));
    if (description.kind() != Description::EPOLL || description.epoll().entries_size() == 0) continue;
    if (!files) files.emplace(collector.source.pid(), collector.fds);
    const std::vector<int> found = files->find(number, description.epoll());
    for (int i = 0; i < description.epoll().entries_size(); ++i) {
      Epoll::Entry& entry = *description.mutable_epoll()->mutable_entries(i);
      const int file = found[static_cast<std::size_t>(i)];
      if (file >= 0)
        entry.set_description(1 + of_number.at(file));
      else if (file == EpollFiles::elsewhere)
        entry.set_elsewhere(true);
      else
        collector.refuse(number, "an epoll set: which open file " + entry_text(entry) +
                                     " is of cannot be determined (needs kcmp(2) and the permission to use it)");
    }
  }
}

void make_epoll(Restorer& restorer, std::uint32_t index) {
  UniqueFd fd(::epoll_create1(EPOLL_CLOEXEC));
  if (!fd) restorer.fail(index, "cannot be made", errno);
  restorer.made[index] = std::move(fd);
}

std::string epoll_without(const Description& description) {
  for (const Epoll::Entry& entry : description.epoll().entries())
    if (entry.elsewhere())
      return entry_text(entry) +
             " is of a file that no descriptor of the process led to: another process had it, or it was in a message";
  return {};
}

std::set<std::uint32_t> look_at_epolls(Restorer& restorer, const std::set<std::uint32_t>& replaced) {
  std::set<std::uint32_t> replace;
  std::optional<EpollFiles> files;
  std::map<int, std::uint32_t> of_number;  // lowest descriptor of the target -> description of the image
  const auto numbers = described(restorer.image);
  std::map<int, const cr_fd*> live;
  for (const auto& [index, number] : restorer.alive) {
    if (!is_epoll(restorer, index)) continue;
    if (!files) {
      files.emplace(restorer.source.pid(), restorer.live);
      for (const auto& [other, at] : restorer.alive)
        if (!replaced.count(other)) of_number[files->description_at(at)] = other;
      for (const cr_fd& fd : restorer.live) live[fd.fd] = &fd;
    }
    auto& entries = restorer.epolls[index] = live_entries(restorer.fdinfo(index), number, *files, of_number);
    const Epoll wanted = resolved(restorer.description(index).epoll(), numbers);
    const EpollChanges changes = plan_epoll(wanted, entries);
    for (const auto& drop : changes.drop) restorer.highest_stray = std::max(restorer.highest_stray, drop.entry.fd());
    const cr_fd& set = *live.at(number);
    if (!changes.stuck.empty()) {
      const bool whole = std::all_of(wanted.entries().begin(), wanted.entries().end(),
                                     [](const auto& entry) { return entry.description() != 0; });
      // Entries that cannot be removed disappear with the set: make it anew unless another process shares it.
      if (whole && set.refs <= set.refs_here)
        replace.insert(index);
      else
        restorer.problems[index] = entry_text(changes.stuck.front()) +
                                   ", added since, is of a file that only another process has: it cannot be removed";
    }
    if (changes.lost.empty()) continue;
    const std::string what = entry_text(changes.lost.front()) +
                             ", of a file that no descriptor of the process led to, is gone or differs";
    if (restorer.options.dead_sockets)
      restorer.warn(index, what);
    else
      restorer.problems[index] = what;
  }
  for (const auto& [fd, description] : numbers)
    for (const Epoll::Entry& entry : restorer.description(description).epoll().entries())
      if (const auto under = numbers.find(entry.fd());
          entry.description() && (under == numbers.end() || under->second + 1 != entry.description()))
        restorer.highest_stray = std::max(restorer.highest_stray, entry.fd());
  return replace;
}

void prune_epolls(Restorer& restorer, Remote& remote) {
  const auto numbers = described(restorer.image);
  std::map<int, int> at;  // descriptor -> lowest descriptor of the same description
  for (const cr_fd& fd : restorer.live) at[fd.fd] = fd.same_as;
  for (const auto& [index, entries] : restorer.epolls) {
    const auto alive = restorer.alive.find(index);
    if (alive == restorer.alive.end()) continue;  // it is made anew
    const EpollChanges changes = plan_epoll(resolved(restorer.description(index).epoll(), numbers), entries);
    EpollControls controls(restorer, remote, index, alive->second);
    for (const LiveEntry& drop : changes.drop) {
      if (const auto there = at.find(drop.entry.fd()); there != at.end() && there->second == drop.file)
        controls.at_number(EPOLL_CTL_DEL, drop.entry, 0);
      else
        controls.elsewhere(EPOLL_CTL_DEL, drop.entry, 0, restorer.source.get(drop.file));
    }
    controls.flush();
  }
}

void restore_epolls(Restorer& restorer, Remote& remote, std::span<const cr_fd> table, bool moved) {
  const auto numbers = described(restorer.image);
  std::optional<EpollFiles> files;
  std::map<int, std::uint32_t> of_number;
  for (std::uint32_t index = 0; index < restorer.decisions.size(); ++index) {
    const Way way = restorer.way(index);
    if (!is_epoll(restorer, index) || (way != Way::keep && way != Way::make)) continue;
    const int number = restorer.number(index);
    const auto look = [&] {
      if (!files) {
        files.emplace(restorer.source.pid(), table);
        for (const auto& [fd, description] : numbers) of_number[files->description_at(fd)] = description;
      }
      const std::string text = ProcDir(restorer.source.pid(), "fdinfo").read(std::to_string(number));
      return live_entries(text, number, *files, of_number);
    };
    std::vector<LiveEntry> live;
    if (way == Way::keep) live = moved ? look() : restorer.epolls[index];
    SetRestorer(restorer, remote, index, numbers).run(std::move(live), look);
  }
}

}  // namespace reprise
