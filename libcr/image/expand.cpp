// SPDX-License-Identifier: LGPL-2.1-or-later
#include <cerrno>
#include <cstring>
#include <vector>

#include <lz4frame.h>
#include <unistd.h>
#include <zstd.h>

#include "image/compression.h"
#include "image/format.h"
#include "image/spool.h"
#include "image/system_error.h"
#include "image/zeros.h"

namespace reprise::image {
namespace {

constexpr std::size_t kPart = 1 << 20;  // bytes read and written at once, a multiple of kPage

struct Step {
  std::size_t used = 0, made = 0;
  const char* error = nullptr;
};

class Decoder {
 public:
  virtual ~Decoder() = default;
  /** Expand from @p in to @p out, as much as is there and has room. */
  virtual Step step(const char* in, std::size_t have, char* out, std::size_t room) = 0;
  /** Has all of it been expanded that has begun? */
  bool whole() const { return left_ == 0; }

 protected:
  std::size_t left_ = 1;
};

class ZstdDecoder final : public Decoder {
 public:
  Step step(const char* from, std::size_t have, char* to, std::size_t room) override {
    ZSTD_inBuffer in{from, have, 0};
    ZSTD_outBuffer out{to, room, 0};
    left_ = ZSTD_decompressStream(context_.get(), &out, &in);
    return {in.pos, out.pos, ZSTD_isError(left_) ? ZSTD_getErrorName(left_) : nullptr};
  }

 private:
  struct Free {
    void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
  };
  std::unique_ptr<ZSTD_DCtx, Free> context_{ZSTD_createDCtx()};
};

class Lz4Decoder final : public Decoder {
 public:
  Lz4Decoder() {
    LZ4F_dctx* context = nullptr;
    if (LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION))) throw std::bad_alloc();
    context_.reset(context);
  }
  Step step(const char* from, std::size_t have, char* to, std::size_t room) override {
    left_ = LZ4F_decompress(context_.get(), to, &room, from, &have, nullptr);
    return {have, room, LZ4F_isError(left_) ? LZ4F_getErrorName(left_) : nullptr};
  }

 private:
  struct Free {
    void operator()(LZ4F_dctx* context) const { LZ4F_freeDecompressionContext(context); }
  };
  std::unique_ptr<LZ4F_dctx, Free> context_;
};

std::size_t read_at(int fd, const std::string& name, char* buf, std::size_t len, std::uint64_t at) {
  for (;;) {
    const ssize_t got = ::pread(fd, buf, len, static_cast<off_t>(at));
    if (got >= 0) return static_cast<std::size_t>(got);
    if (errno != EINTR) throw_system(name, "reading failed", errno);
  }
}

std::unique_ptr<Decoder> decoder_of(int fd, const std::string& name) {
  constexpr unsigned char zstd[] = {0x28, 0xb5, 0x2f, 0xfd}, lz4[] = {0x04, 0x22, 0x4d, 0x18};
  char magic[sizeof zstd];
  if (read_at(fd, name, magic, sizeof magic, 0) != sizeof magic) return nullptr;
  if (!std::memcmp(magic, zstd, sizeof magic)) return std::make_unique<ZstdDecoder>();
  if (!std::memcmp(magic, lz4, sizeof magic)) return std::make_unique<Lz4Decoder>();
  return nullptr;
}

/** A file that is written from its beginning; pages of zeros become holes. */
class Expanded {
 public:
  explicit Expanded(const std::string& name) : name_(name), fd_(spool_file(name)), part_(kPart) {}
  char* room() { return part_.data() + filled_; }
  std::size_t left() const { return part_.size() - filled_; }
  void add(std::size_t len) {
    filled_ += len;
    if (left() == 0) flush();
  }
  UniqueFd finish() {
    flush();
    if (::ftruncate(fd_.get(), static_cast<off_t>(size_)) != 0) fail();
    return std::move(fd_);
  }

 private:
  [[noreturn]] void fail() const { throw_system(name_, "expanding it to a temporary file failed", errno); }
  void flush() {
    // The rest shall not be expanded of what is no image.
    if (size_ == 0 && (filled_ < 4 || std::memcmp(part_.data(), "\177ELF", 4) != 0))
      throw Error(Failure::permanent, ENOEXEC, name_ + ": what it contains, compressed, is not an image");
    for_each_content(part_.data(), filled_, [&](std::size_t from, std::size_t len) {
      while (len > 0) {
        const ssize_t put = ::pwrite(fd_.get(), part_.data() + from, len, static_cast<off_t>(size_ + from));
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) fail();
        from += static_cast<std::size_t>(put);
        len -= static_cast<std::size_t>(put);
      }
    });
    size_ += filled_;
    filled_ = 0;
  }

  const std::string& name_;
  UniqueFd fd_;
  std::vector<char> part_;
  std::size_t filled_ = 0;
  std::uint64_t size_ = 0;
};

}  // namespace

UniqueFd expand(int fd, const std::string& name) {
  const std::unique_ptr<Decoder> decoder = decoder_of(fd, name);
  if (!decoder) return {};
  Expanded out(name);
  std::vector<char> in(kPart);
  std::uint64_t at = 0;
  std::size_t have = 0, used = 0;
  for (bool ended = false;;) {
    if (used == have) {
      have = read_at(fd, name, in.data(), in.size(), at);
      at += have;
      used = 0;
      ended = have == 0;
    }
    if (ended && decoder->whole()) return out.finish();
    const Step step = decoder->step(in.data() + used, have - used, out.room(), out.left());
    if (step.error) throw Error(Failure::permanent, EILSEQ, name + ": its compressed content is damaged: " + step.error);
    if (ended && step.made == 0) throw Error(Failure::permanent, EILSEQ, name + ": its compressed content is cut off");
    used += step.used;
    out.add(step.made);
  }
}

}  // namespace reprise::image
