// SPDX-License-Identifier: LGPL-2.1-or-later
#include "process/timer_list.h"

#include <signal.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <map>

namespace reprise {

std::vector<Timers::Posix> parse_timers(const std::string& text) {
  std::vector<Timers::Posix> all;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    int id = 0, signal = 0, number = 0;
    std::uint64_t value = 0;
    char how[16], whom[8];
    if (std::sscanf(line.c_str(), "ID: %d", &id) == 1) {
      all.emplace_back().set_id(id);
    } else if (all.empty()) {
      continue;
    } else if (std::sscanf(line.c_str(), "signal: %d/%" SCNx64, &signal, &value) == 2) {
      all.back().set_signal(signal);
      all.back().set_value(value);
    } else if (std::sscanf(line.c_str(), "notify: %15[a-z]/%7[a-z].%d", how, whom, &number) == 3) {
      int notify = std::strcmp(how, "none") == 0 ? SIGEV_NONE : std::strcmp(how, "thread") == 0 ? SIGEV_THREAD : SIGEV_SIGNAL;
      if (std::strcmp(whom, "tid") == 0) {
        notify |= SIGEV_THREAD_ID;
        all.back().set_tid(number);
      }
      all.back().set_notify(notify);
    } else if (std::sscanf(line.c_str(), "ClockID: %d", &number) == 1) {
      all.back().set_clock(number);
    }
  }
  return all;
}

TimerPlan plan_timers(const Timers& image, const std::vector<Timers::Posix>& live) {
  TimerPlan plan;
  std::map<int, const Timers::Posix*> now;
  for (const Timers::Posix& timer : live) now[timer.id()] = &timer;
  const auto same = [&](const Timers::Posix& a, const Timers::Posix& b) {
    return a.clock() == b.clock() && a.signal() == b.signal() && a.notify() == b.notify() && a.value() == b.value() &&
           a.tid() == b.tid();
  };
  for (const Timers::Posix& timer : image.posix()) {
    plan.set.push_back(&timer);
    const auto found = now.find(timer.id());
    if (found == now.end()) {
      plan.create.push_back(&timer);
      continue;
    }
    if (!same(timer, *found->second)) {
      plan.remove.push_back(timer.id());
      plan.create.push_back(&timer);
    }
    now.erase(found);
  }
  for (const auto& [id, timer] : now) plan.remove.push_back(id);
  std::sort(plan.create.begin(), plan.create.end(), [](const auto* a, const auto* b) { return a->id() < b->id(); });
  return plan;
}

}  // namespace reprise
