// SPDX-License-Identifier: LGPL-2.1-or-later
#include "group.h"

#include <poll.h>
#include <sodium.h>

#include <algorithm>
#include <cstring>

#include "base/idle.h"
#include "image.h"

namespace croff {
namespace {

constexpr int kStarts = 6;               // of a group, one after the other without success
constexpr double kSecondsToCome = 180;   // for all boosters, from their start or their loss
constexpr double kSecondsToGoBack = 20;  // until they go back by themselves after a loss: crrun has to find it first

/** Where a master waits, as the first one gathers it. */
using Where = std::array<char, 1024>;

}  // namespace

RepriseGroup::RepriseGroup(MPI_Comm masters, int hosts, int per_host, std::shared_ptr<LeavingJobs> leaving)
    : masters_(masters), hosts_{hosts, per_host, true}, size_(hosts * per_host), leaving_(std::move(leaving)) {
  start();
  MPI_Comm_dup(MPI_COMM_SELF, &name_);
}

RepriseGroup::~RepriseGroup() {
  retire();
  if (name_ != MPI_COMM_NULL) MPI_Comm_free(&name_);
}

/** A master that was rolled back or restarted: the group's job knows nothing of that. */
bool RepriseGroup::went_back() const { return image::rollbacks() != rollbacks_; }

void RepriseGroup::start() {
  for (int i = 0; i < kStarts; ++i) {
    // A named host may be lost: every second time any will do.
    invite(i % 2 == 0);
    if (assemble(std::nullopt)) return;
    retire();
  }
  throw Error(Code::spawn, std::to_string(size_) +
                               " boosters cannot be started: see what crrun says; ask for fewer, or name other hosts in CROFF_HOSTS");
}

void RepriseGroup::invite(bool named) {
  rollbacks_ = image::rollbacks();
  Invitation invitation;
  if (masters_.first()) randombytes_buf(invitation.secret.data(), invitation.secret.size());
  if (shared()) MPI_Bcast(invitation.secret.data(), static_cast<int>(invitation.secret.size()), MPI_BYTE, 0, masters_.comm());
  arrivals_ = std::make_unique<Arrivals>(size_, invitation.secret);
  Where mine{};
  if (arrivals_->where().size() >= mine.size()) throw Error(Code::spawn, "this node has too many network addresses");
  strcpy(mine.data(), arrivals_->where().c_str());
  std::vector<Where> all(masters_.size(), mine);
  if (shared()) MPI_Gather(mine.data(), mine.size(), MPI_BYTE, all.data(), mine.size(), MPI_BYTE, 0, masters_.comm());
  if (!masters_.first()) return;
  lifeline_ = std::make_unique<Lifeline>(size_);
  invitation.lifeline = lifeline_->where();
  for (const Where &where : all) invitation.masters.emplace_back(where.data());
  job_ = std::make_unique<Job>(Hosts{hosts_.hosts, hosts_.per_host, named}, invitation.text());
}

/** Wait for all boosters, on all masters. @param ask_after seconds: if none has come then, crrun is asked to roll them back
 *  @return false: they do not come */
bool RepriseGroup::assemble(std::optional<double> ask_after) {
  enum { there, waiting, hopeless };
  bool asked = !ask_after;
  const Idle patience(ask_after.value_or(0));
  for (Idle idle(kSecondsToCome);; idle.wait()) {
    // A connection can break without a loss that crrun would find.
    if (job_ && !asked && patience.over() && !arrivals_->any()) {
      asked = true;
      job_->roll_back();
    }
    arrivals_->serve();
    const bool failed = masters_.first() && (job_->ended() || idle.over() || went_back());
    switch (masters_.highest(failed ? hopeless : arrivals_->all() ? there : waiting)) {
      case waiting: break;
      case hopeless: return false;
      case there:
        for (int socket : arrivals_->take()) lines_.push_back(std::make_unique<Line>(socket));
        lost_ = false;
        return true;
    }
  }
}

std::vector<Report> RepriseGroup::poll() {
  std::vector<Report> reports;
  // Other libraries in this process may wait for progress of MPI.
  int there = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, masters_.comm(), &there, MPI_STATUS_IGNORE);
  if (lost_) return reports;
  arrivals_->serve();
  // One that comes again was rolled back, and all others with it.
  lost_ = arrivals_->any() || went_back() || (job_ && job_->ended());
  for (const auto &line : lines_)
    if (!lost_ && !line->progress(reports)) lost_ = true;
  return reports;
}

/** The boosters go back to what they were before the first order, in their job. Only if that fails there is another one. */
void RepriseGroup::replace() {
  const bool found = masters_.highest(lost_), anew = masters_.highest(went_back());
  lost_ = true;
  lines_.clear();
  if (!anew && assemble(found ? kSecondsToGoBack : 0)) return;
  retire();
  start();
}

void RepriseGroup::retire() {
  lost_ = true;
  lines_.clear();
  arrivals_.reset();
  if (lifeline_) lifeline_->cut();
  if (job_ && went_back() && image::was_restarted()) job_->forget();
  job_.reset();
}

/** No consensus: a booster ends when all masters have let it go. */
void RepriseGroup::release() {
  for (const auto &line : lines_) line->command(wire::Op::leave);
  const auto left = [this] { return std::all_of(lines_.begin(), lines_.end(), [](const auto &line) { return line->left(); }); };
  for (Idle idle; !lost_ && !left(); idle.wait()) poll();
  const bool well = !lost_ && left();
  lines_.clear();
  // Boosters that are brought back now find nobody, and end.
  arrivals_.reset();
  if (lifeline_) lifeline_->cut();
  if (job_ && well) leaving_->add(std::move(job_));
  retire();
}

}  // namespace croff
