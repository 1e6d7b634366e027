// SPDX-License-Identifier: GPL-2.0-only
// Tests of daemons with real ranks. Tests that need the module or crtcp are skipped without them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_crrun.h"
#include "job/epoch.h"
#include "job/names.h"
#include "on_disk.h"
#include "rank_channel.h"

namespace reprise::crd::test {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Crd : public ::testing::Test {
 protected:
  void use(std::vector<std::string> argv) {
    for (const std::string& word : argv) crrun.job.add_argv(word);
  }
  void set(const std::string& name, const std::string& value) {
    auto* variable = crrun.job.add_environment();
    variable->set_name(name);
    variable->set_value(value);
  }
  /** Without the module, ranks use Open MPI's own transport. Both daemons are on one host, which may have no network. */
  void start(unsigned ranks, bool crtcp = false) {
    if (!crtcp) {
      set("OMPI_MCA_btl", "tcp,self");
      set("OMPI_MCA_btl_tcp_if_include", "127.0.0.1/8");
    }
    crrun.job.set_ranks(ranks);
    for (unsigned rank = 0; rank < ranks; ++rank) crrun.place(rank, rank % 2);
    crrun.start_daemons();
    crrun.launch();
  }
  std::string log() const {
    std::string all;
    for (const auto& line : crrun.logs) all += line + "\n";
    for (const auto& [key, text] : crrun.output) all += std::to_string(key.first) + "/" + std::to_string(key.second) + ": " + text + "\n";
    return all;
  }
  FakeCrrun crrun{2};
};

TEST_F(Crd, StartsProcessesTellsTheirOutputAndStatus) {
  use({"sh", "-c", "echo out; echo err >&2; test -t 0 || pwd; exit 3"});
  start(3);
  ASSERT_TRUE(crrun.wait_exits(20s)) << log();
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(WEXITSTATUS(crrun.exits[rank]), 3);
    EXPECT_EQ((crrun.output[{rank, 1}]), "out\n" + crrun.job.working_directory() + "\n");
    EXPECT_EQ((crrun.output[{rank, 2}]), "err\n");
  }
  EXPECT_TRUE(crrun.until([&] { return crrun.heartbeats > 2; }, 5s));
  EXPECT_EQ(crrun.contradictions, 0u);
}

TEST_F(Crd, LooksWhetherRanksProgressIfItIsAsked) {
  crrun.job.set_look_ms(200);
  std::optional<job::Standing> said;
  crrun.seen = [&](const job::Up& up) {
    if (up.heartbeat().has_standing()) said = up.heartbeat().standing();
  };
  use({"sleep", "1000"});
  start(1);
  ASSERT_TRUE(crrun.until([&] { return said && said->ranks() == 1; }, 20s)) << log();
  crrun.until([] { return false; }, 1s);
  EXPECT_EQ(said->stood_ms(), 0u) << "a rank that has not called MPI_Init does not hang";
}

TEST_F(Crd, AnOldProcessSaysNothingInTheNameOfItsSuccessor) {
  use({"sh", "-c", "echo out; exec sleep 1000"});
  start(1);
  ASSERT_TRUE(crrun.until([&] { return crrun.output[{0, 1}] == "out\n"; }, 20s)) << log();
  crrun.output.clear();
  ++crrun.recovery;  // the job begins anew: the process is killed, which ends its streams
  crrun.launch();
  ASSERT_TRUE(crrun.until([&] { return crrun.output[{0, 1}] == "out\n"; }, 20s)) << log();
  EXPECT_TRUE(crrun.ends.empty());
  EXPECT_EQ(crrun.contradictions, 0u);
}

TEST_F(Crd, SaysWhyAProgramCannotBeStarted) {
  use({"/no/such/program"});
  start(2);
  ASSERT_TRUE(crrun.until([&] { return crrun.started.size() == 2; }, 20s));
  EXPECT_THAT(crrun.started[0].error(), HasSubstr("/no/such/program"));
  EXPECT_TRUE(crrun.exits.empty());
}

TEST_F(Crd, HoldsBackARankWhoseOutputNobodyTakes) {
  use({"sh", "-c", "head -c 3000000 /dev/zero; echo through >&2"});
  crrun.acknowledge = false;
  start(1);
  EXPECT_FALSE(crrun.wait_exits(2s));
  const std::size_t got = crrun.output[{0, 1}].size();
  EXPECT_GE(got, 1u << 20);
  EXPECT_LT(got, (1u << 20) + 200000);
  crrun.acknowledge = true;
  job::Down down;
  down.mutable_output_seen()->set_stream(1);
  down.mutable_output_seen()->set_offset(got);
  crrun.send_all(down);
  ASSERT_TRUE(crrun.wait_exits(20s));
  EXPECT_EQ((crrun.output[{0, 1}].size()), 3000000u);
}

TEST_F(Crd, GivesInputToWhomItIsFor) {
  use({"cat"});
  crrun.job.set_stdin_target("0");
  start(2);
  ASSERT_TRUE(crrun.until([&] { return crrun.started.size() == 2; }, 20s));
  job::Down down;
  job::Stdin& input = *down.mutable_stdin();
  input.set_data("one ");
  crrun.send_all(down);
  input.set_offset(2);  // the first half is a repetition
  input.set_data("e two");
  input.set_end(true);
  crrun.send_all(down);
  ASSERT_TRUE(crrun.wait_exits(20s)) << log();
  EXPECT_EQ((crrun.output[{0, 1}]), "one two");
  EXPECT_EQ((crrun.output[{1, 1}]), "");
}

TEST_F(Crd, DeliversSignalsToTheWholeGroupOfARank) {
  use({"sh", "-c", "sleep 100 & wait"});
  start(2);
  ASSERT_TRUE(crrun.until([&] { return crrun.started.size() == 2; }, 20s));
  job::Down down;
  down.mutable_signal()->set_signal(SIGUSR1);
  down.mutable_signal()->add_ranks(1);
  crrun.send_all(down);
  ASSERT_TRUE(crrun.until([&] { return crrun.exits.count(1) != 0 && crrun.ended.count({1, 1}) != 0; }, 20s));
  EXPECT_EQ(WTERMSIG(crrun.exits[1]), SIGUSR1);
  EXPECT_EQ(crrun.exits.count(0), 0u);
}

TEST_F(Crd, EndsItsRanksWithTheJobAndLeavesNothing) {
  use({"sh", "-c", "trap '' TERM; echo up; while :; do sleep 1; done"});
  start(2);
  ASSERT_TRUE(crrun.until([&] { return (crrun.output[{0, 1}] == "up\n" && crrun.output[{1, 1}] == "up\n"); }, 20s));
  const int pid = crrun.started[0].pid();
  crrun.shut_down();
  EXPECT_NE(::kill(pid, 0), 0);
  EXPECT_FALSE(std::filesystem::exists(crrun.run_directory(0)));
}

/** @return field "nice" of /proc/PID/stat */
int nice_of(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string stat((std::istreambuf_iterator<char>(file)), {});
  std::istringstream rest(stat.substr(std::min(stat.size(), stat.rfind(')') + 2)));
  std::string field;
  for (int i = 3; i <= 19 && rest >> field; ++i) {
  }
  return std::atoi(field.c_str());
}

TEST_F(Crd, HasPriorityOverItsRanks) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may raise priorities";
  use({"sleep", "100"});
  start(2);
  ASSERT_TRUE(crrun.until([&] { return crrun.started.size() == 2; }, 20s));
  EXPECT_LT(nice_of(crrun.daemon(0)), 0);
  EXPECT_EQ(nice_of(crrun.started[0].pid()), 0);
}

TEST_F(Crd, RanksDieWithTheirDaemon) {
  use({"sleep", "100"});
  start(2);
  ASSERT_TRUE(crrun.until([&] { return crrun.started.size() == 2; }, 20s));
  const int pid = crrun.started[0].pid();
  crrun.kill_daemon(0);
  EXPECT_TRUE(crrun.until([&] { return state_of(pid) == 0; }, 5s));
}

TEST_F(Crd, RunsOnWithoutCrrunAndFindsItAgain) {
  use({"sh", "-c", "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.5; done"});
  start(2);
  ASSERT_TRUE(crrun.until([&] { return crrun.started.size() == 2; }, 20s));
  const unsigned hellos = crrun.hello_count;
  crrun.die();
  EXPECT_FALSE(crrun.until([] { return false; }, 2500ms));  // longer than the time that counts as silence
  crrun.come_back();
  ASSERT_TRUE(crrun.wait_exits(20s)) << log();
  EXPECT_GE(crrun.hello_count, hellos + 2);
  EXPECT_EQ((crrun.output[{0, 1}]), "1\n2\n3\n4\n5\n6\n7\n8\n");
  EXPECT_EQ(crrun.contradictions, 0u);
}

TEST_F(Crd, EndsWhenItMissedTheJobsEnd) {
  use({"sleep", "100"});
  start(2);
  ASSERT_TRUE(crrun.until([&] { return crrun.started.size() == 2; }, 20s));
  const int daemon = crrun.daemon(0), rank = crrun.started[0].pid();
  job::Epoch epoch(job::job_directory(crrun.job.shared_directory(), crrun.job.id()));
  epoch.take();
  crrun.die();
  EXPECT_FALSE(crrun.until([&] { return state_of(daemon) == 0; }, 6s)) << "another crrun may take the job over";
  epoch.end();
  ASSERT_TRUE(crrun.until([&] { return state_of(daemon) == 0; }, 40s));
  EXPECT_EQ(state_of(rank), 0);
  EXPECT_FALSE(std::filesystem::exists(crrun.run_directory(0)));
}

TEST_F(Crd, EndsWhenNoCrrunComesBackForItsRanks) {
  use({"sh", "-c", "test $PMIX_RANK = 0 || sleep 100"});
  crrun.job.set_abandon_ms(2000);
  start(2);
  ASSERT_TRUE(crrun.until([&] { return crrun.exits.count(0) == 1; }, 20s));
  const int idle = crrun.daemon(0), busy = crrun.daemon(1);
  crrun.die();
  ASSERT_TRUE(crrun.until([&] { return state_of(idle) == 0; }, 40s));
  EXPECT_NE(state_of(busy), 0) << "its rank needs no crrun yet";
}

TEST_F(Crd, EndsThoughFileSystemsHang) {
  use({"sleep", "100"});
  start(2);
  ASSERT_TRUE(crrun.until([&] { return crrun.started.size() == 2; }, 20s));
  // Pipes that nobody writes hang as dead servers do: the opening does not return.
  const std::string wave = job::wave_directory(crrun.image_directory(0), 1);
  std::filesystem::create_directories(wave);
  std::ofstream(wave + "/rank-0.img") << "image";
  ASSERT_EQ(::mkfifo((wave + "/rank-0.json").c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo((job::job_directory(crrun.job.shared_directory(), crrun.job.id()) + "/owner").c_str(), 0600), 0);
  job::Down down;
  down.mutable_stage()->set_wave(1);
  crrun.send(0, down);
  EXPECT_FALSE(crrun.until([] { return false; }, 500ms));
  const int daemon = crrun.daemon(0);
  job::Down end;
  end.mutable_shutdown()->set_kill(true);
  crrun.send_all(end);
  EXPECT_TRUE(crrun.until([&] { return state_of(daemon) == 0; }, 20s));
}

/** Tests with the module. */
class CrdLease : public Crd {
 protected:
  void SetUp() override {
    if (::access("/dev/cr", R_OK | W_OK) != 0) GTEST_SKIP() << "the module is not loaded";
  }
  /** @return the sizes of the files that the ranks, and the processes that they have made, write to without end */
  std::vector<std::uintmax_t> sizes() {
    std::vector<std::uintmax_t> all;
    for (const char* const name : {"0", "0-made", "1", "1-made"}) {
      std::error_code none;
      const auto size = std::filesystem::file_size(crrun.job.working_directory() + "/" + name, none);
      all.push_back(none ? 0 : size);
    }
    return all;
  }
  /** Ranks 0 and 1, each with a process in a session of its own. */
  void start_writers() {
    use({"sh", "-c",
         "setsid sh -c 'while echo x; do sleep 0.02; done >$PMIX_RANK-made' & while echo x; do sleep 0.02; done >$PMIX_RANK"});
    start(2);
    ASSERT_TRUE(crrun.until([&] { const auto now = sizes(); return std::find(now.begin(), now.end(), 0) == now.end(); }, 20s));
  }
};

TEST_F(CrdLease, ParksItsRanksWhenNothingIsAnswered) {
  use({"sleep", "100"});
  start(2);
  ASSERT_TRUE(crrun.until([&] { return crrun.started.size() == 2; }, 20s));
  const int pid = crrun.started[1].pid();
  EXPECT_FALSE(crrun.until([&] { return parked(pid); }, 3s));
  crrun.answers = false;
  EXPECT_FALSE(crrun.until([&] { return parked(pid); }, 1s));
  ASSERT_TRUE(crrun.until([&] { return parked(pid); }, 3s));
  // Messages that arrive while crrun may have started the ranks elsewhere must wait until crrun confirms that it has not.
  job::Down down;
  down.mutable_signal()->set_signal(SIGKILL);
  down.mutable_signal()->add_ranks(1);
  crrun.send_all(down);
  EXPECT_FALSE(crrun.until([&] { return !parked(pid); }, 500ms));
  crrun.answers = true;
  // If the daemon has connected anew meanwhile, the signal never arrived; either outcome is correct.
  EXPECT_TRUE(crrun.until([&] { return state_of(crrun.started[0].pid()) == 'S' && !parked(pid); }, 5s));
}

TEST_F(CrdLease, MeasuresTheLeaseFromWhatIsAnswered) {
  use({"sleep", "100"});
  start(2);
  ASSERT_TRUE(crrun.until([&] { return crrun.started.size() == 2; }, 20s));
  crrun.late_answers = true;  // answers come, but they confirm nothing recent
  ASSERT_TRUE(crrun.until([&] { return parked(crrun.started[0].pid()); }, 3s));
  crrun.late_answers = false;
  EXPECT_TRUE(crrun.until([&] { return state_of(crrun.started[0].pid()) == 'S'; }, 3s));
}

TEST_F(CrdLease, IsASpareWhenItWasGivenUp) {
  use({"sleep", "100"});
  start(2);
  ASSERT_TRUE(crrun.until([&] { return crrun.started.size() == 2; }, 20s));
  const std::string image = crrun.image_directory(1) + "/wave-1/rank-1.img", instance = crrun.instances[1];
  std::filesystem::create_directories(std::filesystem::path(image).parent_path());
  std::ofstream(image) << "an image";
  crrun.answers = false;
  ASSERT_TRUE(crrun.until([&] { return parked(crrun.started[1].pid()); }, 5s));
  job::Down down;
  *down.mutable_welcome()->mutable_job() = crrun.job;
  down.mutable_welcome()->mutable_job()->set_local_directory(crrun.job.local_directory() + "1");
  down.mutable_welcome()->set_stale(true);
  // Send repeatedly: a daemon that connects anew during the silence does not get earlier messages.
  auto next = std::chrono::steady_clock::now();
  ASSERT_TRUE(crrun.until(
      [&] {
        if (crrun.instances[1] != instance) return true;
        if (std::chrono::steady_clock::now() >= next) {
          crrun.send(1, down);
          next = std::chrono::steady_clock::now() + 500ms;
        }
        return false;
      },
      10s));
  EXPECT_EQ(state_of(crrun.started[1].pid()), 0);
  EXPECT_EQ(crrun.hellos[1].ranks_size(), 0);
  EXPECT_FALSE(std::filesystem::exists(image));
  EXPECT_EQ(crrun.exits.count(1), 0u);
  EXPECT_TRUE(crrun.until([&] { return parked(crrun.started[0].pid()); }, 5s));  // this one was not released
}

TEST_F(Crd, NodesTryARollbackAndARestart) {
  use({"sleep", "100"});
  start(1);
  ASSERT_TRUE(crrun.until([&] { return crrun.started.size() == 1; }, 20s));
  job::Down down;
  down.mutable_prune()->add_keep(1);
  crrun.send_all(down);
  const bool module = ::access("/dev/cr", R_OK | W_OK) == 0;
  const std::string expected = module ? "this node has rolled back and restarted a process as a test" : "this node could not roll back";
  const auto said = [&] {
    return std::count_if(crrun.logs.begin(), crrun.logs.end(),
                         [&](const std::string& line) { return line.find(expected) != std::string::npos; });
  };
  ASSERT_TRUE(crrun.until([&] { return said() == 2; }, 20s)) << log();  // the one with the rank, and the spare
  crrun.send_all(down);
  EXPECT_FALSE(crrun.until([&] { return said() > 2; }, 1s));
  for (const int node : {0, 1}) EXPECT_FALSE(std::filesystem::exists(crrun.run_directory(node) + "/rehearsal.img"));
}

/** What daemons say of images that they hand out, and that they keep for others. */
struct Kept {
  explicit Kept(FakeCrrun& crrun) {
    crrun.job.mutable_redundancy()->set_kind(job::Redundancy::PARTNER);
    crrun.job.mutable_redundancy()->set_count(1);
    crrun.seen = [this](const job::Up& up) {
      if (up.has_serving()) serving[up.from()] = up.serving(), ++times;
      if (up.has_protect_done()) done.push_back(up.protect_done());
    };
  }
  /** @return the images of these ranks that a node says it has */
  job::ImageSource source(std::uint32_t node, const std::string& directory, std::uint32_t wave, const std::set<std::uint32_t>& ranks) {
    job::ImageSource out;
    out.set_node(node);
    *out.mutable_from() = serving.at(node);
    for (const job::StoredImage& one : image_store::list(directory))
      if (one.wave() == wave && ranks.count(one.rank())) *out.add_images() = one;
    return out;
  }
  bool finished() const { return !done.empty() && done.back().finished(); }
  std::map<std::uint32_t, job::Relaying> serving;  ///< by node
  std::vector<job::ProtectDone> done;
  unsigned times = 0;
};

class MadeImages : public OnDisk {
 public:
  using OnDisk::image;
  using OnDisk::local;

 private:
  void TestBody() override {}
};

TEST_F(Crd, KeepsCopiesOfImagesOfAnotherNode) {
  Kept kept(crrun);
  use({"sleep", "100"});
  start(2);
  ASSERT_TRUE(crrun.until([&] { return crrun.started.size() == 2 && kept.serving.size() == 2; }, 20s));
  MadeImages made;
  made.image(7, 0, 5 * kMegabyte);
  made.image(7, 2, 40);
  std::filesystem::create_directories(crrun.image_directory(0));
  std::filesystem::copy(made.local(), crrun.image_directory(0), std::filesystem::copy_options::recursive);
  job::Down down;
  down.mutable_protect()->set_wave(7);
  *down.mutable_protect()->add_sources() = kept.source(0, crrun.image_directory(0), 7, {0, 2});
  job::StoredImage& missing = *down.mutable_protect()->mutable_sources(0)->add_images();
  missing.set_rank(5);
  missing.set_bytes(1000);
  crrun.send(1, down);
  ASSERT_TRUE(crrun.until([&] { return kept.finished(); }, 20s)) << log();
  std::map<std::uint32_t, job::RankStaged> ranks;
  for (const job::ProtectDone& one : kept.done)
    for (const job::RankStaged& rank : one.ranks()) ranks[rank.rank()] = rank;
  ASSERT_EQ(ranks.size(), 3u);
  for (const std::uint32_t rank : {0, 2}) {
    EXPECT_EQ(ranks[rank].error(), "");
    const std::string from = job::image_path(crrun.image_directory(0), 7, rank), to = job::image_path(crrun.image_directory(1), 7, rank);
    EXPECT_EQ(ranks[rank].bytes(), std::filesystem::file_size(from));
    EXPECT_EQ(job::read_file(to), job::read_file(from));
  }
  EXPECT_THAT(ranks[5].error(), AllOf(HasSubstr("rank 5"), HasSubstr("node0")));
  EXPECT_GT(kept.done.back().network_bytes(), 5u << 20);
  EXPECT_EQ(image_store::list(crrun.image_directory(1)).size(), 2u);

  // A wave that is removed takes its copies with it, and does not come back.
  job::Down prune;
  prune.mutable_prune()->add_keep(8);
  kept.done.clear();
  crrun.send(1, down);
  crrun.send(1, prune);
  ASSERT_TRUE(crrun.until([&] { return !std::filesystem::exists(job::wave_directory(crrun.image_directory(1), 7)); }, 20s));
  crrun.until([] { return false; }, 500ms);
  EXPECT_FALSE(std::filesystem::exists(job::wave_directory(crrun.image_directory(1), 7)));

  // Where there is no room, nothing is begun.
  kept.done.clear();
  down.mutable_protect()->mutable_sources(0)->mutable_images(0)->set_bytes(1ULL << 60);
  crrun.send(1, down);
  ASSERT_TRUE(crrun.until([&] { return kept.finished(); }, 20s));
  EXPECT_THAT(kept.done.back().error(), HasSubstr("no space"));

  // Another crrun is told where, too.
  kept.times = 0;
  crrun.die();
  crrun.come_back();
  EXPECT_TRUE(crrun.until([&] { return kept.times == 2; }, 20s));
  crrun.shut_down();
}

/** As crtcp asks for copies of kept memory: HELLO, then COPY_KEPT, and what is answered. */
const std::string kAsks = "export PROTOCOL=" + std::to_string(CR_RANK_PROTOCOL) + R"(; exec python3 -c '
import os, socket, struct, time
rank = int(os.environ["PMIX_RANK"])
daemon = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
daemon.connect(os.environ["CR_RANK_SOCKET"])
def say(kind, body):
    daemon.send(struct.pack("=IIII", kind, 16 + len(body), rank, 0) + body)
def hear(kind):
    while True:
        packet = daemon.recv(65536)
        if struct.unpack_from("=I", packet)[0] == kind:
            return packet[16:]
def copy(number, name, fd):
    say(24, struct.pack("=Qii", number, os.getpid(), fd) + name)
    got, status, _ = struct.unpack_from("=QiI", answer := hear(25))
    print(number == got, os.strerror(status) if status else "copied", answer[16:].decode(), flush=True)
say(1, struct.pack("=IiII", int(os.environ["PROTOCOL"]), os.getpid(), 0, 0))
hear(2)
memory, plain = os.memfd_create("reprise.keep+it"), os.memfd_create("reprise.keep.it")
os.ftruncate(memory, 1 << 30)
os.pwrite(memory, b"first", 5000)
os.lseek(memory, 77, os.SEEK_SET)
if rank == 0:
    copy(1, b"it", memory)
    copy(1, b"it", memory)
    os.pwrite(memory, b"second", 5000)
    copy(2, b"it", memory)
    print("at", os.lseek(memory, 0, os.SEEK_CUR), flush=True)
    copy(3, b"it", plain)
    copy(4, b"it", 0)
    copy(5, b"it", 999)
    copy(6, b"../it", memory)
    copy(7, b"that", memory)
    print("done", flush=True)
time.sleep(1000)')";

TEST_F(Crd, CopiesKeptMemoryToAnotherNode) {
  Kept kept(crrun);
  const auto before = crrun.seen;
  std::vector<std::pair<std::uint32_t, job::HasCopy>> has;
  crrun.seen = [&](const job::Up& up) {
    before(up);
    if (!up.has_has_copy()) return;
    has.emplace_back(up.from(), up.has_copy());
    job::Down down;
    if (up.from() == 0) {
      job::KeepCopy& order = *down.mutable_keep_copy();
      order.set_to(1);
      *order.mutable_copy() = up.has_copy().copy();
      order.add_sources()->set_node(0);
      *order.mutable_sources(0)->mutable_from() = kept.serving.at(0);
    } else {
      *down.mutable_kept_copied()->mutable_copy() = up.has_copy().copy();
    }
    crrun.send(1 - up.from(), down);
  };
  use({"sh", "-c", kAsks});
  start(2);
  ASSERT_TRUE(crrun.until([&] { return crrun.output[{0, 1}].find("done") != std::string::npos; }, 30s)) << crrun.output[{0, 1}] << log();
  EXPECT_EQ((crrun.output[{0, 1}]),
            "True copied \nTrue copied \nTrue copied \nat 77\n"
            "True Invalid argument it was not allocated with CR_KEPT_COPIED\n"
            "True Invalid argument it was not allocated with CR_KEPT_COPIED\n"
            "True Invalid argument its descriptor cannot be had: Bad file descriptor\n"
            "True Invalid argument kept memory has no such name\n"
            "True Invalid argument it was not allocated with CR_KEPT_COPIED\ndone\n");
  ASSERT_EQ(has.size(), 4u) << "a request that is made again is answered again, and nothing is copied";
  EXPECT_TRUE(has[0].second.asked());
  EXPECT_FALSE(has[1].second.asked());
  EXPECT_EQ(has[3].first, 1u);
  const job::KeptCopy copy = has[3].second.copy();
  EXPECT_GT(copy.version(), has[1].second.copy().version());
  EXPECT_EQ(copy.size(), 1u << 30);
  EXPECT_LT(copy.bytes(), 100'000u);
  const auto path = [&](std::uint32_t node, const job::KeptCopy& one) {
    return job::kept_copy_path(crrun.image_directory(node), 0, one.version(), "it");
  };
  EXPECT_THAT(job::read_file(path(1, copy)), HasSubstr("second"));
  EXPECT_EQ(job::read_file(path(1, copy)), job::read_file(path(0, copy)));
  const auto gone = [&] {
    return !std::filesystem::exists(path(0, has[0].second.copy())) && !std::filesystem::exists(path(1, has[0].second.copy()));
  };
  EXPECT_TRUE(crrun.until(gone, 10s)) << "the older copies are dropped";
  // Another crrun is told; what is as old as the waves that count is dropped.
  has.clear();
  crrun.seen = [&](const job::Up& up) {
    if (up.has_has_copy()) has.emplace_back(up.from(), up.has_copy());
  };
  crrun.die();
  crrun.come_back();
  ASSERT_TRUE(crrun.until([&] { return has.size() == 2; }, 20s));
  for (const auto& [node, one] : has) EXPECT_EQ(one.copy().version(), copy.version());
  job::Down prune;
  prune.mutable_prune()->add_keep(1);
  crrun.send_all(prune);
  EXPECT_TRUE(crrun.until([&] { return !std::filesystem::exists(path(0, copy)) && !std::filesystem::exists(path(1, copy)); }, 20s));
  crrun.shut_down();
}

TEST_F(Crd, KeepsNoCopiesWithoutRedundancy) {
  use({"sh", "-c", kAsks});
  start(1);
  ASSERT_TRUE(crrun.until([&] { return crrun.output[{0, 1}].find("done") != std::string::npos; }, 30s)) << crrun.output[{0, 1}] << log();
  EXPECT_THAT((crrun.output[{0, 1}]), HasSubstr("True Operation not supported the nodes of this job keep no copies"));
  crrun.shut_down();
}

TEST_F(Crd, TakesOverFromAnOlderDaemon) {
  // The process below the rank has a session of its own, and is orphaned when its parent dies.
  use({"sh", "-c", "setsid sleep 100 & echo $!; wait"});
  start(2);
  ASSERT_TRUE(crrun.until([&] { return !crrun.output[{0, 1}].empty() && !crrun.output[{1, 1}].empty(); }, 20s));
  const int rank = crrun.started[1].pid(), below = std::stoi(crrun.output[{1, 1}]), other = std::stoi(crrun.output[{0, 1}]);
  ASSERT_NE(state_of(below), 0);
  const std::string instance = crrun.instances[1];
  const pid_t old = crrun.start_daemon(1);
  ASSERT_TRUE(crrun.until([&] { return crrun.instances[1] != instance; }, 10s));
  int status = 0;
  EXPECT_EQ(::waitpid(old, &status, 0), old);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  // A signal that was sent may not have taken effect yet.
  EXPECT_TRUE(crrun.until([&] { return state_of(rank) == 0 && state_of(below) == 0; }, 5s));
  EXPECT_NE(state_of(other), 0);  // belongs to the other node
  EXPECT_EQ(crrun.hellos[1].ranks_size(), 0);
  ::kill(other, SIGKILL);
  crrun.shut_down();
}

TEST_F(Crd, TellsOfARecoveryWhenWhatHasMovedAwayHasEnded) {
  use({"sleep", "100"});
  start(4);
  ASSERT_TRUE(crrun.until([&] { return crrun.started.size() == 4; }, 20s));
  const int moved = crrun.started[1].pid();
  unsigned empty = 0;
  char lived = 0;
  crrun.seen = [&](const job::Up& up) {
    if (up.from() != 1 || up.recovery() != 1) return;
    if (state_of(moved)) lived = state_of(moved);
    if (up.has_restored() && up.restored().ranks_size() == 0) ++empty;
  };
  job::Down down;
  job::Recover& recover = *down.mutable_recover();
  recover.set_recovery(1);
  recover.set_wave(1);
  crrun.place(1, 0);  // and 3 stays
  for (const auto& one : crrun.placement) *recover.add_placement() = one;
  crrun.recovery = 1;
  crrun.send_all(down);
  // There are no images: every rank that stays or comes is reported as not restored.
  ASSERT_TRUE(crrun.until([&] { return empty == 1 && crrun.restored.size() == 4; }, 10s)) << log();
  EXPECT_EQ(lived, 0);
  EXPECT_TRUE(crrun.restored[3].image_bad());
  // Without ranks left on the node.
  empty = 0;
  crrun.seen = [&](const job::Up& up) {
    if (up.from() == 1 && up.recovery() == 2 && up.has_restored() && up.restored().ranks_size() == 0) ++empty;
  };
  crrun.place(3, 0);
  recover.set_recovery(2);
  recover.clear_placement();
  for (const auto& one : crrun.placement) *recover.add_placement() = one;
  crrun.send_all(down);
  EXPECT_TRUE(crrun.until([&] { return empty == 1; }, 10s));
  EXPECT_EQ(state_of(crrun.started[3].pid()), 0);
  crrun.seen = nullptr;
}

/** @return a recovery of spawned processes, of which there are none, with this number */
job::Down recovery_of_others(const FakeCrrun& crrun, std::uint32_t number, std::uint32_t wave) {
  job::Down down;
  job::Recover& recover = *down.mutable_recover();
  recover.set_recovery(number);
  recover.set_wave(wave);
  recover.set_stay(true);
  for (const auto& one : crrun.placement) *recover.add_placement() = one;
  return down;
}

TEST_F(Crd, LeavesRanksAsTheyAreWhileOthersGoBack) {
  use({"sh", "-c", "trap 'echo again' USR1; echo once; while :; do sleep 0.1; done"});
  start(1);
  ASSERT_TRUE(crrun.until([&] { return crrun.output[{0, 1}] == "once\n"; }, 20s)) << log();
  crrun.send_all(recovery_of_others(crrun, 1, 1));
  ASSERT_TRUE(crrun.until([&] { return crrun.restored.count(0) > 0; }, 10s)) << log();
  EXPECT_TRUE(crrun.restored[0].stays());
  EXPECT_THAT(crrun.restored[0].error(), HasSubstr("its transport is not connected"));
  // It has not been asked, and runs. What it says is of the recovery in which it was started, and after the end of this one of this.
  ::kill(crrun.started[0].pid(), SIGUSR1);
  ASSERT_TRUE(crrun.until([&] { return crrun.output[{0, 1}] == "once\nagain\n"; }, 20s)) << log();
  job::Down down;
  down.mutable_resume()->set_recovery(1);
  down.mutable_resume()->set_nonce(std::string(32, 'n'));
  crrun.recovery = 1;
  crrun.send_all(down);
  ASSERT_TRUE(crrun.until([&] { return crrun.resumed.count(0) > 0; }, 10s)) << log();
  ::kill(crrun.started[0].pid(), SIGUSR1);
  EXPECT_TRUE(crrun.until([&] { return crrun.output[{0, 1}] == "once\nagain\nagain\n"; }, 20s)) << crrun.output[{0, 1}];
  EXPECT_EQ(crrun.contradictions, 0u);
}

#ifdef MPI_RING
TEST_F(Crd, SaysAgainWhatIsOpenWhenCrrunHasBegunAnew) {
  use({MPI_RING, "30", "0", "5"});
  // The first daemon with a contribution to a collective sends it; crrun dies before the collective is complete.
  bool dead = false;
  unsigned shares = 0;
  crrun.seen = [&](const job::Up& up) { shares += up.has_fence() && !dead; };
  crrun.forget_fences = true;
  start(4);
  ASSERT_TRUE(crrun.until([&] { return shares >= 2; })) << log();
  dead = true;
  crrun.die();
  EXPECT_FALSE(crrun.until([] { return false; }, 500ms));
  crrun.forget_fences = false;
  crrun.come_back();
  ASSERT_TRUE(crrun.wait_exits()) << log();
  EXPECT_EQ(WEXITSTATUS(crrun.exits[0]), 5) << log();
  crrun.seen = nullptr;
}

TEST_F(Crd, RunsAnMpiProgramOverTwoDaemons) {
  use({MPI_RING, "30", "0", "5"});
  start(4);
  ASSERT_TRUE(crrun.wait_exits()) << log();
  EXPECT_EQ(WEXITSTATUS(crrun.exits[0]), 5) << log();
  EXPECT_EQ(crrun.exits[3], 0);
  EXPECT_THAT((crrun.output[{0, 1}]), HasSubstr("round 20\ntotal "));
  EXPECT_THAT((crrun.output[{3, 2}]), HasSubstr("rank 3 of 4 is through\n"));
  EXPECT_GE(crrun.fences, 2u);
  for (std::uint32_t rank = 0; rank < 4; ++rank) EXPECT_TRUE(crrun.finalized[rank]) << rank;
}

TEST_F(Crd, NamesArePublishedAndLookedUp) {
  use({MPI_NAMES});
  start(3);
  ASSERT_TRUE(crrun.wait_exits(20s)) << log();
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(crrun.exits[rank], 0) << rank << "\n" << log();
    EXPECT_EQ((crrun.output[{rank, 1}]), "here it is\n");
  }
}

class CrdSpawns : public Crd, public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Programs, CrdSpawns, testing::Values("1", "2"));

TEST_P(CrdSpawns, ProcessesThatTalkWithTheirParents) {
  use({MPI_SPAWN, "3", "2", "0", GetParam()});
  start(2);
  ASSERT_TRUE(crrun.until([&] { return crrun.exits.size() == 8; })) << log();
  for (const auto& [number, status] : crrun.exits) {
    EXPECT_EQ(status, 0) << number << log();
    EXPECT_TRUE(crrun.finalized[number]) << number;
  }
  ASSERT_TRUE(crrun.until([&] { return crrun.ended.size() == 16; }));
  EXPECT_EQ((crrun.output[{0, 1}]), "time 0: 2 parents, 3 children, sum 5010\ntime 1: 2 parents, 3 children, sum 5010\n") << log();
  EXPECT_EQ((crrun.output[{101, 1}]), "child 1 of 3, time 0\n");
  EXPECT_EQ((crrun.output[{202, 1}]), "child 2 of 3, time 1\n");
}

TEST_F(Crd, MakesGroupsForSessions) {
  use({MPI_SESSIONS, "1"});
  start(3);
  ASSERT_TRUE(crrun.wait_exits()) << log();
  for (std::uint32_t rank = 0; rank < 3; ++rank) EXPECT_EQ(crrun.exits[rank], 0) << log();
  EXPECT_EQ((crrun.output[{0, 1}]), "session 0: 3 processes, sums 6 and 3\n");
}

// One rank on each node: libpmix 5.0.7 loses count of a fence when a rank closes its connection after a session while another
// rank of the same server is in the first fence of the next session (docs/mpi-support.md).
TEST_F(Crd, MakesGroupsForOneSessionAfterAnother) {
  use({MPI_SESSIONS, "3"});
  start(2);
  ASSERT_TRUE(crrun.wait_exits()) << log();
  for (std::uint32_t rank = 0; rank < 2; ++rank) EXPECT_EQ(crrun.exits[rank], 0) << log();
  EXPECT_EQ((crrun.output[{0, 1}]), "session 0: 2 processes, sums 3 and 1\nsession 1: 2 processes, sums 3 and 1\n"
                                    "session 2: 2 processes, sums 3 and 1\n");
}

TEST_F(Crd, TellsOfAnAbort) {
  use({MPI_RING, "3", "0", "0", "abort"});
  start(2);
  ASSERT_TRUE(crrun.until([&] { return !crrun.aborts.empty(); })) << log();
  EXPECT_EQ(crrun.aborts[0].rank(), 1u);
  EXPECT_EQ(crrun.aborts[0].status(), 17);
}

/** @return the number of processes of that name */
std::vector<int> processes(const std::string& name) {
  std::vector<int> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "comm");
    std::string comm;
    const int pid = std::atoi(entry.path().filename().c_str());
    if (std::getline(file, comm) && comm == name && state_of(pid) != 0) found.push_back(pid);
  }
  return found;
}

std::size_t running(const std::string& name) { return processes(name).size(); }

/** @return the start time of a process in clock ticks */
std::string birth_of(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  std::istringstream rest(text.substr(text.rfind(") ") + 2));
  for (int field = 3; field < 22; ++field) rest >> text;
  rest >> text;
  return text;
}

TEST_F(Crd, ReapsProcessesThatItsRanksLeave) {
  use({"sh", "-c", "(sleep 0.3 & exec true); echo left; sleep 100"});
  start(2);
  ASSERT_TRUE(crrun.until([&] { return crrun.output[{0, 1}] == "left\n"; }, 20s));
  crrun.until([] { return false; }, 1s);
  const std::string daemon = std::to_string(crrun.daemon(0));
  std::ifstream list("/proc/" + daemon + "/task/" + daemon + "/children");
  for (int pid = 0; list >> pid;) EXPECT_NE(state_of(pid), 0) << "process " << pid << " was not reaped";
}

TEST_F(CrdLease, ParksItsRanksWhenItIsStopped) {
  start_writers();
  ::kill(crrun.daemon(0), SIGSTOP);
  crrun.until([] { return false; }, std::chrono::milliseconds(crrun.job.lost_after_ms()) + 1s);
  const auto before = sizes();
  crrun.until([] { return false; }, 2s);
  const auto after = sizes();
  ::kill(crrun.daemon(0), SIGCONT);
  EXPECT_EQ(after[0], before[0]) << "rank 0 runs without its daemon";
  EXPECT_EQ(after[1], before[1]) << "a process that rank 0 has made runs without its daemon";
  EXPECT_GT(after[2], before[2]);
  EXPECT_GT(after[3], before[3]);
  EXPECT_TRUE(crrun.until([&] { const auto now = sizes(); return now[0] > after[0] && now[1] > after[1]; }, 20s)) << log();
}

TEST_F(CrdLease, LeavesNothingWhenItIsKilled) {
  start_writers();
  crrun.kill_daemon(0);
  crrun.until([] { return false; }, 1s);
  const auto before = sizes();
  crrun.until([] { return false; }, 1s);
  const auto after = sizes();
  EXPECT_EQ(after[0], before[0]);
  EXPECT_EQ(after[1], before[1]) << "a process that rank 0 has made outlives the daemon";
  EXPECT_GT(after[2], before[2]);
}

/** Tests with the module and crtcp. */
class CrdWaves : public Crd {
 protected:
  void SetUp() override {
    if (::access("/dev/cr", R_OK | W_OK) != 0) GTEST_SKIP() << "the module is not loaded";
    use(program());
    start(4, true);
    ASSERT_TRUE(crrun.until([&] { return crrun.output[{0, 1}].find("round 10\n") != std::string::npos; }, 120s)) << log();
  }
  virtual std::vector<std::string> program() const { return {MPI_RING, "400", "20000"}; }
  /** Take a wave; it may be refused temporarily, then try again. */
  std::string wave(std::uint32_t& number) {
    std::string error;
    for (int attempt = 0; attempt < 20; ++attempt) {
      error = crrun.wave(number);
      if (!error.starts_with("again")) return error;
      ++number;
      crrun.until([] { return false; }, 500ms);
    }
    return error;
  }
  /** Returns when crrun knows of it, and has all output. @param pid its process id */
  void kill_rank_3(int& pid) {
    pid = crrun.started[3].pid();
    ::kill(pid, SIGKILL);
    ASSERT_TRUE(crrun.until([&] { return crrun.exits.count(3) && crrun.ended.count({3, 1}) && crrun.ended.count({3, 2}); }, 10s));
  }
  void run_to_the_end() {
    ASSERT_TRUE(crrun.wait_exits(300s)) << log();
    for (const auto& [rank, status] : crrun.exits) EXPECT_EQ(status, 0) << rank << "\n" << log();
    EXPECT_THAT((crrun.output[{0, 1}]), HasSubstr("round 390\ntotal "));
    EXPECT_EQ(crrun.contradictions, 0u);
  }
};

/** What the daemons say of their ranks' progress. */
class CrdWatching : public CrdWaves {
 protected:
  void SetUp() override {
    crrun.job.set_look_ms(300);
    crrun.seen = [this](const job::Up& up) {
      if (up.heartbeat().has_standing()) standing[up.from()] = up.heartbeat().standing();
    };
    CrdWaves::SetUp();
  }
  std::map<std::uint32_t, job::Standing> standing;  ///< by node
};

TEST_F(CrdWatching, SeesRanksWaitAndGoOn) {
  EXPECT_EQ(standing[0].ranks(), 2u);
  EXPECT_LT(standing[0].stood_ms(), 1000u);
  // The others wait for it. A rank that a signal has stopped does not hang.
  ::kill(crrun.started[3].pid(), SIGSTOP);
  EXPECT_TRUE(crrun.until([&] { return standing[0].stood_ms() > 2000 && standing[0].waiting() == 2; }, 30s)) << standing[0].DebugString();
  EXPECT_LT(standing[1].stood_ms(), 2000u) << standing[1].DebugString();
  ::kill(crrun.started[3].pid(), SIGCONT);
  EXPECT_TRUE(crrun.until([&] { return standing[0].stood_ms() == 0 && standing[0].idle_ms() < 1000; }, 10s)) << standing[0].DebugString();
  std::uint32_t number = 1;
  ASSERT_EQ(wave(number), "");
  ASSERT_EQ(crrun.recover(number, {}), "") << log();
  standing.clear();
  EXPECT_TRUE(crrun.until([&] { return standing[0].ranks() == 2 && standing[0].stood_ms() == 0; }, 10s)) << "its counters are found after a rollback";
  run_to_the_end();
}

TEST_F(CrdWaves, TakesWavesAndRunsOn) {
  std::uint32_t number = 1;
  ASSERT_EQ(wave(number), "");
  EXPECT_TRUE(crrun.until([&] { return std::filesystem::exists(job::image_path(crrun.image_directory(1), number, 3)); }));
  for (const auto& [rank, report] : crrun.wave_done) {
    EXPECT_GT(report.bytes(), 0u);
    EXPECT_NE(report.checksum(), 0u);
  }
  run_to_the_end();
}

TEST_F(CrdWaves, GoesBackByPausing) {
  std::uint32_t number = 1;
  ASSERT_EQ(wave(number), "");
  crrun.until([] { return false; }, 1s);
  ASSERT_EQ(crrun.recover(number, {}), "") << log();
  run_to_the_end();
}

TEST_F(CrdWaves, RanksStayWhileOthersGoBack) {
  const auto others_go_back = [this](std::uint32_t wave) {
    crrun.restored.clear();
    crrun.send_all(recovery_of_others(crrun, ++crrun.recovery, wave));
    EXPECT_TRUE(crrun.until([&] { return crrun.restored.size() == 4; }, 10s)) << log();
    for (const auto& [rank, report] : crrun.restored) EXPECT_TRUE(report.stays()) << rank;
  };
  others_go_back(1);
  EXPECT_THAT(crrun.restored[0].error(), HasSubstr("before wave 1 is not known"));
  std::uint32_t number = 1;
  ASSERT_EQ(wave(number), "") << log();
  others_go_back(number);
  for (const auto& [rank, report] : crrun.restored) EXPECT_EQ(report.error(), "") << rank;
  job::Down down;
  down.mutable_resume()->set_recovery(crrun.recovery);
  down.mutable_resume()->set_nonce(std::string(32, 'n'));
  crrun.send_all(down);
  EXPECT_TRUE(crrun.until([&] { return crrun.resumed.size() == 4; }, 10s)) << log();
  ++number;
  ASSERT_EQ(wave(number), "") << log();
  // This crrun does not take output that was written in an older recovery.
  ASSERT_TRUE(crrun.wait_exits(300s)) << log();
  for (const auto& [rank, status] : crrun.exits) EXPECT_EQ(status, 0) << rank << "\n" << log();
}

TEST_F(CrdWaves, FindsItsImagesItself) {
  std::uint32_t number = 1;
  ASSERT_EQ(wave(number), "");
  crrun.until([] { return false; }, 500ms);
  crrun.names_all_images = false;
  ASSERT_EQ(crrun.recover(number, {}), "") << log();
  run_to_the_end();
}

/** Three images in a row may take pages over. */
class CrdIncremental : public CrdWaves {
 protected:
  void SetUp() override {
    crrun.job.set_incremental(3);
    CrdWaves::SetUp();
  }
  /**
   * Take the next wave. @return for each rank '+' if it took more than a third of its image from the one before, else '-'; or
   * the error. A heap that has grown counts as changed, which is nearly half of it.
   */
  std::string next() {
    ++number;
    if (const std::string error = wave(number); !error.empty()) return error;
    std::string out;
    for (const auto& [rank, report] : crrun.wave_done) out += 3 * report.inherited_bytes() > report.bytes() ? '+' : '-';
    return out;
  }
  std::string image(std::uint32_t rank) const { return job::image_path(crrun.image_directory(rank % 2), number, rank); }
  std::uint32_t number = 0;
};

TEST_F(CrdIncremental, TakesUnchangedPagesFromTheImageBefore) {
  EXPECT_EQ(next(), "----");
  const std::string first = std::filesystem::path(image(3)).parent_path();
  EXPECT_EQ(next(), "++++");
  // They do without the images before. After a rollback the ranks' changes since the image are known.
  ASSERT_TRUE(crrun.until([&] { return std::filesystem::exists(image(3)); }));
  std::filesystem::remove_all(first);
  int pid = 0;
  ASSERT_NO_FATAL_FAILURE(kill_rank_3(pid));
  ASSERT_EQ(crrun.recover(number, {3}), "") << log();
  EXPECT_EQ(next(), "++++") << log();
  run_to_the_end();
}

TEST_F(CrdIncremental, ImagesAreWholeAgainAfterATime) {
  for (const char* expected : {"----", "++++", "++++", "++++", "----", "++++"}) EXPECT_EQ(next(), expected) << number;
  run_to_the_end();
}

TEST_F(CrdIncremental, AnAbortedWaveIsNoParent) {
  EXPECT_EQ(next(), "----");
  EXPECT_EQ(crrun.wave(++number, false), "");
  EXPECT_EQ(next(), "----");
  EXPECT_EQ(next(), "++++");
  run_to_the_end();
}

TEST_F(CrdIncremental, AParentThatCannotBeReadIsNotUsedAgain) {
  EXPECT_EQ(next(), "----");
  ASSERT_TRUE(crrun.until([&] { return std::filesystem::exists(image(2)); }));
  const std::string bad = image(2);
  std::filesystem::resize_file(bad, std::filesystem::file_size(bad) / 2);
  EXPECT_NE(crrun.wave(++number), "");
  EXPECT_THAT(crrun.wave_done[2].error(), HasSubstr("rank-2.base-1"));
  EXPECT_EQ(next()[2], '-');
  EXPECT_EQ(next(), "++++");
  run_to_the_end();
}

TEST_F(CrdWaves, StandsByForARecovery) {
  std::uint32_t number = 1;
  ASSERT_EQ(wave(number), "");
  crrun.until([] { return false; }, 1s);
  int pid = 0;
  ASSERT_NO_FATAL_FAILURE(kill_rank_3(pid));
  crrun.ended.erase({3, 1});
  crrun.expect(number, {3});
  ASSERT_TRUE(crrun.until([&] { return state_of(pid) != 0 && running("cr_pause") == 3; }, 20s));
  // The loss does not happen: no preparation is left, and no rank was affected.
  crrun.expect(0);
  EXPECT_TRUE(crrun.until([&] { return state_of(pid) == 0 && running("cr_pause") + running("cr_restart") == 0; }, 10s));
  EXPECT_TRUE(crrun.restored.empty());
  EXPECT_EQ(crrun.ended.count({3, 1}), 0u);
  // The loss happens.
  crrun.expect(number, {3});
  ASSERT_TRUE(crrun.until([&] { return state_of(pid) != 0; }, 20s));
  crrun.until([] { return false; }, 1s);
  const std::string born = birth_of(pid);
  crrun.expect(number, {3});  // again, with a difference elsewhere
  crrun.until([] { return false; }, 500ms);
  EXPECT_EQ(birth_of(pid), born);
  EXPECT_EQ(running("cr_pause"), 3u);
  ASSERT_EQ(crrun.recover(number, {3}), "") << log();
  EXPECT_EQ(crrun.restored[3].pid(), pid);
  EXPECT_EQ(birth_of(pid), born);
  for (const auto& [rank, report] : crrun.restored) EXPECT_TRUE(report.stood_by()) << rank;
  EXPECT_EQ(running("cr_pause"), 0u);
  run_to_the_end();
}

TEST_F(CrdWaves, StandsByForSomethingElse) {
  std::uint32_t number = 1;
  ASSERT_EQ(wave(number), "");
  crrun.until([] { return false; }, 1s);
  crrun.expect(number, {3});  // it lives, so its process id is in use
  ASSERT_TRUE(crrun.until([&] { return running("cr_pause") == 3; }, 20s));
  ++number;
  ASSERT_EQ(wave(number), "");
  ASSERT_EQ(crrun.recover(number, {}), "") << log();
  EXPECT_EQ(running("cr_pause"), 0u);
  for (const auto& [rank, report] : crrun.restored) EXPECT_FALSE(report.stood_by()) << rank;
  run_to_the_end();
}

TEST_F(CrdWaves, GoesBackByRestartingOne) {
  std::uint32_t number = 1;
  ASSERT_EQ(wave(number), "");
  crrun.until([] { return false; }, 1s);
  ::kill(crrun.started[3].pid(), SIGKILL);
  ASSERT_TRUE(crrun.until([&] { return crrun.exits.count(3) != 0; }, 10s));
  ASSERT_EQ(crrun.recover(number, {3}), "") << log();
  EXPECT_TRUE(crrun.restored[3].restarted());
  run_to_the_end();
}

/** Ranks 0 to 3 and the processes 100 and 101 that they have spawned: one of them on each node. */
class CrdFamily : public CrdWaves {
 protected:
  void SetUp() override {
    crrun.spawned_take_part = true;
    CrdWaves::SetUp();
  }
  std::vector<std::string> program() const override { return {MPI_FAMILY, "2", "400", "20000"}; }
  void take_wave() {
    ASSERT_EQ(wave(number), "") << log();
    EXPECT_EQ(crrun.wave_done.size(), 6u);
    crrun.until([] { return false; }, 1s);
  }
  void kill(std::uint32_t rank) {
    crrun.exits.erase(rank);
    ::kill(crrun.started[rank].pid() ? crrun.started[rank].pid() : 0, SIGKILL);
    ASSERT_TRUE(crrun.until([&] { return crrun.exits.count(rank) != 0; }, 10s));
  }
  std::uint32_t number = 1;
};

TEST_F(CrdFamily, TakesAWaveAndRunsOn) {
  ASSERT_NO_FATAL_FAILURE(take_wave());
  run_to_the_end();
}

TEST_F(CrdFamily, GoesBackByPausing) {
  ASSERT_NO_FATAL_FAILURE(take_wave());
  ASSERT_EQ(crrun.recover(number, {}), "") << log();
  for (const auto& [rank, report] : crrun.resumed) EXPECT_EQ(report.closed(), 0u) << rank;
  run_to_the_end();
}

TEST_F(CrdFamily, GoesBackByRestartingAChild) {
  ASSERT_NO_FATAL_FAILURE(take_wave());
  ASSERT_NO_FATAL_FAILURE(kill(101));
  ASSERT_EQ(crrun.recover(number, {101}), "") << log();
  EXPECT_TRUE(crrun.restored[101].restarted());
  EXPECT_FALSE(crrun.restored[100].restarted());
  run_to_the_end();
}

TEST_F(CrdFamily, GoesBackByRestartingAParent) {
  ASSERT_NO_FATAL_FAILURE(take_wave());
  ASSERT_NO_FATAL_FAILURE(kill(2));
  ASSERT_EQ(crrun.recover(number, {2}), "") << log();
  // And again from a wave that was taken after that.
  ++number;
  ASSERT_NO_FATAL_FAILURE(take_wave());
  ASSERT_EQ(crrun.recover(number, {}), "") << log();
  run_to_the_end();
}

/** Ranks that count their rounds in kept memory. */
class CrdKeptMemory : public CrdWaves {
 protected:
  std::vector<std::string> program() const override { return {MPI_RING, "400", "20000", "0", "keep"}; }
  /** Take a wave, stage it, let some rounds pass, and let node 0 restart the ranks of node 1. */
  void move_ranks(std::uint32_t& number, bool take = true) {
    if (take) {
      ASSERT_EQ(wave(number), "");
    }
    job::Down down;
    down.mutable_stage()->set_wave(number);
    crrun.send_all(down);
    ASSERT_TRUE(crrun.until([&] { return crrun.staged.size() == 4; }));
    crrun.until([] { return false; }, 1s);
    for (const std::uint32_t rank : {1, 3}) crrun.place(rank, 0);
    // As in StagesAndRestartsElsewhere.
    const std::string here = job::rank_socket_path(crrun.run_directory(0)), there = job::rank_socket_path(crrun.run_directory(1));
    std::filesystem::remove(there);
    std::filesystem::create_symlink(here, there);
    ASSERT_EQ(crrun.recover(number, {1, 3}), "") << log();
  }
  /** @return by rank the rounds that it has counted at the end */
  std::map<std::uint32_t, long> counted() {
    std::map<std::uint32_t, long> out;
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      const std::string& text = crrun.output[{rank, 2}];
      const std::size_t at = text.find(" has counted ");
      if (at != std::string::npos) out[rank] = std::atol(text.c_str() + at + 13);
    }
    return out;
  }
};

TEST_F(CrdKeptMemory, IsGivenToARestartedRank) {
  std::uint32_t number = 1;
  ASSERT_EQ(wave(number), "");
  crrun.until([] { return false; }, 1s);
  int pid = 0;
  ASSERT_NO_FATAL_FAILURE(kill_rank_3(pid));
  ASSERT_EQ(crrun.recover(number, {3}), "") << log();
  EXPECT_TRUE(crrun.restored[3].restarted());
  // Memory of a later wave: the same one, and its image is the newest.
  ASSERT_EQ(wave(++number), "");
  crrun.until([] { return false; }, 1s);
  ASSERT_NO_FATAL_FAILURE(kill_rank_3(pid));
  ASSERT_EQ(crrun.recover(number, {3}), "") << log();
  run_to_the_end();
  for (const auto& [rank, rounds] : counted()) EXPECT_GT(rounds, 400) << rank << "\n" << log();
  EXPECT_EQ(counted().size(), 4u);
  EXPECT_NEAR(static_cast<double>(counted()[3]), static_cast<double>(counted()[2]), 4) << "both count the same rounds again";
}

TEST_F(CrdKeptMemory, IsEmptyElsewhere) {
  std::uint32_t number = 1;
  ASSERT_NO_FATAL_FAILURE(move_ranks(number));
  run_to_the_end();
  auto rounds = counted();
  ASSERT_EQ(rounds.size(), 4u);
  for (const std::uint32_t rank : {1, 3}) EXPECT_LT(rounds[rank], 400) << rank << "\n" << log();
  for (const std::uint32_t rank : {0, 2}) EXPECT_GT(rounds[rank], 400) << rank << "\n" << log();
}

/** The same in memory whose content images have. */
class CrdCopiedMemory : public CrdKeptMemory {
 protected:
  std::vector<std::string> program() const override { return {MPI_RING, "400", "20000", "0", "copy"}; }
};

TEST_F(CrdCopiedMemory, IsThatOfTheImageElsewhere) {
  std::uint32_t number = 1;
  ASSERT_NO_FATAL_FAILURE(move_ranks(number));
  run_to_the_end();
  auto rounds = counted();
  ASSERT_EQ(rounds.size(), 4u);
  for (const std::uint32_t rank : {1, 3}) EXPECT_EQ(rounds[rank], 400) << "what the image has, and what was counted since\n" << log();
  for (const std::uint32_t rank : {0, 2}) EXPECT_GT(rounds[rank], 400) << rank << "\n" << log();
}

TEST_F(CrdCopiedMemory, IsTheRanksOwnWhereItIsRestartedAgain) {
  std::uint32_t number = 1;
  ASSERT_NO_FATAL_FAILURE(move_ranks(number));
  crrun.until([] { return false; }, 1s);
  int pid = 0;
  crrun.ended.erase({3, 1}), crrun.ended.erase({3, 2});
  ASSERT_NO_FATAL_FAILURE(kill_rank_3(pid));
  ASSERT_EQ(crrun.recover(number, {1, 3}), "") << log();
  run_to_the_end();
  auto rounds = counted();
  ASSERT_EQ(rounds.size(), 4u);
  for (const std::uint32_t rank : {1, 3}) EXPECT_GT(rounds[rank], 400) << "what it has counted on this node is lost\n" << log();
  EXPECT_NEAR(static_cast<double>(rounds[3]), static_cast<double>(rounds[1]), 4);
}

/** And is copied to the other node every 50 rounds. */
class CrdAsksForCopies : public CrdKeptMemory {
 protected:
  void SetUp() override {
    const auto before = crrun.seen;
    crrun.seen = [this, before](const job::Up& up) {
      before(up);
      if (up.has_has_copy()) has(up.from(), up.has_copy());
    };
    CrdKeptMemory::SetUp();
  }
  std::vector<std::string> program() const override { return {MPI_RING, "400", "20000", "0", "ask"}; }
  /** As crrun does it. */
  void has(std::uint32_t node, const job::HasCopy& message) {
    const job::KeptCopy& copy = message.copy();
    job::Down down;
    if (!message.error().empty()) {  // a guest may be so slow that a node counts as silent
      *down.mutable_kept_copied()->mutable_copy() = copy;
      down.mutable_kept_copied()->set_status(EHOSTUNREACH);
      crrun.send(1 - node, down);
    } else if (message.asked() && copies) {
      down.mutable_keep_copy()->set_to(1 - node);
      *down.mutable_keep_copy()->mutable_copy() = copy;
      source(*down.mutable_keep_copy()->add_sources(), node);
      crrun.send(1 - node, down);
    } else if (message.asked()) {
      *down.mutable_kept_copied()->mutable_copy() = copy;
      down.mutable_kept_copied()->set_status(EHOSTUNREACH);
      down.mutable_kept_copied()->set_why("this is a test");
      crrun.send(node, down);
    } else {
      elsewhere[copy.rank()] = copy;
      *down.mutable_kept_copied()->mutable_copy() = copy;
      crrun.send(1 - node, down);
    }
  }
  void source(job::ImageSource& out, std::uint32_t node) {
    out.set_node(node);
    *out.mutable_from() = kept.serving.at(node);
  }
  Kept kept{crrun};
  bool copies = true;
  std::map<std::uint32_t, job::KeptCopy> elsewhere;  ///< by rank, the newest
};

TEST_F(CrdAsksForCopies, AndGetsThemWhereItIsRestarted) {
  std::uint32_t number = 1;
  ASSERT_TRUE(crrun.until([&] { return kept.serving.size() == 2; }, 20s));
  ASSERT_EQ(wave(number), "");
  elsewhere.clear();
  ASSERT_TRUE(crrun.until([&] { return elsewhere.count(1) && elsewhere.count(3); }, 60s)) << log();
  for (const std::uint32_t rank : {1, 3}) {
    const job::KeptCopy& copy = elsewhere.at(rank);
    EXPECT_EQ(copy.wave(), number);
    EXPECT_EQ(copy.size(), 4096u);
    EXPECT_TRUE(std::filesystem::exists(job::kept_copy_path(crrun.image_directory(0), rank, copy.version(), "rounds")));
    job::KeepCopy& order = crrun.kept.emplace_back();
    order.set_to(0);
    *order.mutable_copy() = copy;
    source(*order.add_sources(), 1);
  }
  ASSERT_NO_FATAL_FAILURE(move_ranks(number, false));
  run_to_the_end();
  auto rounds = counted();
  ASSERT_EQ(rounds.size(), 4u);
  for (const std::uint32_t rank : {1, 3}) EXPECT_GT(rounds[rank], 400) << "what the image has is older\n" << log();
}

TEST_F(CrdAsksForCopies, AndIsToldThatThereAreNone) {
  copies = false;
  ASSERT_TRUE(crrun.until([&] { return crrun.output[{1, 2}].find("rank 1 is not copied: this is a test") != std::string::npos; }, 60s)) << log();
  crrun.shut_down();
}

TEST_F(CrdWaves, TellsOfAllRanksWhenTheLastOneIsNotRestored) {
  std::uint32_t number = 1;
  ASSERT_EQ(wave(number), "");
  crrun.until([] { return false; }, 1s);
  int pid = 0;
  ASSERT_NO_FATAL_FAILURE(kill_rank_3(pid));
  crrun.expect(number, {3});
  ASSERT_TRUE(crrun.until([&] { return state_of(pid) != 0; }, 20s));
  const std::vector<int> tools = processes("cr_restart");
  ASSERT_FALSE(tools.empty());
  for (const int tool : tools) ::kill(tool, SIGSTOP);
  crrun.deadline_ms = 20000;
  EXPECT_THAT(crrun.recover(number, {3}), HasSubstr("not restored in time")) << log();
  EXPECT_EQ(crrun.restored.size(), 4u) << "a rank beside it is not told of";
  EXPECT_EQ(crrun.restored[1].error(), "");
  crrun.deadline_ms = 60000;
  ASSERT_EQ(crrun.recover(number, {3}), "") << log();
  run_to_the_end();
}

/** With images that are kept on the other node. */
class CrdKeptElsewhere : public CrdWaves {
 protected:
  /** Take a wave, let node 0 keep copies of node 1's images, and lose those. @return the error */
  std::string wave_and_copies() {
    if (std::string error = wave(number); !error.empty()) return error;
    crrun.until([] { return false; }, 500ms);
    job::Down down;
    down.mutable_protect()->set_wave(number);
    *down.mutable_protect()->add_sources() = kept.source(1, crrun.image_directory(1), number, {1, 3});
    crrun.send(0, down);
    if (!crrun.until([&] { return kept.finished(); })) return "no copies";
    std::filesystem::remove_all(crrun.image_directory(1));
    job::Fetch fetch;
    fetch.set_to(1);
    fetch.add_ranks(1);
    fetch.add_ranks(3);
    *fetch.add_sources() = kept.source(0, crrun.image_directory(0), number, {1, 3});
    crrun.fetch = {fetch};
    return fetch.sources(0).images_size() == 2 ? "" : "the copies are not there";
  }
  Kept kept{crrun};
  std::uint32_t number = 1;
};

TEST_F(CrdKeptElsewhere, RestartsFromThem) {
  ASSERT_EQ(wave_and_copies(), "");
  int pid = 0;
  ASSERT_NO_FATAL_FAILURE(kill_rank_3(pid));
  ASSERT_EQ(crrun.recover(number, {1, 3}), "") << log();
  EXPECT_TRUE(crrun.restored[3].restarted());
  EXPECT_EQ(crrun.restored[3].shared_bytes_read(), 0u);
  run_to_the_end();
}

TEST_F(CrdKeptElsewhere, SaysSoWhenTheyAreDamaged) {
  ASSERT_EQ(wave_and_copies(), "");
  const std::string copy = job::image_path(crrun.image_directory(0), number, 3);
  std::string content = job::read_file(copy);
  content[content.size() / 2] ^= 1;
  job::write_atomically(copy, content);
  int pid = 0;
  ASSERT_NO_FATAL_FAILURE(kill_rank_3(pid));
  EXPECT_THAT(crrun.recover(number, {1, 3}), AllOf(HasSubstr("rank 3"), HasSubstr("node0"))) << log();
  EXPECT_TRUE(crrun.restored[3].image_bad());
  EXPECT_FALSE(crrun.restored[1].image_bad()) << "its copy is good";
  crrun.shut_down();
}

TEST_F(CrdWaves, StagesAndRestartsElsewhere) {
  std::uint32_t number = 1;
  ASSERT_EQ(wave(number), "");
  job::Down down;
  down.mutable_stage()->set_wave(number);
  crrun.send_all(down);
  ASSERT_TRUE(crrun.until([&] { return crrun.staged.size() == 4; }));
  for (const auto& [rank, report] : crrun.staged) ASSERT_EQ(report.error(), "");
  std::filesystem::remove_all(crrun.image_directory(0));
  std::filesystem::remove_all(crrun.image_directory(1));
  for (const std::uint32_t rank : {1, 3}) crrun.place(rank, 0);
  // Nodes have their socket at the same path, each its own; these two daemons share one machine.
  const std::string here = job::rank_socket_path(crrun.run_directory(0)), there = job::rank_socket_path(crrun.run_directory(1));
  std::filesystem::remove(there);
  std::filesystem::create_symlink(here, there);
  ASSERT_EQ(crrun.recover(number, {1, 3}), "") << log();
  EXPECT_GT(crrun.restored[1].shared_bytes_read(), 0u);
  run_to_the_end();
}
#endif

}  // namespace
}  // namespace reprise::crd::test
