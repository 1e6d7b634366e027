// SPDX-License-Identifier: GPL-2.0-only
#include "subset/subset.h"

#include <gmock/gmock.h>

#include "base/error.h"

namespace fnx {
namespace {

using testing::ElementsAre, testing::HasSubstr;
using Block = Subset::Block;

template <class Call>
Code refused(Call call) {
  try {
    call();
  } catch (const Error &error) {
    EXPECT_THAT(error.what(), HasSubstr(":")) << "it names the way out";
    return error.code;
  }
  return Code::ok;
}

TEST(Subset, BlocksThatTouchAreOne) {
  EXPECT_THAT(Subset::regular(3, 0, 1, 2).blocks(), ElementsAre(Block{0, 5}));
  EXPECT_THAT(Subset::regular(3, 4, 5, 10).blocks(), ElementsAre(Block{4, 5}, Block{14, 15}, Block{24, 25}));
  const int firsts[] = {7, 0, 6}, lasts[] = {9, 2, 7};
  EXPECT_THAT(Subset::irregular(3, firsts, lasts).blocks(), ElementsAre(Block{0, 2}, Block{6, 9}));
}

TEST(Subset, WhatItCovers) {
  Subset set = Subset::regular(1, 3, 9, 0);
  EXPECT_FALSE(set.covers(10));
  EXPECT_TRUE(set.covers(0));
  set.add(Subset::regular(1, 0, 2, 0));
  EXPECT_TRUE(set.covers(10));
  EXPECT_FALSE(set.covers(11));
  EXPECT_EQ(set.end(), 10);
  EXPECT_TRUE(Subset::full().covers(1000));
  EXPECT_TRUE(Subset().empty());
  EXPECT_FALSE(Subset().covers(1));
}

TEST(Subset, BelowACount) {
  EXPECT_THAT(Subset::full().below(4).blocks(), ElementsAre(Block{0, 3}));
  EXPECT_TRUE(Subset::full().below(0).empty());
  EXPECT_THAT(Subset::regular(3, 0, 4, 10).below(13).blocks(), ElementsAre(Block{0, 4}, Block{10, 12}));
}

TEST(Subset, SurvivesAsNumbers) {
  const Subset set = Subset::regular(5, 1, 2, 7);
  EXPECT_EQ(Subset::of(set.numbers()).blocks(), set.blocks());
}

TEST(Subset, Refusals) {
  const int one[] = {1}, zero[] = {0};
  EXPECT_EQ(refused([] { Subset::regular(0, 0, 1, 1); }), Code::subset_blocks);
  EXPECT_EQ(refused([] { Subset::regular(1, -1, 1, 1); }), Code::subset_start);
  EXPECT_EQ(refused([] { Subset::regular(1, 2, 1, 1); }), Code::subset_end);
  EXPECT_EQ(refused([] { Subset::regular(2, 0, 1, 0); }), Code::subset_stride);
  EXPECT_EQ(refused([] { Subset::regular(1 << 20, 0, 1, 1 << 20); }), Code::subset_end);
  EXPECT_EQ(refused([&] { Subset::irregular(1, one, zero); }), Code::subset_end);
  EXPECT_EQ(refused([&] { Subset::irregular(1, nullptr, zero); }), Code::subset_start);
  EXPECT_EQ(refused([&] { Subset::irregular(-1, one, one); }), Code::subset_blocks);
}

}  // namespace
}  // namespace fnx
