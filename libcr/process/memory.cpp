// SPDX-License-Identifier: LGPL-2.1-or-later
#include "process/memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

#include <sys/mman.h>

#include "base/text.h"
#include "process/guards.h"

namespace reprise {
namespace {

constexpr std::uint64_t kChunk = 256 << 10;       // bytes read and written at once: fits in the cache
constexpr std::uint64_t kPerThread = 8ULL << 20;  // bytes that are worth one more thread
constexpr unsigned kMaxThreads = 4;               // with more, the disk is the bottleneck

/**
 * Distributes pieces of runs to several threads, as many at a time as kChunk bytes take. They end where a chunk of the file
 * does: file systems keep what is written in large aligned pieces in large folios, which takes half the time.
 */
class Dealer {
 public:
  Dealer(std::span<const cr_range> runs, const ImageWriter& writer) : runs_(runs), writer_(writer) {}
  bool next(std::vector<cr_range>& pieces) {
    const std::lock_guard lock(mutex_);
    pieces.clear();
    if (stopped_ || run_ == runs_.size()) return false;
    std::uint64_t room = kChunk - writer_.offset_of(runs_[run_].addr + offset_) % kChunk;
    while (room && run_ < runs_.size()) {
      const std::uint64_t len = std::min<std::uint64_t>(room, runs_[run_].len - offset_);
      pieces.push_back({runs_[run_].addr + offset_, len});
      room -= len;
      offset_ += len;
      if (offset_ == runs_[run_].len) ++run_, offset_ = 0;
    }
    return true;
  }
  void stop(std::exception_ptr why) {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    if (!failure_) failure_ = std::move(why);
  }
  void rethrow() {
    if (failure_) std::rethrow_exception(failure_);
  }
  void done(std::uint64_t bytes, std::uint64_t total, const Progress& progress) {
    if (!progress) return;
    const std::lock_guard lock(mutex_);
    progress(done_ += bytes, total);
  }

 private:
  std::mutex mutex_;
  std::span<const cr_range> runs_;
  const ImageWriter& writer_;
  std::size_t run_ = 0;
  std::uint64_t offset_ = 0, done_ = 0;
  bool stopped_ = false;
  std::exception_ptr failure_;
};

}  // namespace

std::uint64_t bytes_in(std::span<const cr_range> ranges) {
  std::uint64_t bytes = 0;
  for (const cr_range& range : ranges) bytes += range.len;
  return bytes;
}

void write_pages(const Session& session, ImageWriter& writer, std::span<const cr_range> runs,
                 const Progress& progress) {
  const std::uint64_t total = bytes_in(runs);
  Dealer dealer(runs, writer);
  const auto work = [&] {
    try {
      const std::unique_ptr<char[]> buffer(new char[kChunk]);
      for (std::vector<cr_range> pieces; dealer.next(pieces);) {
        std::size_t filled = 0;
        for (const cr_range& piece : pieces) {
          session.read_snapshot(piece.addr, buffer.get() + filled, piece.len);
          filled += piece.len;
        }
        writer.write_pages(pieces, buffer.get());
        dealer.done(filled, total, progress);
      }
    } catch (...) {
      dealer.stop(std::current_exception());
    }
  };
  // Leave half of the CPUs to the program, which runs meanwhile.
  const unsigned limit =
      writer.in_order() ? 1 : std::clamp(std::thread::hardware_concurrency() / 2, 1U, kMaxThreads);
  const auto threads = static_cast<unsigned>(std::clamp<std::uint64_t>(total / kPerThread, 1, limit));
  std::vector<std::thread> helpers;
  for (unsigned i = 1; i < threads; ++i) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
  dealer.rethrow();
}

std::vector<cr_range> merged(std::vector<cr_range> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const cr_range& a, const cr_range& b) { return a.addr < b.addr; });
  std::size_t n = 0;
  for (const cr_range& range : ranges) {
    if (range.len == 0) continue;
    if (n && range.addr <= ranges[n - 1].addr + ranges[n - 1].len) {
      const std::uint64_t end = std::max(ranges[n - 1].addr + ranges[n - 1].len, range.addr + range.len);
      ranges[n - 1].len = end - ranges[n - 1].addr;
    } else {
      ranges[n++] = range;
    }
  }
  ranges.resize(n);
  return ranges;
}

namespace {

/** The parts of @p ranges that lie in @p scope; both sorted. */
std::vector<cr_range> intersect(std::span<const cr_range> scope, std::span<const cr_range> ranges) {
  std::vector<cr_range> out;
  for (std::size_t i = 0, j = 0; i < scope.size() && j < ranges.size();) {
    const std::uint64_t scope_end = scope[i].addr + scope[i].len, range_end = ranges[j].addr + ranges[j].len;
    const std::uint64_t start = std::max(scope[i].addr, ranges[j].addr), end = std::min(scope_end, range_end);
    if (start < end) out.push_back({start, end - start});
    if (scope_end < range_end)
      ++i;
    else
      ++j;
  }
  return out;
}

}  // namespace

std::vector<cr_range> unchanged_pages(const Image& parent, const Process& process, std::span<const cr_range> clean) {
  std::vector<cr_range> pages;
  for (const PageRun& run : parent.runs()) pages.push_back({run.addr, run.len});
  return intersect(intersect(page_scope(process), merged(std::move(pages))), clean);
}

namespace {

/** What one call of the module restores: its pages have their content in one file. */
struct FilePart {
  int fd;
  std::vector<cr_page_run> runs;
  std::vector<cr_range> scope;
  bool last;
};

/** The session's snapshot as the source. */
std::vector<FilePart> whole_snapshot(std::vector<cr_range>& scope) { return {{-1, {}, std::move(scope), true}}; }

/**
 * Divide @p scope by the files of @p image: each base gets its own pages, the image itself all else, also what has no
 * content and is dropped.
 * @param partly  the scope is only a part of the image's memory
 */
std::vector<FilePart> by_file(const Image& image, const std::vector<cr_range>& scope, bool partly) {
  std::vector<std::vector<cr_page_run>> runs(image.files());
  const auto add = [&](std::span<const PageRun> some) {
    for (const PageRun& run : some) runs[run.file].push_back({run.addr, run.len, run.offset});
  };
  if (partly)
    for (const cr_range& range : scope) add(image.runs_in(range));
  else
    add(image.runs());
  std::vector<FilePart> parts;
  std::vector<cr_range> elsewhere;
  for (std::size_t file = 1; file < runs.size(); ++file) {
    if (runs[file].empty()) continue;
    std::vector<cr_range> its;
    for (const cr_page_run& run : runs[file]) its.push_back({run.addr, run.len});
    elsewhere.insert(elsewhere.end(), its.begin(), its.end());
    parts.push_back({image.fd(file), std::move(runs[file]), std::move(its), false});
  }
  parts.push_back({image.fd(), std::move(runs[0]), elsewhere.empty() ? scope : without(scope, merged(std::move(elsewhere))), true});
  return parts;
}

}  // namespace

void restore_pages(Session& session, const Process& image, const PageSource& source, Report& report) {
  // With more pieces, a full comparison is cheaper.
  constexpr std::size_t kMaxPieces = 1 << 16;
  std::vector<cr_range> scope = page_scope(image);
  const bool partly = source.others_right || (source.tracked && source.changed.size() <= kMaxPieces);
  if (partly) scope = intersect(scope, source.changed);
  for (const FilePart& part : source.file ? by_file(*source.file, scope, partly) : whole_snapshot(scope)) {
    cr_restore request{};
    request.source_fd = part.fd;
    request.runs = reinterpret_cast<std::uintptr_t>(part.runs.data());
    request.nruns = part.runs.size();
    request.scope = reinterpret_cast<std::uintptr_t>(part.scope.data());
    request.nscope = part.scope.size();
    std::memcpy(request.id, source.id.data(), CR_ID_SIZE);
    // Without knowledge of what has changed, tracking begins when all is in place.
    if (source.tracked)
      request.flags = CR_RESTORE_DIRTY | CR_RESTORE_TRACK | (part.last ? 0 : CR_RESTORE_PART);
    else
      request.flags = part.last ? CR_RESTORE_TRACK : 0;
    session.restore(request);
    report.pages_restored += request.restored;
    report.pages_dropped += request.dropped;
    report.workers = std::max<std::uint64_t>(report.workers, request.workers);
  }
  // The module does not check checksums. The image was verified before; verify again if the file was written since.
  if (source.file && source.file->touched()) source.file->verify(scope);
  report.tracked = source.tracked || !source.file;
}

}  // namespace reprise
