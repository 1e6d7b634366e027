// SPDX-License-Identifier: GPL-2.0-only
// What crrun writes into JOBDIR, which may be gone, full or hanging.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crrun/recorder.h"
#include "job/files.h"

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
    EXPECT_TRUE(fs::exists(copy_));
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

TEST_F(Recording, AStateWithANonsensicalNumberIsOlderThanAnyOther) {
  write_atomically(directory_ + "/state.json", "{\"saved\": \"many\", \"of\": \"shared\"}");
  EXPECT_EQ(newest_state(directory_, id_).at("of"), "shared");
  fs::create_directories(fs::path(copy_).parent_path());
  write_atomically(copy_, "{\"saved\": 1, \"of\": \"copy\"}");
  EXPECT_EQ(newest_state(directory_, id_).at("of"), "copy");
}

}  // namespace
}  // namespace reprise::job
