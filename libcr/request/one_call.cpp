// SPDX-License-Identifier: LGPL-2.1-or-later
#include "request/one_call.h"

#include <algorithm>
#include <cstring>

#include "descriptors/descriptors.h"
#include "process/generation.h"
#include "process/mapping_plan.h"
#include "process/registers.h"
#include "request/unchanged.h"

namespace reprise {

std::optional<OneCall> OneCall::of(const State& state, bool own_channel) {
  const Process& process = state.process;
  const bool compared = process.digests_size() == CR_AREAS &&
                        std::none_of(process.digests().begin(), process.digests().end(), [](auto digest) { return digest == 0; });
  if (!compared || process.guards_size() > 0 || !module_compares_all(process)) return {};
  if (has_shared_content(process, own_channel, SharedMemory::keep)) return {};
  OneCall call(state);
  call.only_keeping_ = has_shared_content(process, own_channel, SharedMemory::restore);
  call.threads_ = thread_registers(process, state.regs);
  if (call.threads_.empty()) return {};
  call.scope_ = page_scope(process);
  for (const Mapping& mapping : process.mappings()) call.mappings_.push_back({mapping.start(), mapping.end() - mapping.start()});
  for (const Descriptor& descriptor : process.descriptors())
    call.descriptors_.push_back(
        {descriptor.fd(), 0, static_cast<std::uint64_t>(process.descriptions(static_cast<int>(descriptor.description())).offset())});
  return call;
}

cr_rollback OneCall::request() const {
  const Process& process = state_->process;
  cr_rollback request{};
  request.counter = generation_counter(process);
  std::copy(process.digests().begin(), process.digests().end(), request.area);
  request.pages.source_fd = -1;
  request.pages.flags = CR_RESTORE_TRACK;
  request.pages.nscope = scope_.size();
  std::memcpy(request.pages.id, state_->id.data(), CR_ID_SIZE);
  request.nmappings = mappings_.size();
  request.nfds = descriptors_.size();
  request.brk = process.layout().brk();
  return request;
}

bool OneCall::roll_back(Session& session, unsigned timeout_ms, Report& report) {
  const Process& process = state_->process;
  request_ = request();
  request_.pages.scope = reinterpret_cast<std::uintptr_t>(scope_.data());
  request_.mappings = reinterpret_cast<std::uintptr_t>(mappings_.data());
  request_.fds = reinterpret_cast<std::uintptr_t>(descriptors_.data());
  request_.freeze.timeout_ms = timeout_ms;
  if (!session.rollback(request_, threads_)) return false;
  report.pid = session.pid();
  report.comm = process.comm();
  report.threads = static_cast<std::uint64_t>(process.threads_size());
  report.mappings = static_cast<std::uint64_t>(process.mappings_size());
  report.descriptors = static_cast<std::uint64_t>(process.descriptors_size());
  report.freeze_ns = request_.freeze.ns;
  report.pages_ns = request_.pages.ns;
  report.pages_restored = request_.pages.restored;
  report.pages_dropped = request_.pages.dropped;
  report.workers = request_.pages.workers;
  report.tracked = true;
  report.frozen_ns = request_.frozen_ns;
  return true;
}

namespace {

/** Fills memory that has another address for its reader. */
class Placer {
 public:
  Placer(std::span<char> room, std::uint64_t at) : room_(room), at_(at) {}
  /** @return the reader's address of a copy of @p bytes bytes */
  std::uint64_t put(const void* data, std::size_t bytes) {
    const std::size_t begin = (used_ + 63) / 64 * 64;
    used_ = begin + bytes;
    if (fits() && bytes) std::memcpy(room_.data() + begin, data, bytes);
    return at_ + begin;
  }
  bool fits() const { return used_ <= room_.size(); }

 private:
  std::span<char> room_;
  std::uint64_t at_;
  std::size_t used_ = 0;
};

}  // namespace

bool OneCall::place(std::span<char> room, std::uint64_t at) const {
  cr_rollback request = this->request();
  Placer placer(room, at);
  placer.put(&request, sizeof request);  // its place; it is written below
  request.pages.scope = placer.put(scope_.data(), scope_.size() * sizeof scope_[0]);
  request.mappings = placer.put(mappings_.data(), mappings_.size() * sizeof mappings_[0]);
  request.fds = placer.put(descriptors_.data(), descriptors_.size() * sizeof descriptors_[0]);
  std::vector<cr_thread_regs> threads = threads_;
  for (cr_thread_regs& one : threads) {
    one.general = placer.put(reinterpret_cast<const void*>(one.general), sizeof(user_regs_struct));
    one.extended = placer.put(reinterpret_cast<const void*>(one.extended), one.extended_len);
    request.threads.room = std::max(request.threads.room, static_cast<std::uint32_t>(one.extended_len));
  }
  request.threads.threads = placer.put(threads.data(), threads.size() * sizeof threads[0]);
  request.threads.count = static_cast<std::uint32_t>(threads.size());
  if (placer.fits()) std::memcpy(room.data(), &request, sizeof request);
  return placer.fits();
}

}  // namespace reprise
