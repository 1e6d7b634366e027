// SPDX-License-Identifier: GPL-2.0-only
// Memory of the store that outlives all else of the process: what an index refers to is there, whenever the process is taken back.
#include "store/arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <new>
#include <random>

namespace fnx {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class Arenas : public testing::Test {
 protected:
  static constexpr std::size_t kBytes = 64 * 64;
  alignas(64) std::byte memory[kBytes] = {};
  Arena arena{memory, sizeof memory};
};

TEST_F(Arenas, GivesWhatIsFreeAndNoMore) {
  std::byte *all = arena.take(kBytes - 64);
  EXPECT_THROW(arena.take(1), std::bad_alloc);
  EXPECT_THROW(arena.take(static_cast<std::size_t>(-1)), std::bad_alloc);
  arena.give_back(all, kBytes - 64);
  EXPECT_THROW(arena.take(1), std::bad_alloc) << "an index may refer to it";
}

TEST_F(Arenas, TakesAgainWhatWasGivenBackWhenAnIndexIsPublished) {
  std::byte *first = arena.take(100), *second = arena.take(100);
  arena.give_back(first, 100);
  arena.publish(std::vector<std::int64_t>{1});
  EXPECT_EQ(arena.take(100), first);
  arena.give_back(second, 100);
  arena.publish(std::vector<std::int64_t>{2});
  EXPECT_THAT(arena.begin_again(), ElementsAre(2));
}

TEST_F(Arenas, PublishWhenTheyAreFull) {
  int times = 0;
  arena.set_renewal([&] {
    ++times;
    arena.publish({});
  });
  std::byte *most = arena.take(kBytes - 3 * 64);
  arena.give_back(most, kBytes - 3 * 64);
  EXPECT_EQ(arena.take(kBytes - 4 * 64), most);
  EXPECT_EQ(times, 1);
  EXPECT_THROW(arena.take(kBytes / 2), std::bad_alloc);
  EXPECT_EQ(times, 1) << "nothing was given back";
}

TEST_F(Arenas, AreFoundAgain) {
  EXPECT_THAT(arena.begin_again(), IsEmpty());
  std::byte *kept = arena.take(200);
  memset(kept, 7, 200);
  arena.publish(std::vector<std::int64_t>{arena.offset_of(kept), 200});
  memset(arena.take(500), 9, 500);  // not in the index
  Arena later(memory, sizeof memory);  // as after a rollback, or in the memory of a restarted process
  const std::vector<std::int64_t> index = later.begin_again();
  ASSERT_EQ(index.size(), 2u);
  EXPECT_EQ(later.claim(index[0], index[1]), kept);
  EXPECT_EQ(kept[0], std::byte{7});
  EXPECT_EQ(kept[199], std::byte{7});
  EXPECT_EQ(later.claim(index[0], index[1]), nullptr) << "it is claimed";
  EXPECT_NE(later.take(100), nullptr);
}

TEST_F(Arenas, RefuseWhatCannotBeAnIndex) {
  EXPECT_EQ(arena.claim(-64, 64), nullptr);
  EXPECT_EQ(arena.claim(0, 64), nullptr) << "their own head";
  EXPECT_EQ(arena.claim(64, kBytes), nullptr);
  EXPECT_EQ(arena.claim(64, std::int64_t{1} << 62), nullptr);
  EXPECT_EQ(arena.claim(64, -1), nullptr);
  arena.publish(std::vector<std::int64_t>{1, 2, 3});
  std::uint64_t at;
  memcpy(&at, memory + 8, sizeof at);
  const std::int64_t far = 1 << 20;
  memcpy(memory + at, &far, sizeof far);
  EXPECT_THAT(arena.begin_again(), IsEmpty());
}

/** Take, give back and publish at random, and be taken back in between: what the index refers to is always whole. */
TEST_F(Arenas, KeepWhatTheIndexRefersTo) {
  std::mt19937 random(1);
  struct Block {
    std::byte *at;
    std::size_t bytes;
    int value;
  };
  std::vector<Block> blocks, published;
  const auto number = [&](int most) { return std::uniform_int_distribution<>(0, most)(random); };
  const auto check = [](const std::vector<Block> &all) {
    for (const Block &block : all)
      for (std::size_t i = 0; i < block.bytes; ++i) ASSERT_EQ(block.at[i], static_cast<std::byte>(block.value));
  };
  for (int step = 0; step < 20'000; ++step) {
    const int what = number(9);
    try {
      if (what < 5) {
        Block block{nullptr, static_cast<std::size_t>(number(400) + 1), number(255)};
        block.at = arena.take(block.bytes);
        memset(block.at, block.value, block.bytes);
        blocks.push_back(block);
      } else if (what < 8 && !blocks.empty()) {
        const std::size_t which = number(static_cast<int>(blocks.size()) - 1);
        arena.give_back(blocks[which].at, blocks[which].bytes);
        blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(which));
      } else if (what == 8) {
        std::vector<std::int64_t> index;
        for (const Block &block : blocks)
          index.insert(index.end(), {arena.offset_of(block.at), static_cast<std::int64_t>(block.bytes), block.value});
        arena.publish(index);
        published = blocks;
      } else if (number(9) == 0) {
        const std::vector<std::int64_t> index = arena.begin_again();
        ASSERT_EQ(index.size(), 3 * published.size());
        for (std::size_t i = 0; i < index.size(); i += 3) ASSERT_EQ(arena.claim(index[i], index[i + 1]), published[i / 3].at);
        blocks = published;
      }
    } catch (const std::bad_alloc &) {
    }
    check(blocks);
    check(published);
    if (HasFailure()) break;
  }
}

TEST_F(Arenas, HoldPayloads) {
  Payload payload(&arena), heap;
  payload.resize(10);
  EXPECT_EQ(payload[9], std::byte{0});
  payload[3] = std::byte{5};
  heap.assign(payload);
  payload.resize(300);
  EXPECT_EQ(payload[3], std::byte{5});
  EXPECT_EQ(payload[299], std::byte{0});
  EXPECT_TRUE(payload.data() >= memory && payload.data() < memory + kBytes);
  EXPECT_EQ(heap.size(), 10u);
  EXPECT_EQ(heap[3], std::byte{5});
  EXPECT_TRUE(heap.data() < memory || heap.data() >= memory + kBytes);
  Payload moved = std::move(payload);
  EXPECT_EQ(moved.size(), 300u);
}

}  // namespace
}  // namespace fnx
