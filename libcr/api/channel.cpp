// SPDX-License-Identifier: LGPL-2.1-or-later
#include "api/channel.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "api/agent.h"
#include "api/blank_child.h"
#include "api/errors.h"
#include "api/fork.h"
#include "api/gate.h"
#include "api/spawn.h"
#include "api/threads.h"
#include "base/channel_name.h"
#include "base/descriptor_passing.h"
#include "base/proc_stat.h"

namespace reprise::api {
namespace {

pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
sigset_t g_mask_of_holder;  // under g_mutex

// How often a waiter checks whether the helper still lives.
constexpr long kLookNs = 500'000'000;
// How long to wait for the start of a request, and how often to check meanwhile whether its helper still lives.
constexpr long long kStartNs = 10'000'000'000;
constexpr long kStartLookNs = 100'000'000;
constexpr std::size_t kChunk = 16;  // channels allocated at a time

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  /** @return a duplicate of @p fd with a number above 2, close-on-exec; -1 with errno */
  static int above_streams(int fd) { return fd < 0 ? fd : fcntl(fd, F_DUPFD_CLOEXEC, 3); }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

Block* make_block(int& fd) {
  fd = static_cast<int>(syscall(SYS_memfd_create, kChannelName, 1U /* MFD_CLOEXEC */));
  if (fd < 0) return nullptr;
  if (ftruncate(fd, sizeof(Block)) != 0) return nullptr;
  void* mapped = mmap(nullptr, sizeof(Block), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) return nullptr;
  madvise(mapped, sizeof(Block), MADV_DONTFORK);
  auto* block = new (mapped) Block;
  block->magic = kBlockMagic;
  block->owner = getpid();
  block->owner_address = reinterpret_cast<std::uintptr_t>(block);
  if (getrandom(&block->cookie, sizeof block->cookie, 0) < 0) block->cookie = reinterpret_cast<std::uintptr_t>(block);
  return block;
}

bool add_text(Block& block, const char* text) {
  const std::size_t size = std::strlen(text) + 1;
  if (size > sizeof block.text - block.text_used) return false;
  std::memcpy(block.text + block.text_used, text, size);
  block.text_used += static_cast<std::uint32_t>(size);
  return true;
}

long long now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

}  // namespace

constinit std::atomic<Channel*> Channel::first_{nullptr};

Channel* Channel::unused() {
  for (Channel* channel = first_.load(); channel != nullptr; channel = channel->next_)
    if (!channel->used_.load()) return channel;
  void* memory = mmap(nullptr, kChunk * sizeof(Channel), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  for (std::size_t i = 0; i < kChunk; ++i) {
    auto* channel = new (static_cast<Channel*>(memory) + i) Channel;
    channel->next_ = first_.load();
    first_.store(channel);
  }
  return first_.load();
}

int Channel::start_helper(const Start& start, Block* block, int block_fd, int socket) {
  char path[PATH_MAX];
  if (!find_helper(path, sizeof path)) return CR_EHELPER;
  const Descriptor own_mem(::open("/proc/self/mem", O_RDWR | O_CLOEXEC));
  if (own_mem.get() < 0) return errno;
  // Use numbers above 2: the program may have closed its standard streams, or pass one of them as image.
  const Descriptor given[] = {
      Descriptor(Descriptor::above_streams(block_fd)), Descriptor(Descriptor::above_streams(own_mem.get())),
      Descriptor(Descriptor::above_streams(start.target_mem)), Descriptor(Descriptor::above_streams(start.image)),
      Descriptor(Descriptor::above_streams(socket))};
  Inherited inherited{given[0].get(), given[1].get(), given[2].get(), given[3].get(), given[4].get()};
  if (inherited.block < 0 || inherited.owner_mem < 0 || (start.target_mem >= 0 && inherited.target_mem < 0) ||
      (start.image >= 0 && inherited.image < 0) || (socket >= 0 && inherited.socket < 0))
    return errno;
  inherited.fds = start.fds;
  inherited.kept = start.kept;
  pid_t helper = 0;
  // A restarted process inherits the program's session and terminal.
  const int err = spawn_helper(path, inherited, start.kind != Kind::restart, helper);
  if (err != 0) return err;
  // The helper sets these as well, but it may die before that.
  block->helper_start = running_since(helper);
  block->helper.store(static_cast<std::uint32_t>(helper));
  return 0;
}

int Channel::prepare(const Start& start, Block*& block, int socket) {
  int fd = -1;
  block = make_block(fd);
  const int made = block == nullptr ? errno : 0;
  const Descriptor block_fd(fd);
  if (made != 0) return made;
  bool fits = true;
  static_assert(kImagePath == 0 && kParentPath == 1 && kCompression == 2 && kForwards == 3);
  for (const char* text : {start.path, start.parent, start.compress})
    if (start.kind == Kind::checkpoint && fits) fits = add_text(*block, text == nullptr ? "" : text);
  for (unsigned i = 0; start.relocate != nullptr && i < start.relocate->count && fits; ++i)
    fits = add_text(*block, start.relocate->path[i].oldpath) && add_text(*block, start.relocate->path[i].newpath);
  for (unsigned i = 0; start.fds != nullptr && i < start.fds->count && fits; ++i) {
    char text[48];
    const cr_rstrt_fd& one = start.fds->fd[i];
    std::snprintf(text, sizeof text, "%u %d %d", one.copy, one.fd, one.with);
    fits = add_text(*block, text);
  }
  for (unsigned i = 0; start.kept != nullptr && i < start.kept->count && fits; ++i) {
    char text[16 + CR_KEPT_NAME_MAX + 1];
    const cr_rstrt_kept_one& one = start.kept->memory[i];
    const int length = std::snprintf(text, sizeof text, "%d %s", one.with, one.name);
    fits = length < static_cast<int>(sizeof text) && add_text(*block, text);
  }
  for (unsigned i = 0; i < start.order.forwards && fits; ++i) {
    char text[32];
    std::snprintf(text, sizeof text, "%d %d", static_cast<int>(start.forwards[i].scope), start.forwards[i].target);
    fits = add_text(*block, text);
  }
  const int err = fits ? start_helper(start, block, fd, socket) : E2BIG;
  if (err != 0) munmap(block, sizeof(Block));
  return err;
}

Channel* Channel::open(const Start& start) {
  install_fork_handlers();
  const ChannelsLock lock;
  Channel* channel = unused();
  Block* block = nullptr;
  // Close the helper's descriptors before sending the order: it may save this very process.
  int ends[2] = {-1, -1};
  int err = channel == nullptr ? ENOMEM : 0;
  if (err == 0 && start.kind == Kind::restart && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) err = errno;
  const Descriptor helpers_end(ends[1]);
  if (err == 0) err = prepare(start, block, ends[1]);
  if (err != 0) {
    if (ends[0] >= 0) ::close(ends[0]);
    fail(err, err == CR_EHELPER ? "the helper cr-helper is not installed; set REPRISE_HELPER to its path" : nullptr);
    return nullptr;
  }
  channel->kind_ = start.kind;
  channel->target_ = start.order.target;
  channel->lasting_ = start.kind == Kind::snapshot;
  channel->generation_ = agent_generation();
  channel->gone_ = false;
  channel->socket_ = ends[0];
  channel->child_ = 0;
  channel->copies_ = start.kind == Kind::restart && start.order.copies != 0;
  if (start.path != nullptr)
    std::snprintf(channel->destination_, sizeof channel->destination_, "%s", start.path);
  else
    name_of_descriptor(start.image, channel->destination_, sizeof channel->destination_);
  channel->saves_self_ = start.saves_self;
  channel->parked_.forget();
  if (start.kind == Kind::checkpoint) channel->parked_.park(start.image, start.saves_self);
  channel->block_.store(block);
  channel->used_.store(true);
  channel->send(start.order);
  return channel;
}

Channel* Channel::find(Kind kind, unsigned long handle) {
  for (Channel* channel = first_.load(); channel != nullptr; channel = channel->next_)
    if (channel->handle() == handle && channel->used_.load() && channel->kind_ == kind) return channel;
  fail(EINVAL, "the handle belongs to no request or snapshot of this kind");
  return nullptr;
}

Channel* Channel::find_target(pid_t target) {
  for (Channel* channel = first_.load(); channel != nullptr; channel = channel->next_)
    if (channel->used_.load() && channel->kind_ == Kind::snapshot && channel->target_ == target &&
        !channel->helper_gone())
      return channel;
  return nullptr;
}

void Channel::send(const Order& order) {
  Block* block = block_.load();
  block->order = order;
  number_ = block->command_number.load() + 1;
  block->command_number.store(number_);
  futex_wake(block->command_number, Sharing::between_processes);
}

bool Channel::answered() const { return block_.load()->reply_number.load() == number_; }

bool Channel::overtaken() const { return !lasting_ && generation_ != agent_generation(); }

bool Channel::helper_gone() const {
  Block* block = block_.load();
  const auto pid = static_cast<pid_t>(block->helper.load());
  return pid != 0 && running_since(pid) != block->helper_start;
}

int Channel::make_child(const ChildOrder& order) {
  int mem = -1;
  const pid_t child = make_blank_child(order.pid, order.clocks, mem);
  if (child > 0) child_ = child;
  if (mem >= 0) {
    send_descriptor(socket_, mem);
    ::close(mem);
  }
  return child;
}

int Channel::wait_child() {
  int status = 0;
  pid_t reaped;
  while ((reaped = waitpid(child_, &status, 0)) < 0 && errno == EINTR) {}
  child_ = 0;  // also if the program has reaped it itself: its pid may belong to another child soon
  return reaped < 0 ? -errno : status;
}

int Channel::show_child(pid_t child) {
  const int mem = open_memory(child);
  if (mem < 0) return -errno;
  const bool sent = send_descriptor(socket_, mem);
  const int err = errno;
  ::close(mem);
  return sent ? child : -err;
}

void Channel::serve_child() {
  Block* block = block_.load();
  const ChildOrder order = block->child;  // copied, because the child does not map the block (MADV_DONTFORK)
  switch (order.wish) {
    case ChildWish::make: block->child.pid = make_child(order); break;
    case ChildWish::wait: block->child.pid = wait_child(); break;
    case ChildWish::show: block->child.pid = show_child(order.pid); break;
  }
  block->progress.store(kPreparing);
  futex_wake(block->progress, Sharing::between_processes);
}

void Channel::wait_started() {
  Block* block = block_.load();
  const long long end = now_ns() + kStartNs;
  for (;;) {
    const std::uint32_t seen = block->progress.load();
    if (seen == kStarted || (child_ > 0 && !copies_) || answered() || overtaken()) break;
    if (seen == kWantsChild) {
      serve_child();
      continue;
    }
    // A restart cannot go on without us.
    if (kind_ != Kind::restart && now_ns() >= end) break;
    const timespec slice{0, kStartLookNs};
    if (futex_wait(block->progress, seen, &slice, Sharing::between_processes) == ETIMEDOUT && helper_gone()) break;
  }
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

void Channel::wait_heard(Word& heard, std::uint32_t before) {
  const long long end = now_ns() + kStartNs;
  const timespec slice{0, kStartLookNs};
  while (heard.load() == before && !answered() && !overtaken() && !helper_gone() && now_ns() < end)
    futex_wait(heard, before, &slice);
}

void Channel::wait_for_callbacks() const {
  // Return to the program only after its callbacks, unless they wait for this very thread.
  const ThreadState* state = self();
  const bool needed = state != nullptr && (state->chain != nullptr || state->cs.load() > 0);
  if ((saves_self_ || overtaken()) && !needed) gate_wait_open();
}

int Channel::wait(timeval* timeout) {
  Block* block = block_.load();
  const long long end =
      timeout == nullptr ? 0 : now_ns() + timeout->tv_sec * 1'000'000'000LL + timeout->tv_usec * 1000LL;
  const auto give_back = [&] {
    if (timeout == nullptr) return;
    long long left = end - now_ns();
    if (left < 0) left = 0;
    timeout->tv_sec = left / 1'000'000'000;
    timeout->tv_usec = left % 1'000'000'000 / 1000;
  };
  for (;;) {
    const std::uint32_t seen = block->reply_number.load();
    if (seen == number_ || gone_ || overtaken()) {
      wait_for_callbacks();
      give_back();
      return 1;
    }
    timespec slice{0, kLookNs};
    if (timeout != nullptr) {
      const long long left = end - now_ns();
      if (left <= 0) {
        give_back();
        return 0;
      }
      if (left < kLookNs) slice.tv_nsec = left;
    }
    const int rc = futex_wait(block->reply_number, seen, &slice, Sharing::between_processes);
    if (rc == EINTR) {
      give_back();
      errno = EINTR;
      return -1;
    }
    if (rc == ETIMEDOUT && helper_gone() && !answered()) gone_ = true;
  }
}

int Channel::error() {
  if (overtaken()) {
    fail(CR_ERESTARTED);
    return CR_ERESTARTED;
  }
  Block* block = block_.load();
  if (!answered()) {
    fail(CR_EHELPER, "the helper process died during the request");
    return CR_EHELPER;
  }
  if (block->error != 0) fail(block->error, block->sentence);
  return block->error;
}

int Channel::copy_log(char* to, unsigned len) const {
  const Block* block = block_.load();
  const std::size_t size = strnlen(block->log, sizeof block->log - 1);
  if (size == 0) return 0;
  if (len > 0 && to != nullptr) {
    const std::size_t part = size < len ? size : len - 1;
    std::memcpy(to, block->log, part);
    to[part] = '\0';
  }
  return static_cast<int>(size + 1);
}

unsigned Channel::copy_pids(pid_t* pids, unsigned len) const {
  const Block* block = block_.load();
  if (!copies_) {
    if (len > 0) pids[0] = static_cast<pid_t>(block->value);
    return 1;
  }
  const unsigned number = block->copies_made < CR_MAX_RSTRT_COPIES ? block->copies_made : CR_MAX_RSTRT_COPIES;
  for (unsigned i = 0; i < number && i < len; ++i) pids[i] = block->copies[i];
  return number;
}

void Channel::close() {
  ChannelsLock lock;
  // The restart failed: kill and reap the children.
  if (kind_ == Kind::restart && !overtaken() && !(answered() && block_.load()->error == 0)) {
    if (child_ > 0) end_child(child_);
    const Block* made = block_.load();
    for (unsigned i = 0; i < made->copies_made && i < CR_MAX_RSTRT_COPIES; ++i) end_child(made->copies[i]);
  }
  child_ = 0;
  // After a restart or rollback the descriptor does not belong to this request any more.
  if (overtaken()) parked_.forget();
  parked_.give_back();
  Block* block = block_.exchange(nullptr);
  used_.store(false);
  if (block != nullptr) munmap(block, sizeof(Block));
}

void channels_lock() {
  sigset_t own, before;
  sigemptyset(&own);
  sigaddset(&own, CR_SIGNUM);
  pthread_sigmask(SIG_BLOCK, &own, &before);
  pthread_mutex_lock(&g_mutex);
  g_mask_of_holder = before;
}

void channels_unlock() {
  const sigset_t before = g_mask_of_holder;
  pthread_mutex_unlock(&g_mutex);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void channels_after_fork() {
  // The blocks are not mapped in the child (MADV_DONTFORK).
  for (Channel* channel = Channel::first_.load(); channel != nullptr; channel = channel->next_) {
    channel->block_.store(nullptr);
    channel->used_.store(false);
  }
}

void channels_overtaken() {
  for (Channel* channel = Channel::first_.load(); channel != nullptr; channel = channel->next_)
    // futex_wake() uses only the address: another thread may unmap the block meanwhile.
    if (Block* block = channel->block_.load(); block != nullptr)
      futex_wake(block->reply_number, Sharing::between_processes);
}

const char* channels_destination() {
  for (Channel* channel = Channel::first_.load(); channel != nullptr; channel = channel->next_)
    if (channel->used_.load() && channel->kind_ == Channel::Kind::checkpoint &&
        (channel->target_ == 0 || channel->target_ == getpid()))
      return channel->destination_;
  return "";
}

}  // namespace reprise::api
