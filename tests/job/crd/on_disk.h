// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Directories of a node and of shared storage, with small images in waves. */
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "crd/image_store.h"
#include "crd/images/copying.h"
#include "crd/images/manifest.h"
#include "crd/prewarm.h"
#include "crd/staging.h"
#include "image/delta.h"
#include "image/whole.h"
#include "image_sample.h"
#include "job/files.h"
#include "job/names.h"

namespace reprise::crd {

inline constexpr std::uint64_t kMegabyte = 256;  // pages

class OnDisk : public ::testing::Test {
 protected:
  OnDisk() {
    char name[] = "/tmp/crd-disk-XXXXXX";
    directory_ = ::mkdtemp(name);
    std::filesystem::create_directory(shared());
  }
  ~OnDisk() override { std::filesystem::remove_all(directory_); }
  using Changed = std::function<bool(std::uint64_t page)>;
  /**
   * Create a committed image with so many pages in its last mapping.
   * @param changed whether a page of that, by its number, has other content than usual
   * @return its path
   */
  std::string image(std::uint32_t wave, std::uint32_t rank, std::uint64_t pages, const Changed& changed = nullptr) {
    const std::string path = job::image_path(local(), wave, rank);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    reprise::test::Sample sample = reprise::test::small_sample();
    cr_range& last = sample.runs.back();
    last.len = pages * image::kPage;
    sample.process.mutable_mappings(sample.process.mappings_size() - 1)->set_end(last.addr + last.len);
    ImageWriter writer(path);
    writer.begin(sample.process, sample.regs, sample.runs);
    for (const cr_range& run : sample.runs)
      for (std::uint64_t page = 0; page < run.len / image::kPage; ++page) {
        const std::uint64_t at = run.addr + page * image::kPage;
        const bool other = changed && run.addr == last.addr && changed(page);
        writer.write_pages(at, (other ? std::string(image::kPage, 'c') : reprise::test::Sample::page(at)).data(), image::kPage);
      }
    writer.write_blob(0, sample.blob.data(), sample.blob.size());
    writer.finish();
    Manifest manifest;
    manifest.wave = wave;
    manifest.rank = rank;
    manifest.bytes = std::filesystem::file_size(path);
    manifest.checksum = Image::open(path).checksum();
    manifest.streams = {{1, 77}, {2, 0}};
    manifest.pipes = {{1, 1}, {2, 2}, {7, 1}};
    manifest.files = mapped_files(::getpid());
    job::write_atomically(job::manifest_path(path), manifest_text(manifest));
    return path;
  }
  /** Take wave @p wave with an image of rank 0, as a delta of that of wave @p before. @return its path */
  std::string delta(std::uint32_t wave, std::uint32_t before, std::uint64_t pages, const Changed& changed) {
    EXPECT_EQ(image_store::begin_wave(local(), wave), "");
    const image_store::Parent parent = image_store::parents(local(), wave, {{0, before}}, 100).at(0);
    EXPECT_TRUE(parent.delta);
    const std::string part = job::wave_part_directory(local(), wave) + "/rank-0.img";
    reprise::test::Sample sample = reprise::test::small_sample();
    cr_range& last = sample.runs.back();
    last.len = pages * image::kPage;
    sample.process.mutable_mappings(sample.process.mappings_size() - 1)->set_end(last.addr + last.len);
    const Image from = Image::open(parent.path);
    std::vector<cr_range> own, others(sample.runs.begin(), sample.runs.end() - 1);
    for (std::uint64_t page = 0; page < pages; ++page)
      (changed(page) ? own : others).push_back({last.addr + page * image::kPage, image::kPage});
    {
      ImageWriter writer(part);
      std::vector<cr_range> all = refer_to(sample.process, from, name_for_delta(from, part), own.size() * image::kPage, others).taken;
      const std::vector<cr_range> taken = all;
      all.insert(all.end(), own.begin(), own.end());
      std::sort(all.begin(), all.end(), [](const cr_range& one, const cr_range& other) { return one.addr < other.addr; });
      writer.begin(sample.process, sample.regs, all);
      for (const cr_range& range : taken) writer.take_pages(from, range);
      for (const cr_range& range : own) writer.write_pages(range.addr, std::string(range.len, static_cast<char>('a' + wave)).data(), range.len);
      writer.write_blob(0, sample.blob.data(), sample.blob.size());
      writer.finish();
    }
    const Image made = Image::open(part);
    Manifest manifest;
    manifest.wave = wave;
    describe(made, manifest);
    job::write_atomically(job::manifest_path(part), manifest_text(manifest));
    std::vector<std::string> needed;
    for (const Base& base : made.bases()) needed.push_back(base.name());
    image_store::drop_parents(part, 0, needed);
    EXPECT_EQ(image_store::commit_wave(local(), wave), "");
    return job::image_path(local(), wave, 0);
  }
  /** Stage wave @p from, of rank 0, and drop it there: its copy is there to be written over. @return that */
  std::string dropped(std::uint32_t from) {
    stage_image(job::image_path(local(), from, 0), job::image_path(shared(), from, 0), {});
    std::filesystem::rename(job::wave_directory(shared(), from), job::dropped_directory(shared()));
    return job::dropped_image_path(shared(), 0);
  }
  std::string local() const { return directory_ + "/local"; }
  std::string shared() const { return directory_ + "/shared"; }
  std::string directory_;
};

}  // namespace reprise::crd
