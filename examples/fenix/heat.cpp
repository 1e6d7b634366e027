// SPDX-License-Identifier: LGPL-2.1-or-later
// The same as heat.c in C++: survivors go on by an exception, so that all destructors run.
//
//   heat-cpp [STEPS [SPARES [LOST]]]
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fenix.hpp>
#include <vector>

namespace {

constexpr int kEvery = 20, kGroup = 0;

class Rod {
 public:
  explicit Rod(MPI_Comm comm, int block) : comm_(comm), now_(block), next_(block) {
    MPI_Comm_rank(comm, &rank_);
    MPI_Comm_size(comm, &size_);
    for (int i = 0; i < block; ++i) now_[i] = (i + rank_ * block) % 1000;
    fenix::data::group_create(kGroup, {comm});
    fenix::data::member_create(kGroup, 0, now_.data(), block, MPI_DOUBLE);
    fenix::data::member_create(kGroup, 1, &step_, 1, MPI_INT);
    if (fenix::data::group_snapshots(kGroup).empty()) return;
    fenix::data::member_restore(kGroup, 0, nullptr, block);
    fenix::data::member_restore(kGroup, 1, nullptr, 1);
    if (rank_ == 0) fprintf(stderr, "heat: all are back at step %d\n", step_);
  }

  void advance() {
    double left = 0, right = 0;
    const int before = rank_ ? rank_ - 1 : MPI_PROC_NULL, after = rank_ + 1 < size_ ? rank_ + 1 : MPI_PROC_NULL;
    MPI_Sendrecv(&now_.front(), 1, MPI_DOUBLE, before, 1, &right, 1, MPI_DOUBLE, after, 1, comm_, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&now_.back(), 1, MPI_DOUBLE, after, 2, &left, 1, MPI_DOUBLE, before, 2, comm_, MPI_STATUS_IGNORE);
    for (std::size_t i = 0; i < now_.size(); ++i)
      next_[i] = 0.25 * (i > 0 ? now_[i - 1] : left) + 0.5 * now_[i] + 0.25 * (i + 1 < now_.size() ? now_[i + 1] : right);
    now_.assign(next_.begin(), next_.end());  // the memory that the group knows
    if (++step_ % kEvery) return;
    fenix::data::member_store(kGroup, FENIX_DATA_MEMBER_ALL);
    fenix::data::commit_barrier(kGroup);
  }

  void say() const {
    double sum = 0, all = 0;
    for (std::size_t i = 0; i < now_.size(); ++i) sum += static_cast<double>(i + rank_ * now_.size()) * now_[i];
    MPI_Reduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, 0, comm_);
    if (rank_ == 0) printf("after %d steps the weighted sum is %.17g\n", step_, all);
  }

  int step() const { return step_; }
  int rank() const { return rank_; }

 private:
  MPI_Comm comm_;
  int rank_ = 0, size_ = 0, step_ = 0;
  std::vector<double> now_, next_;
};

}  // namespace

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  const auto number = [&](int at, int otherwise) { return argc > at ? atoi(argv[at]) : otherwise; };
  const int steps = number(1, 200), spares = number(2, 0), lost = number(3, -1);
  int role = 0;
  MPI_Comm comm;
  fenix::set_option(FENIX_RECOVERY_MODE, FENIX_RECOVERY_SPAWN);
  fenix::init({.role = &role, .out_comm = &comm, .argc = &argc, .argv = &argv, .spares = spares});
  while (!fenix::finalized()) {
    try {
      Rod rod(comm, 20000);
      while (rod.step() < steps) {
        if (role == FENIX_ROLE_INITIAL_RANK && rod.rank() == lost && rod.step() == steps / 2) raise(SIGKILL);
        rod.advance();
      }
      rod.say();
      fenix::finalize();
    } catch (const fenix::CommException &) {
      // comm is repaired: begin with what was stored
    }
  }
  MPI_Finalize();
  return 0;
}
