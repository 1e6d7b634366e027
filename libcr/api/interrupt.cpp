// SPDX-License-Identifier: LGPL-2.1-or-later
#include "api/interrupt.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "api/chain.h"
#include "api/hooks.h"
#include "api/serving.h"
#include "api/threads.h"

namespace reprise::api {
namespace {

/** A thread that never called cr_init(). */
struct Stranger {
  std::atomic<pid_t> tid;
  Word stage;
};

// The program's own action for CR_SIGNUM while ours is installed. The agent writes it while no thread is interrupted.
struct sigaction g_theirs {};
constinit std::atomic<bool> g_borrowed{false};

// A mapping of its own: the heap must not be used, see interrupt_threads() in interrupt.h.
constinit std::atomic<Stranger*> g_strangers{nullptr};
constinit std::atomic<unsigned> g_stranger_count{0};
unsigned g_stranger_capacity = 0;

constexpr timespec kLook{0, 200'000'000};  // how often to check for threads that have exited
constexpr int kPatienceMs = 20;            // time per request to wait for threads that block the signal briefly
constexpr int kMaxReadings = 100;          // attempts to read the whole list of threads while threads exit

pid_t own_tid() { return static_cast<pid_t>(syscall(SYS_gettid)); }

/** Send @p signal to thread @p tid. @return false when the thread has exited */
bool tell(pid_t tid, int signal) { return syscall(SYS_tgkill, getpid(), tid, signal) == 0 || errno != ESRCH; }

void advance(Word& stage, Stage to) {
  stage.store(to);
  bump(g_serving.progress);
}

void await(Word& word, std::uint32_t number) {
  for (;;) {
    const std::uint32_t seen = word.load();
    if (static_cast<std::int32_t>(seen - number) >= 0) return;
    futex_wait(word, seen);
  }
}

int wait_for_outcome(Word& stage) {
  const std::uint32_t number = g_serving.number.load();
  advance(stage, kReady);
  await(g_serving.decided, number);
  return g_serving.result.load();
}

int signal_innermost(ThreadState& self, bool) {
  const int result = wait_for_outcome(self.stage);
  self.tid.store(own_tid());  // changes in a restart without CR_RSTRT_RESTORE_PID
  return result;
}

void finish(Word& stage, const ThreadState* state, int result) {
  const std::uint32_t number = g_serving.number.load();
  advance(stage, kThrough);
  if (held(state, result)) await(g_serving.released, number);
}

Word* stranger_stage() {
  const pid_t tid = own_tid();
  Stranger* strangers = g_strangers.load();
  for (unsigned i = 0; i < g_stranger_count.load(); ++i)
    if (strangers[i].tid.load() == tid) return &strangers[i].stage;
  return nullptr;
}

bool claim(Word& stage) {
  std::uint32_t asked = kAsked;
  return stage.compare_exchange_strong(asked, kRunning);
}

/** Run callbacks and hooks of the interrupted thread. @return false when the agent has not interrupted this thread */
bool take_part() {
  if (ThreadState* state = self(); state != nullptr) {
    if (!claim(state->stage)) return false;
    int result;
    {
      Chain chain(*state, state->callbacks, signal_innermost);
      result = chain.run();
    }
    run_hook(Place::signal_context, result);
    finish(state->stage, state, result);
    return true;
  }
  Word* stage = stranger_stage();
  if (stage == nullptr || !claim(*stage)) return false;
  const int result = wait_for_outcome(*stage);
  run_hook(Place::no_callbacks, result);
  finish(*stage, nullptr, result);
  return true;
}

/** Pass a signal that the library has not sent to the program's own handler. */
void hand_on(int signal, siginfo_t* info, void* context) {
  if (!g_borrowed.load()) return;
  if ((g_theirs.sa_flags & SA_SIGINFO) != 0)
    g_theirs.sa_sigaction(signal, info, context);
  else if (g_theirs.sa_handler != SIG_IGN && g_theirs.sa_handler != SIG_DFL)
    g_theirs.sa_handler(signal);
}

void on_signal(int signal, siginfo_t* info, void* context) {
  const int saved = errno;
  const bool from_here = info->si_code == SI_TKILL && info->si_pid == getpid();
  if (!from_here || !take_part()) hand_on(signal, info, context);
  errno = saved;
}

bool installed() {
  struct sigaction now {};
  return sigaction(CR_SIGNUM, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_signal;
}

/** Whether thread @p tid blocks CR_SIGNUM, from /proc: there is no system call for the mask of another thread. */
bool blocks_signal(pid_t tid) {
  char path[64] = "/proc/self/task/", digits[16];
  char* end = digits + sizeof digits;
  *--end = '\0';
  for (pid_t rest = tid; rest > 0; rest /= 10) *--end = static_cast<char>('0' + rest % 10);
  strcat(strcat(path, end), "/status");
  char text[4096];
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return true;
  const ssize_t got = read(fd, text, sizeof text - 1);
  close(fd);
  if (got <= 0) return true;
  text[got] = '\0';
  const char* line = strstr(text, "\nSigBlk:");
  return line != nullptr && (strtoull(line + 8, nullptr, 16) >> (CR_SIGNUM - 1) & 1) != 0;
}

/**
 * Whether thread @p tid blocks CR_SIGNUM for longer than the C library does while it creates a thread.
 * @param patience  remaining milliseconds that this request may wait; counted down
 */
bool keeps_blocking(pid_t tid, int& patience) {
  while (blocks_signal(tid)) {
    if (patience-- <= 0) return true;
    const timespec moment{0, 1000000};
    nanosleep(&moment, nullptr);
  }
  return false;
}

bool known(pid_t tid) {
  for (ThreadState* state = first_thread(); state != nullptr; state = state->next)
    if (state->used.load() && state->tid.load() == tid) return true;
  return false;
}

bool room_for_stranger() {
  const unsigned count = g_stranger_count.load();
  if (count < g_stranger_capacity) return true;
  const unsigned wanted = g_stranger_capacity == 0 ? 256 : g_stranger_capacity * 2;
  void* fresh = mmap(nullptr, wanted * sizeof(Stranger), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fresh == MAP_FAILED) return false;
  Stranger* old = g_strangers.load();
  for (unsigned i = 0; i < count; ++i) static_cast<Stranger*>(fresh)[i].tid.store(old[i].tid.load());
  g_strangers.store(static_cast<Stranger*>(fresh));
  if (old != nullptr) munmap(old, g_stranger_capacity * sizeof(Stranger));
  g_stranger_capacity = wanted;
  return true;
}

/**
 * Read the list of threads once and put those that never called cr_init() into g_strangers.
 * @param dir     descriptor of /proc/self/task
 * @param listed  receives the number of threads in the list
 * @return 0 or an errno
 */
int read_strangers(int dir, nlink_t& listed) {
  alignas(dirent64) char buffer[4096];
  long got;
  g_stranger_count.store(0);
  listed = 0;
  if (lseek(dir, 0, SEEK_SET) != 0) return errno;
  while ((got = syscall(SYS_getdents64, dir, buffer, sizeof buffer)) > 0) {
    for (long at = 0; at < got;) {
      const auto* entry = reinterpret_cast<const dirent64*>(buffer + at);
      at += entry->d_reclen;
      const pid_t tid = static_cast<pid_t>(atoi(entry->d_name));
      if (tid <= 0) continue;
      ++listed;
      if (known(tid)) continue;
      if (!room_for_stranger()) return ENOMEM;
      Stranger& stranger = g_strangers.load()[g_stranger_count.load()];
      stranger.tid.store(tid);
      stranger.stage.store(kIdle);
      g_stranger_count.fetch_add(1);
    }
  }
  return 0;
}

/**
 * Fill in g_strangers. Call it before any thread is interrupted.
 *
 * Reading /proc/self/task may stop early when a thread exits meanwhile. The list is complete when it names at least as
 * many threads as existed before the reading: new threads are added at its end.
 * @return 0 or an errno
 */
int find_strangers(int& patience) {
  const int dir = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (dir < 0) return errno;
  struct stat before {};  // st_nlink of the directory is 2 + number of threads
  nlink_t listed = 0;
  int err, readings = 0;
  do {
    err = fstat(dir, &before) == 0 ? read_strangers(dir, listed) : errno;
  } while (err == 0 && listed + 2 < before.st_nlink && ++readings < kMaxReadings);
  close(dir);
  if (err != 0) return err;

  Stranger* strangers = g_strangers.load();
  unsigned kept = 0;
  for (unsigned i = 0; i < g_stranger_count.load(); ++i) {
    const pid_t tid = strangers[i].tid.load();
    if (!keeps_blocking(tid, patience)) strangers[kept++].tid.store(tid);
  }
  g_stranger_count.store(kept);
  return 0;
}

void interrupt(Word& stage, pid_t tid) {
  stage.store(kAsked);
  if (!tell(tid, CR_SIGNUM)) stage.store(kIdle);
}

/**
 * Whether an interrupted thread has not reached stage @p wanted yet.
 * @param look_for_dead  check for threads that have exited, and ignore them
 */
bool anybody_before(Stage wanted, bool look_for_dead) {
  const auto pending = [&](Word& stage, pid_t tid) {
    const std::uint32_t now = stage.load();
    if (now == kIdle || now >= wanted) return false;
    if (!look_for_dead || tell(tid, 0)) return true;
    stage.store(kIdle);
    return false;
  };
  bool any = false;
  for (ThreadState* state = first_thread(); state != nullptr; state = state->next)
    if (state->used.load() && pending(state->stage, state->tid.load())) any = true;
  Stranger* strangers = g_strangers.load();
  for (unsigned i = 0; i < g_stranger_count.load(); ++i)
    if (pending(strangers[i].stage, strangers[i].tid.load())) any = true;
  return any;
}

void wait_until_all(Stage wanted) {
  bool look = false;
  for (;;) {
    const std::uint32_t seen = g_serving.progress.load();
    if (!anybody_before(wanted, look)) return;
    look = futex_wait(g_serving.progress, seen, &kLook) == ETIMEDOUT;
  }
}

int install() {
  struct sigaction action {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigemptyset(&action.sa_mask);
  return sigaction(CR_SIGNUM, &action, nullptr) == 0 ? 0 : errno;
}

/** Whether the disposition of CR_SIGNUM is SIG_DFL: neither the library nor the program uses it. */
bool untouched() {
  struct sigaction now {};
  return sigaction(CR_SIGNUM, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_DFL;
}

/** Install our handler for CR_SIGNUM and save the program's own until give_back(). @return 0 or an errno */
int borrow() {
  if (installed()) return 0;
  const bool theirs = !untouched();
  if (theirs && sigaction(CR_SIGNUM, nullptr, &g_theirs) != 0) return errno;
  g_borrowed.store(theirs);
  return install();
}

/** Reinstall the program's own handler. All interrupted threads are in our handler and its state is not saved yet. */
void give_back() {
  if (g_borrowed.load() && installed()) sigaction(CR_SIGNUM, &g_theirs, nullptr);
  g_borrowed.store(false);
}

}  // namespace

int interrupt_prepare() {
  if (untouched())
    if (const int err = install(); err != 0) return err;
  sigset_t own;
  sigemptyset(&own);
  sigaddset(&own, CR_SIGNUM);
  return pthread_sigmask(SIG_UNBLOCK, &own, nullptr);
}

int interrupt_threads() {
  const pid_t me = own_tid();
  int patience = kPatienceMs;
  const auto concerned = [me, &patience](const ThreadState& state) {
    const pid_t tid = state.tid.load();
    if (!state.used.load() || tid == me) return false;
    // Wait for a thread with callbacks even if it blocks the signal for long.
    return state.callbacks.any() || (hooks_want(&state) && !keeps_blocking(tid, patience));
  };
  g_stranger_count.store(0);
  const bool strangers_too = hooks_want(nullptr);
  bool any = strangers_too;
  for (ThreadState* state = first_thread(); state != nullptr; state = state->next) any |= concerned(*state);
  if (!any) return 0;
  // The signal also holds threads without callbacks.
  if (const int err = borrow(); err != 0) return err;
  if (strangers_too)
    if (const int err = find_strangers(patience); err != 0) {
      give_back();
      return err;
    }

  for (ThreadState* state = first_thread(); state != nullptr; state = state->next)
    if (concerned(*state)) interrupt(state->stage, state->tid.load());
  Stranger* strangers = g_strangers.load();
  for (unsigned i = 0; i < g_stranger_count.load(); ++i) interrupt(strangers[i].stage, strangers[i].tid.load());
  wait_until_all(kReady);
  give_back();
  return 0;
}

void interrupt_finish() {
  wait_until_all(kThrough);
  for (ThreadState* state = first_thread(); state != nullptr; state = state->next) state->stage.store(kIdle);
  g_stranger_count.store(0);
  g_serving.released.store(g_serving.number.load());
  futex_wake(g_serving.released);
}

}  // namespace reprise::api
