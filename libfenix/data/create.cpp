// SPDX-License-Identifier: LGPL-2.1-or-later
// Fenix_Data_group_create: among all that have begun, or after a recovery among survivors and those that have taken lost ranks.
#include <algorithm>
#include <cstring>
#include <string>

#include "base/fault.h"
#include "group.h"
#include "process/quiet.h"
#include "store/arena.h"

namespace fnx {
namespace {

MPI_Comm duplicate(MPI_Comm comm) {
  const Quiet errors;  // `comm` is the program's: its error handler would jump away from here
  MPI_Comm made;
  check(MPI_Comm_dup(comm, &made));
  return made;
}

std::vector<std::string> hosts_of(MPI_Comm comm, const std::string &host) {
  const int ranks = size_of(comm);
  char own[MPI_MAX_PROCESSOR_NAME] = "";
  host.copy(own, sizeof own - 1);
  std::vector<char> all(static_cast<std::size_t>(ranks) * sizeof own);
  check(MPI_Allgather(own, sizeof own, MPI_CHAR, all.data(), sizeof own, MPI_CHAR, comm));
  std::vector<std::string> hosts;
  for (int i = 0; i < ranks; ++i) hosts.emplace_back(&all[i * sizeof own]);
  return hosts;
}

/** A vector of one rank for all. */
void share(std::vector<int> &numbers, int from, MPI_Comm comm) {
  int length = static_cast<int>(numbers.size());
  check(MPI_Bcast(&length, 1, MPI_INT, from, comm));
  numbers.resize(length);
  check(MPI_Bcast(numbers.data(), length, MPI_INT, from, comm));
}

std::vector<int> flat(const std::vector<std::vector<int>> &cohorts) {
  std::vector<int> numbers;
  for (const auto &cohort : cohorts) {
    numbers.push_back(static_cast<int>(cohort.size()));
    numbers.insert(numbers.end(), cohort.begin(), cohort.end());
  }
  return numbers;
}

std::vector<std::vector<int>> unflat(const std::vector<int> &numbers) {
  std::vector<std::vector<int>> cohorts;
  for (auto at = numbers.begin(); at != numbers.end(); at += 1 + at[0]) cohorts.emplace_back(at + 1, at + 1 + at[0]);
  return cohorts;
}

std::shared_ptr<const Layout> layout_of(std::vector<std::vector<int>> cohorts, MPI_Comm comm) {
  auto layout = std::make_shared<Layout>();
  layout->ranks = size_of(comm);
  layout->rank = rank_in(comm);
  layout->cohorts = std::move(cohorts);
  for (const auto &cohort : layout->cohorts) {
    const auto me = std::find(cohort.begin(), cohort.end(), layout->rank);
    if (me == cohort.end()) continue;
    layout->cohort = cohort;
    layout->index = static_cast<int>(me - cohort.begin());
  }
  return layout;
}

}  // namespace

struct Group::Census {
  std::vector<bool> has;    // for each rank: it has the group from before
  int first = -1;           // the lowest rank that has
  bool same_layout = true;  // all that have it have the ranks of before, and there are as many
  std::vector<int> common;  // time stamps of snapshots that all of these have, ascending
  GroupWish wish;           // of before, if somebody has it

  bool any() const { return first >= 0; }
  /** How many ranks of a cohort do not have it. */
  int lost_of(const std::vector<int> &cohort) const {
    return static_cast<int>(std::count_if(cohort.begin(), cohort.end(), [&](int rank) { return !has[rank]; }));
  }
};

Group::Group(Process &process, MPI_Comm comm, const GroupWish &wish)
    : process_(process), wish_(wish), epoch_(process.epoch()), comm_(std::make_unique<OwnedComm>(process, duplicate(comm))) {}

Group::Group(Process &process, KeptGroup &&kept)
    : process_(process),
      wish_(kept.wish),
      epoch_(-1),
      layout_(std::move(kept.layout)),
      snapshots_(kept.snapshots.begin(), kept.snapshots.end()),
      next_time_(kept.next_time) {
  name_members();
}

std::unique_ptr<Group> Group::found_again(Process &process, KeptGroup &&kept) {
  return std::unique_ptr<Group>(new Group(process, std::move(kept)));
}

/** Of members that are in the latest snapshot number, count and size are known. */
void Group::name_members() {
  if (snapshots_.empty()) return;
  for (const auto &[id, image] : snapshots_.back().members) {
    const Shape &shape = image->shape();
    members_[id] = {nullptr, static_cast<int>(shape.count), Elements(shape.element, shape.dense), -1, nullptr};
  }
}

Group::Census Group::ask_all(const Group *before) const {
  constexpr int kNumbers = 9;
  const auto row = [](const GroupWish &wish) {
    return std::vector<int>{wish.start, wish.depth, wish.policy.mode, wish.policy.separation, wish.policy.size};
  };
  std::vector<int> own{before != nullptr, before ? before->layout_->ranks : 0, before ? before->layout_->rank : 0,
                       before ? static_cast<int>(before->snapshots_.size()) : 0};
  for (int number : row(wish_)) own.push_back(number);
  const int ranks = size_of(*comm_);
  std::vector<int> all(static_cast<std::size_t>(ranks) * kNumbers);
  check(MPI_Allgather(own.data(), kNumbers, MPI_INT, all.data(), kNumbers, MPI_INT, *comm_));
  Census census;
  std::vector<int> counts(ranks), begins(ranks);
  int total = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const int *theirs = &all[rank * kNumbers];
    if (!std::equal(theirs + 4, theirs + kNumbers, &all[4]))
      throw Error(Code::group_create, "group " + std::to_string(wish_.id) + ": ranks 0 and " + std::to_string(rank) +
                                          " give different time stamps, depths or policies: pass the same in all ranks");
    census.has.push_back(theirs[0]);
    if (theirs[0] && census.first < 0) census.first = rank;
    if (theirs[0] && (theirs[1] != ranks || theirs[2] != rank)) census.same_layout = false;
    counts[rank] = theirs[3];
    begins[rank] = total;
    total += theirs[3];
  }
  std::vector<int> times, every(total);
  if (before)
    for (const Snapshot &snapshot : before->snapshots_) times.push_back(snapshot.time);
  check(MPI_Allgatherv(times.data(), static_cast<int>(times.size()), MPI_INT, every.data(), counts.data(), begins.data(), MPI_INT,
                       *comm_));
  if (!census.any()) return census;
  const int holders = static_cast<int>(std::count(census.has.begin(), census.has.end(), true));
  for (int i = 0; i < counts[census.first]; ++i) {
    const int time = every[begins[census.first] + i];
    if (std::count(every.begin(), every.end(), time) == holders) census.common.push_back(time);
  }
  std::vector<int> old = row(before ? before->wish_ : wish_);
  share(old, census.first, *comm_);
  census.wish = {wish_.id, old[0], old[1], {old[2], old[3], old[4]}};
  return census;
}

void Group::form_layout(const Census &census, const Group *before) {
  if (census.any() && census.same_layout) {
    std::vector<int> numbers = before ? flat(before->layout_->cohorts) : std::vector<int>{};
    share(numbers, census.first, *comm_);
    layout_ = before ? before->layout_ : layout_of(unflat(numbers), *comm_);
    return;
  }
  layout_ = layout_of(wish_.policy.separation ? form_cohorts(size_of(*comm_), wish_.policy) : form_cohorts(hosts_of(*comm_, process_.host()), wish_.policy),
                      *comm_);
}

void Group::enter_cohort() {
  MPI_Comm made;
  check(MPI_Comm_split(*comm_, layout_->cohort[0], layout_->index, &made));
  cohort_ = std::make_unique<OwnedComm>(process_, made);
}

/** What this rank has, without what not all have, and without what was not committed. */
void Group::inherit(const Group &before, const Census &census) {
  members_ = before.members_;
  for (auto &[id, member] : members_) member.staged = nullptr;
  for (const Snapshot &snapshot : before.snapshots_)
    if (std::count(census.common.begin(), census.common.end(), snapshot.time)) snapshots_.push_back(snapshot);
}

/** Give the ranks that have taken lost ones their data. If that of one cannot be made, nobody keeps a snapshot. */
void Group::bring_back(const Census &census) {
  bool possible = true;
  for (const auto &cohort : layout_->cohorts) {
    const int lost = census.lost_of(cohort);
    if (lost > 1 || (lost == 1 && cohort.size() == 1)) possible = false;
  }
  if (!possible) {
    snapshots_.clear();
    next_time_ = wish_.start;  // as if nothing had been committed
    return;
  }
  if (!census.lost_of(layout_->cohort)) return;
  const int lost = static_cast<int>(
      std::find_if(layout_->cohort.begin(), layout_->cohort.end(), [&](int rank) { return !census.has[rank]; }) -
      layout_->cohort.begin());
  std::vector<Snapshot> all(snapshots_.begin(), snapshots_.end());
  fault("repairing");
  rebuild(all, lost, layout_, *cohort_, process_.arena());
  if (layout_->index != lost) return;
  snapshots_.assign(all.begin(), all.end());
  name_members();
}

void Group::set_up(const Group *before) {
  const Census census = ask_all(before);
  if (census.any()) wish_ = census.wish;
  form_layout(census, before);
  enter_cohort();
  next_time_ = census.common.empty() ? wish_.start : census.common.back() + 1;
  if (before) inherit(*before, census);
  if (census.any() && census.same_layout) bring_back(census);
  if (!snapshots_.empty()) safe_ = snapshots_.back().time;
  fault("repaired");
}

std::unique_ptr<Group> Group::create(Process &process, MPI_Comm comm, const GroupWish &wish, const Group *before) {
  std::unique_ptr<Group> group(new Group(process, comm, wish));
  try {
    group->set_up(before);
  } catch (const Error &) {
    throw;  // all ranks refuse it; some may still be about to
  } catch (...) {
    if (group->cohort_) group->cohort_->give_up();
    group->comm_->give_up();
    throw;
  }
  return group;
}

}  // namespace fnx
