// SPDX-License-Identifier: GPL-2.0-only
#include "job/channel.h"

namespace reprise::job {

bool counted(const Up& up) {
  // Output has offsets, by which it is confirmed, repeated and compared.
  return !up.has_hello() && !up.has_heartbeat() && !up.has_output();
}

bool counted(const Down& down) {
  // When the job ends, crrun answers Hello by Shutdown instead of Welcome.
  return !down.has_welcome() && !down.has_heartbeat() && !down.has_shutdown();
}

bool Incoming::accept(std::uint64_t sequence) {
  if (sequence <= last_ || !ahead_.insert(sequence).second) return false;
  advance();
  return true;
}

void Incoming::complete(std::uint64_t sequence) {
  if (sequence <= last_) return;
  last_ = sequence;
  ahead_.erase(ahead_.begin(), ahead_.upper_bound(sequence));
  advance();
}

void Incoming::advance() {
  while (!ahead_.empty() && *ahead_.begin() == last_ + 1) {
    ahead_.erase(ahead_.begin());
    ++last_;
  }
}

void DaemonChannel::fill(Hello& hello) const {
  hello.set_seen(incoming_.last());
  hello.set_crrun(crrun_);
}

void DaemonChannel::fill(Heartbeat& beat) const {
  // Before the Welcome, what has arrived may be another crrun's, and what was sent may be lost.
  beat.set_seen(open_ ? incoming_.last() : 0);
  beat.set_sent(open_ ? sent_ : 0);
}

bool DaemonChannel::send(Up& up) {
  if (up.has_hello() || up.has_heartbeat()) return true;
  if (!counted(up)) return open_;
  up.set_sequence(++sent_);
  outgoing_.add(std::make_shared<const Up>(up));
  return open_;
}

bool DaemonChannel::accept(const Down& down) {
  if (!counted(down)) return true;
  // Until crrun has read Hello it takes this connection for the old one, on which earlier messages may have been lost.
  if (!open_ || !incoming_.accept(down.sequence())) return false;
  // Those between the last one and this were for other daemons.
  incoming_.complete(down.sequence());
  return true;
}

bool DaemonChannel::welcome(const Welcome& welcome) {
  open_ = true;
  if (welcome.crrun() == crrun_) {
    confirm(welcome.seen());
    return true;
  }
  if (!std::exchange(crrun_, welcome.crrun()).empty()) outgoing_.clear();
  incoming_ = {};
  return false;
}

}  // namespace reprise::job
