// SPDX-License-Identifier: LGPL-2.1-or-later
#include "image/reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/text.h"
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

Image Image::open(UniqueFd fd, const std::string& name) {
  Image image;
  image.name_ = name;
  image.fd_ = std::move(fd);
  if (::lseek(image.fd_.get(), 0, SEEK_CUR) < 0 && errno == ESPIPE) {
    UniqueFd copy = spool_file(name);
    read_all(image.fd_.get(), name, [&](const char* data, std::size_t len) { write_all(copy.get(), name, data, len); });
    image.fd_ = std::move(copy);
  }
  const struct stat opened = image.status();
  image.owner_ = opened.st_uid;
  // load() says what else is wrong with other kinds of files.
  if (UniqueFd expanded = S_ISREG(opened.st_mode) ? expand(image.fd_.get(), name) : UniqueFd()) {
    image.fd_ = std::move(expanded);
    image.compressed_size_ = static_cast<std::uint64_t>(opened.st_size);
  }
  image.opened_ = image.times();
  Loaded loaded;
  load(image.fd_.get(), name, loaded);
  validate_process(name, loaded.process, loaded.seal.blob_size);
  validate_runs(name, loaded.process, loaded.runs);
  image.seal_ = loaded.seal;
  image.process_ = std::make_unique<Process>(std::move(loaded.process));
  image.threads_ = std::move(loaded.threads);
  image.sort_runs(loaded.runs);
  image.tail_ = std::move(loaded.tail);
  image.hashes_ = loaded.hashes;
  image.blob_hashes_ = std::move(loaded.blob_hashes);
  for (std::size_t i = 0; i < image.threads_.size(); ++i) image.by_tid_[image.threads_[i].tid] = i;
  return image;
}

struct stat Image::status() const {
  struct stat st {};
  if (::fstat(fd_.get(), &st) != 0) throw_system(name_, "cannot be looked at", errno);
  return st;
}

Image::Times Image::times() const {
  const struct stat st = status();
  return {st.st_mtim.tv_sec * 1000000000LL + st.st_mtim.tv_nsec, st.st_ctim.tv_sec * 1000000000LL + st.st_ctim.tv_nsec,
          static_cast<std::uint64_t>(st.st_size)};
}

// link(), rename() and unlink() change ctime too: the caller must verify the content, not give up.
bool Image::touched() const { return times() != opened_; }

// validate_runs() has checked that each run lies in one mapping.
void Image::sort_runs(const std::vector<cr_page_run>& runs) {
  auto mapping = process_->mappings().begin();
  runs_.reserve(runs.size());
  for (const auto& run : runs) {
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

std::vector<cr_page_run>::const_iterator Image::first_after(std::uint64_t addr) const {
  return std::partition_point(runs_.begin(), runs_.end(),
                              [addr](const cr_page_run& run) { return run.addr + run.len <= addr; });
}

std::vector<cr_page_run> Image::runs_in(const cr_range& range) const {
  std::vector<cr_page_run> out;
  if (range.len == 0) return out;
  const std::uint64_t last = range.addr + range.len - 1;  // cannot overflow for a real range
  for (auto run = first_after(range.addr); run != runs_.end() && run->addr <= last; ++run) {
    const std::uint64_t from = std::max<std::uint64_t>(run->addr, range.addr / kPage * kPage);
    const std::uint64_t to = std::min<std::uint64_t>(run->addr + run->len, last / kPage * kPage + kPage);
    out.push_back({from, to - from, run->offset + (from - run->addr)});
  }
  return out;
}

std::uint64_t Image::page_count() const {
  std::uint64_t bytes = 0;
  for (const cr_page_run& run : runs_) bytes += run.len;
  return bytes / image::kPage;
}

bool Image::has_page(std::uint64_t addr) const {
  const auto run = first_after(addr);
  return run != runs_.end() && run->addr <= addr;
}

}  // namespace reprise
