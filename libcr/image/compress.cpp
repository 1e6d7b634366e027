// SPDX-License-Identifier: LGPL-2.1-or-later
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <lz4frame.h>
#include <zstd.h>

#include "base/error.h"
#include "image/compression.h"

namespace reprise {

Compression Compression::parse(const std::string& text) {
  const auto colon = text.find(':');
  const std::string method = text.substr(0, colon);
  const std::string_view level = colon == std::string::npos ? "0" : std::string_view(text).substr(colon + 1);
  Compression out;
  if (method != "lz4" && method != "zstd")
    throw Error(Failure::usage, EINVAL, "'" + method + "' is no compression: lz4 and zstd are");
  out.method = method == "lz4" ? Method::lz4 : Method::zstd;
  const int most = out.method == Method::lz4 ? LZ4F_compressionLevel_max() : ZSTD_maxCLevel();
  const auto [end, error] = std::from_chars(level.begin(), level.end(), out.level);
  if (error != std::errc() || end != level.end() || out.level > most || out.level < (colon == std::string::npos ? 0 : 1))
    throw Error(Failure::usage, EINVAL, method + " has no level '" + std::string(level) + "': the levels are 1 to " + std::to_string(most));
  return out;
}

namespace image {
namespace {

constexpr std::size_t kInput = 1 << 20;  // bytes of one step

/** The program runs on meanwhile: leave it half of the CPUs. */
int workers() { return static_cast<int>(std::clamp(std::thread::hardware_concurrency() / 2, 1U, 16U)); }

[[noreturn]] void no_memory(const std::string& name) {
  throw Error(Failure::temporary, ENOMEM, name + ": not enough memory to compress it");
}

class Zstd final : public Compressor {
 public:
  Zstd(int level, std::string name, Sink sink)
      : name_(std::move(name)), sink_(std::move(sink)), context_(ZSTD_createCCtx()), out_(ZSTD_CStreamOutSize()) {
    if (!context_) no_memory(name_);
    check(ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, level ? level : ZSTD_CLEVEL_DEFAULT));
    check(ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_checksumFlag, 1));
    // A library without threads does it in ours.
    if (workers() > 1) ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_nbWorkers, workers());
  }
  void write(const char* data, std::size_t len) override { feed(data, len, ZSTD_e_continue); }
  void finish() override { feed(nullptr, 0, ZSTD_e_end); }

 private:
  struct Free {
    void operator()(ZSTD_CCtx* context) const { ZSTD_freeCCtx(context); }
  };
  void check(std::size_t result) const {
    if (ZSTD_isError(result)) throw Error(Failure::temporary, EIO, name_ + ": compressing failed: " + ZSTD_getErrorName(result));
  }
  void feed(const char* data, std::size_t len, ZSTD_EndDirective mode) {
    ZSTD_inBuffer in{data, len, 0};
    for (bool more = true; more;) {
      ZSTD_outBuffer out{out_.data(), out_.size(), 0};
      const std::size_t left = ZSTD_compressStream2(context_.get(), &out, &in, mode);
      check(left);
      if (out.pos) sink_(out_.data(), out.pos);
      more = mode == ZSTD_e_end ? left != 0 : in.pos < in.size;
    }
  }

  std::string name_;
  Sink sink_;
  std::unique_ptr<ZSTD_CCtx, Free> context_;
  std::vector<char> out_;
};

class Lz4 final : public Compressor {
 public:
  Lz4(int level, std::string name, Sink sink) : name_(std::move(name)), sink_(std::move(sink)) {
    how_.frameInfo.blockSizeID = LZ4F_max1MB;
    how_.frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled;
    how_.compressionLevel = level;
    LZ4F_cctx* context = nullptr;
    if (LZ4F_isError(LZ4F_createCompressionContext(&context, LZ4F_VERSION))) no_memory(name_);
    context_.reset(context);
    out_.resize(LZ4F_compressBound(kInput, &how_) + LZ4F_HEADER_SIZE_MAX);
  }
  void write(const char* data, std::size_t len) override {
    begin();
    while (len > 0) {
      const std::size_t part = std::min(len, kInput);
      give(LZ4F_compressUpdate(context_.get(), out_.data(), out_.size(), data, part, nullptr));
      data += part;
      len -= part;
    }
  }
  void finish() override {
    begin();
    give(LZ4F_compressEnd(context_.get(), out_.data(), out_.size(), nullptr));
  }

 private:
  struct Free {
    void operator()(LZ4F_cctx* context) const { LZ4F_freeCompressionContext(context); }
  };
  void begin() {
    if (!std::exchange(begun_, true)) give(LZ4F_compressBegin(context_.get(), out_.data(), out_.size(), &how_));
  }
  void give(std::size_t size) {
    if (LZ4F_isError(size)) throw Error(Failure::temporary, EIO, name_ + ": compressing failed: " + LZ4F_getErrorName(size));
    if (size) sink_(out_.data(), size);
  }

  std::string name_;
  Sink sink_;
  LZ4F_preferences_t how_ = LZ4F_INIT_PREFERENCES;
  std::unique_ptr<LZ4F_cctx, Free> context_;
  bool begun_ = false;
  std::vector<char> out_;
};

}  // namespace

std::unique_ptr<Compressor> make_compressor(const Compression& how, const std::string& name, Compressor::Sink sink) {
  if (how.method == Compression::Method::lz4) return std::make_unique<Lz4>(how.level, name, std::move(sink));
  return std::make_unique<Zstd>(how.level, name, std::move(sink));
}

}  // namespace image
}  // namespace reprise
