// SPDX-License-Identifier: LGPL-2.1-or-later
/** @file cr_generation(): a page whose number changes when this memory is rolled back, restarted or forked. */
#include <pthread.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>

#include "base/generation_page.h"
#include "libcr.h"

namespace {

using reprise::GenerationPage;

constexpr std::size_t kPage = 4096;
#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
GenerationPage* g_page = nullptr;   // under g_mutex; its address never changes
std::uint64_t g_last = 0;           // last number; a child continues from it, because its own page is empty

std::uint64_t address(const GenerationPage* page) { return reinterpret_cast<std::uintptr_t>(page); }

bool is_empty(const GenerationPage* page) { return !reprise::is_generation_page(*page, address(page)); }

void fill(GenerationPage* page) { *page = reprise::generation_page(++g_last, address(page)); }

void before_fork() {
  pthread_mutex_lock(&g_mutex);
  if (g_page != nullptr && !is_empty(g_page)) g_last = g_page->generation;
}
void in_parent() { pthread_mutex_unlock(&g_mutex); }
void in_child() {
  if (g_page != nullptr) fill(g_page);
  pthread_mutex_unlock(&g_mutex);
}

/** Allocate the page between two PROT_NONE pages, so that the kernel does not merge its mapping with another one. */
GenerationPage* make() {
  void* room = mmap(nullptr, 3 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return nullptr;
  char* at = static_cast<char*>(room) + kPage;
  if (mprotect(at, kPage, PROT_READ | PROT_WRITE) != 0 || madvise(at, kPage, MADV_WIPEONFORK) != 0 ||
      pthread_atfork(before_fork, in_parent, in_child) != 0) {
    munmap(room, 3 * kPage);
    return nullptr;
  }
  return reinterpret_cast<GenerationPage*>(at);
}

}  // namespace

extern "C" const volatile uint64_t* cr_generation(void) {
  const int saved = errno;
  pthread_mutex_lock(&g_mutex);
  if (g_page == nullptr) g_page = make();
  // The page is empty when it is new, or in a child that was created without the C library's fork().
  if (g_page != nullptr && is_empty(g_page)) fill(g_page);
  GenerationPage* const page = g_page;
  pthread_mutex_unlock(&g_mutex);
  errno = page == nullptr ? ENOMEM : saved;
  return page == nullptr ? nullptr : &page->generation;
}
