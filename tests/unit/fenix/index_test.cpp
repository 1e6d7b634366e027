// SPDX-License-Identifier: GPL-2.0-only
// What outlives a rollback of the data groups: it is found again as it was, or not at all.
#include "image/index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fnx {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class Index : public testing::Test {
 protected:
  static constexpr std::size_t kBytes = 1 << 16;
  alignas(64) std::byte memory[kBytes] = {};
  Arena arena{memory, sizeof memory};

  std::shared_ptr<const Layout> layout = [] {
    auto made = std::make_shared<Layout>();
    made->ranks = 4, made->rank = 2, made->index = 1;
    made->cohorts = {{0, 2}, {1, 3}};
    made->cohort = {0, 2};
    return made;
  }();
  ImagePointer image(char value, int count) {
    auto made = std::make_shared<Image>(&arena);
    made->layout = layout;
    made->shapes = {{5, 8, 1, Subset::regular(1, 0, 4, 1)}, {count, 1, 0, Subset::regular(2, 1, 2, 4)}};
    made->data.resize(static_cast<std::size_t>(count));
    made->parity.resize(40);
    made->data[0] = static_cast<std::byte>(value);
    made->parity[39] = static_cast<std::byte>(value + 1);
    return made;
  }
  KeptGroup group(int id) {
    KeptGroup made{{id, 3, 1, {5, 2, 2}}, 9, layout, {}};
    const ImagePointer shared = image('s', 100);
    made.snapshots = {{7, {{1, shared}, {2, image('a', 30)}}}, {8, {{1, shared}, {4, image('b', 0 + 1)}}}};
    return made;
  }
};

TEST_F(Index, BringsGroupsBack) {
  std::vector<KeptGroup> groups;
  groups.push_back(group(1));
  groups.push_back({{6, 0, 0, {}}, 0, layout, {}});
  arena.publish(index_of(groups, arena));
  Arena later(memory, sizeof memory);
  const std::vector<KeptGroup> found = groups_in(later.begin_again(), later);
  ASSERT_EQ(found.size(), 2u);
  const KeptGroup &one = found[0];
  EXPECT_EQ(one.wish.id, 1);
  EXPECT_EQ(one.wish.start, 3);
  EXPECT_EQ(one.wish.depth, 1);
  EXPECT_EQ(one.wish.policy, (Policy{5, 2, 2}));
  EXPECT_EQ(one.next_time, 9);
  EXPECT_EQ(one.layout->ranks, 4);
  EXPECT_EQ(one.layout->rank, 2);
  EXPECT_EQ(one.layout->index, 1);
  EXPECT_THAT(one.layout->cohort, ElementsAre(0, 2));
  EXPECT_THAT(one.layout->cohorts, ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3)));
  ASSERT_EQ(one.snapshots.size(), 2u);
  EXPECT_EQ(one.snapshots[0].time, 7);
  EXPECT_EQ(one.snapshots[1].time, 8);
  ASSERT_EQ(one.snapshots[0].members.size(), 2u);
  ASSERT_EQ(one.snapshots[1].members.size(), 2u);
  EXPECT_EQ(one.snapshots[0].members.at(1), one.snapshots[1].members.at(1)) << "snapshots share it";
  const Image &shared = *one.snapshots[0].members.at(1), &last = *one.snapshots[1].members.at(4);
  EXPECT_EQ(shared.layout, one.layout);
  EXPECT_EQ(shared.data.size(), 100u);
  EXPECT_EQ(shared.data[0], std::byte{'s'});
  EXPECT_EQ(shared.parity[39], std::byte{'s' + 1});
  EXPECT_EQ(shared.shapes[0].element, 8);
  EXPECT_EQ(shared.shape().dense, 0);
  EXPECT_THAT(shared.shape().found.blocks(), ElementsAre(Subset::Block{1, 2}, Subset::Block{5, 6}));
  EXPECT_EQ(last.data[0], std::byte{'b'});
  EXPECT_THAT(found[1].snapshots, IsEmpty());
}

TEST_F(Index, OfNonsenseIsEmptyAndTakesNothing) {
  std::vector<KeptGroup> groups;
  groups.push_back(group(1));
  const std::vector<std::int64_t> index = index_of(groups, arena);
  std::size_t wrong = 0;
  for (std::size_t at = 0; at < index.size(); ++at)
    for (const std::int64_t value : {std::int64_t{-1}, std::int64_t{1} << 40}) {
      std::vector<std::int64_t> damaged = index;
      damaged[at] = value;
      Arena later(memory, sizeof memory);
      later.begin_again();
      wrong += groups_in(damaged, later).empty();
      damaged.resize(at);
      Arena shorter(memory, sizeof memory);
      EXPECT_TRUE(groups_in(damaged, shorter).empty());
    }
  EXPECT_GT(wrong, index.size() / 2);
  EXPECT_THAT(groups_in({}, arena), IsEmpty());
}

}  // namespace
}  // namespace fnx
