// SPDX-License-Identifier: GPL-2.0-only
#include "crd/staging.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "crd/manifest.h"
#include "job/files.h"
#include "job/log.h"
#include "job/names.h"

namespace reprise::crd {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kPiece = 1 << 20;

[[noreturn]] void fail(const std::string& what) { throw std::system_error(errno, std::generic_category(), what); }

/** Fill @p buffer with bytes of @p fd from offset @p at on. @return number of bytes, less only at end of file */
std::size_t read_piece(int fd, std::uint64_t at, std::vector<char>& buffer, const std::string& path) {
  std::size_t got = 0;
  while (got < buffer.size()) {
    const ssize_t n = ::pread(fd, buffer.data() + got, buffer.size() - got, static_cast<off_t>(at + got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot read " + path);
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  return got;
}

void write_piece(int fd, std::uint64_t at, const char* data, std::size_t size, const std::string& path) {
  while (size > 0) {
    const ssize_t n = ::pwrite(fd, data, size, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("cannot write " + path);
    data += n;
    at += static_cast<std::uint64_t>(n);
    size -= static_cast<std::size_t>(n);
  }
}

/** Limits the rate of a copy. */
class Pace {
 public:
  explicit Pace(std::uint64_t bytes_per_second) : rate_(bytes_per_second) {}
  void spent(std::uint64_t bytes, const std::function<bool()>& keep_on) {
    if (rate_ == 0) return;
    done_ += bytes;
    const auto due = begin_ + std::chrono::duration<double>(static_cast<double>(done_) / static_cast<double>(rate_));
    while (std::chrono::steady_clock::now() < due && (!keep_on || keep_on()))
      std::this_thread::sleep_for(std::min<std::chrono::duration<double>>(due - std::chrono::steady_clock::now(), std::chrono::milliseconds(200)));
  }

 private:
  std::uint64_t rate_, done_ = 0;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/** JOBDIR/wave-N/.rank-R.img.part */
std::string part_of(const std::string& path) {
  const fs::path whole(path);
  return (whole.parent_path() / ("." + whole.filename().string() + ".part")).string();
}

bool complete(const std::string& to, const Manifest& manifest) {
  try {
    const Manifest there = read_manifest(job::manifest_path(to));
    return there.bytes == manifest.bytes && there.checksum == manifest.checksum && fs::file_size(to) == manifest.bytes &&
           file_checksum(to) == manifest.checksum;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace

std::uint64_t stage_image(const std::string& from, const std::string& to, const CopyLimits& limits) {
  const Manifest manifest = read_manifest(job::manifest_path(from));
  if (complete(to, manifest)) {
    if (limits.progress) limits.progress(manifest.bytes);
    return manifest.bytes;
  }
  std::error_code error;
  // Create only the last directory. If its parent is missing, the shared file system may not be mounted, and a local copy
  // would pass for a staged one.
  fs::create_directory(fs::path(to).parent_path(), error);
  if (error) throw std::system_error(error, "cannot make " + fs::path(to).parent_path().string());
  UniqueFd source(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
  if (!source) fail("cannot open " + from);
  const std::string part = part_of(to);
  UniqueFd target(::open(part.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!target) fail("cannot create " + part);
  struct stat st {};
  if (::fstat(target.get(), &st) != 0) fail("cannot look at " + part);
  auto known = static_cast<std::uint64_t>(st.st_size);  // left by an earlier attempt; compared while copying
  XXH3_state_t* state = XXH3_createState();
  const std::unique_ptr<XXH3_state_t, void (*)(XXH3_state_t*)> owner(state, [](XXH3_state_t* it) { XXH3_freeState(it); });
  XXH3_64bits_reset(state);
  std::vector<char> buffer(kPiece), other(kPiece);
  Pace pace(limits.bytes_per_second);
  std::uint64_t at = 0;
  for (;;) {
    if (limits.keep_on && !limits.keep_on()) throw std::system_error(ECANCELED, std::generic_category(), "copying of " + from);
    const std::size_t got = read_piece(source.get(), at, buffer, from);
    if (got == 0) break;
    XXH3_64bits_update(state, buffer.data(), got);
    bool same = false;
    if (at + got <= known) {
      other.resize(got);
      same = read_piece(target.get(), at, other, part) == got && std::equal(other.begin(), other.end(), buffer.begin());
      other.resize(kPiece);
      if (!same) known = 0;
    }
    if (!same) {
      write_piece(target.get(), at, buffer.data(), got, part);
      pace.spent(got, limits.keep_on);
    }
    at += got;
    if (limits.progress) limits.progress(got);
  }
  if (at != manifest.bytes || XXH3_64bits_digest(state) != manifest.checksum) {
    ::unlink(part.c_str());
    throw std::runtime_error(from + " is damaged: its checksum differs from that at the checkpoint");
  }
  if (::ftruncate(target.get(), static_cast<off_t>(at)) != 0 || ::fsync(target.get()) != 0) fail("cannot sync " + part);
  target.reset();
  // The manifest first: an image without it would be of no use.
  job::write_atomically(job::manifest_path(to), job::read_file(job::manifest_path(from)));
  if (::rename(part.c_str(), to.c_str()) != 0) fail("cannot rename " + part);
  job::sync_directory(fs::path(to).parent_path());
  return at;
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
        const auto size = fs::file_size(job::image_path(local, message.wave(), rank), error);
        if (!error) all += size;
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
          report.set_bytes(stage_image(job::image_path(local, message.wave(), rank), job::image_path(shared, message.wave(), rank), limits));
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
