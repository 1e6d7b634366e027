// SPDX-License-Identifier: GPL-2.0-only
// Whole images: each must open or be refused by an Error. The seal is corrected right before the reader sees it:
// otherwise every mutated image would fail at the seal.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "graft.h"
#include "image/reader.h"

using namespace reprise;

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

// Uses an opened image as the restoring code does.
void use(const Image& image) {
  std::string page(image::kPage, '\0');
  for (const auto& thread : image.process().threads()) {
    if (image.regs(thread.tid()).fpregs.size() != image::kFpregsSize) std::abort();
  }
  std::uint64_t end = 0;
  for (const auto& run : image.runs()) {
    if (run.addr < end || run.len == 0 || run.addr + run.len > image::kTaskSize) std::abort();
    if (run.offset + run.len > image.file_size()) std::abort();
    end = run.addr + run.len;
    if (!image.has_page(run.addr) || image.runs_in({run.addr, run.len}).size() != 1) std::abort();
    try {
      image.read_pages(run.addr, page.data(), page.size());
    } catch (const Error&) {
    }
  }
  for (const auto& object : image.process().shared_objects())
    for (const auto& extent : object.extents()) {
      std::string content(std::min<std::uint64_t>(extent.length(), 100000), '\0');
      try {
        image.read_blob(extent.blob_offset(), content.data(), content.size());
      } catch (const Error&) {
      }
    }
  for (const auto& descriptor : image.process().descriptors())
    image.process().descriptions(static_cast<int>(descriptor.description()));
  try {
    image.verify_all(1);
  } catch (const Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  fuzz::fix_seal(bytes);
  UniqueFd fd(::memfd_create("fuzz", MFD_CLOEXEC));
  if (::write(fd.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) return 0;
  try {
    use(Image::open(std::move(fd), "IMAGE"));
  } catch (const Error&) {
  }
  return 0;
}

// Every other time mutate only the state, and put it back with all offsets corrected.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  const std::string image(reinterpret_cast<const char*>(data), size);
  std::string state = seed % 2 ? fuzz::find_state(image) : "";
  if (state.empty()) return LLVMFuzzerMutate(data, size, max_size);
  const std::size_t before = state.size();
  state.resize(before + 256);
  state.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(state.data()), before, state.size()));
  const std::string out = fuzz::with_state(image, state);
  if (out.empty() || out.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, out.data(), out.size());
  return out.size();
}
