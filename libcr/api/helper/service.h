// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once
/** @file The helper's side of the shared block: receives orders and sends answers. */
#include <string>
#include <vector>

#include "api/protocol.h"
#include "base/unique_fd.h"

namespace reprise::api {

class Service {
 public:
  /**
   * Take over the descriptors that the program has passed, and map the block.
   * @param numbers  the numbers of struct Inherited as text
   * @throws Error when they are malformed or the block is of another version
   */
  explicit Service(const char* numbers);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  /** Wait for the next order. @return false when the program does not map the block any more */
  bool next(Order& order);
  /** Answer the last order. @param error  0 or an errno or CR_E* code */
  void answer(int error, std::int64_t value, const std::string& sentence = {});
  /**
   * Answer an earlier order again. A rollback has returned the program to the time when it
   * waited for that answer; later orders are void.
   */
  void answer_again(std::uint32_t number, std::int64_t value);
  std::uint32_t number() const { return number_; }

  /** Report that the target is notified of the request, so that the requester continues. */
  void started();
  /** Let the program do something with its children. @return the result, -ECANCELED when it is gone */
  std::int32_t ask(const ChildOrder& order);
  /** Tell the program of its children @p pids, which it reaps if the restart fails. */
  void copies_made(const std::vector<pid_t>& pids);
  /** Receive a descriptor from the program. */
  UniqueFd receive();

  /** Append a line to the messages of cr_log_*(). */
  void log(const std::string& line);

  /** @return pid of the program */
  pid_t owner() const { return block_->owner; }
  /** @return string @p index in Block::text, "" when there are fewer */
  std::string text(unsigned index) const;
  UniqueFd& owner_mem() { return owner_mem_; }
  UniqueFd& target_mem() { return target_mem_; }
  UniqueFd& image() { return image_; }

 private:
  bool owner_holds() const;
  void reply(int error, std::int64_t value, const std::string& sentence);

  Block* block_ = nullptr;
  std::uint32_t number_ = 0;     // number of the current order
  std::uint64_t cookie_ = 0;
  UniqueFd owner_mem_, target_mem_, image_, socket_;
};

}  // namespace reprise::api
