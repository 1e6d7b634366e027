// SPDX-License-Identifier: LGPL-2.1-or-later
// Open the file of an image and give it its name.
#include <fcntl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/error.h"
#include "base/text.h"
#include "image/spool.h"
#include "image/system_error.h"
#include "image/writer.h"

namespace reprise {

using namespace image;

namespace {

// A hidden, recognizable name within NAME_MAX.
std::string temporary_name(const std::string& name) {
  std::uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random) random = static_cast<std::uint64_t>(::getpid());
  return "." + name.substr(0, 200) + ".tmp-" + hex(random);
}

int link_unnamed(int fd, int dir, const std::string& to) {
  const std::string from = "/proc/self/fd/" + std::to_string(fd);
  if (::linkat(AT_FDCWD, from.c_str(), dir, to.c_str(), AT_SYMLINK_FOLLOW) == 0) return 0;
  if (errno == ENOENT && ::linkat(fd, "", dir, to.c_str(), AT_EMPTY_PATH) == 0) return 0;  // no /proc
  return -1;
}

// Rename without replacing. Falls back to link and unlink: not every file system supports RENAME_NOREPLACE.
int rename_new(int dir, const std::string& from, const std::string& to) {
  if (::renameat2(dir, from.c_str(), dir, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return -1;
  if (::linkat(dir, from.c_str(), dir, to.c_str(), 0) != 0) return -1;
  ::unlinkat(dir, from.c_str(), 0);
  return 0;
}

}  // namespace

ImageWriter::ImageWriter(std::string path, WriterOptions options, int dir_fd)
    : name_(std::move(path)), options_(options) {
  const auto slash = name_.rfind('/');
  const std::string dir = slash == std::string::npos ? "." : name_.substr(0, slash + 1);
  final_name_ = slash == std::string::npos ? name_ : name_.substr(slash + 1);
  if (final_name_.empty()) throw Error(Failure::usage, EISDIR, "'" + name_ + "' does not name a file");
  dir_.reset(::openat(dir_fd, dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!dir_) fail("cannot open its directory", errno);

  struct stat st;
  if (::fstatat(dir_.get(), final_name_.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0) {
    if (!options_.clobber)
      throw Error(Failure::refused, EEXIST, name_ + " exists; choose another name or allow it to be replaced");
    if (S_ISDIR(st.st_mode)) throw Error(Failure::usage, EISDIR, name_ + " is a directory; name a file in it");
    if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
      throw Error(Failure::refused, EEXIST, name_ + " is not a regular file and will not be replaced");
  }

  if (options_.unnamed) fd_.reset(::openat(dir_.get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, options_.mode));
  for (int attempt = 0; !fd_ && attempt < 16; ++attempt) {
    // O_TMPFILE is not supported (EOPNOTSUPP), or failed for a reason that this call reports as well.
    temp_name_ = temporary_name(final_name_);
    fd_.reset(::openat(dir_.get(), temp_name_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, options_.mode));
    if (!fd_ && errno != EEXIST) {
      temp_name_.clear();
      fail("cannot create a file in its directory", errno);
    }
  }
  if (!fd_) fail("cannot create a temporary file", EEXIST);
  // Before there is content: whoever owns an image can forge it.
  if (options_.owner != static_cast<uid_t>(-1) && ::geteuid() == 0 && ::fchown(fd_.get(), options_.owner, static_cast<gid_t>(-1)))
    fail("cannot be given to its owner", errno);
  if (options_.compression) spool_to(std::move(fd_));
}

ImageWriter::ImageWriter(UniqueFd fd, std::string name, WriterOptions options)
    : name_(std::move(name)), options_(options) {
  struct stat st;
  const int flags = ::fcntl(fd.get(), F_GETFL);
  if (flags < 0 || ::fstat(fd.get(), &st) != 0) fail("cannot write to it", errno);
  if ((flags & O_ACCMODE) == O_RDONLY)
    throw Error(Failure::usage, EBADF, name_ + ": descriptor is not open for writing");
  // In place needs a readable descriptor (finish() reads back), and pwrite(2) ignores its offset with O_APPEND.
  if (S_ISREG(st.st_mode) && (flags & O_ACCMODE) == O_RDWR && !(flags & O_APPEND) &&
      ::lseek(fd.get(), 0, SEEK_CUR) == 0) {
    in_place_ = true;
    fd_ = std::move(fd);
    if (options_.compression) spool_to(std::move(fd_));
  } else {
    spool_to(std::move(fd));
  }
}

void ImageWriter::spool_to(UniqueFd fd) {
  out_ = std::move(fd);
  fd_ = spool_file(name_);
  if (options_.compression)
    compressor_ = make_compressor(options_.compression, name_, [this](const char* data, std::size_t len) { put_out(data, len); });
  // A write beyond RLIMIT_FSIZE raises SIGXFSZ, whose default action ends the program.
  struct stat st;
  rlimit limit;
  if (::fstat(out_.get(), &st) != 0 || !S_ISREG(st.st_mode) || ::getrlimit(RLIMIT_FSIZE, &limit) != 0) return;
  const off_t at = ::lseek(out_.get(), 0, ::fcntl(out_.get(), F_GETFL) & O_APPEND ? SEEK_END : SEEK_CUR);
  if (at < 0 || limit.rlim_cur == RLIM_INFINITY) return;
  out_most_ = limit.rlim_cur > static_cast<std::uint64_t>(at) ? limit.rlim_cur - static_cast<std::uint64_t>(at) : 0;
}

void ImageWriter::put_out(const char* data, std::size_t len) {
  if (len > out_most_ - put_out_) fail("cannot make the file longer", EFBIG);
  write_all(out_.get(), name_, data, len);
  put_out_ += len;
}

void ImageWriter::out(const char* data, std::size_t len) {
  if (compressor_)
    compressor_->write(data, len);
  else
    put_out(data, len);
}

ImageWriter::~ImageWriter() {
  if (finished_) return;
  if (!temp_name_.empty()) ::unlinkat(dir_.get(), temp_name_.c_str(), 0);
  // Empty the caller's file, so that nobody mistakes its content for an image.
  if (in_place_ && touched_ && ::ftruncate(out_ ? out_.get() : fd_.get(), 0) != 0) return;
}

// Link the old image to a second name. It keeps its first name until the new image replaces it.
void ImageWriter::keep_backup() {
  constexpr int kMost = 100000;
  for (int number = 1; number <= kMost; ++number) {
    const bool given = !options_.backup_name.empty();
    const int dir = given ? AT_FDCWD : dir_.get();
    const std::string name = given ? options_.backup_name : final_name_ + ".~" + std::to_string(number) + "~";
    if (::linkat(dir_.get(), final_name_.c_str(), dir, name.c_str(), 0) == 0 || errno == ENOENT) return;
    if (errno == EEXIST && !given) continue;
    // Not every file system supports hard links.
    if (errno == EEXIST || ::renameat2(dir_.get(), final_name_.c_str(), dir, name.c_str(), RENAME_NOREPLACE) != 0)
      throw Error(Failure::refused, errno, "the image before cannot be kept as " + name + ": " + error_text(errno));
    return;
  }
  fail("there are too many backups of it", EEXIST);
}

// Write to out_ what is in the temporary file.
void ImageWriter::finish_spooling() {
  if (::lseek(fd_.get(), 0, SEEK_SET) != 0) fail("rewinding the temporary file failed", errno);
  read_all(fd_.get(), name_, [this](const char* data, std::size_t len) { out(data, len); });
  if (compressor_) compressor_->finish();
}

void ImageWriter::publish() {
  if (out_) finish_spooling();
  const int fd = out_ ? out_.get() : fd_.get();
  const bool may_be_a_pipe = out_ && !dir_ && !in_place_;
  if (options_.sync && ::fsync(fd) != 0 && !(may_be_a_pipe && (errno == EINVAL || errno == EROFS))) fail("syncing failed", errno);
  if (dir_) return give_name(fd);
  // Leave the position where writing would: the caller may append after the image.
  if (in_place_ && ::lseek(fd, 0, SEEK_END) < 0) fail("seeking failed", errno);
}

void ImageWriter::give_name(int fd) {
  if (options_.backup && options_.clobber) keep_backup();
  int result;
  if (temp_name_.empty()) {
    result = link_unnamed(fd, dir_.get(), final_name_);
    if (result != 0 && errno == EEXIST && options_.clobber) {
      // linkat(2) never replaces a file: link to a temporary name, then rename.
      std::string name = temporary_name(final_name_);
      if (link_unnamed(fd, dir_.get(), name) != 0) fail("cannot name the file", errno);
      temp_name_ = name;
    }
  } else {
    result = -1;
  }
  if (!temp_name_.empty())
    result = options_.clobber ? ::renameat(dir_.get(), temp_name_.c_str(), dir_.get(), final_name_.c_str())
                              : rename_new(dir_.get(), temp_name_, final_name_);
  if (result != 0 && errno == EEXIST)
    throw Error(Failure::refused, EEXIST,
                name_ + " has come into being meanwhile; choose another name or allow it to be replaced");
  if (result != 0) fail("cannot give the file its name", errno);
  temp_name_.clear();
  if (options_.sync && ::fsync(dir_.get()) != 0 && errno != EINVAL) fail("syncing its directory failed", errno);
}

}  // namespace reprise
