// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/**
 * @file The channel between crrun and a daemon. Every counted message has a sequence number. The sender keeps it until the
 * receiver has confirmed it, and sends it again when the daemon has connected anew; the receiver drops what it has already.
 * So each arrives once and in order, whichever connection breaks. crrun's end is in crrun/routes.h. No I/O.
 */
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "job/messages.pb.h"

namespace reprise::job {

/** Whether the channel numbers and keeps a message. */
bool counted(const Up& up);
bool counted(const Down& down);

/** Messages that one receiver has not confirmed yet. Several receivers share a message that goes to all of them. */
template <class Message>
class Outgoing {
 public:
  using Kept = std::deque<std::shared_ptr<const Message>>;
  /** Keep a message; its sequence is higher than those of all earlier ones. */
  void add(std::shared_ptr<const Message> message) { kept_.push_back(std::move(message)); }
  /** The receiver has all messages up to @p sequence. */
  void confirm(std::uint64_t sequence) {
    while (!kept_.empty() && kept_.front()->sequence() <= sequence) kept_.pop_front();
  }
  void clear() { kept_.clear(); }
  /** @return the messages without confirmation, oldest first */
  const Kept& kept() const { return kept_; }

 private:
  Kept kept_;
};

/** Which messages of one sender have arrived. */
class Incoming {
 public:
  /** Note a message. @return false: it had arrived before */
  bool accept(std::uint64_t sequence);
  /** No message up to @p sequence is missing: those that did not arrive here were for others, or joined with others. */
  void complete(std::uint64_t sequence);
  /** @return the sequence up to which no message is missing */
  std::uint64_t last() const { return last_; }

 private:
  void advance();
  std::uint64_t last_ = 0;
  std::set<std::uint64_t> ahead_;  ///< they overtook one that a relay holds, to join it with others
};

/**
 * A daemon's end of the channel, for one instance of the daemon. On a new connection, only Hello and heartbeats go out
 * before crrun's Welcome.
 */
class DaemonChannel {
 public:
  /** A new connection was made: the next thing to send is Hello. */
  void connected() { open_ = false; }
  /** Say in Hello what has arrived. */
  void fill(Hello& hello) const;
  /** The same in a heartbeat, also what has been sent. */
  void fill(Heartbeat& beat) const;
  /**
   * The daemon has a message to send: give it its number, and keep it if it is counted.
   * @return whether to send it now. If not, it is in kept(), or repeats itself (output).
   */
  bool send(Up& up);
  /** A message has come for this daemon. @return whether to carry it out: once, and none but Shutdown before the Welcome */
  bool accept(const Down& down);
  /** crrun has all messages up to @p seen. */
  void confirm(std::uint64_t seen) { outgoing_.confirm(seen); }
  /**
   * crrun has sent Welcome: from now on send() lets messages pass. Those in kept() must go out first.
   * @return false: this crrun has not welcomed the daemon before, and knows nothing of what went to an earlier one
   */
  bool welcome(const Welcome& welcome);
  /** @return messages that crrun may not have, oldest first */
  const Outgoing<Up>::Kept& kept() const { return outgoing_.kept(); }

 private:
  bool open_ = false;  ///< crrun has sent Welcome on this connection
  std::string crrun_;  ///< the crrun that sent the last Welcome; "": none
  std::uint64_t sent_ = 0;
  Outgoing<Up> outgoing_;
  Incoming incoming_;
};

}  // namespace reprise::job
