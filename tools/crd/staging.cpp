// SPDX-License-Identifier: GPL-2.0-only
#include "crd/staging.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/unique_fd.h"
#include "crd/images/manifest.h"
#include "job/files.h"
#include "job/log.h"
#include "job/names.h"

namespace reprise::crd {
namespace {

namespace fs = std::filesystem;

/** JOBDIR/wave-N/.rank-R.img.part */
std::string part_of(const std::string& path) {
  const fs::path whole(path);
  return (whole.parent_path() / ("." + whole.filename().string() + ".part")).string();
}

/**
 * Let the file of @p old become @p part, unless an interrupted copy is there.
 * @param rewritten receives how often such a file has been written over then
 * @return the image that it was; none: the copy begins anew
 */
std::optional<Image> take_over(const Old& old, const std::string& part, unsigned& rewritten) {
  std::error_code error;
  if (old.path.empty() || !fs::exists(old.path, error) || fs::exists(part, error)) return std::nullopt;
  try {
    rewritten = read_manifest(job::manifest_path(old.path)).rewritten + 1;
    if (rewritten > old.most || ::rename(old.path.c_str(), part.c_str()) != 0) return std::nullopt;
    Image image = Image::open(part);
    // No image any more: nobody may take it for one while it is written over.
    fs::resize_file(part, image.file_size() - 1);
    return image;
  } catch (const std::exception& problem) {
    spdlog::debug("{} is not written over: {}", old.path, problem.what());
    return std::nullopt;
  }
}

/** Writes what it is given to a file, if that does not have it yet. */
class Target {
 public:
  /** @param compare the file is that of an interrupted copy: it may have the beginning */
  Target(std::string path, bool compare) : path_(std::move(path)), fd_(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    if (!fd_) job::throw_errno("cannot create " + path_);
    struct stat st {};
    if (::fstat(fd_.get(), &st) != 0) job::throw_errno("cannot look at " + path_);
    if (compare) known_ = static_cast<std::uint64_t>(st.st_size);
  }
  /** @return whether it was written */
  bool put(std::uint64_t at, std::span<const char> content) {
    if (at + content.size() <= known_) {
      there_.resize(content.size());
      if (read_piece(fd_.get(), at, there_, path_) == content.size() && std::equal(there_.begin(), there_.end(), content.begin()))
        return false;
      known_ = 0;
    }
    write_piece(fd_.get(), at, content.data(), content.size(), path_);
    return true;
  }
  void finish(std::uint64_t size) {
    if (::ftruncate(fd_.get(), static_cast<off_t>(size)) != 0 || ::fsync(fd_.get()) != 0) job::throw_errno("cannot sync " + path_);
    fd_.reset();
  }

 private:
  std::string path_;
  UniqueFd fd_;
  std::uint64_t known_ = 0;
  std::vector<char> there_;
};

}  // namespace

Copied stage_image(const std::string& from, const std::string& to, const CopyLimits& limits, const Old& old) {
  Manifest manifest = read_manifest(job::manifest_path(from));
  if (complete(to, manifest)) {
    if (limits.progress) limits.progress(manifest.bytes);
    return {manifest.bytes, 0};
  }
  std::error_code error;
  // Create only the last directory. If its parent is missing, the shared file system may not be mounted, and a local copy
  // would pass for a staged one.
  fs::create_directory(fs::path(to).parent_path(), error);
  if (error) throw std::system_error(error, "cannot make " + fs::path(to).parent_path().string());
  const Image local = Image::open(from);
  const WholeImage source(local);
  if (!is_of(source, manifest)) throw std::runtime_error(from + " is damaged: it is not the image that its manifest describes");
  const std::string part = part_of(to);
  unsigned rewritten = 0;
  const std::optional<Image> base = take_over(old, part, rewritten);
  Copied copied{manifest.bytes, manifest.bytes};
  Target target(part, !base);
  Pace pace(limits.bytes_per_second);
  std::uint64_t done = 0;
  try {
    source.read_file(base ? &*base : nullptr, [&](std::uint64_t at, std::span<const char> content) {
      stop_if_told(limits, "copying of " + from);
      if (target.put(at, content)) pace.spent(content.size(), limits.keep_on);
      copied.kept -= content.size();
      if (limits.progress) limits.progress(at + content.size() - done);
      done = at + content.size();
    });
  } catch (const Error&) {  // a page of the source is damaged
    ::unlink(part.c_str());
    throw;
  }
  target.finish(manifest.bytes);
  if (const Image copy = Image::open(part); !is_of(copy, manifest)) {
    ::unlink(part.c_str());
    throw std::runtime_error(from + " has changed while it was copied");
  }
  // The manifest first: an image without it would be of no use.
  manifest.rewritten = base ? rewritten : 0;
  manifest.stands_alone();
  job::write_atomically(job::manifest_path(to), manifest_text(manifest));
  if (::rename(part.c_str(), to.c_str()) != 0) job::throw_errno("cannot rename " + part);
  job::sync_directory(fs::path(to).parent_path());
  return copied;
}

Staging::~Staging() {
  stop();
  thread_.join();
}

void Staging::stop() { ++turn_; }

void Staging::begin(const job::Stage& message) {
  const std::string local = node_.images(), shared = node_.job_directory();
  if (shared.empty()) return;
  const unsigned turn = turn_;
  // Start after the disk thread's pending tasks for the wave.
  node_.on_disk([] { return 0; }, [this, message, local, shared, turn](int) {
    asio::post(thread_, [this, message, local, shared, turn] {
      const auto keep_on = [this, turn] { return turn == turn_; };
      std::vector<std::uint32_t> ranks(message.ranks().begin(), message.ranks().end());
      std::error_code error;
      const std::string from = job::wave_directory(local, message.wave());
      if (ranks.empty())
        for (const auto& entry : fs::directory_iterator(from, error)) {
          unsigned rank = 0;
          if (std::sscanf(entry.path().filename().c_str(), "rank-%u.img", &rank) == 1 && entry.path().extension() == ".img")
            ranks.push_back(rank);
        }
      std::sort(ranks.begin(), ranks.end());
      job::Staged total;
      total.set_wave(message.wave());
      std::uint64_t all = 0;
      for (const std::uint32_t rank : ranks) {
        try {
          all += read_manifest(job::manifest_path(job::image_path(local, message.wave(), rank))).bytes;
        } catch (const std::exception&) {  // staging it will tell
        }
      }
      total.set_total_bytes(all);
      std::uint64_t done = 0, told = 0;
      const auto tell = [&](const job::Staged& staged) {
        asio::post(node_.loop, [this, staged] {
          job::Up up;
          *up.mutable_staged() = staged;
          node_.send(std::move(up));
        });
      };
      for (const std::uint32_t rank : ranks) {
        if (!keep_on()) return;
        job::Staged one = total;
        job::RankStaged& report = *one.add_ranks();
        report.set_rank(rank);
        report.set_begin_unix_ns(unix_ns());
        CopyLimits limits{node_.job.stage_bytes_per_second(), keep_on, [&](std::uint64_t bytes) {
                            done += bytes;
                            if (done - told < (256u << 20)) return;
                            told = done;
                            job::Staged progress = total;
                            progress.set_done_bytes(done);
                            tell(progress);
                          }};
        try {
          Old old;
          if (const unsigned most = node_.job.incremental()) old = {job::dropped_image_path(shared, rank), most};
          const Copied copied = stage_image(job::image_path(local, message.wave(), rank), job::image_path(shared, message.wave(), rank), limits, old);
          report.set_bytes(copied.bytes);
          report.set_kept_bytes(copied.kept);
        } catch (const std::exception& failure) {
          if (!keep_on()) return;
          report.set_error(failure.what());
        }
        report.set_end_unix_ns(unix_ns());
        one.set_done_bytes(done);
        one.set_finished(rank == ranks.back());
        tell(one);
      }
      if (ranks.empty()) {
        total.set_finished(true);
        tell(total);
      }
    });
  });
}

}  // namespace reprise::crd
