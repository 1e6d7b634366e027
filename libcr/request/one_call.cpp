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

bool OneCall::roll_back(Session& session, unsigned timeout_ms, Report& report) {
  const Process& process = state_->process;
  request_ = {};
  request_.counter = generation_counter(process);
  std::copy(process.digests().begin(), process.digests().end(), request_.area);
  request_.pages.source_fd = -1;
  request_.pages.flags = CR_RESTORE_TRACK;
  request_.pages.scope = reinterpret_cast<std::uintptr_t>(scope_.data());
  request_.pages.nscope = scope_.size();
  std::memcpy(request_.pages.id, state_->id.data(), CR_ID_SIZE);
  request_.mappings = reinterpret_cast<std::uintptr_t>(mappings_.data());
  request_.nmappings = mappings_.size();
  request_.fds = reinterpret_cast<std::uintptr_t>(descriptors_.data());
  request_.nfds = descriptors_.size();
  request_.brk = process.layout().brk();
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

}  // namespace reprise
