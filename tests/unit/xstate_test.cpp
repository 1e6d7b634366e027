// SPDX-License-Identifier: GPL-2.0-only
//
// Extended registers on a machine with another XSAVE layout.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "process/xstate.h"

namespace reprise {
namespace {

using testing::HasSubstr;
using testing::Property;
using testing::Throws;

constexpr std::uint64_t kMasks = 1 << 5, kKeys = 1 << 9, kTiles = 1 << 18;

XstateLayout large() { return {7 | kMasks | kKeys | kTiles, 4096, {{2, 576, 256}, {5, 1088, 64}, {9, 2688, 8}, {18, 2816, 1024}}}; }
XstateLayout small() { return {7 | kKeys, 840, {{2, 576, 256}, {9, 832, 8}}}; }

std::string saved(const XstateLayout& layout, std::uint64_t used) {
  std::string bytes(layout.size, '\0');
  std::memcpy(bytes.data() + 464, &layout.features, 8);
  std::memcpy(bytes.data() + 512, &used, 8);
  bytes[0] = 'x';
  for (const auto& set : layout.sets)
    if (used >> set.feature & 1) std::fill_n(bytes.begin() + static_cast<long>(set.offset), set.size, static_cast<char>(set.feature));
  return bytes;
}

TEST(Xstate, SameMachine) {
  const std::string bytes = saved(large(), 7 | kMasks | kTiles);
  EXPECT_EQ(fitted_xstate(bytes, large(), large(), false, "t"), bytes);
}

TEST(Xstate, MovesWhatIsInUse) {
  const std::string fitted = fitted_xstate(saved(large(), 7 | kKeys), large(), small(), true, "t");
  ASSERT_EQ(fitted.size(), small().size);
  EXPECT_EQ(fitted[0], 'x');
  EXPECT_EQ(fitted[576], 2);
  EXPECT_EQ(fitted[831], 2);
  EXPECT_EQ(fitted[832], 9);
  EXPECT_EQ(fitted[839], 9);
  const std::string back = fitted_xstate(fitted, small(), large(), true, "t");
  ASSERT_EQ(back.size(), large().size);
  EXPECT_EQ(back[2688], 9);
  EXPECT_EQ(back[832], 0);
}

TEST(Xstate, RefusesWhatIsNotThere) {
  EXPECT_THAT([] { fitted_xstate(saved(large(), 7 | kMasks), large(), small(), true, "thread 12 (worker)"); },
              Throws<Error>(Property(&Error::what, HasSubstr("thread 12 (worker) has AVX-512 registers in use"))));
}

TEST(Xstate, RefusesTilesInANewThread) {
  const std::string bytes = saved(large(), 7 | kTiles);
  EXPECT_THAT([&] { fitted_xstate(bytes, large(), large(), true, "t"); },
              Throws<Error>(Property(&Error::what, HasSubstr("AMX"))));
  EXPECT_EQ(fitted_xstate(bytes, large(), large(), false, "t"), bytes);
}

TEST(Xstate, RefusesAnotherForm) {
  XstateLayout other = small();
  other.sets[1].size = 4;
  EXPECT_THAT([&] { fitted_xstate(saved(large(), 7 | kKeys), large(), other, true, "t"); },
              Throws<Error>(Property(&Error::what, HasSubstr("another size"))));
}

TEST(Xstate, SurvivesAHostileLayout) {
  XstateLayout hostile = large();
  hostile.sets[0].offset = 1ULL << 31;
  EXPECT_THROW(fitted_xstate(saved(large(), 7), hostile, small(), true, "t"), Error);
  EXPECT_NO_THROW(fitted_xstate(std::string(3, 'x'), hostile, small(), true, "t"));
}

TEST(Xstate, Here) {
  const XstateLayout here = xstate_layout_here();
  if (!here.features) GTEST_SKIP() << "the CPU has no XSAVE";
  EXPECT_GE(here.size, 576U);
  for (const auto& set : here.sets) EXPECT_LE(set.offset + set.size, here.size) << set.feature;
  Host host;
  collect_xstate_layout(host);
  EXPECT_EQ(host.xstate_size(), static_cast<int>(here.sets.size()));
}

}  // namespace
}  // namespace reprise
