// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file Futexes. Async-signal-safe, and usable between processes. */
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <ctime>

namespace reprise::api {

using Word = std::atomic<std::uint32_t>;
static_assert(sizeof(Word) == 4 && Word::is_always_lock_free);

enum class Sharing { within_process, between_processes };

/** Sleep while @p word is @p expected. @return 0, or EAGAIN, EINTR, ETIMEDOUT. Does not change errno. */
inline int futex_wait(Word& word, std::uint32_t expected, const timespec* timeout = nullptr,
                      Sharing sharing = Sharing::within_process) {
  const int op = sharing == Sharing::within_process ? FUTEX_WAIT_PRIVATE : FUTEX_WAIT;
  const int saved = errno;
  const long rc = syscall(SYS_futex, &word, op, expected, timeout, nullptr, 0);
  const int err = rc == 0 ? 0 : errno;
  errno = saved;
  return err;
}

/** Wake all waiters of @p word. */
inline void futex_wake(Word& word, Sharing sharing = Sharing::within_process) {
  const int op = sharing == Sharing::within_process ? FUTEX_WAKE_PRIVATE : FUTEX_WAKE;
  const int saved = errno;
  syscall(SYS_futex, &word, op, INT_MAX, nullptr, nullptr, 0);
  errno = saved;
}

/** Increment @p word and wake all its waiters. */
inline void bump(Word& word) {
  word.fetch_add(1);
  futex_wake(word);
}

}  // namespace reprise::api
