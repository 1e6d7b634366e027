// SPDX-License-Identifier: GPL-2.0-only
// Parity of sets of nodes: whoever is lost, what it had is there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "crd/images/parity.h"

namespace reprise::crd {
namespace {

using ::testing::HasSubstr;

/** Nodes with images in memory. */
struct Nodes {
  /** @param sizes of the images of each member */
  explicit Nodes(const std::vector<std::vector<std::uint64_t>>& sizes) {
    std::mt19937 random(7);
    for (const auto& its : sizes) {
      ParitySet::Member& member = *set.add_members();
      member.set_node(10 + static_cast<std::uint32_t>(set.members_size()));
      std::string& stream = streams.emplace_back();
      for (const std::uint64_t bytes : its) {
        ParitySet::Image& image = *member.add_images();
        image.set_rank(static_cast<std::uint32_t>(begins.size()));
        image.set_bytes(bytes);
        begins.push_back(stream.size());
        for (std::uint64_t at = 0; at < bytes; ++at) stream += static_cast<char>(random());
      }
    }
    for (std::size_t keeper = 0; keeper < sizes.size(); ++keeper) {
      parities.emplace_back();
      make_parity(set, keeper, reader(keeper), [&](std::uint64_t at, std::span<const char> content) {
        EXPECT_EQ(at, parities.back().size());
        parities.back().append(content.data(), content.size());
      });
    }
  }
  /** Of all members but one. */
  ReadImage reader(std::size_t without) const {
    return [this, without](std::size_t member, const ParitySet::Image& image, std::uint64_t offset, std::span<char> into) {
      EXPECT_NE(member, without);
      ASSERT_LE(offset + into.size(), image.bytes());
      streams[member].copy(into.data(), into.size(), begins[image.rank()] + offset);
    };
  }
  std::string rebuilt(std::size_t lost, std::uint64_t from, std::uint64_t to) const {
    std::string out;
    rebuild(set, lost, from, to, reader(lost),
            [&](std::size_t member, std::uint64_t offset, std::span<char> into) {
              EXPECT_NE(member, lost);
              ASSERT_LE(offset + into.size(), parities[member].size());
              parities[member].copy(into.data(), into.size(), offset);
            },
            [&](std::uint64_t at, std::span<const char> content) {
              EXPECT_EQ(at, from + out.size());
              out.append(content.data(), content.size());
            });
    return out;
  }
  ParitySet set;
  std::vector<std::string> streams, parities;
  std::vector<std::uint64_t> begins;  ///< of each image in its member's stream, by rank
};

TEST(Parity, AnyMemberIsRebuilt) {
  const std::vector<std::vector<std::vector<std::uint64_t>>> cases = {
      {{5000}, {5000}},                                       // mirrors
      {{5000}, {}},                                           // one has nothing
      {{3 << 20, 17}, {100, 200, 300}, {(2 << 20) + 1}},
      {{4096}, {4096}, {4096}, {4096}},
      {{1}, {(5 << 20) + 4097}, {}, {12345, 0, 54321}, {1 << 20}},
  };
  for (const auto& sizes : cases) {
    const Nodes nodes(sizes);
    EXPECT_EQ(problem_of(nodes.set), "");
    for (std::size_t lost = 0; lost < sizes.size(); ++lost) {
      const std::string& stream = nodes.streams[lost];
      EXPECT_TRUE(nodes.rebuilt(lost, 0, stream.size()) == stream) << sizes.size() << " members, without " << lost;
      const std::uint64_t from = stream.size() / 3, to = stream.size() - stream.size() / 5;
      EXPECT_TRUE(nodes.rebuilt(lost, from, to) == stream.substr(from, to - from)) << "a part";
    }
  }
}

TEST(Parity, TakesAPartOfTheImages) {
  const Nodes nodes({{8 << 20}, {8 << 20}, {8 << 20}, {8 << 20}, {8 << 20}});
  for (const std::string& parity : nodes.parities) EXPECT_EQ(parity.size(), 2u << 20);
}

TEST(Parity, EachChunkOfAMemberIsKeptOnce) {
  for (std::size_t members = 2; members < 9; ++members)
    for (std::size_t of = 0; of < members; ++of) {
      std::vector<bool> kept(members - 1);
      for (std::size_t keeper = 0; keeper < members; ++keeper)
        if (keeper != of) kept.at(parity_chunk(keeper, of)) = true;
      EXPECT_EQ(std::count(kept.begin(), kept.end(), true), static_cast<std::ptrdiff_t>(members - 1));
    }
}

TEST(Parity, ImpossibleSetsAreRefused) {
  ParitySet set;
  EXPECT_THAT(problem_of(set), HasSubstr("two members"));
  set.add_members()->set_node(1);
  set.add_members()->set_node(1);
  EXPECT_THAT(problem_of(set), HasSubstr("twice"));
  set.mutable_members(1)->set_node(2);
  EXPECT_EQ(problem_of(set), "");
  for (int i = 0; i < 3; ++i) set.mutable_members(0)->add_images()->set_bytes(UINT64_MAX / 2);
  EXPECT_THAT(problem_of(set), HasSubstr("impossible size"));
}

}  // namespace
}  // namespace reprise::crd
