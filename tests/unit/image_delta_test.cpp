// SPDX-License-Identifier: GPL-2.0-only
// Delta images: pages in other files, and images made whole again.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "base/error.h"
#include "image/delta.h"
#include "image/whole.h"
#include "image_sample.h"

namespace reprise::test {
namespace {

using image::kPage;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

/** Pages that do not need to be saved: those of the vdso are, in the image itself. */
bool may_be_elsewhere(const Sample& sample, std::uint64_t at) {
  for (const Mapping& mapping : sample.process.mappings())
    if (mapping.start() <= at && at < mapping.end()) return mapping.flags() & CR_VMA_PAGES;
  return false;
}

constexpr std::uint64_t kManyPages = 0x40000000;

/** With more pages, and with those of the vdso. */
Sample larger_sample() {
  Sample out = sample_with(kManyPages, 24);
  Mapping vdso = out.process.mappings(out.process.mappings_size() - 1);
  vdso.set_start(0x7ffe00000000);
  vdso.set_end(0x7ffe00002000);
  vdso.set_flags(CR_VMA_READ | CR_VMA_EXEC | CR_VMA_SPECIAL);
  vdso.set_name("[vdso]");
  *out.process.add_mappings() = vdso;
  out.runs.push_back({0x7ffe00000000, 0x2000});
  return out;
}

class ImageDelta : public testing::Test {
 protected:
  ImageDelta() { sample.write(dir.path("0")); }

  /** Write a delta of @p parent with the pages @p changed, which consist of the letter @p fill. */
  template <class Changed>
  void write_delta(const std::string& parent, const std::string& name, char fill, const Changed& changed) const {
    const Image from = Image::open(dir.path(parent));
    const std::string as = name_for_delta(from, dir.path(name));
    Sample delta = sample;
    std::vector<cr_range> own, elsewhere;
    for (const cr_range& run : sample.runs)
      for (std::uint64_t at = run.addr; at < run.addr + run.len; at += kPage)
        (changed(at) || !may_be_elsewhere(sample, at) ? own : elsewhere).push_back({at, kPage});
    ImageWriter writer(dir.path(name));
    const std::vector<cr_range> taken = refer_to(delta.process, from, as, own.size() * kPage + more_room, elsewhere).taken;
    std::vector<cr_range> runs = own;
    runs.insert(runs.end(), taken.begin(), taken.end());
    std::sort(runs.begin(), runs.end(), [](const cr_range& one, const cr_range& other) { return one.addr < other.addr; });
    writer.begin(delta.process, delta.regs, runs);
    for (const cr_range& range : taken) writer.take_pages(from, range);
    for (const cr_range& page : own) writer.write_pages(page.addr, std::string(kPage, fill).data(), kPage);
    writer.write_blob(0, sample.blob.data(), sample.blob.size());
    writer.finish();
  }
  /** @p content(addr) is the letter of a page, 0: as in the sample. */
  template <class Content>
  void expect_pages(const Image& image, const Content& content) const {
    image.verify_all();
    for (const cr_range& run : sample.runs)
      for (std::uint64_t at = run.addr; at < run.addr + run.len; at += kPage) {
        if (!may_be_elsewhere(sample, at)) continue;
        std::string page(kPage, 'x');
        image.read_pages(at, page.data(), page.size());
        EXPECT_EQ(page, content(at) ? std::string(kPage, content(at)) : Sample::page(at)) << std::hex << at;
      }
  }
  std::string problem(const std::string& name) const {
    return error_of([&] { Image::open(dir.path(name)); });
  }
  const TempDir dir;
  std::uint64_t more_room = 0;  // as if the process had more pages
  const Sample sample = larger_sample();
};

bool third(std::uint64_t at) { return at / kPage % 3 == 0; }
bool half(std::uint64_t at) { return at / kPage % 2 == 0; }
bool none(std::uint64_t) { return false; }

TEST_F(ImageDelta, HasThePagesOfItsParent) {
  write_delta("0", "1", 'c', half);
  EXPECT_LT(fs::file_size(dir.path("1")), fs::file_size(dir.path("0")));
  const Image image = Image::open(dir.path("1"));
  expect_pages(image, [](std::uint64_t at) { return half(at) ? 'c' : '\0'; });
  ASSERT_EQ(image.bases().size(), 1u);
  EXPECT_EQ(image.bases()[0].name(), "0");
  EXPECT_EQ(image.page_count(), Image::open(dir.path("0")).page_count());
  EXPECT_EQ(seal_of(read_file(dir.path("1"))).format, image::kTreeFormat) << "older readers must refuse it";
}

TEST_F(ImageDelta, ChainIsAsDeepAsItHasFiles) {
  write_delta("0", "1", 'c', half);
  write_delta("1", "2", 'd', third);
  write_delta("2", "3", 'e', none);
  const auto content = [](std::uint64_t at) { return third(at) ? 'd' : half(at) ? 'c' : '\0'; };
  const Image image = Image::open(dir.path("3"));
  EXPECT_EQ(image.bases().size(), 3u);
  expect_pages(image, content);
  expect_pages(Image::open(dir.path("1")), [](std::uint64_t at) { return half(at) ? 'c' : '\0'; });
}

TEST_F(ImageDelta, NoMoreFilesThanItNeeds) {
  write_delta("0", "1", 'c', half);
  write_delta("1", "2", 'd', [](std::uint64_t) { return true; });
  write_delta("2", "3", 'e', third);
  const Image image = Image::open(dir.path("3"));
  ASSERT_EQ(image.bases().size(), 1u) << "2 has all that is not in 3";
  EXPECT_EQ(image.bases()[0].name(), "2");
}

TEST_F(ImageDelta, NotMoreFilesThanAllowed) {
  more_room = 100 * kPage;  // so that only their number counts
  // Each delta has a page that no later one has.
  for (int i = 0; i < image::kMaxBases; ++i) {
    const std::uint64_t its = kManyPages + static_cast<std::uint64_t>(i) * kPage;
    write_delta(std::to_string(i), std::to_string(i + 1), 'c', [its](std::uint64_t at) { return at == its; });
  }
  const Image from = Image::open(dir.path(std::to_string(image::kMaxBases)));
  EXPECT_EQ(from.bases().size(), static_cast<std::size_t>(image::kMaxBases));
  Process process = sample.process;
  std::vector<cr_range> all(sample.runs.begin(), sample.runs.end() - 1);  // but those of the vdso
  const auto taken = refer_to(process, from, name_for_delta(from, dir.path("next")), more_room, all).taken;
  EXPECT_EQ(process.bases_size(), image::kMaxBases / 2) << "of the others it takes the pages over";
  EXPECT_TRUE(std::any_of(process.bases().begin(), process.bases().end(), [](const Base& base) { return base.name() == "0"; }))
      << "which has most of them";
  std::uint64_t pages = 0;
  for (const cr_range& range : taken) pages += range.len / kPage;
  EXPECT_EQ(pages, static_cast<std::uint64_t>(image::kMaxBases / 2 + 1));
  Process other = sample.process;
  for (cr_range& range : all)
    if (range.addr == kManyPages) range = {kManyPages + kPage, 23 * kPage};
  EXPECT_TRUE(refer_to(other, from, name_for_delta(from, dir.path("next")), more_room, all).taken.empty());
  EXPECT_EQ(other.bases_size(), image::kMaxBases);
}

TEST_F(ImageDelta, ARowOfAnyLengthNeedsFewFiles) {
  std::map<std::uint64_t, char> changed;
  const auto content = [&](std::uint64_t at) { return changed.contains(at) ? changed[at] : '\0'; };
  constexpr int kRow = 100;
  int most = 0;
  for (int i = 0; i < kRow; ++i) {
    const std::uint64_t its = kManyPages + static_cast<std::uint64_t>(i * 7 % 24) * kPage;
    const char letter = static_cast<char>('a' + i % 26);
    write_delta(std::to_string(i), std::to_string(i + 1), letter, [its](std::uint64_t at) { return at == its; });
    changed[its] = letter;
    const Image image = Image::open(dir.path(std::to_string(i + 1)));
    most = std::max(most, static_cast<int>(image.bases().size()));
    ASSERT_LE(most, image::kMaxBases);
    expect_pages(image, content);
    // Nobody needs the others any more.
    std::set<std::string> needed{std::to_string(i + 1)};
    for (const Base& base : image.bases()) needed.insert(base.name());
    for (const auto& entry : fs::directory_iterator(dir.path("")))
      if (!needed.contains(entry.path().filename().string())) fs::remove(entry.path());
  }
  EXPECT_EQ(most, image::kMaxBases);
}

TEST_F(ImageDelta, StandsAloneWhenMerged) {
  write_delta("0", "1", 'c', half);
  write_delta("1", "2", 'd', third);
  const auto id = Image::open(dir.path("2")).id();
  {
    const Image image = Image::open(dir.path("2"));
    ImageWriter writer(dir.path("whole"));
    write_whole(image, writer);
    writer.finish();
  }
  for (const char* name : {"0", "1", "2"}) fs::remove(dir.path(name));
  const Image whole = Image::open(dir.path("whole"));
  EXPECT_TRUE(whole.bases().empty());
  EXPECT_EQ(whole.id(), id);
  expect_pages(whole, [](std::uint64_t at) { return third(at) ? 'd' : half(at) ? 'c' : '\0'; });
  std::string blob(sample.blob.size(), ' ');
  whole.read_blob(0, blob.data(), blob.size());
  EXPECT_EQ(blob, sample.blob);
  EXPECT_EQ(whole.debug_runs().size(), 1u) << "they are adjacent";
}

TEST_F(ImageDelta, AWholeImageMergedIsTheSame) {
  const Image image = Image::open(dir.path("0"));
  ImageWriter writer(dir.path("whole"));
  write_whole(image, writer);
  writer.finish();
  EXPECT_EQ(read_file(dir.path("whole")), read_file(dir.path("0")));
}

TEST_F(ImageDelta, AnyPartOfTheWholeFileCanBeRead) {
  write_delta("0", "1", 'c', half);
  write_delta("1", "2", 'd', third);
  for (const char* name : {"0", "2"}) {
    const Image image = Image::open(dir.path(name));
    const WholeImage whole(image);
    std::string content(whole.file_size(), ' ');
    whole.read_file(nullptr, [&](std::uint64_t at, std::span<const char> part) { content.replace(at, part.size(), part.data(), part.size()); });
    for (const std::uint64_t step : {997ULL, 4096ULL, 70001ULL, 1ULL << 20})
      for (std::uint64_t at = 0; at < content.size(); at += step) {
        std::string part(std::min<std::uint64_t>(step, content.size() - at), ' ');
        whole.read(at, part.data(), part.size());
        ASSERT_TRUE(part == content.substr(at, step)) << name << ": " << part.size() << " bytes at " << at;
      }
  }
}

TEST_F(ImageDelta, AReadPartIsVerified) {
  std::string content = read_file(dir.path("0"));
  content[Image::open(dir.path("0")).runs()[0].offset + 3] ^= 1;
  write_file(dir.path("0"), content);
  const Image image = Image::open(dir.path("0"));
  const WholeImage whole(image);
  char byte = 0;
  EXPECT_NE(error_of([&] { whole.read(image.runs()[0].offset + 5, &byte, 1); }), "");
  EXPECT_EQ(error_of([&] { whole.read(image.runs()[0].offset + kPage, &byte, 1); }), "");
}

TEST_F(ImageDelta, TakenOverByAnImageThatStandsAlone) {
  write_delta("0", "1", 'c', half);
  const Image from = Image::open(dir.path("1"));
  {
    ImageWriter writer(dir.path("2"));
    writer.begin(sample.process, sample.regs, sample.runs);
    for (const cr_range& run : sample.runs)
      for (std::uint64_t at = run.addr; at < run.addr + run.len; at += kPage)
        if (may_be_elsewhere(sample, at))
          writer.take_pages(from, {at, kPage});
        else
          writer.write_pages(at, Sample::page(at).data(), kPage);
    writer.write_blob(0, sample.blob.data(), sample.blob.size());
    writer.finish();
  }
  fs::remove(dir.path("0"));
  fs::remove(dir.path("1"));
  expect_pages(Image::open(dir.path("2")), [](std::uint64_t at) { return half(at) ? 'c' : '\0'; });
}

TEST_F(ImageDelta, MovesWithItsDirectory) {
  write_delta("0", "1", 'c', half);
  fs::create_directory(dir.path("other"));
  fs::rename(dir.path("0"), dir.path("other/0"));
  fs::rename(dir.path("1"), dir.path("other/1"));
  fs::create_symlink(dir.path("other/1"), dir.path("link"));
  expect_pages(Image::open(dir.path("link")), [](std::uint64_t at) { return half(at) ? 'c' : '\0'; });
  // by a descriptor, too
  expect_pages(Image::open(UniqueFd(::open(dir.path("link").c_str(), O_RDONLY | O_CLOEXEC)), "given"),
               [](std::uint64_t at) { return half(at) ? 'c' : '\0'; });
}

TEST_F(ImageDelta, ParentMissing) {
  write_delta("0", "1", 'c', half);
  fs::rename(dir.path("0"), dir.path("elsewhere"));
  EXPECT_THAT(problem("1"), HasSubstr("/0, which has pages of the delta image"));
}

TEST_F(ImageDelta, ParentReplaced) {
  write_delta("0", "1", 'c', half);
  Sample other = sample;
  other.process.set_id(std::string(16, 'z'));
  fs::remove(dir.path("0"));
  other.write(dir.path("0"));
  EXPECT_THAT(problem("1"), HasSubstr("another one has taken its name"));
}

TEST_F(ImageDelta, ParentIsNoImage) {
  write_delta("0", "1", 'c', half);
  fs::remove(dir.path("0"));
  write_file(dir.path("0"), "not an image");
  EXPECT_THAT(problem("1"), HasSubstr("is not an image"));
  fs::remove(dir.path("0"));
  fs::create_symlink("elsewhere", dir.path("0"));
  EXPECT_THAT(problem("1"), HasSubstr("cannot be opened"));
  fs::remove(dir.path("0"));
  ASSERT_EQ(::mkfifo(dir.path("0").c_str(), 0600), 0);
  EXPECT_THAT(problem("1"), HasSubstr("regular file"));
}

TEST_F(ImageDelta, ParentOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  write_delta("0", "1", 'c', half);
  ASSERT_EQ(::chown(dir.path("0").c_str(), 12345, 12345), 0);
  EXPECT_THAT(problem("1"), HasSubstr("belongs to user 12345"));
  ASSERT_EQ(::chown(dir.path("1").c_str(), 12345, 12345), 0);
  EXPECT_EQ(problem("1"), "");
  ASSERT_EQ(::chown(dir.path("0").c_str(), 0, 0), 0);
  EXPECT_EQ(problem("1"), "") << "root can forge everything anyway";
}

TEST_F(ImageDelta, DamageOfAParentIsFound) {
  write_delta("0", "1", 'c', half);
  const Image old = Image::open(dir.path("0"));
  std::string content = read_file(dir.path("0"));
  for (const PageRun& run : old.runs())
    for (std::uint64_t at = 0; at < run.len; at += kPage)
      content[run.offset + at] = static_cast<char>(content[run.offset + at] ^ 1);
  write_file(dir.path("0"), content);
  EXPECT_THAT(error_of([&] { Image::open(dir.path("1")).verify_all(); }),
              testing::AllOf(HasSubstr("/0: page"), HasSubstr("does not match its checksum")));
}

TEST_F(ImageDelta, AChangedParentIsNoticed) {
  write_delta("0", "1", 'c', half);
  const Image image = Image::open(dir.path("1"));
  EXPECT_FALSE(image.touched());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_EQ(::truncate(dir.path("0").c_str(), 10), 0);
  EXPECT_TRUE(image.touched());
}

TEST_F(ImageDelta, NotInAnotherDirectory) {
  fs::create_directory(dir.path("other"));
  const Image from = Image::open(dir.path("0"));
  EXPECT_THAT(error_of([&] { name_for_delta(from, dir.path("other/1")); }), HasSubstr("one directory"));
}

TEST_F(ImageDelta, NotInPlaceOfAFileThatItNeeds) {
  write_delta("0", "1", 'c', half);
  const Image from = Image::open(dir.path("1"));
  EXPECT_THAT(error_of([&] { name_for_delta(from, dir.path("1")); }), HasSubstr("another name"));
  EXPECT_THAT(error_of([&] { name_for_delta(from, dir.path("0")); }), HasSubstr("another name"));
}

TEST_F(ImageDelta, WhoNeedsIt) {
  write_delta("0", "1", 'c', half);
  write_delta("1", "2", 'd', third);
  write_file(dir.path("note"), "not an image");
  EXPECT_THAT(deltas_of(Image::open(dir.path("0")).place()), ElementsAre("1", "2"));
  EXPECT_THAT(deltas_of(Image::open(dir.path("1")).place()), ElementsAre("2"));
  EXPECT_THAT(deltas_of(Image::open(dir.path("2")).place()), ElementsAre());
}

/** Write an image whose state refers to other files in a way that no writer would. */
class HostileDelta : public ImageDelta {
 protected:
  std::string refused(const std::function<void(Process&)>& change) {
    Sample made = sample;
    Base& base = *made.process.add_bases();
    base.set_name("0");
    base.set_checksum(Image::open(dir.path("0")).checksum());
    change(made.process);
    return error_of([&] {
      ImageWriter writer(dir.path("1"), {.clobber = true});
      writer.begin(made.process, made.regs, {});
      writer.finish();
      Image::open(dir.path("1"));
    });
  }
  static void add_run(Process& process, std::uint64_t gap, std::uint64_t pages, std::uint64_t base, std::uint64_t first) {
    for (const std::uint64_t number : {gap, pages, base, first}) process.add_base_runs(number);
  }
  const std::uint64_t page = sample.runs.front().addr / kPage;
};

TEST_F(HostileDelta, Names) {
  for (const std::string& name : {std::string("../0"), std::string("/etc/passwd"), std::string(".."), std::string("."),
                                  std::string(), std::string("0\0x", 3), std::string(300, 'a')})
    EXPECT_THAT(refused([&](Process& process) {
                  process.mutable_bases(0)->set_name(name);
                  add_run(process, page, 1, 0, 0);
                }),
                HasSubstr("outside of its directory"))
        << name;
}

TEST_F(HostileDelta, Tables) {
  EXPECT_EQ(refused([&](Process& process) { add_run(process, page, 1, 0, 0); }), "");
  const char* malformed = "table of pages in other files is malformed";
  EXPECT_THAT(refused([&](Process&) {}), HasSubstr(malformed));
  EXPECT_THAT(refused([&](Process& process) { process.add_base_runs(1); }), HasSubstr(malformed));
  EXPECT_THAT(refused([&](Process& process) { add_run(process, page, 0, 0, 0); }), HasSubstr(malformed));
  EXPECT_THAT(refused([&](Process& process) { add_run(process, page, 1, 1, 0); }), HasSubstr(malformed));
  EXPECT_THAT(refused([&](Process& process) { add_run(process, UINT64_MAX, 1, 0, 0); }), HasSubstr(malformed));
  EXPECT_THAT(refused([&](Process& process) { add_run(process, page, UINT64_MAX, 0, 0); }), HasSubstr(malformed));
  EXPECT_THAT(refused([&](Process& process) { add_run(process, 1, 1, 0, 0); }), HasSubstr("lie in no mapping"));
  EXPECT_THAT(refused([&](Process& process) { add_run(process, page, 1, 0, 1000); }), HasSubstr("are not in"));
  EXPECT_THAT(refused([&](Process& process) { add_run(process, page, 1, 0, UINT64_MAX); }), HasSubstr("are not in"));
  EXPECT_THAT(refused([&](Process& process) {
                for (int i = 0; i < image::kMaxBases; ++i) *process.add_bases() = process.bases(0);
                add_run(process, page, 1, 0, 0);
              }),
              HasSubstr("too many other files"));
}

// The checksum of a page depends on its address: a page of another place is no content for it.
TEST_F(HostileDelta, PagesOfAnotherAddress) {
  ASSERT_EQ(refused([&](Process& process) { add_run(process, page, 1, 0, 1); }), "");
  EXPECT_THAT(error_of([&] { Image::open(dir.path("1")).verify_all(); }), HasSubstr("does not match its checksum"));
}

TEST_F(HostileDelta, PagesTwice) {
  Sample made = sample;
  made.process.add_bases()->set_name("0");
  made.process.mutable_bases(0)->set_checksum(Image::open(dir.path("0")).checksum());
  add_run(made.process, page, 1, 0, 0);
  made.write(dir.path("1"));
  EXPECT_THAT(problem("1"), HasSubstr("twice"));
}

/** What WholeImage gives of @p image, without what @p base has, written over the content of that one. */
std::string whole_file(const Image& image, const Image* base, const std::string& base_content, std::uint64_t& bytes) {
  const WholeImage whole(image);
  std::string content = base ? base_content : "";
  content.resize(whole.file_size());
  std::uint64_t behind = 0;
  bytes = 0;
  whole.read_file(base, [&](std::uint64_t offset, std::span<const char> part) {
    EXPECT_GE(offset, behind);
    behind = offset + part.size();
    bytes += part.size();
    content.replace(offset, part.size(), part.data(), part.size());
  });
  EXPECT_EQ(behind, whole.file_size());
  return content;
}

TEST_F(ImageDelta, IsReadAsTheWholeImageThatItWouldBeMadeInto) {
  write_delta("0", "1", 'c', half);
  write_delta("1", "2", 'd', third);
  std::uint64_t bytes = 0;
  EXPECT_EQ(WholeImage(Image::open(dir.path("0"))).checksum(), Image::open(dir.path("0")).checksum()) << "it is whole already";
  for (const char* name : {"1", "2"}) {
    const Image image = Image::open(dir.path(name));
    ASSERT_FALSE(image.bases().empty());
    ImageWriter writer(dir.path("whole"), {.clobber = true});
    write_whole(image, writer);
    writer.finish();
    const std::string merged = read_file(dir.path("whole"));
    EXPECT_TRUE(whole_file(image, nullptr, "", bytes) == merged) << name;
    EXPECT_EQ(bytes, merged.size());
    EXPECT_EQ(WholeImage(image).checksum(), Image::open(dir.path("whole")).checksum());
  }
  // Over the copy of an older one: only what differs is read.
  const Image older = Image::open(dir.path("0")), newer = Image::open(dir.path("2"));
  EXPECT_TRUE(whole_file(newer, &older, read_file(dir.path("0")), bytes) == read_file(dir.path("whole")));
  EXPECT_LT(bytes, fs::file_size(dir.path("whole")) * 9 / 10);
  std::uint64_t same = 0;
  const Image whole = Image::open(dir.path("whole"));
  whole_file(newer, &whole, read_file(dir.path("whole")), same);
  EXPECT_LT(same, bytes / 2) << "headers and tables only";

  // Damage in a base is found, and named.
  std::string base = read_file(dir.path("0"));
  const Image::Part none_of_it = [](std::uint64_t, std::span<const char>) {};
  const auto of_base = std::find_if(newer.runs().begin(), newer.runs().end(),
                                    [&](const PageRun& run) { return run.file && newer.bases()[run.file - 1].name() == "0"; });
  ASSERT_NE(of_base, newer.runs().end());
  base[of_base->offset + 7] = static_cast<char>(base[of_base->offset + 7] ^ 1);
  write_file(dir.path("0"), base);
  const Image again = Image::open(dir.path("2"));
  EXPECT_THAT(error_of([&] { WholeImage(again).read_file(nullptr, none_of_it); }), HasSubstr("is damaged"));
}

TEST_F(ImageDelta, FilesOfWhichLittleIsNeededAreTakenOver) {
  const auto eighths = [](std::uint64_t most) { return [most](std::uint64_t at) { return at / kPage % 8 < most; }; };
  const auto names = [&](const char* name) {
    std::vector<std::string> out;
    const Image image = Image::open(dir.path(name));
    for (const Base& base : image.bases()) out.push_back(base.name());
    return out;
  };
  // Each changes a little less than the one before, so that pages of all are needed.
  for (std::uint64_t number = 1; number < 8; ++number)
    write_delta(std::to_string(number - 1), std::to_string(number), static_cast<char>('a' + number), eighths(8 - number));
  EXPECT_THAT(names("1"), ElementsAre("0"));
  EXPECT_THAT(names("2"), testing::UnorderedElementsAre("0", "1"));
  const std::vector<std::string> last = names("7");
  EXPECT_THAT(last, testing::Not(testing::Contains("0"))) << "all are four times the room of the process's pages";
  EXPECT_GE(last.size(), 3u);
  std::uint64_t room = 0;
  for (const std::string& name : last) room += Image::open(dir.path(name)).page_bytes();
  const Image newest = Image::open(dir.path("7"));
  EXPECT_LE(room, 2 * newest.page_count() * kPage);
  for (int number = 0; number < 7; ++number)
    if (std::find(last.begin(), last.end(), std::to_string(number)) == last.end()) fs::remove(dir.path(std::to_string(number)));
  expect_pages(newest, [](std::uint64_t at) { return at / kPage % 8 == 7 ? '\0' : static_cast<char>('a' + 7 - at / kPage % 8); });
}

TEST_F(ImageDelta, OfTheOlderFormats) {
  write_file(dir.path("0"), in_format(read_file(dir.path("0")), 1));
  write_delta("0", "1", 'c', half);  // a new one, to an old one
  write_file(dir.path("1"), in_format(read_file(dir.path("1")), image::kDeltaFormat));
  write_delta("1", "2", 'd', third);
  EXPECT_EQ(Image::open(dir.path("1")).format(), image::kDeltaFormat);
  expect_pages(Image::open(dir.path("1")), [](std::uint64_t at) { return half(at) ? 'c' : '\0'; });
  expect_pages(Image::open(dir.path("2")), [](std::uint64_t at) { return third(at) ? 'd' : half(at) ? 'c' : '\0'; });
}

TEST_F(ImageDelta, WrongFormatNumber) {
  write_delta("0", "1", 'c', half);
  for (const auto& [name, wrong] : {std::pair{"0", image::kDeltaFormat}, std::pair{"1", 1U}}) {
    write_file(dir.path(std::string(name) + "x"), in_format(read_file(dir.path(name)), wrong));
    EXPECT_THAT(problem(std::string(name) + "x"), HasSubstr("format that does not fit")) << name;
  }
}

}  // namespace
}  // namespace reprise::test
