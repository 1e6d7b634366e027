// SPDX-License-Identifier: GPL-2.0-only
// Tests of the parts of the daemon that need no rank.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <thread>

#include "base/unique_fd.h"
#include "crd/beside.h"
#include "crd/environment.h"
#include "crd/framed.h"
#include "crd/image_store.h"
#include "crd/lanes.h"
#include "crd/images/manifest.h"
#include "crd/pid_bands.h"
#include "crd/pmix_messages.pb.h"
#include "crd/prewarm.h"
#include "crd/staging.h"
#include "job/files.h"
#include "job/names.h"
#include "on_disk.h"
#include "rank_lanes.h"

namespace reprise::crd {
namespace {

namespace fs = std::filesystem;
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

TEST_F(OnDisk, ManifestsHaveTheSizesOfKeptMemory) {
  Manifest manifest;
  manifest.kept = {{"log", 4096}, {"store", std::uint64_t{1} << 40}};
  job::write_atomically(directory_ + "/rank-1.json", manifest_text(manifest));
  EXPECT_EQ(read_manifest(directory_ + "/rank-1.json").kept, manifest.kept);
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
  const Manifest manifest = read_manifest(job::manifest_path(image(2, 5, 4)));
  EXPECT_EQ(manifest.rank, 5u);
  EXPECT_EQ(manifest.streams.at(1), 77u);
  EXPECT_EQ(manifest.pipes.at(7), 1u);
  const std::string own = fs::read_symlink("/proc/self/exe");
  EXPECT_EQ(std::count(manifest.files.begin(), manifest.files.end(), own), 1);
  job::write_atomically(directory_ + "/bad.json", "{\"wave\": 1}");
  EXPECT_THROW(read_manifest(directory_ + "/bad.json"), std::runtime_error);
}

TEST_F(OnDisk, KnowsWhatItStores) {
  image(1, 0, 4);
  image(2, 0, 4);
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
  const std::string from = image(1, 0, 5 * kMegabyte), to = job::image_path(shared(), 1, 0);
  // Interrupted behind the headers, three runs of few pages, and two megabytes.
  int pieces = 0;
  CopyLimits limits;
  limits.keep_on = [&] { return ++pieces <= 6; };
  EXPECT_THROW(stage_image(from, to, limits), std::system_error);
  EXPECT_FALSE(fs::exists(to));
  const std::string part = fs::path(to).parent_path() / ".rank-0.img.part";
  ASSERT_EQ(fs::file_size(part) >> 20, 2u);
  // A partial copy with other content is not reused.
  job::write_atomically(part, std::string(2 << 20, 'x'));
  EXPECT_EQ(stage_image(from, to, {}).bytes, fs::file_size(from));
  EXPECT_EQ(job::read_file(to), job::read_file(from));
  EXPECT_FALSE(fs::exists(part));
  EXPECT_EQ(read_manifest(job::manifest_path(to)).bytes, fs::file_size(from));
  // Damage of the source is found before it reaches the copy.
  const std::string other = image(1, 1, 3 * kMegabyte);
  std::string content = job::read_file(other);
  content[content.size() / 2] ^= 1;
  job::write_atomically(other, content);
  EXPECT_THROW(stage_image(other, job::image_path(shared(), 1, 1), {}), std::runtime_error);
  EXPECT_FALSE(fs::exists(job::image_path(shared(), 1, 1)));
}

TEST_F(OnDisk, StagesNothingWhereSharedStorageIsNotMounted) {
  const std::string from = image(1, 0, 4);
  fs::remove_all(shared());
  EXPECT_THROW(stage_image(from, job::image_path(shared(), 1, 0), {}), std::system_error);
  EXPECT_FALSE(fs::exists(shared()));
}

TEST_F(OnDisk, StagesNoFasterThanAllowed) {
  const std::string from = image(1, 0, 4 * kMegabyte);
  CopyLimits limits;
  limits.bytes_per_second = 8 << 20;
  const auto begin = std::chrono::steady_clock::now();
  stage_image(from, job::image_path(shared(), 1, 0), limits);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(450));
}

const auto few = [](std::uint64_t page) { return page % 100 == 7; };

TEST_F(OnDisk, WritesOverADroppedCopy) {
  image(1, 0, 2 * kMegabyte);
  const std::string from = image(4, 0, 2 * kMegabyte, few), to = job::image_path(shared(), 4, 0), old = dropped(1);
  struct stat before {}, after {};
  ASSERT_EQ(::stat(old.c_str(), &before), 0);
  const Copied copied = stage_image(from, to, {}, {old, 16});
  EXPECT_EQ(copied.bytes, fs::file_size(from));
  EXPECT_EQ(copied.bytes - copied.kept, Image::open(from).meta_bytes() + 6 * image::kPage);
  EXPECT_EQ(job::read_file(to), job::read_file(from));
  ASSERT_EQ(::stat(to.c_str(), &after), 0);
  EXPECT_EQ(before.st_ino, after.st_ino);
  EXPECT_FALSE(fs::exists(old));
  EXPECT_EQ(read_manifest(job::manifest_path(to)).rewritten, 1u);
}

TEST_F(OnDisk, CopiesAreWholeAgainAfterATime) {
  image(1, 0, 4);
  const std::string old = dropped(1);
  for (std::uint32_t wave = 2; wave <= 4; ++wave) {
    const Copied copied = stage_image(image(wave, 0, 4), job::image_path(shared(), wave, 0), {}, {old, 2});
    EXPECT_EQ(copied.kept > 0, wave < 4) << wave;
    EXPECT_EQ(read_manifest(job::manifest_path(job::image_path(shared(), wave, 0))).rewritten, wave < 4 ? wave - 1 : 0);
    fs::remove_all(job::dropped_directory(shared()));
    fs::rename(job::wave_directory(shared(), wave), job::dropped_directory(shared()));
  }
}

TEST_F(OnDisk, WhatIsBeingWrittenOverIsNoImage) {
  image(1, 0, 2 * kMegabyte);
  const std::string from = image(4, 0, 2 * kMegabyte, few), to = job::image_path(shared(), 4, 0), old = dropped(1);
  int pieces = 0;
  CopyLimits limits;
  limits.keep_on = [&] { return ++pieces <= 4; };
  EXPECT_THROW(stage_image(from, to, limits, {old, 16}), std::system_error);
  EXPECT_FALSE(fs::exists(to));
  const std::string part = fs::path(to).parent_path() / ".rank-0.img.part";
  ASSERT_TRUE(fs::exists(part));
  EXPECT_THROW(Image::open(part), std::runtime_error);
  stage_image(from, to, {}, {old, 16});
  EXPECT_EQ(job::read_file(to), job::read_file(from));
}

TEST_F(OnDisk, WritesOverNothingThatIsNoImage) {
  image(1, 0, 100);
  const std::string from = image(4, 0, 100, few), to = job::image_path(shared(), 4, 0), old = dropped(1);
  job::write_atomically(old, std::string(100'000, 'x'));
  EXPECT_EQ(stage_image(from, to, {}, {old, 16}).kept, 0u);
  EXPECT_EQ(job::read_file(to), job::read_file(from));
  EXPECT_EQ(read_manifest(job::manifest_path(to)).rewritten, 0u);
}

// The dropped copy has more pages, so that all that follows lies elsewhere.
TEST_F(OnDisk, WritesOverACopyOfAnotherLayout) {
  image(1, 0, 300);
  const std::string from = image(4, 0, 200, few), to = job::image_path(shared(), 4, 0), old = dropped(1);
  EXPECT_GT(stage_image(from, to, {}, {old, 16}).kept, 100 * image::kPage);
  EXPECT_EQ(job::read_file(to), job::read_file(from));
}

TEST_F(OnDisk, ParentsAreImagesThatAreThere) {
  const std::string one = image(3, 0, 4), two = image(2, 1, 4);
  Manifest manifest = read_manifest(job::manifest_path(two));
  manifest.generations = 4;
  job::write_atomically(job::manifest_path(two), manifest_text(manifest));
  ASSERT_EQ(image_store::begin_wave(local(), 5), "");
  const std::string part = job::wave_part_directory(local(), 5);
  const auto found = image_store::parents(local(), 5, {{0, 3}, {1, 2}, {2, 3}}, 5);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found.at(0).path, part + "/rank-0.base-3");
  EXPECT_TRUE(found.at(0).delta);
  EXPECT_TRUE(fs::equivalent(found.at(0).path, one));
  EXPECT_EQ(found.at(0).generations, 1u);
  EXPECT_TRUE(fs::equivalent(part + "/rank-1.base-2", two));
  EXPECT_EQ(found.at(1).generations, 5u);
  ASSERT_EQ(image_store::begin_wave(local(), 6), "");
  EXPECT_EQ(image_store::parents(local(), 6, {{0, 3}, {1, 2}}, 4).count(1), 0u) << "it is to be whole again";
  fs::remove(one);
  ASSERT_EQ(image_store::begin_wave(local(), 7), "");
  EXPECT_EQ(image_store::parents(local(), 7, {{0, 3}}, 5).size(), 0u);
  // Where a name cannot be given, the parent's pages are copied.
  ASSERT_EQ(image_store::begin_wave(local(), 8), "");
  job::write_atomically(job::wave_part_directory(local(), 8) + "/rank-1.base-2", "in the way");
  const auto other = image_store::parents(local(), 8, {{1, 2}}, 5);
  ASSERT_EQ(other.size(), 1u);
  EXPECT_EQ(other.at(1).path, two);
  EXPECT_FALSE(other.at(1).delta);
}

TEST_F(OnDisk, WavesOfDeltasLastAsLongAsTheyAreNeeded) {
  image(1, 0, 2 * kMegabyte);
  const std::uint64_t first = image_store::used_bytes(local());
  std::string newest;
  for (std::uint32_t wave = 2; wave <= 5; ++wave)
    newest = delta(wave, wave - 1, 2 * kMegabyte, [wave](std::uint64_t page) { return page % 100 == wave; });
  const std::uint64_t used = image_store::used_bytes(local());
  EXPECT_LT(used, first + first / 2) << "files with several names count once";
  EXPECT_GT(used, first);
  const auto names = [&](std::uint32_t wave) {
    std::set<std::string> out;
    for (const auto& entry : fs::directory_iterator(job::wave_directory(local(), wave))) out.insert(entry.path().filename());
    return out;
  };
  EXPECT_THAT(names(5), ::testing::ElementsAre("rank-0.base-1", "rank-0.base-2", "rank-0.base-3", "rank-0.base-4", "rank-0.img",
                                               "rank-0.json"));
  image_store::prune(local(), {4, 5});
  EXPECT_FALSE(fs::exists(job::wave_directory(local(), 1)));
  Image::open(newest).verify_all();
  EXPECT_EQ(Image::open(newest).bases().size(), 4u);
  const std::vector<job::StoredImage> stored = image_store::list(local());
  ASSERT_EQ(stored.size(), 2u) << "the other names are no images";
  for (const job::StoredImage& one : stored) EXPECT_GT(one.bytes(), first / 2) << "as an image that stands alone";

  // What no image needs any more is removed with the wave that had it.
  const std::string whole = delta(6, 5, 2 * kMegabyte, [](std::uint64_t) { return true; });
  EXPECT_THAT(names(6), ::testing::Not(::testing::Contains("rank-0.base-4")));
  Image::open(whole).verify_all();
  image_store::prune(local(), {6});
  Image::open(whole).verify_all();
  EXPECT_LT(image_store::used_bytes(local()), first + first / 2);
}

TEST_F(OnDisk, CopiesOfDeltasStandAlone) {
  image(1, 0, 2 * kMegabyte);
  const std::string old = dropped(1);
  const std::string from = delta(2, 1, 2 * kMegabyte, few), to = job::image_path(shared(), 2, 0);
  const Manifest here = read_manifest(job::manifest_path(from));
  EXPECT_EQ(here.delta, fs::file_size(from));
  EXPECT_LT(here.delta, here.bytes / 2);
  const Copied copied = stage_image(from, to, {}, {old, 16});
  EXPECT_EQ(copied.bytes, fs::file_size(to));
  EXPECT_LT(copied.bytes - copied.kept, copied.bytes / 4) << "what the dropped copy has is not copied";
  const Image copy = Image::open(to);
  EXPECT_TRUE(copy.bases().empty());
  copy.verify_all();
  const Manifest there = read_manifest(job::manifest_path(to));
  EXPECT_EQ(there.bytes, fs::file_size(to));
  EXPECT_EQ(there.checksum, copy.checksum());
  EXPECT_EQ(there.checksum, here.checksum);
  EXPECT_EQ(there.delta, 0u);
  EXPECT_EQ(stage_image(from, to, {}).kept, 0u) << "it is there";

  // Damage in a file that it needs is found.
  const std::string base = fs::path(from).parent_path() / "rank-0.base-1";
  std::string content = job::read_file(base);
  const std::uint64_t page = content.size() / 2 / image::kPage * image::kPage;
  for (std::uint64_t at = page; at < page + 8 * image::kPage; at += image::kPage) content[at] = static_cast<char>(content[at] ^ 1);
  job::write_atomically(base, content);
  fs::remove_all(job::wave_directory(shared(), 2));
  EXPECT_THROW(stage_image(from, to, {}), std::runtime_error);
  EXPECT_FALSE(fs::exists(to));
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

TEST(RankEnvironment, TellsHowToStartAJobBesideThisOne) {
  job::JobSpec job;
  job.set_lost_after_ms(4000);
  job.set_local_directory("/l");
  job.set_shared_directory("/s");
  job.add_crtcp_interfaces("eth1");
  auto* variable = job.add_environment();
  variable->set_name("SECRET");
  variable->set_value("word");
  std::vector<job::Node> nodes(3);
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    nodes[i].set_index(i);
    nodes[i].set_host("node" + std::to_string(i + 1));
    nodes[i].set_slots(i + 1);
  }
  nodes[2].set_spare(true);
  const auto values = [&](const std::map<std::uint32_t, std::uint32_t>& placement) {
    std::map<std::string, std::string> out;
    for (const auto& [name, value] : variables_beside(job, nodes, placement, "/bin/crrun")) out[name] = value;
    return out;
  };
  auto found = values({{0, 0}});
  EXPECT_EQ(found["REPRISE_CRRUN"],
            "/bin/crrun\n--oversubscribe\n--detect\n6000ms\n--local\n/l\n--spares\nnode3:3\n--shared\n/s\n--interface\neth1\n-x\nSECRET");
  EXPECT_EQ(found["REPRISE_HOSTS"], "node2:2");
  EXPECT_EQ(values({{0, 0}, {1, 1}})["REPRISE_HOSTS"], "node2:1");
  EXPECT_EQ(values({{0, 0}, {1, 1}, {2, 1}})["REPRISE_HOSTS"], "node1:1,node2:2");  // no slot is free
}

}  // namespace
}  // namespace reprise::crd
