// SPDX-License-Identifier: GPL-2.0-only
// Tests of the parts of the daemon that need no rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "base/unique_fd.h"
#include "crd/environment.h"
#include "crd/framed.h"
#include "crd/image_store.h"
#include "crd/lanes.h"
#include "crd/manifest.h"
#include "crd/pid_bands.h"
#include "crd/pmix_messages.pb.h"
#include "crd/prewarm.h"
#include "crd/staging.h"
#include "job/files.h"
#include "job/names.h"
#include "rank_lanes.h"

namespace reprise::crd {
namespace {

namespace fs = std::filesystem;

class OnDisk : public ::testing::Test {
 protected:
  OnDisk() {
    char name[] = "/tmp/crd-disk-XXXXXX";
    directory_ = ::mkdtemp(name);
    fs::create_directory(shared());
  }
  ~OnDisk() override { fs::remove_all(directory_); }
  /** Create a committed image of @p bytes. @return its path */
  std::string image(std::uint32_t wave, std::uint32_t rank, std::size_t bytes) {
    const std::string path = job::image_path(local(), wave, rank);
    fs::create_directories(fs::path(path).parent_path());
    std::string content(bytes, 0);
    for (std::size_t i = 0; i < bytes; ++i) content[i] = static_cast<char>(i * 7 + i / 4096);
    job::write_atomically(path, content);
    Manifest manifest;
    manifest.wave = wave;
    manifest.rank = rank;
    manifest.bytes = bytes;
    manifest.checksum = file_checksum(path);
    manifest.streams = {{1, 77}, {2, 0}};
    manifest.pipes = {{1, 1}, {2, 2}, {7, 1}};
    manifest.files = mapped_files(::getpid());
    job::write_atomically(job::manifest_path(path), manifest_text(manifest));
    return path;
  }
  std::string local() const { return directory_ + "/local"; }
  std::string shared() const { return directory_ + "/shared"; }
  std::string directory_;
};

TEST(Framed, TakesMemoryAsBytesComeAndNotAsTheyAreAnnounced) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd in(ends[0]);
  UniqueFd out(ends[1]);
  ASSERT_EQ(::write(out.get(), "\xff\xff\xff\x1f" "few", 7), 7);
  out.reset();
  std::string message;
  EXPECT_FALSE(read_framed(in.get(), message));
  EXPECT_LT(message.capacity(), 16u << 20);
}

TEST(Framed, LongMessagesComeWhole) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd in(ends[0]);
  UniqueFd out(ends[1]);
  FromPmix sent;
  sent.mutable_blob()->set_data(std::string(3'000'000, 'x'));
  std::thread writer([&] { write_framed(out.get(), sent); });
  std::string message;
  EXPECT_TRUE(read_framed(in.get(), message));
  writer.join();
  EXPECT_EQ(message, sent.SerializeAsString());
}

TEST_F(OnDisk, ManifestsNameFilesThatAreNotUtf8) {
  Manifest manifest;
  manifest.files = {"/tmp/caf\xe9", "/tmp/plain"};
  job::write_atomically(directory_ + "/rank-1.json", manifest_text(manifest));
  EXPECT_EQ(read_manifest(directory_ + "/rank-1.json").files.back(), "/tmp/plain");
}

TEST_F(OnDisk, ManifestsWithImpossibleStreamsAreRefused) {
  const auto with = [&](const std::string& more) {
    job::write_atomically(directory_ + "/rank-1.json", R"({"wave":1,"rank":1,"pid":1,"bytes":1,"checksum":"1",)" + more + "}");
    return read_manifest(directory_ + "/rank-1.json");
  };
  EXPECT_NO_THROW(with(R"("pipes":{"1":1},"streams":{"2":5})"));
  EXPECT_THROW(with(R"("pipes":{"-1":1})"), std::runtime_error);
  EXPECT_THROW(with(R"("pipes":{"1":3})"), std::runtime_error);
  EXPECT_THROW(with(R"("streams":{"4294967297":5})"), std::runtime_error);
}

TEST_F(OnDisk, ManifestsComeThrough) {
  const Manifest manifest = read_manifest(job::manifest_path(image(2, 5, 100)));
  EXPECT_EQ(manifest.rank, 5u);
  EXPECT_EQ(manifest.streams.at(1), 77u);
  EXPECT_EQ(manifest.pipes.at(7), 1u);
  const std::string own = fs::read_symlink("/proc/self/exe");
  EXPECT_EQ(std::count(manifest.files.begin(), manifest.files.end(), own), 1);
  job::write_atomically(directory_ + "/bad.json", "{\"wave\": 1}");
  EXPECT_THROW(read_manifest(directory_ + "/bad.json"), std::runtime_error);
}

TEST_F(OnDisk, KnowsWhatItStores) {
  image(1, 0, 1000);
  image(2, 0, 500);
  ASSERT_EQ(image_store::begin_wave(local(), 3), "");
  EXPECT_EQ(image_store::list(local()).size(), 2u);
  EXPECT_GT(image_store::used_bytes(local()), 1500u);
  EXPECT_GT(image_store::free_bytes(local()), 0u);
  EXPECT_GT(image_store::free_bytes(directory_ + "/not/there/yet"), 0u);
  image_store::prune(local(), {2});
  EXPECT_EQ(image_store::list(local()).size(), 1u);
  EXPECT_TRUE(fs::exists(job::wave_part_directory(local(), 3)));
  ASSERT_EQ(image_store::commit_wave(local(), 3), "");
  EXPECT_TRUE(fs::exists(job::wave_directory(local(), 3)));
  ASSERT_EQ(image_store::begin_wave(local(), 4), "");
  image_store::drop_part(local(), 4);
  EXPECT_FALSE(fs::exists(job::wave_part_directory(local(), 4)));
}

TEST_F(OnDisk, StagesGoesOnAndChecks) {
  const std::string from = image(1, 0, 5 << 20), to = job::image_path(shared(), 1, 0);
  // Interrupted after two pieces.
  int pieces = 0;
  CopyLimits limits;
  limits.keep_on = [&] { return ++pieces <= 2; };
  EXPECT_THROW(stage_image(from, to, limits), std::system_error);
  EXPECT_FALSE(fs::exists(to));
  const std::string part = fs::path(to).parent_path() / ".rank-0.img.part";
  ASSERT_EQ(fs::file_size(part), 2u << 20);
  // A partial copy with other content is not reused.
  job::write_atomically(part, std::string(2 << 20, 'x'));
  EXPECT_EQ(stage_image(from, to, {}), 5u << 20);
  EXPECT_EQ(file_checksum(to), file_checksum(from));
  EXPECT_FALSE(fs::exists(part));
  EXPECT_EQ(read_manifest(job::manifest_path(to)).bytes, 5u << 20);
  // Damage of the source is found before it reaches the copy.
  const std::string other = image(1, 1, 3 << 20);
  std::string content = job::read_file(other);
  content[12345] ^= 1;
  job::write_atomically(other, content);
  EXPECT_THROW(stage_image(other, job::image_path(shared(), 1, 1), {}), std::runtime_error);
  EXPECT_FALSE(fs::exists(job::image_path(shared(), 1, 1)));
}

TEST_F(OnDisk, StagesNothingWhereSharedStorageIsNotMounted) {
  const std::string from = image(1, 0, 1000);
  fs::remove_all(shared());
  EXPECT_THROW(stage_image(from, job::image_path(shared(), 1, 0), {}), std::system_error);
  EXPECT_FALSE(fs::exists(shared()));
}

TEST_F(OnDisk, StagesNoFasterThanAllowed) {
  const std::string from = image(1, 0, 4 << 20);
  CopyLimits limits;
  limits.bytes_per_second = 8 << 20;
  const auto begin = std::chrono::steady_clock::now();
  stage_image(from, job::image_path(shared(), 1, 0), limits);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(450));
}

TEST(PidBands, WhatIsStartedKeepsClearOfWhatIsRestarted) {
  EXPECT_EQ(clear_of(8449, {}), 8449);
  EXPECT_EQ(clear_of(8449, {8451}), 8451 + 256);
  EXPECT_EQ(clear_of(8449, {8460, 8451, 8800}), 8800 + 256);
  EXPECT_EQ(clear_of(8449, {8449, 20, 30'000}), 8449) << "these are behind, or far away";
}

TEST(PidBands, DoNotOverlapAndFit) {
  for (const int pid_max : {32768, 4194304})
    for (const std::uint32_t nodes : {1u, 4u, 100u})
      for (std::uint32_t node = 0; node < nodes; ++node) {
        const PidBand band = pid_band(node, nodes, pid_max);
        EXPECT_GE(band.first, pid_max / 4);
        EXPECT_LT(band.last, pid_max);
        EXPECT_LT(band.first, band.last);
        if (node) {
          EXPECT_GT(band.first, pid_band(node - 1, nodes, pid_max).last);
        }
      }
}

TEST(Lanes, AreAsTheRanksExpectThem) {
  const std::vector<std::uint32_t> ranks{3, 7, 12};
  const reprise::UniqueFd memory = make_lanes(ranks), other = make_lanes(ranks);
  struct stat status {};
  ASSERT_EQ(::fstat(memory.get(), &status), 0);
  cr_lanes header{}, other_header{};
  ASSERT_EQ(::pread(memory.get(), &header, sizeof header, 0), static_cast<ssize_t>(sizeof header));
  ASSERT_EQ(::pread(other.get(), &other_header, sizeof other_header, 0), static_cast<ssize_t>(sizeof header));
  EXPECT_EQ(header.magic, CR_LANES_MAGIC);
  EXPECT_EQ(header.ranks, 3u);
  EXPECT_NE(header.id, other_header.id);
  EXPECT_EQ(static_cast<std::size_t>(status.st_size), cr_lanes_bytes(3, header.lane_bytes));
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    cr_lanes_rank line{};
    ASSERT_EQ(::pread(memory.get(), &line, sizeof line, static_cast<off_t>(sizeof header + i * sizeof line)), static_cast<ssize_t>(sizeof line));
    EXPECT_EQ(line.rank, ranks[i]);
    EXPECT_EQ(line.mapped, 0u);
  }
  EXPECT_NE(::ftruncate(memory.get(), 0), 0) << "a rank would die by SIGBUS";
}

TEST(Lanes, TakeABoundedAmountOfMemory) {
  for (std::uint32_t ranks = 2; ranks <= CR_LANES_RANKS; ++ranks) {
    const std::uint64_t bytes = cr_lane_bytes(ranks);
    EXPECT_EQ(bytes & (bytes - 1), 0u);
    EXPECT_TRUE(bytes == CR_LANES_PAGE || bytes * ranks * ranks <= 128u << 20) << ranks;
  }
  EXPECT_EQ(cr_lane_bytes(22), 256u << 10);
}

TEST(RankEnvironment, GivesWayToTheUser) {
  job::JobSpec job;
  auto* variable = job.add_environment();
  variable->set_name("OMPI_MCA_btl");
  variable->set_value("tcp,self");
  job.add_crtcp_interfaces("eth1");
  job.add_crtcp_interfaces("10.0.0.0/8");
  const auto environment = rank_environment(job, {"PMIX_RANK=3", "PMIX_MCA_gds=shmem2"}, "/s", false);
  EXPECT_STREQ(find_variable(environment, "OMPI_MCA_btl"), "tcp,self");
  EXPECT_STREQ(find_variable(environment, "OMPI_MCA_pml"), "ob1");
  EXPECT_STREQ(find_variable(environment, "OMPI_MCA_btl_crtcp_if_include"), "eth1,10.0.0.0/8");
  EXPECT_STREQ(find_variable(environment, "PMIX_RANK"), "3");
  EXPECT_STREQ(find_variable(environment, "PMIX_MCA_gds"), "hash");
  EXPECT_STREQ(find_variable(environment, "CR_RANK_SOCKET"), "/s");
}

TEST(RankEnvironment, LetsRanksWaitWhereTheyAreManyUnlessTheUserSaysOtherwise) {
  job::JobSpec job;
  auto* variable = job.add_environment();
  variable->set_name("OMPI_MCA_btl_crtcp_spin");
  variable->set_value("7");
  EXPECT_EQ(find_variable(rank_environment(job, {}, "/s", false), "OMPI_MCA_mpi_yield_when_idle"), nullptr);
  const auto environment = rank_environment(job, {}, "/s", true);
  EXPECT_STREQ(find_variable(environment, "OMPI_MCA_mpi_yield_when_idle"), "1");
  EXPECT_STREQ(find_variable(environment, "OMPI_MCA_btl_crtcp_spin"), "7");
  EXPECT_EQ(crowded_spin(job), 7u);
  EXPECT_EQ(crowded_spin({}), 200u);
}

}  // namespace
}  // namespace reprise::crd
