// SPDX-License-Identifier: GPL-2.0-only
#include "request/room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace reprise {
namespace {

const std::string kMeminfo = "MemTotal:         474164 kB\nMemFree:           10240 kB\nMemAvailable:      20480 kB\n";

TEST(Room, EnoughForWhatIsSwappedOut) {
  EXPECT_EQ(room_problem("Name:\tx\nVmRSS:\t  409600 kB\nVmSwap:\t   20480 kB\n", kMeminfo), "");
  EXPECT_EQ(room_problem("Name:\tx\nVmRSS:\t  409600 kB\nVmSwap:\t       0 kB\n", kMeminfo), "");
}

TEST(Room, TooLittleIsNamed) {
  const std::string problem = room_problem("Name:\tx\nVmSwap:\t  376832 kB\n", kMeminfo);
  EXPECT_THAT(problem, testing::HasSubstr("368 MB"));
  EXPECT_THAT(problem, testing::HasSubstr("20 MB of memory"));
}

TEST(Room, NothingKnownIsNoProblem) {
  EXPECT_EQ(room_problem("", ""), "");
  EXPECT_EQ(room_problem("Name:\tx\n", kMeminfo), "");
  EXPECT_NO_THROW(check_room(::getpid()));
}

}  // namespace
}  // namespace reprise
