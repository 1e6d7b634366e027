// SPDX-License-Identifier: LGPL-2.1-or-later
#include "desk.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/fault.h"

namespace croff {
namespace {

std::byte *zeros(std::size_t bytes) {
  const std::size_t rounded = (std::max<std::size_t>(bytes, 1) + 63) / 64 * 64;
  void *memory = aligned_alloc(64, rounded);
  if (!memory) throw std::bad_alloc();
  return static_cast<std::byte *>(memset(memory, 0, rounded));
}

}  // namespace

wire::Notice Desk::execute(int master, const wire::Order &order, const Read &read) {
  Memory memory;
  memory.regions.resize(order.regions);
  read(reinterpret_cast<std::byte *>(memory.regions.data()), memory.regions.size() * sizeof(wire::Region));
  Buffer values(nullptr, free);
  Work work{{order.object, order.offset, order.build}, nullptr, {}};
  try {
    values.reset(zeros(order.values));
    work.values = values.get();
    for (const wire::Region &region : memory.regions) {
      memory.data.emplace_back(zeros(region.bytes), free);
      work.regions.push_back(memory.data.back().get());
    }
  } catch (const std::bad_alloc &) {
    return wire::notice(wire::Note::failed, order.task, Code::memory, "the booster has too little memory for the task's regions");
  }
  read(values.get(), order.values);
  for (std::size_t i = 0; i < memory.regions.size(); ++i) {
    if (!memory.regions[i].reads) continue;
    fault("inputs");
    read(memory.data[i].get(), memory.regions[i].bytes);
  }
  try {
    fault("task");
    execute_(work);
    fault("done");
  } catch (const std::bad_alloc &) {
    return wire::notice(wire::Note::failed, order.task, Code::memory, "the booster has too little memory for the task");
  } catch (const Error &error) {
    return wire::notice(wire::Note::failed, order.task, error.code, error.what());
  }
  kept_.emplace(std::pair{master, order.task}, std::move(memory));
  return wire::notice(wire::Note::done, order.task);
}

bool Desk::deliver(int master, TaskId task, const Write &write) {
  const auto found = kept_.find({master, task});
  if (found == kept_.end()) return false;
  for (std::size_t i = 0; i < found->second.regions.size(); ++i) {
    const wire::Region &region = found->second.regions[i];
    if (!region.writes) continue;
    fault("outputs");
    write(found->second.data[i].get(), region.bytes);
  }
  kept_.erase(found);
  return true;
}

}  // namespace croff
