// SPDX-License-Identifier: LGPL-2.1-or-later
// How a group begins, is replaced after a loss, and ends.

#include "base/idle.h"
#include "group.h"

namespace croff {
namespace {

constexpr int kStarts = 6;  // of a group, one after the other without success

}  // namespace

MpiGroup::MpiGroup(MPI_Comm masters, int hosts, int per_host)
    : masters_(masters), places_{hosts, per_host, true}, size_(hosts * per_host) {
  start();
  name_ = inter_;
}

MpiGroup::~MpiGroup() {
  // Without release() the lifeline ends with this object, and the boosters with it.
}

void MpiGroup::start() {
  std::string why, last;
  for (int i = 0; i < kStarts; ++i) {
    if (masters_.first()) lifeline_ = std::make_unique<Lifeline>(size_);
    // A named host may be lost: every second time the launcher chooses.
    const Places places{places_.hosts, places_.per_host, i % 2 == 0};
    lost_ = false;
    greeted_ = left_ = 0;
    inter_ = spawn(masters_.comm(), places, lifeline_ ? lifeline_->where() : "", why);
    if (!why.empty()) last = why;
    if (masters_.everywhere(inter_ != MPI_COMM_NULL && greeted())) return;
    retire();
  }
  throw Error(Code::spawn, std::to_string(size_) + " boosters cannot be started (" + (last.empty() ? "they end at once" : last) +
                               "): ask for fewer, or give the launcher more slots or --oversubscribe, and the hosts of CROFF_HOSTS");
}

bool MpiGroup::greeted() {
  notices_.assign(size_, {});
  requests_.assign(size_, MPI_REQUEST_NULL);
  operation_of_.assign(size_, nullptr);
  for (int booster = 0; booster < size_ && !lost_; ++booster) listen(booster);
  for (Idle idle; greeted_ < size_ && !lost_; idle.wait()) poll();
  return !lost_;
}

/** The boosters die, and their deaths end all transfers: none writes to memory that is used again. The communicator is not
 *  revoked: that would wait for addresses of boosters that have died before they were connected. */
void MpiGroup::retire() {
  lost_ = true;
  if (lifeline_) lifeline_->cut();
  // These wait for nothing that matters, perhaps from a booster that is about to end by itself.
  for (std::size_t booster = 0; booster < requests_.size() && static_cast<int>(booster) < size_; ++booster)
    if (requests_[booster] != MPI_REQUEST_NULL) MPI_Cancel(&requests_[booster]);
  Idle idle;
  for (;;) {
    int index = MPI_UNDEFINED, there = 0;
    MPI_Testany(static_cast<int>(requests_.size()), requests_.data(), &index, &there, MPI_STATUS_IGNORE);
    if (there && index == MPI_UNDEFINED) break;
    if (there || index != MPI_UNDEFINED) idle.reset();
    idle.wait();
  }
  requests_.clear();
  operation_of_.clear();
  operations_.clear();
  // Not freed yet: the next communicator would get its context id, and a late message of a dead booster would count there.
  if (inter_ != MPI_COMM_NULL) broken_.push_back(inter_);
  inter_ = MPI_COMM_NULL;
}

void MpiGroup::replace() {
  retire();
  start();
}

/** No consensus: a booster ends when all masters have let it go, and none of them needs those that are lost meanwhile.
 *  Not MPI_Comm_disconnect: if a booster is lost in it, that ends the master (Open MPI 5.0.7 frees the communicator, and then
 *  calls the error handler of none). */
void MpiGroup::release() {
  for (int booster = 0; booster < size_ && !lost_; ++booster) command(booster, wire::Op::leave);
  for (Idle idle; left_ < size_ && !lost_; idle.wait()) poll();
  retire();
  for (MPI_Comm &comm : broken_) MPI_Comm_free(&comm);
  broken_.clear();
}

}  // namespace croff
