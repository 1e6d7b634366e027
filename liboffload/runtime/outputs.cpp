// SPDX-License-Identifier: LGPL-2.1-or-later
#include "outputs.h"

#include <algorithm>
#include <cstring>

namespace croff {
namespace {

/** Copy the part of an output that lies in `region` to the copy of that region. */
void overlay(const Region &region, std::byte *copy, const Region &output, const std::byte *data) {
  const std::uintptr_t begin = std::max(region.begin, output.begin), end = std::min(region.end(), output.end());
  memcpy(copy + (begin - region.begin), data + (begin - output.begin), end - begin);
}

template <class Function>
void each_staged(const Region &region, const Peers &earlier, Function function) {
  for (const Task *peer : earlier)
    for (std::size_t i = 0; i < peer->outputs.size(); ++i)
      if (peer->outputs[i] && overlap(region, peer->regions[i])) function(peer->regions[i], peer->outputs[i].get());
}

}  // namespace

std::vector<Input> inputs_of(Task &task, const Peers &earlier) {
  std::vector<Input> inputs;
  task.inputs.clear();
  task.inputs.resize(task.regions.size());
  for (std::size_t i = 0; i < task.regions.size(); ++i) {
    const Region &region = task.regions[i];
    const std::byte *source = region.data();
    if (region.reads) {
      each_staged(region, earlier, [&](const Region &output, const std::byte *data) {
        auto &copy = task.inputs[i];
        if (!copy) {
          copy.reset(new std::byte[region.bytes]);
          memcpy(copy.get(), region.data(), region.bytes);
        }
        overlay(region, copy.get(), output, data);
      });
      if (task.inputs[i]) source = task.inputs[i].get();
    }
    inputs.push_back({source, region.bytes, region.reads, region.writes});
  }
  return inputs;
}

std::vector<Target> targets_of(Task &task, const Peers &earlier, std::size_t &staged) {
  std::vector<Target> targets;
  task.outputs.clear();
  task.outputs.resize(task.regions.size());
  for (std::size_t i = 0; i < task.regions.size(); ++i) {
    const Region &region = task.regions[i];
    if (!region.writes) continue;
    const auto uses = [&](const Region &other) { return &other != &region && overlap(other, region); };
    const auto one_uses = [&](const Task *peer) { return std::any_of(peer->regions.begin(), peer->regions.end(), uses); };
    std::byte *data = region.data();
    if (region.reads || one_uses(&task) || std::any_of(earlier.begin(), earlier.end(), one_uses)) {
      task.outputs[i].reset(new std::byte[region.bytes]);
      staged += region.bytes;
      data = task.outputs[i].get();
    }
    targets.push_back({data, region.bytes});
  }
  return targets;
}

void put_in_place(Task &task) {
  for (std::size_t i = 0; i < task.outputs.size(); ++i)
    if (task.outputs[i]) memcpy(task.regions[i].data(), task.outputs[i].get(), task.regions[i].bytes);
}

}  // namespace croff
