// SPDX-License-Identifier: GPL-2.0-only
#include "crrun/output_record.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "job/files.h"

namespace reprise::job {

namespace {

/** First in the file, then for each rank and stream an Entry and a ring of `kept` bytes. */
struct Header {
  char magic[8] = {'c', 'r', 'o', 'u', 't', 'p', 'u', '1'};
  std::uint64_t ranks = 0, kept = 0;
  bool operator==(const Header&) const = default;
};

bool get(int fd, std::uint64_t at, void* data, std::size_t size) {
  return ::pread(fd, data, size, static_cast<off_t>(at)) == static_cast<ssize_t>(size);
}

}  // namespace

OutputRecord::OutputRecord(std::string path, std::uint32_t ranks, std::size_t kept)
    : path_(std::move(path)), ranks_(ranks), kept_(kept) {
  Header want, have;
  want.ranks = ranks_;
  want.kept = kept_;
  try {
    make_private_directory(std::filesystem::path(path_).parent_path());
  } catch (const std::exception&) {
    return;
  }
  fd_ = UniqueFd(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd_ || (get(fd_.get(), 0, &have, sizeof have) && have == want)) return;
  // Of another job's form: nothing in it can be used. The streams' places are holes until they are written.
  if (::ftruncate(fd_.get(), 0) != 0 || ::ftruncate(fd_.get(), static_cast<off_t>(place(ranks_, 1))) != 0)
    remove();
  else
    put(0, &want, sizeof want);
}

bool OutputRecord::valid(Rank rank, std::uint32_t stream) const { return fd_ && rank < ranks_ && (stream == 1 || stream == 2); }

std::uint64_t OutputRecord::place(Rank rank, std::uint32_t stream) const {
  return sizeof(Header) + (std::uint64_t{rank} * 2 + stream - 1) * (sizeof(Entry) + kept_);
}

std::optional<OutputRecord::Printed> OutputRecord::read(Rank rank, std::uint32_t stream) const {
  Entry entry;
  const std::uint64_t at = place(rank, stream);
  if (!valid(rank, stream) || !get(fd_.get(), at, &entry, sizeof entry)) return std::nullopt;
  if (entry.end == 0 || entry.begin > entry.end || entry.end - entry.begin > kept_) return std::nullopt;
  Printed out{entry.end, std::string(entry.end - entry.begin, '\0')};
  for (std::uint64_t done = 0; done < out.history.size();) {
    const std::uint64_t in_ring = (entry.begin + done) % kept_;
    const std::size_t part = std::min<std::uint64_t>(out.history.size() - done, kept_ - in_ring);
    if (!get(fd_.get(), at + sizeof entry + in_ring, out.history.data() + done, part)) return std::nullopt;
    done += part;
  }
  return out;
}

void OutputRecord::wrote(Rank rank, std::uint32_t stream, std::uint64_t offset, std::string_view data) {
  if (!valid(rank, stream) || data.empty()) return;
  const std::uint64_t at = place(rank, stream), from = offset - std::min<std::uint64_t>(offset, data.size());
  Entry entry;
  if (!get(fd_.get(), at, &entry, sizeof entry)) return remove();
  // Output that has changed after a rollback, or of which bytes are missing.
  if (from < entry.begin || from > entry.end) entry.begin = from;
  // crrun may be killed at any moment: bytes that are being replaced must not count.
  const std::uint64_t begin = std::max(entry.begin, offset - std::min<std::uint64_t>(offset, kept_));
  entry.begin = std::min(begin, from);
  entry.end = from;
  put(at, &entry, sizeof entry);
  const std::size_t last = std::min(data.size(), kept_);
  for (std::size_t done = data.size() - last; done < data.size();) {
    const std::uint64_t in_ring = (from + done) % kept_;
    const std::size_t part = std::min<std::uint64_t>(data.size() - done, kept_ - in_ring);
    put(at + sizeof entry + in_ring, data.data() + done, part);
    done += part;
  }
  entry.begin = begin;
  entry.end = offset;
  put(at, &entry, sizeof entry);
}

/** A record that cannot be written is worse than none. */
void OutputRecord::put(std::uint64_t at, const void* data, std::size_t size) {
  if (fd_ && ::pwrite(fd_.get(), data, size, static_cast<off_t>(at)) != static_cast<ssize_t>(size)) remove();
}

void OutputRecord::remove() {
  if (fd_) ::unlink(path_.c_str());
  fd_.reset();
}

}  // namespace reprise::job
