// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file A holder of a Remote, which maps its arena on first use. */
#include <cstdint>

#include "session/remote.h"

namespace reprise {

class LazyRemote {
 public:
  explicit LazyRemote(Session& session, std::uint64_t addr = 0) : remote_(session, addr) {}
  Remote& get() { return remote_; }
  Remote& operator*() { return remote_; }
  Remote* operator->() { return &remote_; }
  bool used() const { return remote_.mapped(); }

 private:
  Remote remote_;
};

}  // namespace reprise
