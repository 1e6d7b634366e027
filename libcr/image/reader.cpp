// SPDX-License-Identifier: LGPL-2.1-or-later
#include "image/reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/text.h"
#include "image/bases.h"
#include "image/compression.h"
#include "image/loader.h"
#include "image/spool.h"
#include "image/system_error.h"
#include "image/validate.h"

namespace reprise {

using namespace image;

Image Image::open(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!fd) throw_system(path, "cannot be opened", errno);
  return open(std::move(fd), path);
}

namespace {

struct stat status_of(const std::string& name, int fd) {
  struct stat st {};
  if (::fstat(fd, &st) != 0) throw_system(name, "cannot be looked at", errno);
  return st;
}

}  // namespace

Image Image::open(UniqueFd fd, const std::string& name) {
  Image image;
  image.name_ = name;
  if (::lseek(fd.get(), 0, SEEK_CUR) < 0 && errno == ESPIPE) {
    UniqueFd copy = spool_file(name);
    read_all(fd.get(), name, [&](const char* data, std::size_t len) { write_all(copy.get(), name, data, len); });
    fd = std::move(copy);
  }
  const struct stat opened = status_of(name, fd.get());
  image.owner_ = opened.st_uid;
  // load() says what else is wrong with other kinds of files.
  UniqueFd expanded = S_ISREG(opened.st_mode) ? expand(fd.get(), name) : UniqueFd();
  if (expanded) image.compressed_size_ = static_cast<std::uint64_t>(opened.st_size);
  const int content = expanded ? expanded.get() : fd.get();
  const Times times = times_of(name, content);
  Loaded loaded;
  load(content, name, loaded);
  validate_process(name, loaded.process, loaded.seal.blob_size);
  validate_runs(name, loaded.process, loaded.runs);
  std::vector<OpenBase> bases = open_bases(name, loaded.process, fd.get(), opened.st_uid);
  const std::vector<PageRun> elsewhere = runs_of_bases(name, loaded.process, bases);
  image.place_ = place_of(fd.get());
  image.seal_ = loaded.seal;
  image.add_file(name, expanded ? std::move(expanded) : std::move(fd), times, loaded);
  for (OpenBase& base : bases) {
    const Times then = times_of(base.name, base.fd.get());
    image.add_file(base.name, std::move(base.fd), then, base.tables);
  }
  image.bases_.assign(loaded.process.bases().begin(), loaded.process.bases().end());
  // Whoever uses the state has the pages by way of us.
  loaded.process.clear_bases();
  loaded.process.clear_base_runs();
  image.process_ = std::make_unique<Process>(std::move(loaded.process));
  image.threads_ = std::move(loaded.threads);
  image.sort_runs(loaded.runs, elsewhere);
  image.blob_hashes_ = std::move(loaded.blob_hashes);
  for (std::size_t i = 0; i < image.threads_.size(); ++i) image.by_tid_[image.threads_[i].tid] = i;
  return image;
}

Image::Times Image::times_of(const std::string& name, int fd) {
  const struct stat st = status_of(name, fd);
  return {st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec, st.st_ctim.tv_sec * 1000000000LL + st.st_ctim.tv_nsec,
          static_cast<std::uint64_t>(st.st_size)};
}

void Image::add_file(const std::string& name, UniqueFd fd, Times opened, Loaded& loaded) {
  files_.push_back({name, std::move(fd), opened, loaded.seal.pages_offset, std::move(loaded.table)});
}

// link(), rename() and unlink() change ctime too: the caller must verify the content, not give up.
bool Image::touched() const {
  return std::any_of(files_.begin(), files_.end(),
                     [](const File& file) { return times_of(file.name, file.fd.get()) != file.opened; });
}

bool Image::written() const {
  return std::any_of(files_.begin(), files_.end(), [](const File& file) {
    const Times now = times_of(file.name, file.fd.get());
    return now.size != file.opened.size || now.modified_ns != file.opened.modified_ns;
  });
}

// validate_runs() has checked that each run lies in one mapping.
void Image::sort_runs(const std::vector<cr_page_run>& own, const std::vector<PageRun>& elsewhere) {
  std::vector<PageRun> all;
  all.reserve(own.size() + elsewhere.size());
  for (const cr_page_run& run : own) all.push_back({run.addr, run.len, run.offset});
  all.insert(all.end(), elsewhere.begin(), elsewhere.end());
  std::inplace_merge(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(own.size()), all.end(),
                     [](const PageRun& one, const PageRun& other) { return one.addr < other.addr; });
  auto mapping = process_->mappings().begin();
  std::uint64_t end = 0;
  runs_.reserve(all.size());
  for (const PageRun& run : all) {
    if (run.addr < end)
      throw Error(Failure::permanent, EBADMSG, name_ + ": has page " + hex(run.addr) + " twice; use another image");
    end = run.addr + run.len;
    while (mapping->end() <= run.addr) ++mapping;
    (mapping->flags() & CR_VMA_PAGES ? runs_ : debug_runs_).push_back(run);
  }
}

std::array<std::uint8_t, CR_ID_SIZE> Image::id() const {
  std::array<std::uint8_t, CR_ID_SIZE> out;
  std::copy_n(process_->id().begin(), out.size(), out.begin());
  return out;
}

const ThreadRegs& Image::regs(pid_t tid) const {
  const auto found = by_tid_.find(tid);
  if (found == by_tid_.end()) throw Error(Failure::permanent, ENOENT, name_ + ": has no thread " + std::to_string(tid));
  return threads_[found->second];
}

std::vector<PageRun>::const_iterator Image::first_after(std::uint64_t addr) const {
  return std::partition_point(runs_.begin(), runs_.end(), [addr](const PageRun& run) { return run.addr + run.len <= addr; });
}

std::vector<PageRun> Image::runs_in(const cr_range& range) const {
  std::vector<PageRun> out;
  if (range.len == 0) return out;
  const std::uint64_t last = range.addr + range.len - 1;  // cannot overflow for a real range
  for (auto run = first_after(range.addr); run != runs_.end() && run->addr <= last; ++run) {
    const std::uint64_t from = std::max<std::uint64_t>(run->addr, range.addr / kPage * kPage);
    const std::uint64_t to = std::min<std::uint64_t>(run->addr + run->len, last / kPage * kPage + kPage);
    out.push_back({from, to - from, run->offset + (from - run->addr), run->file});
  }
  return out;
}

std::uint64_t Image::page_count() const {
  std::uint64_t bytes = 0;
  for (const PageRun& run : runs_) bytes += run.len;
  return bytes / image::kPage;
}

bool Image::has_page(std::uint64_t addr) const {
  const auto run = first_after(addr);
  return run != runs_.end() && run->addr <= addr;
}

}  // namespace reprise
