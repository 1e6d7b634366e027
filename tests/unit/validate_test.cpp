// SPDX-License-Identifier: GPL-2.0-only
// Everything that a restore relies on is checked: one refusal per line.
#include "image/validate.h"

#include <gmock/gmock.h>
#include <sys/socket.h>

#include <algorithm>

#include "image_sample.h"

namespace reprise::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct Case {
  const char* what;  // substring of the message
  void (*change)(Process&);
};

constexpr std::uint64_t kPlace = 0x10100000;  // address of a page for a generation number
void add_generation(Process& p, std::uint64_t flags, std::uint64_t at = kPlace, std::uint64_t pages = 1) {
  Mapping& mapping = *p.add_mappings();
  mapping.set_start(kPlace);
  mapping.set_end(kPlace + pages * 0x1000);
  mapping.set_flags(flags);
  p.set_generation_address(at);
  std::sort(p.mutable_mappings()->begin(), p.mutable_mappings()->end(),
            [](const Mapping& a, const Mapping& b) { return a.start() < b.start(); });
}
constexpr std::uint64_t kForIt = CR_VMA_READ | CR_VMA_WRITE | CR_VMA_MAYWRITE | CR_VMA_WIPEONFORK;

class Validate : public testing::TestWithParam<Case> {};

TEST(ValidateSample, IsGood) {
  EXPECT_EQ(error_of([] { validate_process("IMAGE", small_sample().process, 100000); }), "");
}

/** Make descriptor 0 a deleted file with shared object 1. */
SharedObject* delete_file(Process& p) {
  SharedObject& object = *p.mutable_shared_objects(0);
  object.set_kind(SharedObject::FILE);
  object.mutable_file()->set_deleted(true);
  object.mutable_file()->set_mode(0100600);
  auto* attribute = object.mutable_deleted()->add_attributes();
  attribute->set_name("user.x");
  Description& one = *p.mutable_descriptions(0);
  one.mutable_file()->set_deleted(true);
  one.set_shared_object(1);
  return &object;
}

TEST(ValidateSample, IsGoodWithADeletedFile) {
  Process process = small_sample().process;
  delete_file(process);
  EXPECT_EQ(error_of([&] { validate_process("IMAGE", process, 100000); }), "");
}

/** Make shared object 1 kept memory, which has no content. */
SharedObject* keep_memory(Process& p) {
  SharedObject& object = *p.mutable_shared_objects(0);
  object.set_kind(SharedObject::KEPT);
  object.mutable_file()->set_path("/memfd:reprise.keep.log");
  object.clear_extents();
  return &object;
}

TEST(ValidateSample, IsGoodWithTheContentOfKeptMemory) {
  Process process = small_sample().process;
  SharedObject& object = *process.mutable_shared_objects(0);
  object.set_kind(SharedObject::KEPT);
  object.mutable_file()->set_path("/memfd:reprise.keep+log");
  EXPECT_GT(object.extents_size(), 0);
  EXPECT_EQ(error_of([&] { validate_process("IMAGE", process, 100000); }), "");
  object.mutable_file()->set_path("/memfd:reprise.keep.log");
  EXPECT_NE(error_of([&] { validate_process("IMAGE", process, 100000); }), "");
}

TEST(ValidateSample, IsGoodWithKeptMemory) {
  Process process = small_sample().process;
  keep_memory(process);
  Description& one = *process.mutable_descriptions(0);
  one.set_kind(Description::MEMFD);
  one.set_shared_object(1);
  EXPECT_EQ(error_of([&] { validate_process("IMAGE", process, 100000); }), "");
}

TEST(ValidateSample, IsGoodWithAGenerationNumber) {
  Process process = small_sample().process;
  add_generation(process, kForIt);
  process.set_generation(5);
  EXPECT_EQ(error_of([&] { validate_process("IMAGE", process, 100000); }), "");
}

TEST_P(Validate, Refuses) {
  Process process = small_sample().process;
  GetParam().change(process);
  EXPECT_THAT(error_of([&] { validate_process("IMAGE", process, 100000); }),
              AllOf(HasSubstr("IMAGE: "), HasSubstr(GetParam().what), HasSubstr("take a new checkpoint")));
}

constexpr std::uint64_t kFar = 0x7ffffffff000;

void add_guard(Process& p, std::uint64_t start, std::uint64_t length) {
  Guard& guard = *p.add_guards();
  guard.set_start(start);
  guard.set_length(length);
}
Thread::Credentials& give_credentials(Thread& thread) {
  Thread::Credentials& has = *thread.mutable_credentials();
  has.mutable_uids()->Resize(4, 1000);
  has.mutable_gids()->Resize(4, 1000);
  return has;
}
Description* describe(Process& p, int index = 0) { return p.mutable_descriptions(index); }
Socket* unix_end(Process& p, int index, std::uint64_t ino, std::uint64_t peer) {
  Socket* socket = describe(p, index)->mutable_socket();
  socket->set_inside(true);
  socket->set_family(AF_UNIX);
  socket->set_type(SOCK_STREAM);
  socket->set_ino(ino);
  socket->set_peer_ino(peer);
  return socket;
}
Epoll::Entry* watch(Process& p, int fd) {
  Epoll::Entry* entry = describe(p)->mutable_epoll()->add_entries();
  entry->set_fd(fd);
  return entry;
}

INSTANTIATE_TEST_SUITE_P(
    Identity, Validate,
    testing::Values(Case{"no format", [](Process& p) { p.set_format(0); }},
                    Case{"newer", [](Process& p) { p.set_format(2); }},
                    Case{"identity", [](Process& p) { p.set_id("short"); }},
                    Case{"parent", [](Process& p) { p.set_parent_id("short"); }},
                    Case{"pid", [](Process& p) { p.set_pid(-4); }},
                    Case{"name of the process", [](Process& p) { p.set_comm("sixteen or more chars"); }},
                    Case{"executable", [](Process& p) { p.mutable_exe()->set_path(std::string("a\0b", 3)); }}));

INSTANTIATE_TEST_SUITE_P(
    Threads, Validate,
    testing::Values(Case{"no thread", [](Process& p) { p.clear_threads(); }},
                    Case{"leader", [](Process& p) { p.mutable_threads(0)->set_tid(4799); }},
                    Case{"too many threads",
                         [](Process& p) {
                           for (int i = 0; i < 32768; ++i) p.add_threads()->set_tid(5000 + i);
                         }},
                    Case{"thread 4711 is impossible or there twice",
                         [](Process& p) { p.mutable_threads(1)->set_tid(4711); }},
                    Case{"thread 0", [](Process& p) { p.mutable_threads(1)->set_tid(0); }},
                    Case{"thread 4712 has an impossible name",
                         [](Process& p) { p.mutable_threads(1)->set_comm("sixteen or more chars"); }},
                    Case{"rseq area 7ffffffff000", [](Process& p) { p.mutable_threads(1)->set_rseq_addr(kFar); }},
                    Case{"robust list", [](Process& p) { p.mutable_threads(1)->set_robust_list(~0ULL); }},
                    Case{"clear_child_tid", [](Process& p) { p.mutable_threads(1)->set_clear_child_tid(kFar); }},
                    Case{"alternate stack", [](Process& p) { p.mutable_threads(1)->set_altstack_sp(kFar); }},
                    Case{"alternate stack", [](Process& p) { p.mutable_threads(1)->set_altstack_size(~0ULL); }},
                    Case{"alternate stack", [](Process& p) { p.mutable_threads(1)->set_altstack_flags(4); }},
                    Case{"scheduling", [](Process& p) { p.mutable_threads(1)->set_sched_policy(99); }},
                    Case{"scheduling", [](Process& p) { p.mutable_threads(1)->set_nice(-21); }},
                    Case{"CPU set", [](Process& p) { p.mutable_threads(1)->set_cpu_affinity(std::string(9000, 'x')); }},
                    Case{"parent-death", [](Process& p) { p.mutable_threads(1)->set_pdeath_signal(65); }},
                    Case{"siginfo", [](Process& p) { p.mutable_threads(1)->add_pending()->set_siginfo("x"); }},
                    Case{"unknown attributes", [](Process& p) { p.mutable_threads(1)->set_attributes(16); }},
                    Case{"id of its own", [](Process& p) { p.mutable_threads(1)->set_own_tid(-1); }},
                    Case{"id of its own", [](Process& p) { p.mutable_threads(1)->set_own_tid(4711); }},
                    Case{"thread 4712: user and group ids", [](Process& p) { p.mutable_threads(1)->mutable_credentials(); }},
                    Case{"leader's credentials", [](Process& p) { give_credentials(*p.mutable_threads(0)); }},
                    Case{"too many groups",
                         [](Process& p) {
                           give_credentials(*p.mutable_threads(1)).mutable_groups()->Resize(65537, 5);
                         }},
                    Case{"thread 4712 has impossible capabilities",
                         [](Process& p) { give_credentials(*p.mutable_threads(1)).set_cap_effective(1); }},
                    Case{"impossible signal 0", [](Process& p) {
                           p.mutable_threads(1)->add_pending()->set_siginfo(std::string(128, '\0'));
                         }}));

INSTANTIATE_TEST_SUITE_P(
    Memory, Validate,
    testing::Values(
        Case{"heap ends before", [](Process& p) { p.mutable_layout()->set_brk(0x1000); }},
        Case{"vdso", [](Process& p) { p.mutable_layout()->set_vdso(kFar); }},
        Case{"auxiliary",
             [](Process& p) {
               for (int i = 0; i < 65; ++i) p.mutable_layout()->add_auxv(1);
             }},
        Case{"dumpable", [](Process& p) { p.mutable_layout()->set_dumpable(3); }},
        Case{"no mapping", [](Process& p) { p.clear_mappings(); }},
        Case{"mapping 10000001", [](Process& p) { p.mutable_mappings(0)->set_start(0x10000001); }},
        Case{"impossible", [](Process& p) { p.mutable_mappings(0)->set_end(0x10000000); }},
        Case{"impossible", [](Process& p) { p.mutable_mappings(4)->set_end(kFar + 4096); }},
        Case{"overlaps", [](Process& p) { p.mutable_mappings(0)->set_end(0x20001000); }},
        Case{"overlaps", [](Process& p) { p.mutable_mappings()->SwapElements(0, 1); }},
        Case{"unknown flags", [](Process& p) { p.mutable_mappings(0)->set_flags(1ULL << 40); }},
        Case{"arena", [](Process& p) { p.mutable_mappings(0)->set_flags(CR_VMA_ARENA); }},
        Case{"not private", [](Process& p) { p.mutable_mappings(0)->set_flags(CR_VMA_PAGES | CR_VMA_SHARED); }},
        Case{"droppable", [](Process& p) { p.mutable_mappings(0)->set_flags(CR_VMA_DROPPABLE | CR_VMA_PAGES); }},
        Case{"droppable", [](Process& p) { p.mutable_mappings(0)->set_flags(CR_VMA_DROPPABLE | CR_VMA_SHARED); }},
        Case{"droppable",
             [](Process& p) {
               p.mutable_mappings(0)->set_flags(CR_VMA_DROPPABLE);
               p.mutable_mappings(0)->mutable_file()->set_path("/etc/passwd");
             }},
        Case{"lie in no mapping", [](Process& p) { add_guard(p, 0x10004000, 0x1000); }},
        Case{"lie in no mapping", [](Process& p) { add_guard(p, 0x10003000, 0x2000); }},
        Case{"lie in no mapping", [](Process& p) { add_guard(p, 0x10000000, ~0ULL << 12); }},
        Case{"guard pages at 10000000 are impossible", [](Process& p) { add_guard(p, 0x10000000, 0); }},
        Case{"guard pages at 10000001 are impossible", [](Process& p) { add_guard(p, 0x10000001, 0x1000); }},
        Case{"guard pages at 10000000 overlap",
             [](Process& p) { add_guard(p, 0x10000000, 0x2000), add_guard(p, 0x10000000, 0x1000); }},
        Case{"generation number", [](Process& p) { p.set_generation_address(p.mappings(0).start()); }},
        Case{"generation number", [](Process& p) { add_generation(p, kForIt, 0x123000); }},
        Case{"generation number", [](Process& p) { add_generation(p, kForIt, kPlace + 8); }},
        Case{"generation number", [](Process& p) { add_generation(p, kForIt, kPlace, 2); }},
        Case{"generation number", [](Process& p) { add_generation(p, kForIt & ~CR_VMA_WRITE); }},
        Case{"generation number", [](Process& p) { add_generation(p, kForIt & ~CR_VMA_WIPEONFORK); }},
        Case{"generation number", [](Process& p) { add_generation(p, kForIt | CR_VMA_SHARED); }},
        Case{"generation number", [](Process& p) { add_generation(p, kForIt | CR_VMA_PAGES); }},
        Case{"guard page", [](Process& p) { add_generation(p, kForIt), add_guard(p, kPlace, 0x1000); }},
        Case{"generation number is impossible", [](Process& p) { add_generation(p, kForIt), p.set_generation(~0ULL); }},
        Case{"later mappings", [](Process& p) { p.mutable_layout()->set_future(CR_VMA_WRITE); }},
        Case{"later mappings", [](Process& p) { p.mutable_layout()->set_future(CR_VMA_LOCKONFAULT); }},
        Case{"membarrier", [](Process& p) { p.set_membarrier(1 << 16); }},
        Case{"NUMA policy", [](Process& p) { p.mutable_mappings(0)->set_numa_nodes(std::string(136, '\0')); }},
        Case{"NUMA policy", [](Process& p) { p.mutable_mappings(0)->set_numa_nodes("12345"); }},
        Case{"offset", [](Process& p) { p.mutable_mappings(0)->set_offset(1); }},
        Case{"offset", [](Process& p) { p.mutable_mappings(0)->set_offset(~0ULL << 12); }},
        Case{"path", [](Process& p) { p.mutable_mappings(0)->mutable_file()->set_path(std::string(5000, 'a')); }},
        Case{"shared object that is not there", [](Process& p) { p.mutable_mappings(0)->set_shared_object(2); }},
        Case{"protection key", [](Process& p) { p.mutable_mappings(0)->set_pkey(16); }},
        Case{"shared object 1 is of an unknown",
             [](Process& p) { p.mutable_shared_objects(0)->set_kind(SharedObject::SHARED_UNKNOWN); }},
        Case{"another name or content", [](Process& p) { keep_memory(p)->mutable_file()->set_path("/memfd:log"); }},
        Case{"another name or content",
             [](Process& p) { keep_memory(p)->add_extents()->set_length(4096); }},
        Case{"no deleted file", [](Process& p) { delete_file(p)->set_kind(SharedObject::KEPT); }},
        Case{"size", [](Process& p) { p.mutable_shared_objects(0)->set_size(~0ULL); }},
        Case{"size",
             [](Process& p) {
               p.mutable_shared_objects(0)->clear_extents();
               p.mutable_shared_objects(0)->set_size(0);
             }},
        Case{"out of order",
             [](Process& p) { *p.mutable_shared_objects(0)->add_extents() = p.shared_objects(0).extents(0); }},
        Case{"out of order", [](Process& p) { p.mutable_shared_objects(0)->mutable_extents(0)->set_length(~0ULL); }},
        Case{"not in the image",
             [](Process& p) { p.mutable_shared_objects(0)->mutable_extents(0)->set_blob_offset(1); }},
        Case{"not in the image",
             [](Process& p) { p.mutable_shared_objects(0)->mutable_extents(0)->set_blob_offset(~0ULL); }}));

INSTANTIATE_TEST_SUITE_P(
    Descriptors, Validate,
    testing::Values(
        Case{"descriptor -1", [](Process& p) { p.mutable_descriptors(0)->set_fd(-1); }},
        Case{"descriptor 1 is impossible or there twice", [](Process& p) { p.mutable_descriptors(0)->set_fd(1); }},
        Case{"descriptor 7 refers", [](Process& p) { p.mutable_descriptors(2)->set_description(2); }},
        Case{"descriptor 0 is of an unknown", [](Process& p) { describe(p)->set_kind(Description::UNKNOWN); }},
        Case{"descriptor 0 is of an unknown",
             [](Process& p) { describe(p)->set_kind(static_cast<Description::Kind>(99)); }},
        Case{"descriptor 7 has an impossible path",
             [](Process& p) { describe(p, 1)->mutable_file()->set_path(std::string("\0", 1)); }},
        Case{"impossible signal", [](Process& p) { describe(p)->set_owner_signal(65); }},
        Case{"impossible socket state", [](Process& p) { describe(p)->mutable_socket()->set_shut(4); }},
        Case{"impossible socket state", [](Process& p) { describe(p)->mutable_socket()->add_queue()->set_data("x"); }},
        Case{"impossible socket state", [](Process& p) { unix_end(p, 0, 7, 0)->set_family(AF_INET); }},
        Case{"do not know each other", [](Process& p) { unix_end(p, 0, 7, 7); }},
        Case{"do not know each other", [](Process& p) { unix_end(p, 0, 7, 8); }},
        Case{"do not know each other", [](Process& p) { unix_end(p, 0, 7, 8), unix_end(p, 1, 8, 0); }},
        Case{"do not know each other", [](Process& p) { unix_end(p, 0, 7, 8), unix_end(p, 1, 8, 7)->set_type(SOCK_DGRAM); }},
        Case{"the same one", [](Process& p) { unix_end(p, 0, 7, 0), unix_end(p, 1, 7, 0); }},
        Case{"watches an impossible descriptor", [](Process& p) { watch(p, 3)->set_description(1000); }},
        Case{"watches an impossible descriptor",
             [](Process& p) {
               watch(p, 3)->set_description(1);
               watch(p, 4)->set_description(1);
               describe(p)->mutable_epoll()->mutable_entries(0)->set_elsewhere(true);
             }},
        Case{"watches descriptor 3 twice",
             [](Process& p) {
               watch(p, 3)->set_description(1);
               watch(p, 3)->set_description(1);
             }},
        Case{"watches an open file that has no descriptor",
             [](Process& p) {
               p.add_descriptions()->set_kind(Description::EVENTFD);
               watch(p, 3)->set_description(static_cast<std::uint32_t>(p.descriptions_size()));
             }},
        Case{"lock", [](Process& p) { describe(p)->add_locks()->set_type(3); }},
        Case{"descriptor 7 holds more", [](Process& p) { describe(p, 1)->mutable_pipe()->set_capacity(3); }},
        Case{"count", [](Process& p) { describe(p)->mutable_eventfd()->set_count(~0ULL); }},
        Case{"watches", [](Process& p) { describe(p)->mutable_epoll()->add_entries()->set_fd(-1); }},
        Case{"time", [](Process& p) { describe(p)->mutable_timerfd()->set_value_ns(-1); }},
        Case{"watch", [](Process& p) { describe(p)->mutable_inotify()->add_watches()->set_wd(0); }},
        Case{"terminal", [](Process& p) { describe(p)->mutable_terminal()->set_rows(70000); }},
        Case{"socket address", [](Process& p) { describe(p)->mutable_socket()->set_local(std::string(129, 'a')); }},
        Case{"unknown kind", [](Process& p) { describe(p)->mutable_socket()->set_family(999); }},
        Case{"shared object", [](Process& p) { describe(p)->set_kind(Description::MEMFD); }},
        Case{"shared object", [](Process& p) { describe(p)->set_shared_object(2); }},
        Case{"another kind", [](Process& p) { describe(p)->set_shared_object(1); }},
        Case{"another kind", [](Process& p) { describe(p)->set_kind(Description::MEMFD), describe(p)->set_shared_object(1); }},
        Case{"another kind", [](Process& p) { delete_file(p), describe(p)->mutable_file()->set_deleted(false); }},
        Case{"another kind", [](Process& p) { delete_file(p), describe(p)->set_kind(Description::DIRECTORY); }},
        Case{"no deleted file", [](Process& p) { delete_file(p)->mutable_file()->set_deleted(false); }},
        Case{"no deleted file", [](Process& p) { delete_file(p)->mutable_file()->set_mode(0040700); }},
        Case{"no deleted file", [](Process& p) { delete_file(p)->set_kind(SharedObject::MEMFD); }},
        Case{"attribute",
             [](Process& p) { delete_file(p)->mutable_deleted()->mutable_attributes(0)->set_name("security.capability"); }},
        Case{"attribute",
             [](Process& p) { delete_file(p)->mutable_deleted()->mutable_attributes(0)->set_name(std::string("user.\0", 6)); }},
        Case{"attribute",
             [](Process& p) {
               delete_file(p)->mutable_deleted()->mutable_attributes(0)->set_value(std::string(65537, 'x'));
             }},
        Case{"too many attributes",
             [](Process& p) {
               Deleted& deleted = *delete_file(p)->mutable_deleted();
               for (int i = 0; i < 5000; ++i) deleted.add_attributes()->set_name("user.x");
             }},
        Case{"open file 2", [](Process& p) { p.add_descriptions(); }}));

INSTANTIATE_TEST_SUITE_P(
    Process, Validate,
    testing::Values(
        Case{"signal 9", [](Process& p) { p.mutable_sigactions(0)->set_signal(9); }},
        Case{"signal 0", [](Process& p) { p.mutable_sigactions(0)->set_signal(0); }},
        Case{"signal 15 is impossible or there twice", [](Process& p) { *p.add_sigactions() = p.sigactions(0); }},
        Case{"handler", [](Process& p) { p.mutable_sigactions(0)->set_handler(kFar); }},
        Case{"the process has a pending", [](Process& p) { p.add_pending(); }},
        Case{"interval timer 3", [](Process& p) { p.mutable_timers()->add_itimers()->set_which(3); }},
        Case{"POSIX timer -1", [](Process& p) { p.mutable_timers()->add_posix()->set_id(-1); }},
        Case{"POSIX timer 0 has", [](Process& p) { p.mutable_timers()->add_posix()->set_notify(3); }},
        Case{"thread 12",
             [](Process& p) {
               auto* t = p.mutable_timers()->add_posix();
               t->set_notify(4);
               t->set_tid(12);
             }},
        Case{"working directory", [](Process& p) { p.mutable_env()->mutable_cwd()->set_path(std::string(5000, 'a')); }},
        Case{"umask", [](Process& p) { p.mutable_env()->set_umask(01000); }},
        Case{"limit 16", [](Process& p) { p.mutable_env()->add_limits()->set_resource(16); }},
        Case{"limit 0", [](Process& p) { p.mutable_env()->add_limits()->set_soft(1); }},
        Case{"ids", [](Process& p) { p.mutable_env()->add_uids(0); }},
        Case{"descriptor table", [](Process& p) { p.mutable_env()->set_ldt("seven b"); }},
        Case{"descriptor table", [](Process& p) { p.mutable_env()->set_ldt(std::string(65544, 'x')); }},
        Case{"protection keys", [](Process& p) { p.mutable_env()->set_pkeys(0x10000); }},
        Case{"PR_SET_MDWE", [](Process& p) { p.mutable_env()->set_mdwe(4); }},
        Case{"impossible capabilities", [](Process& p) { p.mutable_env()->set_cap_ambient(1); }},
        Case{"OOM", [](Process& p) { p.mutable_env()->set_oom_score_adj(1001); }}));

}  // namespace
}  // namespace reprise::test
