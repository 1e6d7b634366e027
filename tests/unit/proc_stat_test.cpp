// SPDX-License-Identifier: GPL-2.0-only
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "base/proc_stat.h"

namespace reprise {
namespace {

constexpr char kTail[] =
    " S 11 22 33 34816 44 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654321 1000 200 18446744073709551615 1 1 0 0 0 0 0 0 0\n";

TEST(ProcStat, FindsTheStateBehindAnyName) {
  for (const std::string name : {"plain", "a b", ") Z 1", "((", ""}) {
    const auto stat = parse_proc_stat("77 (" + name + ")" + kTail);
    ASSERT_TRUE(stat) << name;
    EXPECT_EQ(stat->comm, name);
    EXPECT_EQ(stat->state, 'S');
    EXPECT_EQ(stat->ppid, 11);
    EXPECT_EQ(stat->pgid, 22);
    EXPECT_EQ(stat->sid, 33);
    EXPECT_EQ(stat->tty, 34816u);
    EXPECT_EQ(stat->tty_pgid, 44);
    EXPECT_EQ(stat->start_ticks, 987654321u);
    EXPECT_EQ(stat->flags, 4194304u);
    EXPECT_FALSE(stat->ended());
    EXPECT_FALSE(stat->exiting());
  }
}

TEST(ProcStat, KnowsWhoIsAboutToEnd) {
  const auto stat = parse_proc_stat("1 (x) R 0 1 1 0 -1 4194308 0");
  ASSERT_TRUE(stat);
  EXPECT_FALSE(stat->ended());
  EXPECT_TRUE(stat->exiting());
}

TEST(ProcStat, KnowsNoTerminal) {
  const auto stat = parse_proc_stat("1 (x) Z 0 1 1 0 -1 0");
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->tty_pgid, -1);
  EXPECT_TRUE(stat->ended());
  EXPECT_EQ(stat->start_ticks, 0u);
}

TEST(ProcStat, TakesNoOtherText) {
  for (const char* text : {"", "77", "77 (name", "77 name)", "77 )name(", "77 (name)", "77 (name) "})
    EXPECT_FALSE(parse_proc_stat(text)) << text;
  const auto cut = parse_proc_stat("77 (" + std::string(300, 'x') + ")" + kTail);
  ASSERT_TRUE(cut);
  EXPECT_EQ(std::strlen(cut->comm), sizeof cut->comm - 1);
}

TEST(ProcStat, ReadsThatOfAProcess) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t info;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  const auto stat = proc_stat(child);
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->ppid, ::getpid());
  EXPECT_EQ(stat->sid, ::getsid(0));
  EXPECT_TRUE(stat->ended());
  EXPECT_GE(stat->start_ticks, proc_stat(::getpid())->start_ticks);
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(proc_stat(child));
}

}  // namespace
}  // namespace reprise
