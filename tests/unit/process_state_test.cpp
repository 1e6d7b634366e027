// SPDX-License-Identifier: GPL-2.0-only
//
// Timers and credentials: parsing /proc, and decisions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "base/error.h"
#include "process/new_ids.h"
#include "process/timer_list.h"
#include "restore/credentials.h"
#include "restore/on_behalf.h"

namespace reprise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(TimerList, Parse) {
  const auto timers = parse_timers(
      "ID: 1\nsignal: 60/00007fff86e452a8\nnotify: signal/pid.2634\nClockID: 0\n"
      "ID: 2\nsignal: 32/0000000000000007\nnotify: signal/tid.2640\nClockID: 1\n"
      "ID: 5\nsignal: 14/0000000000000000\nnotify: none/pid.2634\nClockID: -20730\n");
  ASSERT_EQ(timers.size(), 3U);
  EXPECT_EQ(timers[0].id(), 1);
  EXPECT_EQ(timers[0].signal(), 60);
  EXPECT_EQ(timers[0].value(), 0x7fff86e452a8U);
  EXPECT_EQ(timers[0].notify(), SIGEV_SIGNAL);
  EXPECT_EQ(timers[0].tid(), 0);
  EXPECT_EQ(timers[1].notify(), SIGEV_THREAD_ID);
  EXPECT_EQ(timers[1].tid(), 2640);
  EXPECT_EQ(timers[2].notify(), SIGEV_NONE);
  EXPECT_EQ(timers[2].clock(), -20730);
}

TEST(TimerList, Plan) {
  const char* const at_checkpoint =
      "ID: 0\nsignal: 14/0\nnotify: signal/pid.10\nClockID: 0\nID: 1\nsignal: 32/7\nnotify: signal/tid.10\nClockID: 1\n"
      "ID: 4\nsignal: 32/7\nnotify: signal/tid.11\nClockID: 1\n";
  Timers image;
  for (const auto& timer : parse_timers(at_checkpoint)) *image.add_posix() = timer;
  const auto same = plan_timers(image, parse_timers(at_checkpoint));
  EXPECT_THAT(same.remove, IsEmpty());
  EXPECT_THAT(same.create, IsEmpty());
  EXPECT_EQ(same.set.size(), 3U);

  // Since the checkpoint timer 0 was replaced, 4 deleted and 9 created.
  const auto plan = plan_timers(image,
                                parse_timers("ID: 0\nsignal: 15/0\nnotify: signal/pid.10\nClockID: 0\n"
                                             "ID: 1\nsignal: 32/7\nnotify: signal/tid.10\nClockID: 1\n"
                                             "ID: 9\nsignal: 32/7\nnotify: signal/tid.10\nClockID: 1\n"));
  EXPECT_THAT(plan.remove, ElementsAre(0, 9));
  ASSERT_EQ(plan.create.size(), 2U);
  EXPECT_EQ(plan.create[0]->id(), 0);
  EXPECT_EQ(plan.create[1]->id(), 4);
}

Credentials user(std::uint32_t id) {
  Credentials result;
  result.uids.fill(id);
  result.gids.fill(id);
  result.groups = {id};
  result.bounding = ~0ULL;
  return result;
}

Credentials root() {
  Credentials result = user(0);
  result.permitted = result.effective = ~0ULL;
  return result;
}

TEST(CredentialsText, Parse) {
  const Credentials has = parse_credentials(
      "Name:\tx\nUmask:\t0022\nUid:\t1000\t1001\t1002\t1003\nGid:\t5\t6\t7\t8\nGroups:\t27 4 \nNoNewPrivs:\t1\n"
      "CapInh:\t0000000000000001\nCapPrm:\t0000000000000003\nCapEff:\t0000000000000002\nCapBnd:\t000001ffffffffff\n"
      "CapAmb:\t0000000000000001\n");
  EXPECT_THAT(has.uids, ElementsAre(1000, 1001, 1002, 1003));
  EXPECT_THAT(has.gids, ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(has.groups, ElementsAre(4, 27));
  EXPECT_EQ(has.permitted, 3U);
  EXPECT_EQ(has.bounding, 0x1ffffffffffU);
  EXPECT_TRUE(has.no_new_privs);
}

TEST(CredentialsWay, NeverWidened) {
  EXPECT_EQ(why_not(user(1000), user(1000)), "");
  EXPECT_EQ(why_not(root(), user(1000)), "");
  EXPECT_THAT(why_not(user(1000), root()), HasSubstr("user ids 0/0/0, now 1000/1000/1000"));
  EXPECT_THAT(why_not(user(1000), user(1001)), HasSubstr("user ids"));
  Credentials groups = user(1000);
  groups.groups = {4, 1000};
  EXPECT_THAT(why_not(user(1000), groups), HasSubstr("groups"));
  Credentials capable = user(1000);
  capable.permitted = 1ULL << CAP_NET_RAW;
  EXPECT_THAT(why_not(user(1000), capable), HasSubstr("capabilities"));
  EXPECT_EQ(why_not(root(), capable), "");
  EXPECT_EQ(why_not(capable, user(1000)), "");
}

TEST(CredentialsWay, RightsSetAsideForAWhileAreTakenUpAgain) {
  Credentials aside = root();
  aside.uids = {0, 1000, 0, 1000};
  aside.effective = 0;
  EXPECT_EQ(why_not(aside, root()), "");
  EXPECT_EQ(why_not(aside, user(1000)), "");
}

// Like a server that acts for a client by its effective ids: it can become root again.
TEST(CredentialsWay, PermittedCapabilitiesComeIntoForce) {
  Credentials client = user(1000);
  client.permitted = 1ULL << CAP_SETUID | 1ULL << CAP_SETGID;
  EXPECT_EQ(why_not(client, user(1001)), "");
  client.permitted = 1ULL << CAP_SETUID;
  EXPECT_THAT(why_not(client, user(1001)), HasSubstr("group ids"));
}

TEST(CredentialsWay, Securebits) {
  Credentials bits = root();
  bits.securebits = SECBIT_NOROOT;
  EXPECT_EQ(why_not(root(), bits), "");
  EXPECT_THAT(why_not(user(1000), [] {
                Credentials one = user(1000);
                one.securebits = SECBIT_NOROOT;
                return one;
              }()),
              HasSubstr("securebits"));
  bits.securebits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED;
  EXPECT_THAT(why_not(bits, root()), HasSubstr("securebits"));
  Credentials keeps = user(1000);
  keeps.securebits = SECBIT_KEEP_CAPS;
  EXPECT_EQ(why_not(user(1000), keeps), "");
  // Setting a bit that this kernel may not know would fail after the commit.
  bits.securebits = 1 << 12;
  EXPECT_THAT(why_not(root(), bits), HasSubstr("securebits"));
}

TEST(CredentialsWay, UserIdsThatTakeCapabilitiesAlong) {
  Credentials locked = root(), to = user(1000);
  to.permitted = 1ULL << CAP_NET_RAW;
  EXPECT_TRUE(must_keep_capabilities(locked, to));
  EXPECT_FALSE(must_keep_capabilities(to, user(1001)));
  EXPECT_EQ(why_not(locked, to), "");
  locked.securebits = to.securebits = SECBIT_KEEP_CAPS_LOCKED;
  EXPECT_THAT(why_not(locked, to), HasSubstr("securebits"));
}

TEST(CredentialsWay, ABoundingSetIsNarrowedByWhoMay) {
  Credentials narrow = user(1000);
  narrow.bounding = 1;
  EXPECT_THAT(why_not(user(1000), narrow), HasSubstr("bounding set"));
  EXPECT_EQ(why_not(root(), narrow), "");
}

TEST(CredentialsWay, Reachable) {
  Credentials from = user(1000), to = user(1000);
  from.bounding = 3;
  from.no_new_privs = true;
  to.bounding = 6;
  EXPECT_EQ(reachable(from, to).bounding, 2U);
  EXPECT_TRUE(reachable(from, to).no_new_privs);
}

TEST(CredentialsSaved, OfEachThread) {
  Process image;
  save_credentials(root(), *image.mutable_env());
  image.add_threads();
  save_credentials(user(1000), *image.add_threads()->mutable_credentials());
  EXPECT_EQ(saved_credentials(image, image.threads(0), ~0ULL), root());
  EXPECT_EQ(saved_credentials(image, image.threads(1), ~0ULL), user(1000));
}

TEST(CredentialsWay, WhatOnlyNarrows) {
  Credentials narrow = user(1000);
  narrow.bounding = 1;
  narrow.no_new_privs = true;
  EXPECT_EQ(narrower(user(1000), narrow), "");
  EXPECT_THAT(narrower(narrow, user(1000)), HasSubstr("bounding"));
  EXPECT_THAT(narrower(narrow, user(1000)), HasSubstr("no_new_privs"));
}

std::string sent_by(int sender, int code) {
  std::string info(128, '\0');
  std::memcpy(info.data() + 8, &code, sizeof code);
  std::memcpy(info.data() + 16, &sender, sizeof sender);
  return info;
}
int sender_of(const PendingSignal& pending) {
  int sender;
  std::memcpy(&sender, pending.siginfo().data() + 16, sizeof sender);
  return sender;
}

TEST(NewIds, EverythingThatNamesAThread) {
  Process image;
  image.set_pid(100);
  image.set_pgid(100);
  image.set_sid(7);
  image.add_threads()->set_tid(100);
  image.add_threads()->set_tid(101);
  image.mutable_timers()->add_posix()->set_tid(101);
  for (const int owner : {100, 101, -100, 55, 0}) image.add_descriptions()->set_owner_pid(owner);
  Description& pidfd = *image.add_descriptions();
  pidfd.set_kind(Description::PIDFD);
  pidfd.set_owner_pid(100);
  image.add_pending()->set_siginfo(sent_by(101, SI_QUEUE));
  image.add_pending()->set_siginfo(sent_by(55, SI_USER));
  image.mutable_threads(1)->add_pending()->set_siginfo(sent_by(100, CLD_EXITED));
  // All at once: the new id of one is the old one of another.
  rename_ids(image, {{100, 101}, {101, 102}});
  EXPECT_EQ(image.pid(), 101);
  EXPECT_EQ(image.pgid(), 101);
  EXPECT_EQ(image.sid(), 7);
  EXPECT_EQ(image.threads(0).tid(), 101);
  EXPECT_EQ(image.threads(1).tid(), 102);
  EXPECT_EQ(image.timers().posix(0).tid(), 102);
  std::vector<int> owners;
  for (const Description& one : image.descriptions()) owners.push_back(one.owner_pid());
  EXPECT_THAT(owners, ElementsAre(101, 102, -101, 55, 0, 101));
  EXPECT_EQ(sender_of(image.pending(0)), 102);
  EXPECT_EQ(sender_of(image.pending(1)), 55);
  EXPECT_EQ(sender_of(image.threads(1).pending(0)), 100);
}

TEST(NewIds, OfAnotherPidNamespace) {
  Process image;
  image.set_pid(4711);
  image.add_threads()->set_tid(4711);
  image.mutable_threads(0)->set_own_tid(2);
  image.mutable_timers()->add_posix()->set_tid(4711);
  image.add_descriptions()->set_owner_pid(2);
  image.add_pending()->set_siginfo(sent_by(2, SI_USER));
  take_own_ids(image);
  EXPECT_EQ(image.pid(), 2);
  EXPECT_EQ(image.threads(0).tid(), 2);
  EXPECT_EQ(image.threads(0).own_tid(), 0);
  EXPECT_EQ(image.timers().posix(0).tid(), 2);
  EXPECT_EQ(image.descriptions(0).owner_pid(), 2);
  EXPECT_EQ(sender_of(image.pending(0)), 2);
}

// If the rights of a process cannot be determined, a second try must not use the caller's own.
TEST(OnBehalf, OfNobodyStaysAnError) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  const OnBehalf gone = OnBehalf::of_process(child);
  for (int i = 0; i < 2; ++i) EXPECT_THROW(OnBehalf::Rights{gone}, Error) << "time " << i;
}

}  // namespace
}  // namespace reprise
