// SPDX-License-Identifier: LGPL-2.1-or-later
// What masters and boosters tell each other. Both run the same executable: structures are sent as they are.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace croff::wire {

enum class Op : std::int32_t { run, fetch, discard, leave };

struct Order {
  Op op = Op::run;
  std::int32_t regions = 0;
  std::uint64_t task = 0;
  std::uint64_t values = 0;  // bytes
  std::uint64_t offset = 0, build = 0;
  char object[CodeReference::kMostObject + 1] = {};
};

/** Of `run`: one for each region. They follow the order; the values follow them, then the regions that the task reads. */
struct Region {
  std::uint64_t bytes = 0;
  std::uint64_t reads = 0, writes = 0;
};

enum class Note : std::int32_t { hello, done, failed, leaves, outputs };

struct Notice {
  Note note = Note::hello;
  std::int32_t code = 0;
  std::uint64_t task = 0;
  char text[240] = {};
};

inline Order order(Op op, TaskId task) {
  Order order;
  order.op = op;
  order.task = task;
  return order;
}

/** An order to execute a task. */
inline Order order(const croff::Order &task) {
  Order run = order(Op::run, task.task);
  run.offset = task.code.offset;
  run.build = task.code.build;
  strcpy(run.object, task.code.object.c_str());
  run.regions = static_cast<std::int32_t>(task.regions.size());
  run.values = task.values->size();
  return run;
}

inline std::vector<Region> regions(const croff::Order &task) {
  std::vector<Region> all;
  for (const Input &input : task.regions) all.push_back({input.bytes, input.reads, input.writes});
  return all;
}

inline Notice notice(Note note, TaskId task = 0, Code code = Code::ok, const std::string &text = "") {
  Notice notice;
  notice.note = note;
  notice.task = task;
  notice.code = static_cast<std::int32_t>(code);
  strncpy(notice.text, text.c_str(), sizeof notice.text - 1);
  return notice;
}

}  // namespace croff::wire
