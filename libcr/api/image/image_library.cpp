// SPDX-License-Identifier: LGPL-2.1-or-later
/** @file libcr-image.so: reads images for libcr.so, see api/image_api.h. */
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "api/image_api.h"
#include "base/codes.h"
#include "base/error.h"
#include "image/reader.h"

namespace reprise::api {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::size_t kPart = 256 * kPage;  // bytes read at a time

thread_local std::string t_sentence;

int code_of(const Error& error) {
  if (error.kind() == Failure::permanent) return public_code(error.code());
  return error.code() != 0 ? error.code() : CR_EIMAGE;
}

/** Run @p action. @return its result; for an exception the negative code, with t_sentence set */
template <class Action>
auto guarded(Action&& action) -> decltype(action()) {
  using Result = decltype(action());
  try {
    return action();
  } catch (const Error& error) {
    t_sentence = error.what();
    return static_cast<Result>(-code_of(error));
  } catch (const std::bad_alloc&) {
    t_sentence = "out of memory";
    return static_cast<Result>(-ENOMEM);
  } catch (const std::exception& error) {
    t_sentence = error.what();
    return static_cast<Result>(-CR_EIMAGE);
  }
}

int refuse(int code, const char* sentence) {
  t_sentence = sentence;
  return -code;
}

Image& image_of(void* image) { return *static_cast<Image*>(image); }
const Image& image_of(const void* image) { return *static_cast<const Image*>(image); }

int open_image(const char* path, void** image) {
  return guarded([&] {
    *image = new Image(Image::open(path));
    return 0;
  });
}

void close_image(void* image) { delete static_cast<Image*>(image); }

pid_t pid_of(const void* image) { return image_of(image).process().pid(); }
const char* name_of(const void* image) { return image_of(image).process().comm().c_str(); }
int threads_of(const void* image) { return image_of(image).process().threads_size(); }
long runs_of(const void* image) { return static_cast<long>(image_of(image).runs().size()); }

pid_t tid_of(const void* image, int index) {
  const Process& process = image_of(image).process();
  if (index < 0 || index >= process.threads_size()) return refuse(EINVAL, "the image has no such thread");
  return process.threads(index).tid();
}

int run_of(const void* image, long index, cr_image_run* run) {
  const auto& runs = image_of(image).runs();
  if (index < 0 || static_cast<std::size_t>(index) >= runs.size())
    return refuse(EINVAL, "the image has no such range of memory");
  const PageRun& found = runs[static_cast<std::size_t>(index)];
  *run = {found.addr, found.len};
  return 0;
}

/** @return bytes of saved memory from @p addr to the end of its run, 0 if @p addr is in no run */
std::uint64_t saved_at(const Image& image, std::uint64_t addr) {
  const auto& runs = image.runs();
  auto after = std::upper_bound(runs.begin(), runs.end(), addr,
                                [](std::uint64_t at, const PageRun& run) { return at < run.addr; });
  if (after == runs.begin()) return 0;
  const PageRun& run = *std::prev(after);
  return addr - run.addr < run.len ? run.len - (addr - run.addr) : 0;
}

ssize_t read_image(void* opened, std::uint64_t addr, void* buf, std::size_t len) {
  return guarded([&]() -> ssize_t {
    const Image& image = image_of(opened);
    auto* to = static_cast<char*>(buf);
    std::size_t done = 0;
    std::vector<char> pages;
    while (done < len) {
      const std::uint64_t at = addr + done;
      const std::uint64_t offset = at % kPage;
      const std::size_t part = static_cast<std::size_t>(
          std::min<std::uint64_t>({saved_at(image, at), len - done, kPart - offset}));
      if (part == 0) break;
      const std::size_t whole = (offset + part + kPage - 1) / kPage * kPage;
      pages.resize(whole);
      image.read_pages(at - offset, pages.data(), whole);
      std::memcpy(to + done, pages.data() + offset, part);
      done += part;
    }
    if (done == 0 && len > 0) throw Error(Failure::usage, EFAULT, "the image does not hold memory at this address");
    return static_cast<ssize_t>(done);
  });
}

int verify_image(void* image) {
  return guarded([&] {
    image_of(image).verify_all();
    return 0;
  });
}

char* json_of(void* image) {
  std::string text;
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  if (!google::protobuf::util::MessageToJsonString(image_of(image).process(), &text, options).ok()) {
    t_sentence = "the image's state cannot be shown as JSON";
    return nullptr;
  }
  return strdup(text.c_str());
}

const char* sentence() { return t_sentence.c_str(); }

constexpr ImageApi kApi = {kImageApiVersion, open_image, close_image, pid_of,       name_of, threads_of, tid_of,
                           runs_of,          run_of,     read_image,  verify_image, json_of, sentence};

}  // namespace
}  // namespace reprise::api

extern "C" __attribute__((visibility("default"))) const reprise::api::ImageApi* reprise_image_api() {
  return &reprise::api::kApi;
}
