// SPDX-License-Identifier: LGPL-2.1-or-later
#include "image/writer.h"

#include <elf.h>
#include <sys/resource.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unordered_map>

#include "base/error.h"
#include "base/text.h"
#include "image/headers.h"
#include "image/notes.h"
#include "image/reader.h"
#include "image/state.pb.h"
#include "image/system_error.h"
#include "image/tail.h"
#include "image/validate.h"
#include "image/zeros.h"

namespace reprise {

using namespace image;

namespace {

constexpr std::uint64_t kPutLimit = 1ULL << 30;  // bytes of one pwrite

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) { return (value + unit - 1) / unit * unit; }

std::uint64_t blob_size_of(const Process& process) {
  std::uint64_t size = 0;
  for (const auto& object : process.shared_objects())
    for (const auto& extent : object.extents()) size = std::max(size, extent.blob_offset() + extent.length());
  return size;
}

std::vector<const ThreadRegs*> in_thread_order(const Process& process, const std::vector<ThreadRegs>& regs,
                                               const std::string& name) {
  std::unordered_map<pid_t, const ThreadRegs*> by_tid;
  for (const auto& one : regs) by_tid[one.tid] = &one;
  std::vector<const ThreadRegs*> out;
  for (const auto& thread : process.threads()) {
    const auto found = by_tid.find(thread.tid());
    const std::string who = name + ": thread " + std::to_string(thread.tid());
    if (found == by_tid.end()) throw Error(Failure::permanent, EINVAL, who + " has no registers");
    if (found->second->fpregs.size() != kFpregsSize)
      throw Error(Failure::permanent, EINVAL, who + " has floating-point registers of the wrong size");
    if (found->second->xstate.size() > CR_MAX_REGSET)
      throw Error(Failure::permanent, EINVAL, who + " has an extended register state that is too large");
    out.push_back(found->second);
  }
  return out;
}

}  // namespace

void ImageWriter::begin(const Process& process, const std::vector<ThreadRegs>& regs, std::span<const cr_range> ranges) {
  blob_size_ = blob_size_of(process);
  validate_process(name_, process, blob_size_);
  runs_ = split_at_mappings(name_, process, ranges);
  validate_runs(name_, process, runs_);
  std::uint64_t pages = 0;
  for (const auto& run : runs_) pages += run.len / kPage;
  if (pages > kMaxPages)
    throw Error(Failure::refused, EFBIG, name_ + ": the process has more pages than an image can hold");

  const std::string notes = build_notes(process, in_thread_order(process, regs, name_));
  head_ = build_headers(kTreeFormat, process, notes, runs_, blob_size_);
  pages_offset_ = head_.size();
  blob_offset_ = pages_offset_ + pages * kPage;
  const std::uint64_t blocks = round_up(blob_size_, kBlobBlock) / kBlobBlock;
  file_size_ = blob_offset_ + blob_size_ + TailLayout(kTreeFormat, pages, blob_size_).size;
  hashes_.assign(pages, 0);
  page_written_.assign(pages, 0);
  blob_hashes_.assign(blocks, 0);
  block_hashed_.assign(blocks, 0);
  // A write beyond RLIMIT_FSIZE raises SIGXFSZ, whose default action ends the program.
  rlimit limit;
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && place(file_size_) > limit.rlim_cur)
    fail("cannot make the file " + std::to_string(file_size_) + " bytes long", EFBIG);
  touched_ = true;
  if (in_place_ && out_ && ::ftruncate(out_.get(), 0)) fail("cannot be replaced", errno);
  if (::ftruncate(fd_.get(), 0) || ::ftruncate(fd_.get(), static_cast<off_t>(place(file_size_))))
    fail("cannot make the file " + std::to_string(file_size_) + " bytes long", errno);
  put(0, head_.data(), head_.size());
}

void ImageWriter::send(std::uint64_t offset, const char* data, std::size_t len) {
  if (offset != sent_)
    throw Error(Failure::permanent, ESPIPE, name_ + ": cannot be written at " + hex(offset) + " before what precedes it");
  out(data, len);
  sent_ += len;
}

void ImageWriter::put(std::uint64_t offset, const void* buf, std::size_t len) {
  const char* data = static_cast<const char*>(buf);
  const std::lock_guard lock(writing_);
  if (in_order() && offset < blob_offset_) return send(offset, data, len);
  while (len > 0) {
    const ssize_t done =
        ::pwrite(fd_.get(), data, std::min<std::size_t>(len, kPutLimit), static_cast<off_t>(place(offset)));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail("writing failed", errno);
    if (done == 0) fail("writing failed", ENOSPC);
    data += done;
    offset += static_cast<std::uint64_t>(done);
    len -= static_cast<std::size_t>(done);
  }
}

// The file is new: unwritten parts read as zeros.
void ImageWriter::put_sparse(std::uint64_t offset, const void* buf, std::size_t len) {
  const char* data = static_cast<const char*>(buf);
  if (in_order() && offset < blob_offset_) {  // a pipe has no holes
    put(offset, buf, len);
    stored_ += len;
    return;
  }
  for_each_content(data, len, [&](std::size_t from, std::size_t part) {
    put(offset + from, data + from, part);
    stored_ += part;
  });
}

template <class Use>
void ImageWriter::in_runs(std::uint64_t addr, std::uint64_t len, const Use& use) const {
  if (addr % kPage || len % kPage)
    throw Error(Failure::permanent, EINVAL, name_ + ": address " + hex(addr) + " is not that of whole pages");
  auto run = std::upper_bound(runs_.begin(), runs_.end(), addr,
                              [](std::uint64_t value, const cr_page_run& one) { return value < one.addr; });
  if (run != runs_.begin()) --run;
  for (; len > 0; ++run) {
    if (run == runs_.end() || addr < run->addr || addr >= run->addr + run->len)
      throw Error(Failure::permanent, EINVAL, name_ + ": page " + hex(addr) + " is not one that was announced");
    const std::uint64_t part = std::min<std::uint64_t>(len, run->addr + run->len - addr);
    const std::uint64_t offset = run->offset + (addr - run->addr);
    use(offset, (offset - pages_offset_) / kPage, part);
    addr += part;
    len -= part;
  }
}

std::uint64_t ImageWriter::offset_of(std::uint64_t addr) const {
  std::uint64_t found = 0;
  in_runs(addr, kPage, [&](std::uint64_t offset, std::uint64_t, std::uint64_t) { found = offset; });
  return found;
}

void ImageWriter::write_pages(std::uint64_t addr, const void* buf, std::size_t len) {
  const cr_range range{addr, len};
  write_pages({&range, 1}, buf);
}

void ImageWriter::write_pages(std::span<const cr_range> ranges, const void* buf) {
  const char *data = static_cast<const char*>(buf), *from = data;  // [from, data): to be written at `at`
  std::uint64_t at = 0;
  const auto flush = [&] {
    if (data > from) put_sparse(at, from, static_cast<std::size_t>(data - from));
    from = data;
  };
  for (const cr_range& range : ranges) {
    std::uint64_t addr = range.addr;
    in_runs(addr, range.len, [&](std::uint64_t offset, std::uint64_t first, std::uint64_t part) {
      if (offset != at + static_cast<std::uint64_t>(data - from)) {
        flush();
        at = offset;
      }
      for (std::uint64_t i = 0; i < part / kPage; ++i) {
        hashes_[first + i] = XXH64(data + i * kPage, kPage, addr + i * kPage);
        page_written_[first + i] = 1;
      }
      data += part;
      addr += part;
    });
  }
  flush();
}

void ImageWriter::take_pages(const Image& from, const cr_range& range) {
  for (const PageRun& run : from.runs_in(range)) take_run(from, run);
}

void ImageWriter::take_run(const Image& from, const PageRun& run) {
  const std::uint64_t* hashes = from.checksums(run).data();
  std::uint64_t at = run.offset;
  in_runs(run.addr, run.len, [&](std::uint64_t offset, std::uint64_t first, std::uint64_t part) {
    std::copy_n(hashes, part / kPage, hashes_.begin() + static_cast<std::ptrdiff_t>(first));
    std::fill_n(page_written_.begin() + static_cast<std::ptrdiff_t>(first), part / kPage, std::uint8_t{1});
    copy_data(from.fd(run.file), at, offset, part);
    hashes += part / kPage;
    at += part;
  });
}

void ImageWriter::write_blob(std::uint64_t offset, const void* buf, std::size_t len) {
  if (offset > blob_size_ || len > blob_size_ - offset)
    throw Error(Failure::permanent, EINVAL, name_ + ": shared content lies outside of what was announced");
  const char* data = static_cast<const char*>(buf);
  // Hash the blocks that lie completely in this write; finish() reads the others back.
  for (std::uint64_t block = round_up(offset, kBlobBlock) / kBlobBlock; block < blob_hashes_.size(); ++block) {
    const std::uint64_t at = block * kBlobBlock, size = std::min(kBlobBlock, blob_size_ - at);
    if (at + size > offset + len) break;
    blob_hashes_[block] = XXH64(data + (at - offset), size, at);
    block_hashed_[block] = 1;
  }
  put_sparse(blob_offset_ + offset, data, len);
}

void ImageWriter::hash_partial_blocks() {
  std::vector<char> buffer(kBlobBlock);
  for (std::size_t block = 0; block < blob_hashes_.size(); ++block) {
    if (block_hashed_[block]) continue;
    const std::uint64_t at = block * kBlobBlock, size = std::min(kBlobBlock, blob_size_ - at);
    for (std::uint64_t done = 0; done < size;) {
      const ssize_t got =
          ::pread(fd_.get(), buffer.data() + done, size - done, static_cast<off_t>(place(blob_offset_ + at + done)));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) fail("reading back shared content failed", got < 0 ? errno : EIO);
      done += static_cast<std::uint64_t>(got);
    }
    blob_hashes_[block] = XXH64(buffer.data(), size, at);
  }
}

void ImageWriter::finish() {
  for (const auto& run : runs_)
    for (std::uint64_t at = 0; at < run.len; at += kPage)
      if (!page_written_[(run.offset + at - pages_offset_) / kPage])
        throw Error(Failure::permanent, EINVAL, name_ + ": page " + hex(run.addr + at) + " was never written");
  hash_partial_blocks();
  const Seal seal{kTreeFormat, kPage,      pages_offset_, blob_offset_ - pages_offset_, blob_offset_, blob_size_,
                  kBlobBlock,  file_size_, 0};
  const std::string tail = build_tail(head_, seal, hashes_, blob_hashes_);
  put(blob_offset_ + blob_size_, tail.data(), tail.size());
  publish();
  finished_ = true;
}

void ImageWriter::fail(const std::string& what, int err) const { throw_system(name_, what, err); }

}  // namespace reprise
