// SPDX-License-Identifier: GPL-2.0-only
#include "crd/kept_memory.h"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/kept_make.h"
#include "base/kept_name.h"
#include "base/proc_dir.h"
#include "base/text.h"

namespace reprise::crd {
namespace {

bool same_memory(int one, int other) {
  struct stat a {}, b {};
  return ::fstat(one, &a) == 0 && ::fstat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/** Whether cr_restart --kept-memory NAME=FD can be told of it. */
bool can_be_given(const std::string& name) { return name.find('=') == std::string::npos; }

std::uint64_t size_of(int memory) {
  struct stat status {};
  return ::fstat(memory, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
}

/** A restart refuses memory that nobody can write any more. Without it the rank gets its memory empty, and runs. */
bool is_usable(int memory) {
  const int seals = ::fcntl(memory, F_GET_SEALS);
  return seals >= 0 && !(seals & kNotWritableSeals);
}

}  // namespace

void KeptMemory::saved(std::uint32_t wave, std::uint32_t rank, std::vector<KeptFile> files) {
  if (files.empty()) return;
  const RankMemory before = waves_.empty() ? RankMemory() : of(waves_.rbegin()->first, rank);
  RankMemory& now = waves_[wave][rank];
  for (KeptFile& file : files) {
    if (!can_be_given(file.name)) continue;
    const auto same = before.find(file.name);
    if (same != before.end() && same_memory(same->second->memory.get(), file.memory.get()))
      now[file.name] = same->second;
    else
      now[file.name] = std::make_shared<HeldMemory>(HeldMemory{std::move(file.memory)});
  }
}

RankMemory KeptMemory::of(std::uint32_t wave, std::uint32_t rank) const {
  const auto ranks = waves_.find(wave);
  if (ranks == waves_.end()) return {};
  const auto found = ranks->second.find(rank);
  if (found == ranks->second.end()) return {};
  RankMemory out = found->second;
  std::erase_if(out, [](const auto& one) { return !is_usable(one.second->memory.get()); });
  return out;
}

RankMemory KeptMemory::complete(std::uint32_t wave, std::uint32_t rank, const std::map<std::string, std::uint64_t>& sizes,
                                const std::set<std::string>& copied) {
  RankMemory out = of(wave, rank);
  // A restart refuses memory that the image does not have, or not of this size: it was allocated since.
  std::erase_if(out, [&](const auto& one) {
    const auto size = sizes.find(one.first);
    return size == sizes.end() || size_of(one.second->memory.get()) != size->second;
  });
  for (const auto& [name, size] : sizes) {
    if (out.count(name)) continue;
    const bool in_image = copied.count(name);
    UniqueFd made(make_kept_memory(name.c_str(), size, in_image));
    if (!made) continue;  // cr_restart makes it, and nobody here holds it
    waves_[wave][rank][name] = out[name] = std::make_shared<HeldMemory>(HeldMemory{std::move(made), in_image});
  }
  return out;
}

void KeptMemory::give(std::uint32_t wave, std::uint32_t rank, const std::string& name, std::shared_ptr<HeldMemory> memory) {
  waves_[wave][rank][name] = std::move(memory);
}

void KeptMemory::filled(std::uint32_t wave, std::uint32_t rank) {
  const auto ranks = waves_.find(wave);
  if (ranks == waves_.end()) return;
  if (const auto found = ranks->second.find(rank); found != ranks->second.end())
    for (auto& [name, held] : found->second) held->unfilled = false;
}

std::map<std::string, std::uint64_t> sizes_of(const std::vector<KeptFile>& files) {
  std::map<std::string, std::uint64_t> out;
  for (const KeptFile& file : files)
    if (can_be_given(file.name)) out[file.name] = size_of(file.memory.get());
  return out;
}

std::set<std::string> copied_of(const std::vector<KeptFile>& files) {
  const ProcDir links("/proc/self/fd");
  std::set<std::string> out;
  for (const KeptFile& file : files)
    if (can_be_given(file.name) && kept_is_copied(links.link(std::to_string(file.memory.get())))) out.insert(file.name);
  return out;
}

void KeptMemory::prune(const std::vector<std::uint32_t>& keep) {
  std::erase_if(waves_, [&](const auto& one) { return std::find(keep.begin(), keep.end(), one.first) == keep.end(); });
}

void KeptMemory::only(const std::function<bool(std::uint32_t)>& here) {
  for (auto& [wave, ranks] : waves_) std::erase_if(ranks, [&](const auto& one) { return !here(one.first); });
}

KeptReceiver::KeptReceiver(asio::io_context& loop) : state_(std::make_shared<State>(loop)) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::system_error(errno, std::generic_category(), "no socket for kept memory");
  state_->socket.assign(ends[0]);
  sender_.reset(ends[1]);
  wait(state_);
}

KeptReceiver::~KeptReceiver() {
  asio::error_code ignored;
  state_->socket.close(ignored);
}

/** Receive at once: cr_checkpoint waits while the socket is full. */
void KeptReceiver::wait(const std::shared_ptr<State>& state) {
  state->socket.async_wait(asio::posix::stream_descriptor::wait_read, [state](const asio::error_code& error) {
    if (error || !state->socket.is_open()) return;
    if (state->receive_all()) wait(state);
  });
}

/** @return whether more may come */
bool KeptReceiver::State::receive_all() {
  for (;;) {
    KeptFile file = receive_kept(socket.native_handle());
    if (file.memory) {
      files.push_back(std::move(file));
      continue;
    }
    if (errno == EAGAIN || errno == ECONNRESET) return errno == EAGAIN;
    const int error = errno;
    problem = error_text(error);
    if (error != EMFILE && error != EPROTO) return false;  // of these two the message is gone, and others follow
  }
}

std::vector<KeptFile> KeptReceiver::take() {
  state_->receive_all();
  return std::move(state_->files);
}

}  // namespace reprise::crd
