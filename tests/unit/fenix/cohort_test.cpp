// SPDX-License-Identifier: GPL-2.0-only
#include "cohort/cohort.h"

#include <gmock/gmock.h>

#include <random>

#include "base/error.h"
#include "cohort/parity.h"

namespace fnx {
namespace {

using testing::ElementsAre;
using Cohorts = std::vector<std::vector<int>>;

TEST(Cohorts, PartnersAreASeparationApart) {
  EXPECT_THAT(form_cohorts(8, {1, 2, 2}), ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3), ElementsAre(4, 6), ElementsAre(5, 7)));
  EXPECT_THAT(form_cohorts(4, {1, 2, 2}), ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3)));
}

TEST(Cohorts, AnOddNumberMakesAThree) {
  EXPECT_THAT(form_cohorts(5, {1, 1, 2}), ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3, 4)));
  EXPECT_THAT(form_cohorts(7, {1, 3, 2}), ElementsAre(ElementsAre(0, 3), ElementsAre(1, 4), ElementsAre(2, 5, 6)));
}

TEST(Cohorts, EachRankIsInOneAndNoneIsAlone) {
  for (int ranks = 2; ranks < 60; ++ranks)
    for (int size = 2; size < 9; ++size)
      for (int separation = 0; separation < ranks; ++separation) {
        std::vector<int> times(ranks);
        for (const auto &cohort : form_cohorts(ranks, {size == 2 ? 1 : 5, separation, size})) {
          EXPECT_GE(cohort.size(), 2u) << ranks << " ranks, size " << size << ", separation " << separation;
          EXPECT_LE(cohort.size(), size + 1u);
          for (int rank : cohort) ++times[rank];
        }
        EXPECT_EQ(times, std::vector<int>(ranks, 1)) << ranks << " ranks, size " << size << ", separation " << separation;
      }
  EXPECT_THAT(form_cohorts(1, {}), ElementsAre(ElementsAre(0)));
}

TEST(Cohorts, PartnersAreOnDifferentHosts) {
  for (int hosts = 2; hosts < 6; ++hosts)
    for (int each = 1; each < 5; ++each)
      for (bool cyclic : {false, true}) {
        std::vector<std::string> host_of_rank;
        for (int i = 0; i < hosts * each; ++i) host_of_rank.push_back("node" + std::to_string(cyclic ? i % hosts : i / each));
        for (const auto &cohort : form_cohorts(host_of_rank, {}))
          if (cohort.size() == 2) {
            EXPECT_NE(host_of_rank[cohort[0]], host_of_rank[cohort[1]]) << hosts << " hosts with " << each;
          }
      }
}

TEST(Cohorts, PoliciesThatMakeNoSense) {
  const auto refused = [](std::vector<int> values) {
    try {
      policy_of(values.data(), 8);
    } catch (const Error &error) {
      return error.code == Code::group_create;
    }
    return false;
  };
  EXPECT_TRUE(refused({2, 1, 3}));
  EXPECT_TRUE(refused({1, 0}));
  EXPECT_TRUE(refused({1, 8}));
  EXPECT_TRUE(refused({5, 1, 2}));
  EXPECT_FALSE(refused({5, 1, 3}));
  EXPECT_FALSE(refused({1, 4}));
}

std::vector<std::byte> exclusive_or(const std::vector<std::vector<std::byte>> &all) {
  std::vector<std::byte> result(all.at(0).size());
  for (const auto &one : all)
    for (std::size_t i = 0; i < result.size(); ++i) result[i] ^= one[i];
  return result;
}

TEST(Parity, ALostRankComesBackWithItsParity) {
  std::mt19937 random(5);
  for (std::size_t ranks = 2; ranks < 7; ++ranks)
    for (int round = 0; round < 20; ++round) {
      std::vector<std::vector<std::byte>> data(ranks), parity(ranks);
      std::size_t largest = 0;
      for (auto &one : data) {
        one.resize(random() % 40);
        for (auto &byte : one) byte = static_cast<std::byte>(random());
        largest = std::max(largest, one.size());
      }
      const std::size_t unit = parity_bytes(largest, ranks);
      std::vector<Slice> slices;
      for (std::size_t at = 0; at < unit; at += 5) slices.push_back({at, std::min<std::size_t>(5, unit - at)});
      for (auto &one : parity) one.resize(unit);
      for (const Slice &slice : slices) {
        std::vector<std::vector<std::byte>> given;
        for (std::size_t i = 0; i < ranks; ++i) given.push_back(contribution(data[i], i, ranks, unit, slice));
        const auto sum = exclusive_or(given);
        for (std::size_t i = 0; i < ranks; ++i)
          std::copy_n(sum.begin() + i * slice.bytes, slice.bytes, parity[i].begin() + slice.begin);
      }
      const std::size_t lost = random() % ranks;
      std::vector<std::byte> again(data[lost].size()), parity_again(unit);
      for (const Slice &slice : slices) {
        std::vector<std::vector<std::byte>> given;
        for (std::size_t i = 0; i < ranks; ++i)
          if (i != lost) given.push_back(contribution(data[i], parity[i], i, ranks, unit, slice));
        reconstruct(exclusive_or(given), lost, ranks, unit, slice, again, parity_again);
      }
      EXPECT_EQ(again, data[lost]);
      EXPECT_EQ(parity_again, parity[lost]);
    }
}

}  // namespace
}  // namespace fnx
