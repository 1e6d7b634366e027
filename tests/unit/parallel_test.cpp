// SPDX-License-Identifier: LGPL-2.1-or-later
// in_parallel(): each piece once, and what is thrown.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/parallel.h"

namespace reprise {
namespace {

TEST(Parallel, EachPieceIsDoneOnce) {
  for (const std::size_t count : {0, 1, 2, 1000}) {
    std::vector<std::atomic<int>> done(count);
    in_parallel(count, [&](std::size_t i) { ++done.at(i); });
    for (const auto& one : done) EXPECT_EQ(one, 1) << "of " << count;
  }
}

TEST(Parallel, TheLowestFailureIsThrownAndNoneIsBegunAfterIt) {
  std::atomic<int> begun{0};
  const auto run = [&] {
    in_parallel(100000, [&](std::size_t i) {
      ++begun;
      if (i >= 7) throw std::runtime_error(std::to_string(i));
    });
  };
  try {
    run();
    FAIL() << "nothing is thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()), "7") << "pieces begin in their order, so that 7 is among those that were begun";
  }
  EXPECT_LT(begun, 100000);
}

TEST(Parallel, SeveralAreUnderWay) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one processor";
  std::atomic<int> here{0};
  in_parallel(2, [&](std::size_t) {
    ++here;
    for (int i = 0; here < 2 && i < 10000; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(here, 2);
  });
}

}  // namespace
}  // namespace reprise
