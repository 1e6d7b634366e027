// SPDX-License-Identifier: GPL-2.0-only
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include <sys/stat.h>
#include <unistd.h>

#include "job/daemon_start.h"
#include "job/files.h"
#include "job/keys.h"
#include "job/names.h"

namespace reprise::job {
namespace {

class Files : public ::testing::Test {
 protected:
  Files() {
    char name[] = "/tmp/job-files-XXXXXX";
    directory_ = ::mkdtemp(name);
  }
  ~Files() override { std::filesystem::remove_all(directory_); }
  std::string directory_;
};

TEST_F(Files, ReplacesAWholeFileAndLeavesNothingBeside) {
  const std::string path = directory_ + "/state.json";
  write_atomically(path, "old");
  write_atomically(path, std::string(100000, 'n'));
  EXPECT_EQ(read_file(path), std::string(100000, 'n'));
  struct stat st {};
  ASSERT_EQ(::stat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 1);
}

TEST_F(Files, NamesWhatCannotBeWritten) {
  EXPECT_THROW(
      {
        try {
          write_atomically(directory_ + "/none/state.json", "x");
        } catch (const std::exception& error) {
          EXPECT_THAT(error.what(), ::testing::HasSubstr("none/state.json"));
          throw;
        }
      },
      std::exception);
}

// In a directory that others write somebody can make the temporary file first: as a link to a file of ours, or as theirs.
TEST_F(Files, TakesNoFileThatStandsBeside) {
  const std::string path = directory_ + "/state.json", other = directory_ + "/other";
  const std::string part = path + ".part" + std::to_string(::getpid());
  write_atomically(other, "mine");
  ASSERT_EQ(::symlink(other.c_str(), part.c_str()), 0);
  write_atomically(path, "new");
  EXPECT_EQ(read_file(other), "mine");
  ASSERT_EQ(::link(other.c_str(), part.c_str()), 0);
  write_atomically(path, "newer");
  EXPECT_EQ(read_file(other), "mine");
  EXPECT_EQ(read_file(path), "newer");
}

TEST_F(Files, MakesPrivateDirectoriesAndDistrustsOthers) {
  const std::string path = directory_ + "/a/b";
  make_private_directory(path);
  make_private_directory(path);
  struct stat st {};
  ASSERT_EQ(::stat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0700u);
  ASSERT_EQ(::chmod(path.c_str(), 0777), 0);
  EXPECT_THROW(make_private_directory(path), std::runtime_error);
  std::filesystem::create_directory_symlink(directory_, directory_ + "/link");
  EXPECT_THROW(make_private_directory(directory_ + "/link"), std::runtime_error);
}

TEST(Names, KeepJobsInTheirPlace) {
  EXPECT_TRUE(valid_job_id(make_job_id()));
  for (const char* bad : {"", "..", "a/b", "a b", "\n"}) EXPECT_FALSE(valid_job_id(bad)) << bad;
  EXPECT_EQ(image_path("/l/id", 3, 4), "/l/id/wave-3/rank-4.img");
  EXPECT_NE(random_name(16), random_name(16));
  EXPECT_TRUE(valid_job_id(random_name(16)));
  EXPECT_EQ(manifest_path("/l/id/wave-3/rank-4.img"), "/l/id/wave-3/rank-4.json");
}

TEST(DaemonStartLine, ComesThrough) {
  DaemonStart start;
  start.job = "cr-1";
  start.node = 3;
  start.addresses = {"tcp://10.0.0.1:5", "tcp://[::1]:5"};
  start.server_public_key = make_key_pair().public_key;
  start.client = make_key_pair();
  start.run_directory = run_directory("cr-1", random_name(16));
  const DaemonStart got = parse_daemon_start(daemon_start_line(start));
  EXPECT_EQ(got.job, "cr-1");
  EXPECT_EQ(got.node, 3u);
  EXPECT_EQ(got.addresses, start.addresses);
  EXPECT_EQ(got.run_directory, start.run_directory);
  EXPECT_EQ(got.client.secret_key, start.client.secret_key);
  EXPECT_FALSE(got.relays);
  EXPECT_TRUE(got.parent_addresses.empty());
  EXPECT_EQ(daemon_start_line(start).find("parent"), std::string::npos);
  for (const char* bad : {"", "/tmp/", "/home", "/tmp/../home"}) {
    start.run_directory = bad;
    EXPECT_THROW(parse_daemon_start(daemon_start_line(start)), std::runtime_error) << bad;
  }
  start.run_directory = got.run_directory;
  start.job = "../x";
  EXPECT_THROW(parse_daemon_start(daemon_start_line(start)), std::runtime_error);
  EXPECT_THROW(parse_daemon_start("{}"), std::runtime_error);
  EXPECT_THROW(parse_daemon_start("no json"), std::runtime_error);
}

TEST(DaemonStartLine, TellsTheParent) {
  DaemonStart start;
  start.job = "cr-1";
  start.addresses = {"tcp://10.0.0.1:5"};
  start.server_public_key = make_key_pair().public_key;
  start.client = make_key_pair();
  start.run_directory = "/tmp/reprise-cr-1-0";
  start.relays = true;
  start.interfaces = {"eth0"};
  start.parent_addresses = {"tcp://10.0.0.2:6"};
  EXPECT_THROW(parse_daemon_start(daemon_start_line(start)), std::runtime_error) << "without its key nobody is to be trusted";
  start.parent_public_key = make_key_pair().public_key;
  const DaemonStart got = parse_daemon_start(daemon_start_line(start));
  EXPECT_TRUE(got.relays);
  EXPECT_EQ(got.interfaces, start.interfaces);
  EXPECT_EQ(got.parent_addresses, start.parent_addresses);
  EXPECT_EQ(got.parent_public_key, start.parent_public_key);
}

TEST(DaemonStartLine, IsSharedByDaemonsThatOneSrunStarts) {
  std::vector<DaemonStart> starts(3);
  const KeyPair keys = make_key_pair();
  for (std::uint32_t i = 0; i < 3; ++i) {
    DaemonStart& start = starts[i];
    start.job = "cr-1";
    start.node = 5 + i;
    start.addresses = {"tcp://10.0.0.1:5"};
    start.server_public_key = keys.public_key;
    start.client = keys;
    start.run_directory = "/tmp/reprise-cr-1-0";
    if (i) start.parent_addresses = {"tcp://10.0.0.2:6"};
    if (i) start.parent_public_key = keys.public_key;
  }
  starts[0].relays = true;
  starts[0].interfaces = {"eth0"};
  const std::string line = daemon_start_line(starts, {"a", "b", "c"});
  EXPECT_EQ(line.find("10.0.0.2:6"), line.rfind("10.0.0.2:6")) << "a parent is named once";
  const DaemonStart a = parse_daemon_start(line, "a"), c = parse_daemon_start(line, "c");
  EXPECT_EQ(a.node, 5u);
  EXPECT_TRUE(a.relays);
  EXPECT_EQ(a.interfaces, starts[0].interfaces);
  EXPECT_TRUE(a.parent_addresses.empty());
  EXPECT_EQ(c.node, 7u);
  EXPECT_FALSE(c.relays);
  EXPECT_EQ(c.parent_addresses, starts[2].parent_addresses);
  EXPECT_EQ(c.client.secret_key, keys.secret_key);
  EXPECT_THROW(parse_daemon_start(line, "d"), std::runtime_error);
  EXPECT_THROW(parse_daemon_start(line), std::runtime_error);
}

TEST(ConnectionName, TellsWhoseItIs) {
  EXPECT_EQ(node_of_connection(connection_name(17, "ab-1")), 17u);
  for (const char* other : {"", "node-", "node-x", "node-1", "crjob-1-2", "node--1-x"}) EXPECT_FALSE(node_of_connection(other)) << other;
}

TEST(Keys, AreNew) {
  EXPECT_NE(make_key_pair().secret_key, make_key_pair().secret_key);
  EXPECT_EQ(random_bytes(32).size(), 32u);
}

}  // namespace
}  // namespace reprise::job
