// SPDX-License-Identifier: GPL-2.0-only
#include "process/memory_limits.h"

#include <gmock/gmock.h>

namespace reprise {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::uint64_t kMb = 1 << 20;
constexpr std::uint64_t kData = CR_VMA_READ | CR_VMA_WRITE;

void add(Process& image, std::uint64_t start, std::uint64_t end, std::uint64_t flags) {
  Mapping& mapping = *image.add_mappings();
  mapping.set_start(start);
  mapping.set_end(end);
  mapping.set_flags(flags);
}

TEST(MemoryNeeds, CountsAsTheKernelDoes) {
  Process image;
  add(image, 1 * kMb, 2 * kMb, CR_VMA_READ | CR_VMA_EXEC);
  add(image, 2 * kMb, 5 * kMb, kData | CR_VMA_LOCKED);
  add(image, 6 * kMb, 8 * kMb, kData | CR_VMA_SHARED);
  add(image, 9 * kMb, 10 * kMb, kData | CR_VMA_GROWSDOWN);
  const MemoryNeeds needs = memory_needs({}, image, {});
  EXPECT_EQ(needs.mappings, 4U);
  EXPECT_EQ(needs.address_space, 7 * kMb);
  EXPECT_EQ(needs.data, 3 * kMb);
  EXPECT_EQ(needs.locked, 3 * kMb);
  EXPECT_EQ(needs.committed, 0U);
}

TEST(MemoryNeeds, CommitsWhatIsMappedLessWhatIsUnmapped) {
  Process image;
  add(image, 2 * kMb, 8 * kMb, kData);
  MappingPlan plan;
  plan.maps.push_back({2 * kMb, 8 * kMb, 0});
  plan.removes.push_back({10 * kMb, 14 * kMb});
  cr_vma old{};
  old.start = 12 * kMb;
  old.end = 20 * kMb;
  old.flags = kData;
  EXPECT_EQ(memory_needs(std::span(&old, 1), image, plan).committed, 4 * kMb);
  plan.removes[0] = {0, 100 * kMb};
  EXPECT_EQ(memory_needs(std::span(&old, 1), image, plan).committed, 0U);
}

TEST(RoomRefusal, NamesWhatIsTooNarrow) {
  MemoryNeeds needs;
  needs.mappings = 70000;
  needs.committed = 300 * kMb;
  needs.pages = 200 * kMb;
  SystemRoom room;
  EXPECT_EQ(room_refusal(needs, room), "");
  room.max_mappings = 65530;
  EXPECT_THAT(room_refusal(needs, room), AllOf(HasSubstr("70000"), HasSubstr("65530"), HasSubstr("vm.max_map_count")));
  room.max_mappings = UINT64_MAX;
  room.commit_limit = 400 * kMb;
  room.committed = 100 * kMb;
  EXPECT_EQ(room_refusal(needs, room), "");
  room.committed = 101 * kMb;
  EXPECT_THAT(room_refusal(needs, room), AllOf(HasSubstr("300 MB"), HasSubstr("400 MB"), HasSubstr("vm.overcommit_ratio")));
  room.committed = 500 * kMb;
  EXPECT_THAT(room_refusal(needs, room), HasSubstr("vm.overcommit_ratio"));
  room.commit_limit = UINT64_MAX;
  room.cgroup_limit = 199 * kMb;
  room.cgroup = "/user.slice";
  EXPECT_THAT(room_refusal(needs, room), AllOf(HasSubstr("/user.slice"), HasSubstr("memory.max")));
}

}  // namespace
}  // namespace reprise
