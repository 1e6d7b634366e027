// SPDX-License-Identifier: GPL-2.0-only
// Which guard pages to install and remove, and droppable memory in the mapping plan.
#include "process/guards.h"

#include <gmock/gmock.h>
#include <sys/mman.h>

#include "process/mapping_plan.h"

namespace reprise::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

MATCHER_P2(Range, addr, len, "") { return arg.addr == std::uint64_t{addr} && arg.len == std::uint64_t{len}; }

TEST(Without, NothingToTakeAway) {
  const std::vector<cr_range> some{{0x1000, 0x1000}, {0x4000, 0x2000}};
  EXPECT_THAT(without(some, {}), ElementsAre(Range(0x1000u, 0x1000u), Range(0x4000u, 0x2000u)));
  EXPECT_THAT(without({}, some), IsEmpty());
  EXPECT_THAT(without(some, some), IsEmpty());
}

TEST(Without, PartsAreLeft) {
  const std::vector<cr_range> one{{0x1000, 0x9000}};
  const std::vector<cr_range> holes{{0x0000, 0x2000}, {0x4000, 0x1000}, {0x9000, 0x4000}};
  EXPECT_THAT(without(one, holes), ElementsAre(Range(0x2000u, 0x2000u), Range(0x5000u, 0x4000u)));
}

TEST(Without, OneTakesFromSeveral) {
  const std::vector<cr_range> several{{0x1000, 0x2000}, {0x4000, 0x2000}, {0x8000, 0x1000}};
  const std::vector<cr_range> one{{0x2000, 0x3000}};
  EXPECT_THAT(without(several, one), ElementsAre(Range(0x1000u, 0x1000u), Range(0x5000u, 0x1000u), Range(0x8000u, 0x1000u)));
}

TEST(Droppable, IsMadeAnewWhereItIsNot) {
  constexpr std::uint64_t plain = CR_VMA_READ | CR_VMA_WRITE | CR_VMA_MAYWRITE;
  constexpr std::uint64_t droppable =
      plain | CR_VMA_DROPPABLE | CR_VMA_NORESERVE | CR_VMA_WIPEONFORK | CR_VMA_DONTDUMP;
  Process image;
  Mapping& mapping = *image.add_mappings();
  mapping.set_start(0x20000000);
  mapping.set_end(0x20004000);
  mapping.set_flags(droppable);
  cr_vma now{};
  now.start = 0x20000000;
  now.end = 0x20004000;
  now.flags = droppable;
  now.offset = now.start;
  EXPECT_TRUE(plan_mappings({&now, 1}, image).empty());
  now.flags = plain | CR_VMA_NORESERVE | CR_VMA_PAGES;
  const MappingPlan plan = plan_mappings({&now, 1}, image);
  EXPECT_EQ(plan.removes.size(), 1u);
  EXPECT_EQ(plan.maps.size(), 1u);
  EXPECT_TRUE(plan.advices.empty()) << "the kernel sets these flags on droppable memory by itself";
}

}  // namespace
}  // namespace reprise::test
