// SPDX-License-Identifier: LGPL-2.1-or-later
// Payloads in memory that outlives the process's other memory: what is kept is found again by an index that is published in it. All
// else about the memory, as which parts are free, is in this object, which goes back to an earlier state together with the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "payload.h"

namespace fnx {

/**
 * The process may be taken back at any instruction, and may be lost with its memory: what a published index refers to stays as it is until
 * another index is published. So what is given back can be taken again only then.
 */
class Arena : public Memory {
 public:
  /** Of zeros, or as an earlier Arena has left it. Nothing of it is taken until claim(). */
  Arena(void *at, std::size_t bytes);

  std::byte *take(std::size_t bytes) override;
  void give_back(std::byte *at, std::size_t bytes) override;
  /** How to publish() what there is now. It is also done when there is no room, but would be then. */
  void set_renewal(std::function<void()> publish) { renewal_ = std::move(publish); }
  void renew() const { renewal_(); }

  /** Replace the index, at one instant. @throw std::bad_alloc */
  void publish(std::span<const std::int64_t> index);
  /** The process is back: all is free but what is claimed. @return the index; empty: none was published */
  std::vector<std::int64_t> begin_again();
  /** These bytes are in use: the index refers to them. @return nullptr: they cannot be */
  std::byte *claim(std::int64_t offset, std::int64_t bytes);
  std::int64_t offset_of(const std::byte *at) const { return at ? at - base_ : 0; }

 private:
  struct Head;
  struct Range {
    std::size_t at, bytes;
  };
  Head &head() const;
  bool cut(std::size_t at, std::size_t bytes);
  void add(std::size_t at, std::size_t bytes);
  std::byte *find_room(std::size_t bytes);

  std::byte *base_;
  std::size_t bytes_;
  std::map<std::size_t, std::size_t> free_;  // by offset
  std::vector<Range> given_back_;            // since the index was published
  std::function<void()> renewal_;
};

}  // namespace fnx
