// SPDX-License-Identifier: GPL-2.0-only
// What crrun writes into JOBDIR, which may be gone, full or hanging.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
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

  std::string top_, directory_, id_, copy_;
};

TEST_F(Recording, WritesInOrderAndLeavesNothingBehind) {
  {
    Recorder recorder(directory_, id_);
    for (int i = 0; i < 100; ++i) recorder.event({{"n", i}});
    recorder.save({{"phase", "running"}});
    EXPECT_TRUE(until([&] { return fs::exists(copy_); }));
  }
  std::string want;
  for (int i = 0; i < 100; ++i) want += "{\"n\":" + std::to_string(i) + "}\n";
  EXPECT_EQ(timeline(), want);
  EXPECT_EQ(newest_state(directory_, id_)["phase"], "running");
  EXPECT_FALSE(fs::exists(copy_));
}

TEST_F(Recording, GoesOnWhenTheDirectoryIsThereAgain) {
  Recorder recorder(directory_, id_);
  recorder.event({{"n", 1}});
  ASSERT_TRUE(until([&] { return !timeline().empty(); }));
  fs::rename(directory_, directory_ + ".gone");
  recorder.event({{"n", 2}});
  recorder.save({{"phase", "recovering"}});
  ASSERT_TRUE(until([&] { return fs::exists(copy_); }));
  EXPECT_EQ(newest_state(directory_, id_)["phase"], "recovering");  // from this host
  std::this_thread::sleep_for(50ms);
  recorder.event({{"n", 3}});
  fs::rename(directory_ + ".gone", directory_);
  ASSERT_TRUE(until([&] { return fs::exists(directory_ + "/state.json"); }));
  EXPECT_EQ(timeline(), "{\"n\":1}\n{\"n\":2}\n{\"n\":3}\n");
}

TEST_F(Recording, TheNewestStateCountsWhereverItIs) {
  {
    Recorder recorder(directory_, id_);
    recorder.save({{"phase", "starting"}});
    recorder.save({{"phase", "running"}});
  }
  const std::string old = read_file(directory_ + "/state.json");
  {
    Recorder recorder(directory_, id_);
    recorder.save({{"phase", "ended"}});
  }
  write_atomically(copy_, old);  // newer by its time, older by its number
  EXPECT_EQ(newest_state(directory_, id_)["phase"], "ended");
}

TEST_F(Recording, NeverWaitsForADirectoryThatHangs) {
  // A pipe that nobody reads hangs as a dead server does: opening it for writing does not return.
  ASSERT_EQ(::mkfifo((directory_ + "/timeline.jsonl").c_str(), 0600), 0);
  const auto begin = std::chrono::steady_clock::now();
  {
    Recorder recorder(directory_, id_);
    recorder.event({{"n", 1}});
    std::this_thread::sleep_for(50ms);
    recorder.save({{"phase", "running"}});
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
  EXPECT_EQ(newest_state(directory_, id_)["phase"], "running");
}

TEST_F(Recording, WavesAreRemovedOnlyWhenTheStateDoesNotReferToThemAnyMore) {
  fs::create_directories(directory_ + "/wave-3");
  fs::create_directories(directory_ + "/state.json");  // the state cannot be written
  Recorder recorder(directory_, id_);
  recorder.save({{"phase", "running"}});
  recorder.remove(3);
  std::this_thread::sleep_for(300ms);
  EXPECT_TRUE(fs::exists(directory_ + "/wave-3"));
  fs::remove(directory_ + "/state.json");
  EXPECT_TRUE(until([&] { return !fs::exists(directory_ + "/wave-3"); }));
  EXPECT_TRUE(fs::exists(directory_ + "/state.json"));
}

TEST_F(Recording, AnotherOwnerIsNoticedAndItsFilesAreLeftAlone) {
  std::atomic<int> replaced = 0;
  Recorder old(directory_, id_, {.saved = nullptr, .replaced = [&] { ++replaced; }});
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
  write_atomically(directory_ + "/state.json", "{\"saved\": 1, \"of\": \"shared\"}");
  fs::create_directories(fs::path(copy_).parent_path());
  write_atomically(copy_, "{\"saved\": 1000000, \"of\": \"squatter\"}");
  EXPECT_EQ(newest_state(directory_, id_).at("of"), "squatter");
  ASSERT_EQ(::chown(copy_.c_str(), 65534, 65534), 0);
  EXPECT_EQ(newest_state(directory_, id_).at("of"), "shared");
  ASSERT_EQ(::chown(copy_.c_str(), 0, 0), 0);
  ASSERT_EQ(::chmod(copy_.c_str(), 0666), 0);
  EXPECT_EQ(newest_state(directory_, id_).at("of"), "shared");
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

TEST_F(Recording, ASlowDiskDelaysNobodyAndOnlyTheNewestOfWaitingStatesIsWritten) {
  fsync_takes = 300ms;
  std::atomic<std::uint64_t> saved = 0, calls = 0;
  {
    Recorder recorder(directory_, id_, {.saved = [&](std::uint64_t number) { saved = number, ++calls; }, .replaced = nullptr});
    const auto begin = std::chrono::steady_clock::now();
    std::uint64_t newest = 0;
    for (int i = 0; i < 50; ++i) newest = recorder.save({{"n", i}});
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 250ms) << "fsync was called by the caller";
    EXPECT_LT(saved, newest) << "it is not on disk yet";
    ASSERT_TRUE(until([&] { return saved == newest; }));
    EXPECT_LE(calls, 3u);
    EXPECT_EQ(nlohmann::json::parse(read_file(copy_)).at("n"), 49);
  }
  fsync_takes = 0ms;
}

TEST_F(Recording, AStateWithANonsensicalNumberIsOlderThanAnyOther) {
  write_atomically(directory_ + "/state.json", "{\"saved\": \"many\", \"of\": \"shared\"}");
  EXPECT_EQ(newest_state(directory_, id_).at("of"), "shared");
  fs::create_directories(fs::path(copy_).parent_path());
  write_atomically(copy_, "{\"saved\": 1, \"of\": \"copy\"}");
  EXPECT_EQ(newest_state(directory_, id_).at("of"), "copy");
}

}  // namespace
}  // namespace reprise::job
