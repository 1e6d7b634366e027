// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file In-memory snapshots of one process, by number. */
#include <map>
#include <memory>

#include "api/helper/outcome.h"
#include "api/helper/service.h"
#include "base/recent.h"
#include "request/snapshot.h"
#include "session/session.h"

namespace reprise::api {

class Snapshots {
 public:
  explicit Snapshots(Service& service) : service_(service) {}

  /** Carry out an order and answer it. */
  void serve(const Order& order);

 private:
  /** A session holds one snapshot, so each snapshot has its own session. */
  struct Entry {
    std::uint32_t order_number;  // number of the order that took the snapshot
    unsigned flags;
    std::int64_t rollbacks = 0;
    std::unique_ptr<Session> session;
    std::unique_ptr<Snapshot> snapshot;
  };

  Entry& find(std::uint64_t number);
  void take(const Order& order);
  void load(const Order& order);
  Entry begin(const Order& order);
  void roll_back(const Order& order);
  void add(std::uint64_t number, Entry entry);
  /** Note that a snapshot is used. Those that were not for longer take less memory from now on. */
  void use(std::uint64_t number);
  bool of_owner() const { return !service_.target_mem(); }

  Service& service_;
  std::map<std::uint64_t, Entry> entries_;
  Recent recent_{Snapshot::kAtHand};
};

}  // namespace reprise::api
