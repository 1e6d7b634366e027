// SPDX-License-Identifier: LGPL-2.1-or-later
#include "api/helper/snapshots.h"

#include <fcntl.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "api/helper/requests.h"
#include "base/error.h"
#include "base/request_flags.h"
#include "libcr.h"

namespace reprise::api {
namespace {

constexpr int kTries = 200;
constexpr auto kBetween = std::chrono::milliseconds(10);

/** Retry @p action on EBUSY for up to 2 s: callbacks of the previous request may not all have returned yet. */
template <class Action>
auto patiently(Action&& action) {
  for (int left = kTries;; --left) {
    try {
      return action();
    } catch (const Error& error) {
      if (error.code() != EBUSY || left == 0) throw;
    }
    std::this_thread::sleep_for(kBetween);
  }
}

RestoreOptions restore_options(unsigned flags) {
  RestoreOptions options;
  options.rewind_files = (flags & CR_SNAPSHOT_REWIND_FILES) != 0;
  options.shared_memory = shared_memory(flags, CR_SNAPSHOT_KEEP_SHARED, CR_SNAPSHOT_RESTORE_SHARED);
  return options;
}

}  // namespace

Snapshots::Entry& Snapshots::find(std::uint64_t number) {
  const auto at = entries_.find(number);
  if (at == entries_.end()) throw Error(Failure::usage, EINVAL, "this snapshot was dropped");
  return at->second;
}

void Snapshots::serve(const Order& order) {
  try {
    switch (order.command) {
      case Command::take: return take(order);
      case Command::load: return load(order);
      case Command::rollback: return roll_back(order);
      default:
        entries_.erase(order.snapshot);
        recent_.forget(order.snapshot);
        service_.answer(0, 0);
    }
  } catch (const std::exception& exception) {
    const Outcome outcome = failed(exception);
    service_.answer(outcome.error, 0, outcome.sentence);
  }
}

Snapshots::Entry Snapshots::begin(const Order& order) {
  const UniqueFd& mem = of_owner() ? service_.owner_mem() : service_.target_mem();
  UniqueFd own(::fcntl(mem.get(), F_DUPFD_CLOEXEC, 3));
  if (!own) throw Error(Failure::temporary, errno, "no descriptor left in the helper");
  Entry entry{service_.number(), order.flags, 0, nullptr, nullptr};
  entry.session = std::make_unique<Session>(Session::attach_mem(std::move(own), order.target));
  return entry;
}

void Snapshots::add(std::uint64_t number, Entry entry) {
  entries_.insert_or_assign(number, std::move(entry));
  use(number);
}

void Snapshots::use(std::uint64_t number) {
  const auto other = recent_.use(number);
  if (!other) return;
  // Those above a rollback of our owner are dropped, and may still be among the recent ones.
  if (const auto at = entries_.find(*other); at != entries_.end()) at->second.snapshot->set_aside();
}

void Snapshots::take(const Order& order) {
  Entry entry = begin(order);
  SnapshotOptions options;
  options.own_channel = of_owner();
  options.notify = (order.flags & CR_SNAPSHOT_CALLBACKS) != 0;
  options.request_flags = pack_request(0, CR_SCOPE_PROC, order.target);
  entry.snapshot = patiently([&] { return std::make_unique<Snapshot>(Snapshot::take(*entry.session, options)); });
  add(order.snapshot, std::move(entry));
  service_.answer(0, 0);
}

void Snapshots::load(const Order& order) {
  Entry entry = begin(order);
  PauseOptions options;
  options.pid = order.target;
  options.image = image_name(service_.image());
  options.image_fd = service_.image().get();
  options.requester = service_.owner();
  options.request_flags = pack_request(0, CR_SCOPE_PROC, order.target);
  options.restore = restore_options(order.flags);
  Report report;
  auto loaded = patiently([&] { return Snapshot::load(*entry.session, options, report); });
  service_.image().reset();
  if (!loaded) throw Error(Failure::temporary, ENOMEM, "the process is rolled back, but " + report.warnings.back());
  entry.snapshot = std::make_unique<Snapshot>(std::move(*loaded));
  add(order.snapshot, std::move(entry));
  service_.answer(0, 0);
}

void Snapshots::roll_back(const Order& order) {
  Entry& entry = find(order.snapshot);
  const RestoreOptions options = restore_options(entry.flags);
  patiently([&] { return entry.snapshot->rollback(options); });
  ++entry.rollbacks;
  use(order.snapshot);
  if (!of_owner()) {
    service_.answer(0, 0);
    return;
  }
  // Our owner's memory knows nothing of later snapshots any more: nobody could use or drop them.
  entries_.erase(entries_.upper_bound(order.snapshot), entries_.end());
  service_.answer_again(entry.order_number, entry.rollbacks);
}

}  // namespace reprise::api
