// SPDX-License-Identifier: LGPL-2.1-or-later
#include "process/generation.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/generation_page.h"
#include "base/text.h"

namespace reprise {
namespace {

constexpr GenerationPage kEmpty{};

/** Is it a page such as libcr maps for the number? The program can write the page: its content is untrusted. */
bool may_hold_it(const cr_vma& vma) {
  constexpr std::uint64_t is = CR_VMA_READ | CR_VMA_WRITE | CR_VMA_WIPEONFORK;
  constexpr std::uint64_t is_not = CR_VMA_SHARED | CR_VMA_FILE | CR_VMA_DROPPABLE | CR_VMA_UFFD;
  return vma.end - vma.start == 4096 && (vma.flags & (is | is_not)) == is;
}

bool read_page(const Session& session, const cr_vma& vma, GenerationPage& page) {
  page = {};
  try {
    session.read_mem(vma.start, &page, sizeof page);
  } catch (const Error&) {  // a guard page, or the page cannot be read
    return false;
  }
  return is_generation_page(page, vma.start) && page.generation <= INT64_MAX;
}

}  // namespace

void collect_generation(const Session& session, std::span<const cr_vma> vmas, Process& process) {
  for (const cr_vma& vma : vmas) {
    GenerationPage page;
    if (!may_hold_it(vma) || !read_page(session, vma, page)) continue;
    process.set_generation_address(vma.start);
    process.set_generation(page.generation);
    return;
  }
}

std::uint64_t next_generation(const Session& session, std::span<const cr_vma> now, const Process& image) {
  if (!image.generation_address()) return 0;
  std::uint64_t last = image.generation();
  for (const cr_vma& vma : now) {
    if (vma.start != image.generation_address() || !may_hold_it(vma)) continue;
    GenerationPage page;
    if (read_page(session, vma, page))
      last = std::max(last, page.generation);
    else if (std::memcmp(&page, &kEmpty, sizeof page) != 0)
      throw Error(Failure::refused, EINVAL,
                  "the image has its generation number at " + hex(vma.start) +
                      ", where the process now has other data: restart the image instead");
  }
  return last + 1;
}

cr_counter generation_counter(const Process& image) {
  const GenerationPage page = generation_page(image.generation(), image.generation_address());
  cr_counter counter{};
  static_assert(sizeof page == sizeof counter.value + sizeof counter.tag);
  if (!image.generation_address()) return counter;
  counter.addr = image.generation_address();
  counter.value = page.generation;
  std::memcpy(counter.tag, reinterpret_cast<const char*>(&page) + sizeof page.generation, sizeof counter.tag);
  return counter;
}

void restore_generation(const Session& session, const Process& image, std::uint64_t generation) {
  if (!image.generation_address()) return;
  const GenerationPage page = generation_page(generation, image.generation_address());
  session.write_mem(image.generation_address(), &page, sizeof page);
}

}  // namespace reprise
