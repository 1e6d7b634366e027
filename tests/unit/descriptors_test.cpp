// SPDX-License-Identifier: GPL-2.0-only
//
// Descriptors without a target process: parsing /proc, decisions and, with this process as the target, saving and
// restoring each kind.
#include "descriptors/descriptors.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "base/proc_dir.h"
#include "descriptors/classify.h"
#include "descriptors/choose_method.h"
#include "descriptors/fdinfo.h"
#include "descriptors/kinds.h"
#include "descriptors/plan.h"
#include "descriptors/socket_name.h"

namespace reprise {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// ------------------------------------------------------------------ /proc

TEST(FdInfo, EventFd) {
  const auto info = parse_eventfd(
      "pos:\t0\nflags:\t02\nmnt_id:\t15\neventfd-count:               1f\neventfd-id: 3\neventfd-semaphore: 1\n");
  ASSERT_TRUE(info);
  EXPECT_EQ(info->count, 0x1fU);
  EXPECT_EQ(info->semaphore, true);
  EXPECT_FALSE(parse_eventfd("eventfd-count: 3\n")->semaphore);
  EXPECT_FALSE(parse_eventfd("pos:\t0\n"));
}

TEST(FdInfo, TimerFd) {
  const auto timer = parse_timerfd(
      "pos:\t0\nflags:\t02\nclockid: 1\nticks: 3\nsettime flags: 03\nit_value: (7, 500)\nit_interval: (1, 0)\n");
  ASSERT_TRUE(timer);
  EXPECT_EQ(timer->clock(), 1);
  EXPECT_EQ(timer->ticks(), 3U);
  EXPECT_EQ(timer->settime_flags(), 3U);
  EXPECT_EQ(timer->value_ns(), 7'000'000'500);
  EXPECT_EQ(timer->interval_ns(), 1'000'000'000);
  EXPECT_FALSE(parse_timerfd("clockid: 1\nticks: 3\n"));
}

TEST(FdInfo, Epoll) {
  const Epoll set = parse_epoll(
      "pos:\t0\ntfd:        5 events:       1d data: ffffffffffffffff  pos:0 ino:61af sdev:7\n"
      "tfd:       12 events: 80000019 data: 7f00deadbeef  pos:0 ino:2a sdev:e\n");
  ASSERT_EQ(set.entries_size(), 2);
  EXPECT_EQ(set.entries(0).fd(), 5);
  EXPECT_EQ(set.entries(0).data(), ~0ULL);
  EXPECT_EQ(set.entries(0).ino(), 0x61afU);
  EXPECT_EQ(set.entries(0).dev(), makedev(0, 7));
  EXPECT_EQ(set.entries(1).events(), 0x80000019U);
}

TEST(FdInfo, Inotify) {
  const auto watches = parse_inotify(
      "inotify wd:3 ino:9e7e sdev:800013 mask:800afce ignored_mask:0 fhandle-bytes:8 fhandle-type:1 "
      "f_handle:7e9e0000640d1b6d\n");
  ASSERT_EQ(watches.size(), 1U);
  EXPECT_EQ(watches[0].watch.wd(), 3);
  EXPECT_EQ(watches[0].watch.ino(), 0x9e7eU);
  EXPECT_EQ(watches[0].watch.dev(), makedev(8, 0x13));
  EXPECT_EQ(watches[0].watch.mask(), 0x800afceU);
  EXPECT_EQ(watches[0].handle, std::string("\x7e\x9e\0\0\x64\x0d\x1b\x6d", 8));
}

TEST(FdInfo, Locks) {
  bool lease = false;
  const auto locks = parse_locks(
      "lock:\t1: POSIX  ADVISORY  WRITE 1234 08:01:5678 100 199\nlock:\t2: FLOCK  ADVISORY  READ 1234 08:01:5678 0 "
      "EOF\n"
      "lock:\t3: OFDLCK ADVISORY  READ -1 08:01:5678 7 EOF\nlock:\t4: LEASE  ACTIVE    READ 1234 08:01:5678 0 EOF\n",
      &lease);
  ASSERT_EQ(locks.size(), 3U);
  EXPECT_EQ(locks[0].type(), static_cast<unsigned>(F_WRLCK));
  EXPECT_EQ(locks[0].start(), 100U);
  EXPECT_EQ(locks[0].length(), 100U);
  EXPECT_TRUE(locks[1].flock());
  EXPECT_TRUE(locks[2].ofd());
  EXPECT_EQ(locks[2].length(), 0U);
  EXPECT_TRUE(lease);
}

TEST(Classify, ByLinkAndMode) {
  EXPECT_EQ(classify("anon_inode:[eventfd]", 0, 0, O_RDWR, false).kind, Description::EVENTFD);
  EXPECT_EQ(classify("anon_inode:[eventpoll]", S_IFREG, 0, O_RDWR, false).kind, Description::EPOLL);
  EXPECT_EQ(classify("anon_inode:inotify", 0, 0, O_RDONLY, false).kind, Description::INOTIFY);
  EXPECT_EQ(classify("pidfd:[123]", S_IFREG, 0, O_RDWR, false).kind, Description::PIDFD);
  EXPECT_EQ(classify("/memfd:x (deleted)", S_IFREG, 0, O_RDWR, false).kind, Description::MEMFD);
  EXPECT_EQ(classify("/tmp/x", S_IFREG, 0, O_RDWR, false).kind, Description::REGULAR);
  EXPECT_EQ(classify("/tmp/x", S_IFIFO, 0, O_RDWR, false).kind, Description::FIFO);
  EXPECT_EQ(classify("/dev/null", S_IFCHR, makedev(1, 3), O_RDWR, false).kind, Description::CHARDEV);
  EXPECT_EQ(classify("/dev/pts/3", S_IFCHR, makedev(136, 3), O_RDWR, false).kind, Description::TERMINAL);
  EXPECT_EQ(classify("/dev/cr", S_IFCHR, makedev(10, 100), O_RDWR, true).kind, Description::CR_AGENT);
}

TEST(Classify, RefusesByName) {
  const auto refusal = [](const char* link, unsigned mode = 0, std::uint64_t rdev = 0) {
    return classify(link, mode, rdev, O_RDWR, false).refusal;
  };
  EXPECT_THAT(refusal("anon_inode:[io_uring]"), HasSubstr("io_uring"));
  EXPECT_THAT(refusal("anon_inode:bpf-map"), HasSubstr("BPF"));
  EXPECT_THAT(refusal("anon_inode:[perf_event]"), HasSubstr("perf"));
  EXPECT_THAT(refusal("anon_inode:[userfaultfd]"), HasSubstr("userfaultfd"));
  EXPECT_THAT(refusal("anon_inode:[fanotify]"), HasSubstr("fanotify"));
  EXPECT_THAT(refusal("anon_inode:kvm-vcpu:0"), HasSubstr("KVM"));
  EXPECT_THAT(refusal("anon_inode:[something-new]"), HasSubstr("something-new"));
  EXPECT_THAT(refusal("net:[4026531840]"), HasSubstr("namespace"));
  EXPECT_THAT(refusal("/dev/dri/card0", S_IFCHR, makedev(226, 0)), HasSubstr("GPU"));
  EXPECT_THAT(refusal("/dev/mem", S_IFCHR, makedev(1, 1)), HasSubstr("/dev/mem"));
}

// ------------------------------------------------------------------- plans

Descriptor& add_descriptor(Process& image, int fd, std::uint32_t description, bool cloexec = false) {
  Descriptor& descriptor = *image.add_descriptors();
  descriptor.set_fd(fd);
  descriptor.set_description(description);
  descriptor.set_cloexec(cloexec);
  return descriptor;
}

Description& add_description(Process& image, Description::Kind kind, std::uint64_t serial) {
  Description& description = *image.add_descriptions();
  description.set_kind(kind);
  description.set_serial(serial);
  return description;
}

cr_fd live_fd(int fd, std::uint64_t serial, unsigned flags = 0) {
  cr_fd entry = {};
  entry.fd = fd;
  entry.serial = serial;
  entry.flags = flags;
  return entry;
}

TEST(Plan, NothingToDo) {
  Process image;
  add_description(image, Description::REGULAR, 10);
  add_descriptor(image, 3, 0);
  const std::vector<cr_fd> live = {live_fd(3, 10)};
  const DescriptorPlan plan = plan_descriptors(image, live, true);
  EXPECT_THAT(plan.install, IsEmpty());
  EXPECT_THAT(plan.close, IsEmpty());
  EXPECT_THAT(plan.cloexec, IsEmpty());
  EXPECT_THAT(plan.make, IsEmpty());
  EXPECT_EQ(plan.kept.at(0), 3);
}

TEST(Plan, ClosedOpenedMovedAndDuplicated) {
  Process image;
  add_description(image, Description::REGULAR, 10);
  add_description(image, Description::REGULAR, 11);
  add_description(image, Description::REGULAR, 12);
  add_descriptor(image, 3, 0);
  add_descriptor(image, 4, 1);
  add_descriptor(image, 5, 1, true);
  add_descriptor(image, 6, 2);
  // 3 and 4 were exchanged, 5 lost its flag, 6 was closed, 9 was opened.
  const std::vector<cr_fd> live = {live_fd(3, 11), live_fd(4, 10), live_fd(5, 11), live_fd(9, 99)};
  const DescriptorPlan plan = plan_descriptors(image, live, true);
  EXPECT_THAT(plan.close, ElementsAre(9));
  EXPECT_THAT(plan.make, ElementsAre(2));
  ASSERT_EQ(plan.install.size(), 3U);
  EXPECT_EQ(plan.install[0].fd, 3);
  EXPECT_EQ(plan.install[1].fd, 4);
  EXPECT_EQ(plan.install[2].fd, 6);
  EXPECT_EQ(plan.alive.at(0), 4);
  EXPECT_EQ(plan.alive.at(1), 5);  // the number that stays
  ASSERT_EQ(plan.cloexec.size(), 1U);
  EXPECT_EQ(plan.cloexec[0].fd, 5);
  EXPECT_TRUE(plan.cloexec[0].cloexec);
}

TEST(Plan, RestartMakesEverything) {
  Process image;
  add_description(image, Description::REGULAR, 10);
  add_descriptor(image, 3, 0);
  const std::vector<cr_fd> live = {live_fd(3, 10), live_fd(4, 1)};
  const DescriptorPlan plan = plan_descriptors(image, live, false);
  EXPECT_THAT(plan.make, ElementsAre(0));
  EXPECT_THAT(plan.close, ElementsAre(4));
  EXPECT_EQ(plan.install.size(), 1U);
  EXPECT_THAT(plan.alive, IsEmpty());
}

TEST(Plan, ReplacedThoughAlive) {
  Process image;
  add_description(image, Description::INOTIFY, 10);
  add_descriptor(image, 3, 0);
  const std::vector<cr_fd> live = {live_fd(3, 10)};
  EXPECT_THAT(plan_descriptors(image, live, true, {0}).make, ElementsAre(0));
}

TEST(Plan, WhatIsOfAnotherKindIsNotTheSameThoughItHasTheSerial) {
  Process image;
  image.add_descriptions()->set_kind(Description::PIPE);
  image.mutable_descriptions(0)->set_serial(7);
  image.add_descriptors()->set_fd(3);
  std::vector<cr_fd> live(1);
  live[0].fd = live[0].same_as = 3;
  live[0].serial = 7;
  live[0].mode = S_IFCHR | 0666;  // draining /dev/zero would never end
  const DescriptorPlan plan = plan_descriptors(image, live, true);
  EXPECT_TRUE(plan.alive.empty());
  EXPECT_THAT(plan.make, ElementsAre(0));
  live[0].mode = S_IFIFO | 0600;
  EXPECT_EQ(plan_descriptors(image, live, true).alive.size(), 1u);
}

TEST(Plan, KeepsThePipesThatTheProcessHasNowWhereThoseOfTheImageAreGone) {
  Process image;
  for (const std::uint32_t serial : {10u, 11u, 12u}) add_description(image, Description::PIPE, serial);
  for (int i = 0; i < 2; ++i) image.mutable_descriptions(i)->mutable_pipe()->set_outside(true);
  add_descriptor(image, 1, 0);
  add_descriptor(image, 2, 1);
  add_descriptor(image, 5, 2);
  std::vector<cr_fd> live = {live_fd(1, 20), live_fd(2, 21), live_fd(5, 22)};
  for (cr_fd& fd : live) fd.mode = S_IFIFO | 0600;
  DescriptorPlan plan = plan_descriptors(image, live, true, {}, {1, 5});
  EXPECT_THAT(plan.kept, ElementsAre(std::pair(0u, 1)));
  EXPECT_THAT(plan.make, ElementsAre(1, 2)) << "2 was not named, and 5 is a pipe within the process";
  live[0].mode = S_IFREG | 0600;
  EXPECT_THAT(plan_descriptors(image, live, true, {}, {1}).kept, IsEmpty()) << "it is another file now";
  live[0] = live_fd(1, 11);
  live[0].mode = S_IFIFO | 0600;
  live[1] = live_fd(9, 10);
  plan = plan_descriptors(image, live, true, {}, {1});
  EXPECT_EQ(plan.alive.at(0), 9) << "the pipe of the image is still there";
  EXPECT_THAT(plan.kept, IsEmpty());
}

Epoll::Entry epoll_entry(int fd, std::uint32_t description, std::uint32_t events, std::uint64_t data = 0) {
  Epoll::Entry entry;
  entry.set_fd(fd);
  entry.set_description(description);
  entry.set_elsewhere(description == 0);
  entry.set_events(events);
  entry.set_data(data);
  return entry;
}

Epoll epoll_set(const std::vector<Epoll::Entry>& entries) {
  Epoll set;
  for (const auto& entry : entries) *set.add_entries() = entry;
  return set;
}

TEST(Plan, EpollDifferencesOnly) {
  const Epoll image = epoll_set({epoll_entry(5, 1, EPOLLIN), epoll_entry(6, 2, EPOLLIN),
                                 epoll_entry(7, 3, EPOLLIN | EPOLLET),
                                 epoll_entry(8, 4, EPOLLIN), epoll_entry(10, 5, EPOLLONESHOT | EPOLLET),
                                 epoll_entry(11, 6, EPOLLIN | EPOLLEXCLUSIVE)});
  const EpollChanges changes = plan_epoll(
      image, {{epoll_entry(5, 1, EPOLLIN), 5}, {epoll_entry(6, 2, EPOLLOUT), 6}, {epoll_entry(7, 3, EPOLLIN | EPOLLET), 7},
              {epoll_entry(9, 0, EPOLLIN), 12}, {epoll_entry(10, 5, EPOLLONESHOT | EPOLLET), 10},
              {epoll_entry(11, 6, EPOLLIN), 11}});
  using How = EpollChanges::How;
  std::vector<std::pair<int, How>> set;
  for (const auto& change : changes.set) set.emplace_back(change.entry.fd(), change.how);
  // 7: edge-triggered, armed again; 10: had fired; 11: EPOLLEXCLUSIVE, cannot be modified
  EXPECT_THAT(set, ElementsAre(std::pair(6, How::modify), std::pair(7, How::modify), std::pair(8, How::add),
                               std::pair(11, How::replace)));
  ASSERT_EQ(changes.drop.size(), 1U);
  EXPECT_EQ(changes.drop[0].entry.fd(), 9);
  EXPECT_EQ(changes.drop[0].file, 12);
}

TEST(Plan, EpollEntriesAreOfAFileAndANumber) {
  const Epoll image = epoll_set({epoll_entry(5, 1, EPOLLIN, 1), epoll_entry(5, 2, EPOLLIN, 2)});
  EXPECT_THAT(plan_epoll(image, {{epoll_entry(5, 2, EPOLLIN, 2), 5}, {epoll_entry(5, 1, EPOLLIN, 1), 8}}).set, IsEmpty());
  const EpollChanges changes = plan_epoll(image, {{epoll_entry(5, 2, EPOLLIN, 2), 5}, {epoll_entry(6, 1, EPOLLIN, 1), 8}});
  ASSERT_EQ(changes.set.size(), 1U);
  EXPECT_EQ(changes.set[0].entry.description(), 1U);
  ASSERT_EQ(changes.drop.size(), 1U);
  EXPECT_EQ(changes.drop[0].entry.fd(), 6);
}

TEST(Plan, EpollEntriesOfFilesElsewhere) {
  const Epoll image = epoll_set({epoll_entry(5, 0, EPOLLIN, 1)});
  EpollChanges changes = plan_epoll(image, {{epoll_entry(5, 0, EPOLLIN, 1), -1}});
  EXPECT_THAT(changes.lost, IsEmpty());
  EXPECT_THAT(changes.stuck, IsEmpty());
  changes = plan_epoll(image, {{epoll_entry(5, 0, EPOLLIN, 2), -1}});
  EXPECT_EQ(changes.lost.size(), 1U);
  EXPECT_EQ(changes.stuck.size(), 1U);
}

// --------------------------------------------------------------- decisions

std::string sockaddr_bytes(const char* ip, int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  inet_pton(AF_INET, ip, &address.sin_addr);
  return std::string(reinterpret_cast<const char*>(&address), sizeof address);
}

Description& add_connection(Process& image, int fd) {
  const auto index = static_cast<std::uint32_t>(image.descriptions_size());
  Description& description = add_description(image, Description::SOCKET, 100 + index);
  description.mutable_socket()->set_family(AF_INET);
  description.mutable_socket()->set_type(SOCK_STREAM);
  description.mutable_socket()->set_local(sockaddr_bytes("127.0.0.1", 6379));
  description.mutable_socket()->set_peer(sockaddr_bytes("127.0.0.1", 4000));
  add_descriptor(image, fd, index);
  return description;
}

TEST(Decide, ConnectionsAreNamedInOneRefusal) {
  Process image;
  add_connection(image, 7);
  add_connection(image, 8);
  try {
    check_descriptors(image, {}, RestoreMode::restart);
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Failure::refused);
    EXPECT_THAT(error.what(), HasSubstr("descriptor 7 (TCP connection 127.0.0.1:6379 -> 127.0.0.1:4000)"));
    EXPECT_THAT(error.what(), HasSubstr("descriptor 8"));
    EXPECT_THAT(error.what(), HasSubstr("--fd"));
    EXPECT_THAT(error.what(), HasSubstr("--dead-sockets"));
  }
  RestoreOptions options;
  options.dead_sockets = true;
  EXPECT_NO_THROW(check_descriptors(image, options, RestoreMode::restart));
  options.dead_sockets = false;
  options.substitute = {{7, 0}, {8, 0}};
  EXPECT_NO_THROW(check_descriptors(image, options, RestoreMode::restart));
  options.substitute = {{7, 0}};
  EXPECT_THROW(check_descriptors(image, options, RestoreMode::restart), Error);
  options.substitute = {{70, 0}};
  EXPECT_THROW(check_descriptors(image, options, RestoreMode::restart), Error);
}

TEST(Decide, ASubstituteCountsForAllDuplicates) {
  Process image;
  add_connection(image, 7);
  add_descriptor(image, 9, 0);
  RestoreOptions options;
  options.substitute = {{9, 0}};
  EXPECT_EQ(choose_method(image, options, RestoreMode::restart, {})[0].way, Way::substitute);
}

TEST(Decide, ListeningSocketsAreMade) {
  Process image;
  Socket& socket = *add_connection(image, 7).mutable_socket();
  socket.clear_peer();
  socket.set_listening(true);
  EXPECT_EQ(choose_method(image, {}, RestoreMode::restart, {})[0].way, Way::make);
  EXPECT_EQ(socket_text(socket), "listening TCP socket 127.0.0.1:6379");
}

TEST(Decide, OpenSocketsAreKeptInAPause) {
  Process image;
  add_connection(image, 7);
  EXPECT_EQ(choose_method(image, {}, RestoreMode::pause, {{0, 7}})[0].way, Way::keep);
  EXPECT_EQ(choose_method(image, {}, RestoreMode::pause, {})[0].way, Way::refuse);
}

TEST(Decide, PipesWithAnEndOutside) {
  Process image;
  Description& pipe = add_description(image, Description::PIPE, 1);
  pipe.mutable_pipe()->set_ino(5);
  add_descriptor(image, 1, 0);
  EXPECT_EQ(choose_method(image, {}, RestoreMode::restart, {})[0].way, Way::make);
  pipe.mutable_pipe()->set_outside(true);
  const Decision decision = choose_method(image, {}, RestoreMode::restart, {})[0];
  EXPECT_EQ(decision.way, Way::refuse);
  EXPECT_TRUE(decision.dead_helps);
  RestoreOptions options;
  options.dead_sockets = true;
  EXPECT_EQ(choose_method(image, options, RestoreMode::restart, {})[0].way, Way::dead);
}

TEST(Decide, DeletedFilesAndForeignPidfds) {
  Process image;
  add_description(image, Description::REGULAR, 1).mutable_file()->set_deleted(true);
  add_description(image, Description::PIDFD, 2).set_owner_pid(1);
  image.set_pid(77);
  add_descriptor(image, 3, 0);
  add_descriptor(image, 4, 1);
  const auto decisions = choose_method(image, {}, RestoreMode::restart, {});
  EXPECT_EQ(decisions[0].way, Way::refuse);
  EXPECT_THAT(decisions[0].why, testing::HasSubstr("not saved"));
  EXPECT_EQ(decisions[1].way, Way::refuse);
  image.mutable_descriptions(0)->mutable_file()->set_links(1);
  EXPECT_THAT(choose_method(image, {}, RestoreMode::restart, {})[0].why, testing::HasSubstr("other names"));
  image.mutable_descriptions(0)->set_shared_object(1);
  EXPECT_EQ(choose_method(image, {}, RestoreMode::restart, {})[0].way, Way::make);
  image.set_pid(1);
  EXPECT_EQ(choose_method(image, {}, RestoreMode::restart, {})[1].way, Way::make);
}

TEST(Decide, TerminalsGiveWayToTheCallersOwn) {
  Process image;
  add_description(image, Description::TERMINAL, 1).mutable_file()->set_path("/dev/pts/1");
  add_description(image, Description::TERMINAL, 2).mutable_file()->set_path("/dev/ptmx");
  add_descriptor(image, 0, 0);
  add_descriptor(image, 3, 1);
  const auto decisions = choose_method(image, {}, RestoreMode::restart, {});
  EXPECT_EQ(decisions[0].way, Way::terminal);
  EXPECT_EQ(decisions[1].way, Way::refuse);
}

// -------------------------------------------------- this process as target

class SelfSource : public Source {
 public:
  pid_t pid() const override { return ::getpid(); }
  UniqueFd get(int fd) override { return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 500)); }
  UniqueFd get_mapping(std::uint64_t) override { return {}; }
};

/** @return the entries that the module would report for descriptors of ours that no other process has */
std::vector<cr_fd> table_of(const std::vector<int>& fds) {
  std::vector<cr_fd> table;
  for (const int fd : fds) {
    struct ::stat status = {};
    ::fstat(fd, &status);
    cr_fd entry = {};
    entry.fd = fd;
    entry.same_as = fd;
    for (const cr_fd& other : table)
      if (::syscall(SYS_kcmp, ::getpid(), ::getpid(), 0 /* KCMP_FILE */, fd, other.fd) == 0 && entry.same_as == fd)
        entry.same_as = other.fd;
    entry.flags = ::fcntl(fd, F_GETFD) & FD_CLOEXEC ? CR_FD_CLOEXEC : 0;
    entry.f_flags = static_cast<unsigned>(::fcntl(fd, F_GETFL));
    const off_t pos = ::lseek(fd, 0, SEEK_CUR);
    entry.pos = pos < 0 ? 0 : static_cast<std::uint64_t>(pos);
    entry.ino = status.st_ino;
    entry.mode = status.st_mode;
    entry.refs = entry.refs_here = 1;
    entry.serial = static_cast<std::uint64_t>(entry.same_as) + 1000;
    table.push_back(entry);
  }
  return table;
}

class Self : public testing::Test {
 protected:
  void save(const std::vector<int>& fds) { Collector(source_, image_, table_of(fds)).run(); }

  /** Make description @p index again, in addition to the open one. */
  int make(std::uint32_t index = 0, RestoreMode mode = RestoreMode::restart) {
    restorer(mode, {});
    for (std::uint32_t i = 0; i < restorer_->decisions.size(); ++i) restorer_->make(i, true);
    for (std::uint32_t i = 0; i < restorer_->decisions.size(); ++i) restorer_->restore_state(i);
    return restorer_->fd(index);
  }

  /** Restore the saved state of the open one. */
  void restore_states(const std::map<std::uint32_t, int>& alive) {
    restorer(RestoreMode::pause, alive);
    for (std::uint32_t i = 0; i < restorer_->decisions.size(); ++i) restorer_->restore_state(i);
  }

  void restorer(RestoreMode mode, const std::map<std::uint32_t, int>& alive) {
    restorer_ = std::make_unique<Restorer>(source_, image_, options_, mode,
                                           OnBehalf::of(source_.pid(), image_, options_, mode));
    restorer_->alive = alive;
    restorer_->decisions = choose_method(image_, options_, mode, alive);
  }

  const Description& saved(int index = 0) const { return image_.descriptions(index); }

  SelfSource source_;
  Process image_;
  RestoreOptions options_;
  std::unique_ptr<Restorer> restorer_;
};

class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "reprise-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  std::string operator/(const char* name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST_F(Self, RegularFile) {
  const TempDir dir;
  const UniqueFd fd(::open((dir / "x").c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  ASSERT_EQ(::write(fd.get(), "hello", 5), 5);
  save({fd.get()});
  EXPECT_EQ(saved().kind(), Description::REGULAR);
  EXPECT_EQ(saved().file().path(), dir / "x");
  EXPECT_EQ(saved().offset(), 5);
  EXPECT_TRUE(image_.descriptors(0).cloexec());
  const int again = make();
  EXPECT_EQ(::fcntl(again, F_GETFL) & O_APPEND, O_APPEND);
  EXPECT_THAT(restorer_->warnings, IsEmpty());
}

TEST_F(Self, GrownFilesAreToldOrCut) {
  const TempDir dir;
  const UniqueFd fd(::open((dir / "x").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::write(fd.get(), "hello", 5), 5);
  save({fd.get()});
  ASSERT_EQ(::write(fd.get(), " world", 6), 6);
  restore_states({{0, fd.get()}});
  ASSERT_EQ(restorer_->warnings.size(), 1U);
  EXPECT_THAT(restorer_->warnings[0], HasSubstr("5 -> 11 bytes"));
  options_.rewind_files = true;
  restore_states({{0, fd.get()}});
  EXPECT_EQ(::lseek(fd.get(), 0, SEEK_END), 5);
}

TEST_F(Self, ReplacedFileIsRefusedInAPause) {
  const TempDir dir;
  UniqueFd fd(::open((dir / "x").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  save({fd.get()});
  const UniqueFd other(::open((dir / "y").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::rename((dir / "y").c_str(), (dir / "x").c_str()), 0);
  EXPECT_THROW(make(0, RestoreMode::pause), Error);
  ::unlink((dir / "x").c_str());
  EXPECT_THROW(make(0, RestoreMode::pause), Error);
  EXPECT_THROW(make(0, RestoreMode::restart), Error);
  ASSERT_EQ(::mkfifo((dir / "x").c_str(), 0600), 0);
  EXPECT_THROW(make(0, RestoreMode::restart), Error);  // and does not block until there is a writer
}

TEST_F(Self, RelocatedFile) {
  const TempDir dir, other;
  const UniqueFd fd(::open((dir / "x").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  save({fd.get()});
  const UniqueFd copy(::open((other / "x").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  options_.relocate = {{dir.path(), other.path()}};
  struct ::stat a, b;
  ASSERT_EQ(::fstat(make(), &a), 0);
  ASSERT_EQ(::fstat(copy.get(), &b), 0);
  EXPECT_EQ(a.st_ino, b.st_ino);
}

TEST_F(Self, DirectoryDeviceAndDuplicates) {
  const TempDir dir;
  const UniqueFd directory(::open(dir.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC)), copy(::fcntl(null.get(), F_DUPFD, 0));
  save({directory.get(), null.get(), copy.get()});
  ASSERT_EQ(image_.descriptions_size(), 2);
  EXPECT_EQ(saved(0).kind(), Description::DIRECTORY);
  EXPECT_EQ(saved(1).kind(), Description::CHARDEV);
  EXPECT_EQ(image_.descriptors(2).description(), 1U);
  EXPECT_GE(make(0), 0);
  EXPECT_EQ(::write(make(1), "x", 1), 1);
}

TEST_F(Self, PipeWithContent) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd out(ends[0]), in(ends[1]);
  ASSERT_GE(::fcntl(in.get(), F_SETPIPE_SZ, 8192), 8192);
  ASSERT_EQ(::write(in.get(), "abc", 3), 3);
  save({out.get(), in.get()});
  EXPECT_EQ(saved(0).pipe().content(), "abc");
  EXPECT_EQ(saved(0).pipe().capacity(), 8192U);
  EXPECT_EQ(saved(0).pipe().queued(), 3U);
  EXPECT_FALSE(saved(0).pipe().outside());
  // Saving has not consumed the content.
  char text[8] = {};
  ASSERT_EQ(::read(out.get(), text, sizeof text), 3);
  ASSERT_EQ(::write(in.get(), "other", 5), 5);

  restore_states({{0, out.get()}, {1, in.get()}});
  ASSERT_EQ(::read(out.get(), text, sizeof text), 3);
  EXPECT_EQ(std::string(text, 3), "abc");
  EXPECT_EQ(::fcntl(out.get(), F_GETFL) & O_NONBLOCK, 0);

  const int again = make(0), again_in = restorer_->fd(1);
  EXPECT_EQ(::fcntl(again, F_GETPIPE_SZ), 8192);
  ASSERT_EQ(::write(again_in, "d", 1), 1);
  ASSERT_EQ(::read(again, text, sizeof text), 4);
  EXPECT_EQ(std::string(text, 4), "abcd");
  EXPECT_EQ(::fcntl(again, F_GETFL) & (O_ACCMODE | O_NONBLOCK), O_RDONLY);
  EXPECT_EQ(::fcntl(again_in, F_GETFL) & (O_ACCMODE | O_NONBLOCK), O_WRONLY);
}

TEST_F(Self, FullPipeOfManySmallWrites) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  const UniqueFd out(ends[0]), in(ends[1]);
  std::string all;
  for (int i = 0; i < 100000; ++i) {
    const std::string part = std::to_string(i) + ",";
    if (::write(in.get(), part.data(), part.size()) < 0) break;
    all += part;
  }
  save({out.get(), in.get()});
  EXPECT_EQ(saved(0).pipe().content(), all);
  const int again = make(0);
  std::string got(all.size() + 10, '\0');
  EXPECT_EQ(::read(again, got.data(), got.size()), static_cast<ssize_t>(all.size()));
}

TEST_F(Self, PipeWhoseOtherEndIsGone) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd out(ends[0]);
  ASSERT_EQ(::write(ends[1], "last", 4), 4);
  ::close(ends[1]);
  save({out.get()});
  EXPECT_FALSE(saved().pipe().outside());
  const int again = make();
  char text[8];
  EXPECT_EQ(::read(again, text, sizeof text), 4);
  EXPECT_EQ(::read(again, text, sizeof text), 0);
}

TEST_F(Self, PipeWhoseOtherEndIsOutside) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd out(ends[0]), in(ends[1]);
  save({out.get()});
  EXPECT_TRUE(saved().pipe().outside());
  image_.Clear();
  save({in.get()});
  EXPECT_TRUE(saved().pipe().outside());
  options_.dead_sockets = true;
  std::signal(SIGPIPE, SIG_IGN);
  EXPECT_EQ(::write(make(), "x", 1), -1);
  EXPECT_EQ(errno, EPIPE);
}

TEST_F(Self, ClosedPipeEndIsMadeFromTheOther) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd out(ends[0]);
  UniqueFd in(ends[1]);
  save({out.get(), in.get()});
  in.reset();
  restorer(RestoreMode::pause, {{0, out.get()}});
  restorer_->make(1, true);
  ASSERT_EQ(::write(restorer_->fd(1), "x", 1), 1);
  char text[2];
  EXPECT_EQ(::read(out.get(), text, sizeof text), 1);
}

std::string received(int fd) {
  char text[64];
  const ssize_t n = ::recv(fd, text, sizeof text, MSG_DONTWAIT);
  return n < 0 ? "nothing" : std::string(text, static_cast<std::size_t>(n));
}

TEST_F(Self, UnixPairsWithTheirQueues) {
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM}) {
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends), 0);
    const UniqueFd a(ends[0]), b(ends[1]);
    for (const char* text : {"one", "two"}) ASSERT_EQ(::send(a.get(), text, 3, 0), 3);
    image_.Clear();
    save({a.get(), b.get()});
    ASSERT_TRUE(saved(0).socket().inside());
    EXPECT_EQ(saved(0).socket().queue_size(), 0);
    ASSERT_EQ(saved(1).socket().queue_size(), type == SOCK_STREAM ? 1 : 2);
    const std::string first = type == SOCK_STREAM ? "onetwo" : "one";
    EXPECT_EQ(saved(1).socket().queue(0).data(), first);
    // Saving has not consumed anything.
    EXPECT_EQ(received(b.get()), first);
    ASSERT_EQ(::send(b.get(), "since", 5, 0), 5);
    restore_states({{0, a.get()}, {1, b.get()}});
    EXPECT_EQ(received(a.get()), "nothing");
    EXPECT_EQ(received(b.get()), first);
    make();
    EXPECT_EQ(received(restorer_->fd(1)), first);
    ASSERT_EQ(::send(restorer_->fd(1), "back", 4, 0), 4);
    EXPECT_EQ(received(restorer_->fd(0)), "back");
  }
}

TEST_F(Self, UnixSocketWhosePeerLeftSomething) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd a(ends[0]);
  ASSERT_EQ(::send(ends[1], "last", 4, 0), 4);
  ::close(ends[1]);
  save({a.get()});
  EXPECT_TRUE(saved().socket().inside());
  const int again = make();
  EXPECT_EQ(received(again), "last");
  EXPECT_EQ(received(again), "");
}

TEST_F(Self, WhatIsUnderWayIsNotLost) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd a(ends[0]), b(ends[1]);
  union {
    cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
  } control = {};
  control.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
  const int zero = 0;
  std::memcpy(CMSG_DATA(&control.header), &zero, sizeof zero);
  char text = 'x';
  iovec data = {&text, 1};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = &control;
  message.msg_controllen = sizeof control;
  ASSERT_EQ(::sendmsg(a.get(), &message, 0), 1);
  save({a.get(), b.get()});
  EXPECT_FALSE(saved(1).socket().inside());
  EXPECT_EQ(saved(1).socket().queue_size(), 0);
  EXPECT_THAT(socket_problem(saved(1).socket()), HasSubstr("SCM_RIGHTS"));
  EXPECT_EQ(choose_method(image_, {}, RestoreMode::restart, {})[1].way, Way::refuse);
  EXPECT_EQ(received(b.get()), "x");
}

TEST_F(Self, Fifo) {
  const TempDir dir;
  ASSERT_EQ(::mkfifo((dir / "f").c_str(), 0600), 0);
  const UniqueFd fd(::open((dir / "f").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::write(fd.get(), "abc", 3), 3);
  save({fd.get()});
  EXPECT_EQ(saved().kind(), Description::FIFO);
  EXPECT_EQ(saved().pipe().content(), "abc");
  ASSERT_EQ(::write(fd.get(), "def", 3), 3);
  char text[8];
  ASSERT_EQ(::read(make(), text, sizeof text), 3);
  EXPECT_EQ(std::string(text, 3), "abc");
}

TEST_F(Self, EventFds) {
  const UniqueFd plain(::eventfd(7, EFD_CLOEXEC)), zero(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      semaphore(::eventfd(3, EFD_CLOEXEC | EFD_SEMAPHORE)), semaphore_zero(::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE));
  save({plain.get(), zero.get(), semaphore.get(), semaphore_zero.get()});
  EXPECT_EQ(saved(0).eventfd().count(), 7U);
  EXPECT_FALSE(saved(0).eventfd().semaphore());
  EXPECT_FALSE(saved(1).eventfd().semaphore());
  EXPECT_TRUE(saved(2).eventfd().semaphore());
  EXPECT_TRUE(saved(3).eventfd().semaphore());
  std::uint64_t value = 0;
  ASSERT_EQ(::read(make(0), &value, sizeof value), 8);
  EXPECT_EQ(value, 7U);
  ASSERT_EQ(::read(make(2), &value, sizeof value), 8);
  EXPECT_EQ(value, 1U);
  // and the open ones are unchanged
  ASSERT_EQ(::read(plain.get(), &value, sizeof value), 8);
  EXPECT_EQ(value, 7U);
  value = 5;
  ASSERT_EQ(::write(zero.get(), &value, sizeof value), 8);
  ASSERT_EQ(::write(semaphore.get(), &value, sizeof value), 8);
  restore_states({{0, plain.get()}, {1, zero.get()}, {2, semaphore.get()}, {3, semaphore_zero.get()}});
  EXPECT_EQ(::read(zero.get(), &value, sizeof value), -1);
  ASSERT_EQ(::read(plain.get(), &value, sizeof value), 8);
  EXPECT_EQ(value, 7U);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(::read(semaphore.get(), &value, sizeof value), 8);
  pollfd state = {semaphore.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&state, 1, 0), 0);
}

TEST_F(Self, TimerFds) {
  const UniqueFd armed(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)),
      idle(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC)), absolute(::timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC)),
      ticked(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
  const itimerspec hour = {{60, 0}, {3600, 0}}, soon = {{0, 1'000'000}, {0, 1}};
  ASSERT_EQ(::timerfd_settime(armed.get(), 0, &hour, nullptr), 0);
  timespec now;
  ::clock_gettime(CLOCK_REALTIME, &now);
  const itimerspec then = {{0, 0}, {now.tv_sec + 100, 0}};
  ASSERT_EQ(::timerfd_settime(absolute.get(), TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &then, nullptr), 0);
  ASSERT_EQ(::timerfd_settime(ticked.get(), 0, &soon, nullptr), 0);
  ::usleep(20000);
  save({armed.get(), idle.get(), absolute.get(), ticked.get()});
  EXPECT_NEAR(static_cast<double>(saved(0).timerfd().value_ns()), 3600e9, 5e9);
  EXPECT_EQ(saved(1).timerfd().value_ns(), 0);
  EXPECT_NEAR(static_cast<double>(saved(2).timerfd().value_ns()), 100e9, 5e9);
  EXPECT_GE(saved(3).timerfd().ticks(), 10U);

  itimerspec left;
  ASSERT_EQ(::timerfd_gettime(make(0), &left), 0);
  EXPECT_NEAR(static_cast<double>(left.it_value.tv_sec), 3600, 5);
  EXPECT_EQ(left.it_interval.tv_sec, 60);
  ASSERT_EQ(::timerfd_gettime(restorer_->fd(1), &left), 0);
  EXPECT_EQ(left.it_value.tv_sec + left.it_value.tv_nsec, 0);
  ASSERT_EQ(::timerfd_gettime(restorer_->fd(2), &left), 0);
  EXPECT_NEAR(static_cast<double>(left.it_value.tv_sec), 100, 5);
  std::uint64_t ticks = 0;
  ASSERT_EQ(::read(restorer_->fd(3), &ticks, sizeof ticks), 8);
  EXPECT_GE(ticks, saved(3).timerfd().ticks());

  const itimerspec day = {{0, 0}, {86400, 0}};
  ASSERT_EQ(::timerfd_settime(armed.get(), 0, &day, nullptr), 0);
  ASSERT_EQ(::timerfd_settime(idle.get(), 0, &day, nullptr), 0);
  restore_states({{0, armed.get()}, {1, idle.get()}, {2, absolute.get()}, {3, ticked.get()}});
  ASSERT_EQ(::timerfd_gettime(armed.get(), &left), 0);
  EXPECT_NEAR(static_cast<double>(left.it_value.tv_sec), 3600, 5);
  ASSERT_EQ(::timerfd_gettime(idle.get(), &left), 0);
  EXPECT_EQ(left.it_value.tv_sec, 0);
}

TEST_F(Self, SignalFd) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  const UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  save({fd.get()});
  EXPECT_EQ(saved().signalfd().mask(), 1ULL << (SIGUSR1 - 1));
  EXPECT_EQ(parse_signalfd(ProcDir(::getpid()).read("fdinfo/" + std::to_string(make())))->mask(),
            1ULL << (SIGUSR1 - 1));
  sigaddset(&set, SIGUSR2);
  ASSERT_EQ(::signalfd(fd.get(), &set, 0), fd.get());
  restore_states({{0, fd.get()}});
  EXPECT_EQ(parse_signalfd(ProcDir(::getpid()).read("fdinfo/" + std::to_string(fd.get())))->mask(),
            1ULL << (SIGUSR1 - 1));
}

TEST_F(Self, InotifyKeepsItsNumbers) {
  const TempDir dir;
  for (const char* name : {"a", "b", "c"}) std::filesystem::create_directory(dir / name);
  const UniqueFd fd(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  ASSERT_EQ(::inotify_add_watch(fd.get(), (dir / "a").c_str(), IN_CREATE), 1);
  ASSERT_EQ(::inotify_add_watch(fd.get(), (dir / "b").c_str(), IN_CREATE | IN_ONLYDIR), 2);
  ASSERT_EQ(::inotify_add_watch(fd.get(), (dir / "c").c_str(), IN_ALL_EVENTS), 3);
  ASSERT_EQ(::inotify_rm_watch(fd.get(), 2), 0);
  save({fd.get()});
  ASSERT_EQ(saved().inotify().watches_size(), 2);
  for (const auto& watch : saved().inotify().watches())
    if (watch.path().empty()) GTEST_SKIP() << "open_by_handle_at() is not permitted here";
  const int again = make();
  std::map<int, std::string> watches;
  const auto now = parse_inotify(ProcDir(::getpid()).read("fdinfo/" + std::to_string(again)));
  ASSERT_EQ(now.size(), 2U);
  char events[4096];
  EXPECT_EQ(::read(again, events, sizeof events), -1);  // no event is left from skipping number 2
  std::filesystem::create_directory(dir / "c/new");
  ASSERT_GT(::read(again, events, sizeof events), 0);
  EXPECT_EQ(reinterpret_cast<inotify_event*>(events)->wd, 3);

  const std::string info = ProcDir(::getpid()).read("fdinfo/" + std::to_string(fd.get()));
  EXPECT_FALSE(inotify_lost(saved(), info));
  ASSERT_EQ(::inotify_rm_watch(fd.get(), 1), 0);
  EXPECT_TRUE(inotify_lost(saved(), ProcDir(::getpid()).read("fdinfo/" + std::to_string(fd.get()))));
}

TEST_F(Self, ListeningTcp) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int one = 1;
  ASSERT_EQ(::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one), 0);
  ASSERT_EQ(::setsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one), 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(fd.get(), 17), 0);
  save({fd.get()});
  EXPECT_TRUE(saved().socket().listening());
  EXPECT_EQ(saved().socket().backlog(), 17U);
  EXPECT_THROW(make(), Error);  // still in use
  fd.reset();
  const int again = make();
  sockaddr_storage bound = {};
  socklen_t size = sizeof bound;
  ASSERT_EQ(::getsockname(again, reinterpret_cast<sockaddr*>(&bound), &size), 0);
  EXPECT_EQ(std::string(reinterpret_cast<char*>(&bound), size), saved().socket().local());
  int value = 0;
  size = sizeof value;
  ::getsockopt(again, SOL_SOCKET, SO_KEEPALIVE, &value, &size);
  EXPECT_EQ(value, 1);
  const UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(client.get(), reinterpret_cast<const sockaddr*>(&bound), sizeof address), 0);
}

TEST_F(Self, ListeningUnixAtAPath) {
  const TempDir dir;
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = dir / "s";
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::chmod(path.c_str(), 0751), 0);
  ASSERT_EQ(::listen(fd.get(), 9), 0);
  save({fd.get()});
  EXPECT_EQ(socket_text(saved().socket()), "listening Unix socket " + path);
  EXPECT_EQ(saved().socket().backlog(), 9U);
  fd.reset();  // the path remains
  EXPECT_GE(make(), 0);
  struct ::stat status;
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0751U);
  const UniqueFd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
}

TEST_F(Self, AbstractUnixAndUdp) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)), udp(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)),
      unbound(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string name = "reprise-test-" + std::to_string(::getpid());
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  ASSERT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  sockaddr_in any = {};
  any.sin_family = AF_INET;
  ASSERT_EQ(::bind(udp.get(), reinterpret_cast<sockaddr*>(&any), sizeof any), 0);
  save({fd.get(), udp.get(), unbound.get()});
  EXPECT_EQ(socket_text(saved(0).socket()), "Unix socket @" + name);
  EXPECT_TRUE(saved(2).socket().local().empty());
  fd.reset();
  udp.reset();
  EXPECT_GE(make(0), 0);
  EXPECT_GE(restorer_->fd(1), 0);
  EXPECT_GE(restorer_->fd(2), 0);
}

TEST_F(Self, DeadSockets) {
  std::signal(SIGPIPE, SIG_IGN);
  for (const int family : {AF_INET, AF_INET6, AF_UNIX}) {
    image_.Clear();
    Description& description = add_description(image_, Description::SOCKET, 1);
    description.set_flags(O_RDWR);
    description.mutable_socket()->set_family(static_cast<unsigned>(family));
    description.mutable_socket()->set_type(SOCK_STREAM);
    description.mutable_socket()->set_peer("xx");
    add_descriptor(image_, 5, 0);
    options_.dead_sockets = true;
    const int fd = make();
    char text[2];
    EXPECT_EQ(::read(fd, text, sizeof text), 0) << family;
    EXPECT_EQ(::write(fd, text, 1), -1) << family;
    EXPECT_EQ(errno, EPIPE) << family;
  }
}

TEST_F(Self, SocketWhosePeerIsGone) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd one(ends[0]);
  ::close(ends[1]);
  save({one.get()});
  EXPECT_TRUE(socket_was_dead(saved().socket()));
  EXPECT_EQ(choose_method(image_, {}, RestoreMode::restart, {})[0].way, Way::make);
  char text[2];
  EXPECT_EQ(::read(make(), text, sizeof text), 0);
}

// Only saving: NamelessFiles recreates memfds and needs a session. See tests/kselftest/deleted.c.
TEST_F(Self, MemfdIsSaved) {
  const UniqueFd fd(::memfd_create("name", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(fd.get(), 8192), 0);
  ASSERT_EQ(::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  save({fd.get()});
  EXPECT_EQ(saved().kind(), Description::MEMFD);
  ASSERT_EQ(image_.shared_objects_size(), 1);
  EXPECT_EQ(image_.shared_objects(0).size(), 8192U);
  EXPECT_EQ(image_.shared_objects(0).seals(), static_cast<unsigned>(F_SEAL_SHRINK));
  EXPECT_EQ(image_.shared_objects(0).file().path(), "/memfd:name");
}

TEST_F(Self, Pidfd) {
  image_.set_pid(::getpid());
  const UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  save({fd.get()});
  EXPECT_EQ(saved().owner_pid(), ::getpid());
  EXPECT_EQ(parse_pidfd(ProcDir(::getpid()).read("fdinfo/" + std::to_string(make()))), ::getpid());
}

TEST_F(Self, LocksAreSavedAndFound) {
  const TempDir dir;
  const UniqueFd fd(::open((dir / "x").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)),
      other(::open((dir / "y").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::flock(fd.get(), LOCK_EX), 0);
  struct flock range = {};
  range.l_type = F_WRLCK;
  range.l_start = 10;
  range.l_len = 5;
  ASSERT_EQ(::fcntl(other.get(), F_SETLK, &range), 0);
  save({fd.get(), other.get()});
  ASSERT_EQ(saved(0).locks_size(), 1);
  EXPECT_TRUE(saved(0).locks(0).flock());
  ASSERT_EQ(saved(1).locks_size(), 1);
  EXPECT_EQ(saved(1).locks(0).start(), 10U);
  EXPECT_EQ(saved(1).locks(0).length(), 5U);
  // The first lock is still held by the description that is open.
  make();
  Refusals refusals;
  check_locks(*restorer_, refusals);
  EXPECT_FALSE(refusals.empty());
  ASSERT_EQ(::flock(fd.get(), LOCK_UN), 0);
  Refusals none;
  check_locks(*restorer_, none);
  EXPECT_TRUE(none.empty());
}

TEST_F(Self, RefusalsNameTheDescriptor) {
  const UniqueFd space(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
  try {
    save({space.get()});
    FAIL() << "not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), Failure::refused);
    EXPECT_THAT(error.what(), HasSubstr("descriptor " + std::to_string(space.get()) + ": a namespace"));
  }
}

}  // namespace
}  // namespace reprise
