// SPDX-License-Identifier: LGPL-2.1-or-later
#include "api/helper/service.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.h"
#include "base/proc_stat.h"

namespace reprise::api {
namespace {

// How often to check whether the program still maps the block.
constexpr timespec kLook{1, 0};

void copy(char* to, std::size_t size, const std::string& text) {
  const std::size_t len = std::min(text.size(), size - 1);
  std::memcpy(to, text.data(), len);
  to[len] = '\0';
}

}  // namespace

Service::Service(const char* numbers) {
  Inherited got;
  if (std::sscanf(numbers, "%d,%d,%d,%d,%d", &got.block, &got.owner_mem, &got.target_mem, &got.image, &got.socket) != 5)
    throw Error(Failure::usage, EINVAL, "cr-helper is started by the library libcr, not by hand");
  const UniqueFd memory(got.block);
  owner_mem_.reset(got.owner_mem);
  target_mem_.reset(got.target_mem);
  image_.reset(got.image);
  socket_.reset(got.socket);
  for (int fd : {got.owner_mem, got.target_mem, got.image, got.socket})
    if (fd >= 0) ::fcntl(fd, F_SETFD, FD_CLOEXEC);

  struct stat status {};
  if (::fstat(got.block, &status) != 0 || static_cast<std::size_t>(status.st_size) < sizeof(Block))
    throw Error(Failure::usage, EINVAL, "cr-helper: library and helper are of different versions (shared memory)");
  void* mapped = ::mmap(nullptr, sizeof(Block), PROT_READ | PROT_WRITE, MAP_SHARED, got.block, 0);
  if (mapped == MAP_FAILED) throw Error(Failure::permanent, errno, "cr-helper: no memory");
  block_ = static_cast<Block*>(mapped);
  if (block_->magic != kBlockMagic)
    throw Error(Failure::usage, EINVAL, "cr-helper: library and helper are of different versions");
  cookie_ = block_->cookie;
  block_->helper_start = running_since(::getpid());
  block_->helper.store(static_cast<std::uint32_t>(::getpid()));
}

Service::~Service() {
  if (block_ != nullptr) ::munmap(block_, sizeof(Block));
}

bool Service::owner_holds() const {
  // After exec, exit, or a rollback to a time before the helper's start the program does not map the block any more.
  std::uint64_t there = 0;
  const auto at = static_cast<off_t>(block_->owner_address + offsetof(Block, cookie));
  return ::pread(owner_mem_.get(), &there, sizeof there, at) == sizeof there && there == cookie_;
}

bool Service::next(Order& order) {
  for (;;) {
    const std::uint32_t there = block_->command_number.load();
    if (there != number_) {
      number_ = there;
      order = block_->order;
      // Reset: after a rollback to this moment the program must wait for the answer again.
      block_->reply_number.store(0);
      return true;
    }
    if (futex_wait(block_->command_number, there, &kLook, Sharing::between_processes) == ETIMEDOUT && !owner_holds())
      return false;
  }
}

void Service::reply(int error, std::int64_t value, const std::string& sentence) {
  block_->error = error;
  block_->value = value;
  copy(block_->sentence, sizeof block_->sentence, sentence);
  block_->reply_number.store(number_);
  futex_wake(block_->reply_number, Sharing::between_processes);
  futex_wake(block_->progress, Sharing::between_processes);  // wakes wait_started() when the order failed early
}

void Service::answer(int error, std::int64_t value, const std::string& sentence) { reply(error, value, sentence); }

void Service::answer_again(std::uint32_t number, std::int64_t value) {
  number_ = number;
  block_->command_number.store(number);
  reply(0, value, {});
}

void Service::started() {
  block_->progress.store(kStarted);
  futex_wake(block_->progress, Sharing::between_processes);
}

void Service::log(const std::string& line) {
  const std::size_t used = ::strnlen(block_->log, sizeof block_->log);
  if (used + 1 < sizeof block_->log) copy(block_->log + used, sizeof block_->log - used, line + "\n");
}

std::string Service::text(unsigned index) const {
  const char* at = block_->text;
  const char* end = at + std::min<std::size_t>(block_->text_used, sizeof block_->text);
  for (; at < end; at += ::strnlen(at, static_cast<std::size_t>(end - at)) + 1)
    if (index-- == 0) return std::string(at, ::strnlen(at, static_cast<std::size_t>(end - at)));
  return {};
}

}  // namespace reprise::api
