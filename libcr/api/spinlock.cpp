// SPDX-License-Identifier: LGPL-2.1-or-later
#include <atomic>

#include "libcr.h"

namespace {

std::atomic_ref<cr_spinlock_t> word(cr_spinlock_t* lock) { return std::atomic_ref<cr_spinlock_t>(*lock); }

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

extern "C" {

void cr_spinlock_init(cr_spinlock_t* lock) { word(lock).store(CR_SPINLOCK_INITIALIZER, std::memory_order_release); }

int cr_spinlock_trylock(cr_spinlock_t* lock) { return word(lock).exchange(1, std::memory_order_acquire) == 0; }

void cr_spinlock_lock(cr_spinlock_t* lock) {
  while (cr_spinlock_trylock(lock) == 0)
    while (word(lock).load(std::memory_order_relaxed) != 0) relax();
}

void cr_spinlock_unlock(cr_spinlock_t* lock) { word(lock).store(0, std::memory_order_release); }

}  // extern "C"
