// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The helper's end of the shared block: orders in, answers out. */
#include <string>

#include "api/protocol.h"
#include "base/unique_fd.h"

namespace reprise {
struct ClockOffsets;
}

namespace reprise::api {

class Service {
 public:
  /** Take over what the program handed down, given as text. @throws Error when it is not what it should be */
  explicit Service(const char* numbers);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /** Wait for the next order. @return false when the program no longer has its end */
  bool next(Order& order);
  /** Answer the last order; @p error 0 or an errno or CR_E* code. */
  void answer(int error, std::int64_t value, const std::string& sentence = {});
  /**
   * Answer an order of old: the program was rolled back to where it waits for that
   * answer, and has forgotten all later ones.
   */
  void answer_again(std::uint32_t number, std::int64_t value);
  std::uint32_t number() const { return number_; }

  /** The target knows of the request: whoever made it goes on. */
  void started();
  /** Have the program make a process; see MakeChild in request/options.h. */
  pid_t make_child(pid_t pid, const ClockOffsets* offsets, UniqueFd& mem);

  /** A line for cr_log_*(). */
  void log(const std::string& line);

  pid_t owner() const { return block_->owner; }
  /** @return string @p index of the program's, "" when there are fewer */
  std::string text(unsigned index) const;
  UniqueFd& owner_mem() { return owner_mem_; }
  UniqueFd& target_mem() { return target_mem_; }
  UniqueFd& image() { return image_; }

 private:
  bool owner_holds() const;
  void reply(int error, std::int64_t value, const std::string& sentence);

  Block* block_ = nullptr;
  std::uint32_t number_ = 0;     // of the order being worked on
  std::uint64_t cookie_ = 0;
  UniqueFd owner_mem_, target_mem_, image_, socket_;
};

}  // namespace reprise::api
