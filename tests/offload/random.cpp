// SPDX-License-Identifier: GPL-2.0-only
// Random tasks with random regions and domains on two groups, of which some end their boosters. The result is that of the same
// tasks one after the other.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "modes.h"

namespace {

constexpr int kBlocks = 12, kBlock = 256, kMost = 4;

struct Values {
  int id, regions, fatal;  // fatal: 1: before its work, 2: after it
  int elements[kMost];
  croff_access access[kMost];
};

void mix(const Values &values, std::uint32_t *const *regions) {
  std::uint32_t sum = static_cast<std::uint32_t>(values.id);
  for (int r = 0; r < values.regions; ++r)
    for (int i = 0; values.access[r] != CROFF_OUT && i < values.elements[r]; ++i) sum = sum * 31 + regions[r][i];
  for (int r = 0; r < values.regions; ++r)
    for (int i = 0; values.access[r] != CROFF_IN && i < values.elements[r]; ++i)
      regions[r][i] = (values.access[r] == CROFF_OUT ? 0 : 17 * regions[r][i]) + sum++;
}

void work(void *data, void *const *regions) {
  const auto &values = *static_cast<const Values *>(data);
  const bool dies = values.fatal && first("random-" + std::to_string(values.id));
  if (dies && values.fatal == 1) die();
  mix(values, reinterpret_cast<std::uint32_t *const *>(regions));
  if (dies) die();
}

}  // namespace

void random_tasks() {
  const int seed = argument(1, 1), tasks = argument(2, 60), kills = argument(3, 4);
  std::mt19937 random(static_cast<unsigned>(seed));
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  croff::group first_group(MPI_COMM_SELF, 1, 2), second_group(MPI_COMM_SELF, 1, 2);
  std::vector<std::uint32_t> memory(kBlocks * kBlock, 1), alone = memory;
  for (int id = 0; id < tasks; ++id) {
    Values values{};
    values.id = id;
    values.regions = 1 + below(kMost);
    values.fatal = below(tasks) < kills ? 1 + below(2) : 0;
    std::vector<int> blocks(kBlocks);
    for (int i = 0; i < kBlocks; ++i) blocks[i] = i;
    std::shuffle(blocks.begin(), blocks.end(), random);
    croff_region regions[kMost];
    std::uint32_t *references[kMost];
    for (int r = 0; r < values.regions; ++r) {
      const int from = below(kBlock), elements = 1 + below(kBlock - from), at = blocks[r] * kBlock + from;
      values.elements[r] = elements;
      values.access[r] = static_cast<croff_access>(1 + below(3));
      regions[r] = {&memory[at], elements * sizeof(std::uint32_t), values.access[r]};
      references[r] = &alone[at];
    }
    mix(values, references);
    const croff::group &group = below(2) ? first_group : second_group;
    const int recover = below(2) ? CROFF_RECOVER : below(3);
    if (croff_task(group.inter(), below(2), recover, work, &values, sizeof values, regions, values.regions) != CROFF_OK) {
      fprintf(stderr, "%s\n", croff_last_error());
      CHECK(false);
    }
    if (below(20) == 0) {
      croff::taskwait();
      CHECK(memory == alone);
    }
  }
  croff::taskwait();
  CHECK(memory == alone);
  first_group.free();
  second_group.free();
  printf("all is as one after the other\n");
}
