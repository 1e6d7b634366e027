// SPDX-License-Identifier: GPL-2.0-only
// What crrun writes into JOBDIR, which may be gone, full or hanging.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "crrun/recorder.h"
#include "job/epoch.h"
#include "job/files.h"
#include "job/job_file.h"

namespace {
std::atomic<std::chrono::milliseconds> fsync_takes{std::chrono::milliseconds(0)};
}  // namespace

/** Takes libc's place in this program: a disk that is slow. */
extern "C" int fsync(int fd) {
  std::this_thread::sleep_for(fsync_takes.load());
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace reprise::job {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

class Recording : public ::testing::Test {
 protected:
  void SetUp() override {
    char path[] = "/tmp/reprise-recorder-XXXXXX";
    ASSERT_NE(::mkdtemp(path), nullptr);
    top_ = path;
    directory_ = top_ + "/job";
    fs::create_directory(directory_);
    id_ = "cr-test-" + std::to_string(::getpid());
    copy_ = "/var/tmp/reprise-" + std::to_string(::getuid()) + "/" + id_ + ".state";
  }
  void TearDown() override {
    fs::remove_all(top_);
    fs::remove(copy_);
    fs::remove(copy_ + ".log");
  }
  static bool until(const std::function<bool()>& what) {
    for (int i = 0; i < 500 && !what(); ++i) std::this_thread::sleep_for(10ms);
    return what();
  }
  std::string timeline() const {
    try {
      return read_file(directory_ + "/timeline.jsonl");
    } catch (const std::exception&) {
      return "";
    }
  }

  static std::vector<Record> whole(const std::string& phase) {
    State state;
    state.id = "cr-test";
    state.phase = phase;
    state.incarnation = {0};
    return {state};
  }
  static std::vector<Record> facts(const std::string& phase) {
    Facts facts;
    facts.id = "cr-test";
    facts.phase = phase;
    return {facts};
  }
  static std::vector<Record> wave(WaveNumber number, std::uint64_t bytes) {
    StoredWave wave;
    wave.wave = number;
    wave.ranks.resize(1);
    wave.ranks[0].bytes = bytes;
    return {StoreChange(wave)};
  }
  std::string text(std::uint64_t saved, const std::string& phase) {
    nlohmann::json json = to_json(std::get<State>(whole(phase)[0]));
    json["saved"] = saved;
    return json.dump();
  }
  std::string phase() { return newest_state(directory_, id_, 1).state.phase; }

  std::string top_, directory_, id_, copy_;
  std::uint64_t newest_ = 0;  ///< of the state before
};

TEST_F(Recording, WritesInOrderAndLeavesNothingBehind) {
  {
    Recorder recorder(directory_, id_, newest_);
    for (int i = 0; i < 100; ++i) recorder.event({{"n", i}});
    recorder.save(whole("running"));
    EXPECT_TRUE(until([&] { return fs::exists(copy_); }));
  }
  std::string want;
  for (int i = 0; i < 100; ++i) want += "{\"n\":" + std::to_string(i) + "}\n";
  EXPECT_EQ(timeline(), want);
  EXPECT_EQ(phase(), "running");
  EXPECT_FALSE(fs::exists(copy_));
}

TEST_F(Recording, GoesOnWhenTheDirectoryIsThereAgain) {
  Recorder recorder(directory_, id_, newest_);
  recorder.event({{"n", 1}});
  ASSERT_TRUE(until([&] { return !timeline().empty(); }));
  fs::rename(directory_, directory_ + ".gone");
  recorder.event({{"n", 2}});
  recorder.save(whole("recovering"));
  ASSERT_TRUE(until([&] { return fs::exists(copy_); }));
  EXPECT_EQ(phase(), "recovering");  // from this host
  std::this_thread::sleep_for(50ms);
  recorder.event({{"n", 3}});
  fs::rename(directory_ + ".gone", directory_);
  ASSERT_TRUE(until([&] { return fs::exists(directory_ + "/state.json"); }));
  EXPECT_EQ(timeline(), "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n");
}

TEST_F(Recording, TheNewestStateCountsWhereverItIs) {
  {
    Recorder recorder(directory_, id_, 0);
    recorder.save(whole("starting"));
    recorder.save(facts("running"));
  }
  const std::string old = read_file(directory_ + "/state.json");
  newest_ = newest_state(directory_, id_, 1).number;
  EXPECT_EQ(newest_, 2u);
  {
    Recorder recorder(directory_, id_, newest_);
    recorder.save(whole("ended"));
  }
  write_atomically(copy_, old);  // newer by its time, older by its number
  EXPECT_EQ(phase(), "ended");
}

TEST_F(Recording, ChangesGoToALogAndAreReadFromIt) {
  Recorder recorder(directory_, id_, 0);
  recorder.save(whole("starting"));
  ASSERT_TRUE(until([&] { return fs::exists(directory_ + "/state.json"); }));
  recorder.save(facts("running"));
  recorder.save(wave(1, 10));
  recorder.save(wave(2, 20));
  recorder.save({StoreChange(RanksStaged{2, {0}})});
  const std::uint64_t last = recorder.save({StoreChange(WavesDropped{{1}}), facts("recovering")[0]});
  ASSERT_TRUE(until([&] { return newest_state(directory_, id_, 1).number == last; }));
  const State state = newest_state(directory_, id_, 1).state;
  EXPECT_EQ(state.phase, "recovering");
  ASSERT_EQ(state.waves.size(), 1u);
  EXPECT_EQ(state.waves.at(2).ranks[0].bytes, 20u);
  EXPECT_TRUE(state.waves.at(2).staged());
  // The newest state may be that of the copy on this host.
  EXPECT_TRUE(until([&] { return fs::exists(directory_ + "/state.log"); }));
  EXPECT_EQ(nlohmann::json::parse(read_file(directory_ + "/state.json")).at("phase"), "starting") << "it was written as a whole";
}

TEST_F(Recording, AtTheEndTheStateNeedsNoLog) {
  {
    Recorder recorder(directory_, id_, 0);
    recorder.save(whole("starting"));
    ASSERT_TRUE(until([&] { return fs::exists(directory_ + "/state.json"); }));
    recorder.save(facts("ended"));
    ASSERT_TRUE(until([&] { return fs::exists(directory_ + "/state.log"); }));
  }
  EXPECT_EQ(nlohmann::json::parse(read_file(directory_ + "/state.json")).at("phase"), "ended");
  EXPECT_FALSE(fs::exists(directory_ + "/state.log"));
}

TEST_F(Recording, ALongLogBecomesASnapshot) {
  Recorder recorder(directory_, id_, 0);
  recorder.save(whole("starting"));
  ASSERT_TRUE(until([&] { return fs::exists(directory_ + "/state.json"); }));
  std::uint64_t last = 0;
  for (int i = 0; i < 20'000; ++i) last = recorder.save(wave(1, static_cast<std::uint64_t>(i)));
  ASSERT_TRUE(until([&] { return newest_state(directory_, id_, 1).number == last; }));
  EXPECT_EQ(newest_state(directory_, id_, 1).state.waves.at(1).ranks[0].bytes, 19'999u);
  EXPECT_LT(fs::exists(directory_ + "/state.log") ? fs::file_size(directory_ + "/state.log") : 0, 2u << 20);
}

TEST_F(Recording, ALineThatIsNotCompleteAndLinesOfAnotherWriterDoNotCount) {
  Recorder recorder(directory_, id_, 0);
  recorder.save(whole("starting"));
  ASSERT_TRUE(until([&] { return fs::exists(directory_ + "/state.json"); }));
  recorder.save(facts("running"));
  ASSERT_TRUE(until([&] { return read_state(directory_ + "/state.json", directory_ + "/state.log", 1, Whose::own)->number == 2; }));
  const std::string line = read_file(directory_ + "/state.log");
  nlohmann::json next = nlohmann::json::parse(line);
  next["n"] = 3;
  next["records"] = {to_json(facts("ended")[0])};
  const std::string good = next.dump() + "\n";
  next["by"] = "another";
  std::error_code gone;
  fs::remove(copy_, gone);  // what is in JOBDIR counts
  fs::remove(copy_ + ".log", gone);
  write_atomically(directory_ + "/state.log", line + next.dump() + "\n");
  EXPECT_EQ(phase(), "running") << "another crrun wrote it";
  write_atomically(directory_ + "/state.log", line + good.substr(0, good.size() - 1));
  EXPECT_EQ(phase(), "running") << "its end is missing";
  write_atomically(directory_ + "/state.log", line + good.substr(0, good.size() / 2) + "\n" + good);
  EXPECT_EQ(phase(), "running") << "what is behind a damaged line does not count";
  write_atomically(directory_ + "/state.log", line + good);
  EXPECT_EQ(phase(), "ended");
}

TEST_F(Recording, ALogThatCouldNotBeWrittenCompletelyIsReplaced) {
  Recorder recorder(directory_, id_, 0);
  recorder.save(whole("starting"));
  ASSERT_TRUE(until([&] { return fs::exists(directory_ + "/state.json"); }));
  fs::create_directories(directory_ + "/state.log/in-the-way");
  recorder.save(facts("running"));
  recorder.save(wave(1, 10));
  std::this_thread::sleep_for(100ms);
  fs::remove_all(directory_ + "/state.log");
  std::error_code gone;
  ASSERT_TRUE(until([&] { return read_state(directory_ + "/state.json", directory_ + "/state.log", 1, Whose::own)->number == 3; }));
  EXPECT_EQ(read_state(directory_ + "/state.json", directory_ + "/state.log", 1, Whose::own)->state.waves.size(), 1u);
}

TEST_F(Recording, NeverWaitsForADirectoryThatHangs) {
  // A pipe that nobody reads hangs as a dead server does: opening it for writing does not return.
  ASSERT_EQ(::mkfifo((directory_ + "/timeline.jsonl").c_str(), 0600), 0);
  const auto begin = std::chrono::steady_clock::now();
  {
    Recorder recorder(directory_, id_, newest_);
    recorder.event({{"n", 1}});
    std::this_thread::sleep_for(50ms);
    recorder.save(whole("running"));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
  EXPECT_EQ(phase(), "running");
}

TEST_F(Recording, WavesAreRemovedOnlyWhenTheStateDoesNotReferToThemAnyMore) {
  fs::create_directories(directory_ + "/wave-3");
  fs::create_directories(directory_ + "/state.json");  // the state cannot be written
  Recorder recorder(directory_, id_, newest_);
  recorder.save(whole("running"));
  recorder.remove({3});
  std::this_thread::sleep_for(300ms);
  EXPECT_TRUE(fs::exists(directory_ + "/wave-3"));
  fs::remove(directory_ + "/state.json");
  EXPECT_TRUE(until([&] { return !fs::exists(directory_ + "/wave-3"); }));
  EXPECT_TRUE(fs::exists(directory_ + "/state.json"));
}

TEST_F(Recording, FilesOfADroppedWaveAreKeptForTheNext) {
  const auto make = [&](const char* wave) {
    fs::create_directories(directory_ + "/" + wave);
    std::ofstream(directory_ + "/" + wave + "/rank-0.img") << wave;
  };
  const auto dropped = [&] {
    std::string text;
    std::ifstream(directory_ + "/wave-dropped/rank-0.img") >> text;
    return text;
  };
  make("wave-3");
  make("wave-4");
  Recorder recorder(directory_, id_, newest_);
  recorder.save(whole("running"));
  recorder.remove({3, true});
  EXPECT_TRUE(until([&] { return dropped() == "wave-3"; }));
  recorder.remove({4, true});
  EXPECT_TRUE(until([&] { return dropped() == "wave-4"; }));
  EXPECT_FALSE(fs::exists(directory_ + "/wave-3") || fs::exists(directory_ + "/wave-4"));
  // Of a wave that was never copied there is nothing to keep.
  make("wave-6");
  recorder.remove({5, true});
  recorder.remove({6});
  EXPECT_TRUE(until([&] { return !fs::exists(directory_ + "/wave-6"); }));
  EXPECT_EQ(dropped(), "wave-4");
  recorder.remove({});
  EXPECT_TRUE(until([&] { return !fs::exists(directory_ + "/wave-dropped"); }));
}

TEST_F(Recording, AnotherOwnerIsNoticedAndItsFilesAreLeftAlone) {
  std::atomic<int> replaced = 0;
  Recorder old(directory_, id_, 0, {.saved = nullptr, .replaced = [&] { ++replaced; }});
  old.event({{"n", 1}});
  ASSERT_TRUE(until([&] { return !timeline().empty(); }));
  Epoch epoch(directory_);
  EXPECT_TRUE(epoch.beats(kBeatsSeen)) << "an owner shows that it lives";
  epoch.take();
  for (int i = 0; i < 100 && !replaced; ++i) std::this_thread::sleep_for(100ms);
  EXPECT_EQ(replaced, 1);
  old.event({{"n", 2}});
  std::this_thread::sleep_for(200ms);
  EXPECT_EQ(timeline(), "{\"n\":1}\n");
  EXPECT_FALSE(epoch.beats(1s)) << "nobody beats now";
  EXPECT_TRUE(epoch.beat());
}

TEST_F(Recording, ACopyOfAnotherUserDoesNotCount) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  write_atomically(directory_ + "/state.json", text(1, "running"));
  fs::create_directories(fs::path(copy_).parent_path());
  write_atomically(copy_, text(1'000'000, "ended"));
  EXPECT_EQ(phase(), "ended");
  ASSERT_EQ(::chown(copy_.c_str(), 65534, 65534), 0);
  EXPECT_EQ(phase(), "running");
  ASSERT_EQ(::chown(copy_.c_str(), 0, 0), 0);
  ASSERT_EQ(::chmod(copy_.c_str(), 0666), 0);
  EXPECT_EQ(phase(), "running");
}

TEST_F(Recording, RemovingAJobLeavesStrangersFilesAlone) {
  fs::create_directories(directory_ + "/wave-3");
  write_atomically(directory_ + "/wave-3/rank-0.img", std::string(1000, 'x'));
  write_atomically(directory_ + "/job.json", "{}");
  write_atomically(directory_ + "/notes", "mine");
  EXPECT_GE(remove_job_directory(directory_), 1000u);
  EXPECT_TRUE(fs::exists(directory_ + "/notes"));
  EXPECT_FALSE(fs::exists(directory_ + "/wave-3"));
  fs::remove(directory_ + "/notes");
  remove_job_directory(directory_);
  EXPECT_FALSE(fs::exists(directory_));
}

TEST_F(Recording, ASlowDiskDelaysNobodyAndWhatWaitsIsWrittenAtOnce) {
  fsync_takes = 300ms;
  std::atomic<std::uint64_t> saved = 0, calls = 0;
  {
    Recorder recorder(directory_, id_, 0, {.saved = [&](std::uint64_t number) { saved = number, ++calls; }, .replaced = nullptr});
    const auto begin = std::chrono::steady_clock::now();
    recorder.save(whole("starting"));
    std::uint64_t newest = 0;
    for (int i = 0; i < 50; ++i) newest = recorder.save(wave(1, static_cast<std::uint64_t>(i)));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 250ms) << "fsync was called by the caller";
    EXPECT_LT(saved, newest) << "it is not on disk yet";
    ASSERT_TRUE(until([&] { return saved == newest; }));
    EXPECT_LE(calls, 3u);
    EXPECT_EQ(read_state(copy_, copy_ + ".log", 1, Whose::own)->state.waves.at(1).ranks[0].bytes, 49u);
  }
  fsync_takes = 0ms;
}

TEST_F(Recording, AStateWithANonsensicalNumberIsOlderThanAnyOther) {
  nlohmann::json strange = nlohmann::json::parse(text(0, "running"));
  strange["saved"] = "many";
  write_atomically(directory_ + "/state.json", strange.dump());
  EXPECT_EQ(phase(), "running");
  fs::create_directories(fs::path(copy_).parent_path());
  write_atomically(copy_, text(1, "ended"));
  EXPECT_EQ(phase(), "ended");
}

}  // namespace
}  // namespace reprise::job
