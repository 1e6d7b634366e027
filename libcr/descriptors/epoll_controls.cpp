// SPDX-License-Identifier: LGPL-2.1-or-later
#include "descriptors/epoll_controls.h"

#include <sys/epoll.h>
#include <sys/syscall.h>

#include <cerrno>
#include <utility>

namespace reprise {
namespace {

epoll_event event_of(const Epoll::Entry& entry, std::uint32_t events) {
  epoll_event event = {};
  event.events = events;
  event.data.u64 = entry.data();
  return event;
}

}  // namespace

std::string entry_text(const Epoll::Entry& entry) { return "its entry for descriptor " + std::to_string(entry.fd()); }

void EpollControls::at_number(int operation, const Epoll::Entry& entry, std::uint32_t events) {
  const epoll_event event = event_of(entry, events);
  if (!remote_.room(1, sizeof event + 16)) flush();
  const std::uint64_t at = operation == EPOLL_CTL_DEL ? 0 : remote_.argument_of(event);
  remote_.add({SYS_epoll_ctl,
               {static_cast<std::uint64_t>(number_), static_cast<std::uint64_t>(operation),
                static_cast<std::uint64_t>(entry.fd()), at}},
              false);
  queued_.push_back({operation, entry, events});
}

void EpollControls::elsewhere(int operation, const Epoll::Entry& entry, std::uint32_t events, UniqueFd file) {
  strays_.push_back({operation, std::move(file), entry.fd(), event_of(entry, events)});
  stray_entries_.push_back(entry);
}

void EpollControls::flush() {
  flush_strays();
  for (const Queued& again : make_queued(false))
    at_number(again.operation == EPOLL_CTL_MOD ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, again.entry, again.events);
  make_queued(true);
}

/**
 * @param last  treat ENOENT and EEXIST as errors
 * @return the changes to repeat with the other operation: without kcmp() the entries are not known for sure, so ADD
 * after ENOENT and MOD after EEXIST
 */
std::vector<EpollControls::Queued> EpollControls::make_queued(bool last) {
  std::vector<Queued> again;
  if (queued_.empty()) return again;
  const auto results = remote_.run();
  const auto queued = std::exchange(queued_, {});
  for (std::size_t i = 0; i < queued.size(); ++i) {
    const auto code = static_cast<int>(-results[i]);
    const int operation = queued[i].operation;
    if (!last && ((operation == EPOLL_CTL_MOD && code == ENOENT) || (operation == EPOLL_CTL_ADD && code == EEXIST)))
      again.push_back(queued[i]);
    else
      done(operation, queued[i].entry, code);
  }
  return again;
}

void EpollControls::flush_strays() {
  if (strays_.empty()) return;
  const UniqueFd set = restorer_.source.get(number_);
  control_strays(set.get(), strays_);
  for (std::size_t i = 0; i < strays_.size(); ++i) done(strays_[i].operation, stray_entries_[i], strays_[i].result);
  strays_.clear();
  stray_entries_.clear();
}

void EpollControls::done(int operation, const Epoll::Entry& entry, int code) {
  if (code <= 0 || operation == EPOLL_CTL_DEL) return;  // DEL: the entry disappeared with its file
  // EPERM: a substitute may be a file without poll support, such as a regular file.
  if (code == EPERM)
    restorer_.warn(index_, entry_text(entry) + " is left out: its file does not support epoll");
  else
    restorer_.fail(index_, entry_text(entry), code);
}

}  // namespace reprise
