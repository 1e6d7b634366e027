// SPDX-License-Identifier: GPL-2.0-only
// The interface for C++: survivors go on by an exception, or by a handler.
#include "fenix.hpp"

#include <vector>

#include "modes.h"

namespace {

constexpr int kGroup = 1, kEvery = 3;

class Program {
 public:
  void restore() {
    const int rank = rank_now();
    values_.assign(200, rank);
    step_ = 0;
    int policy[] = {1, 1};
    fenix::data::group_create(kGroup, {.comm = comm, .depth = 1, .policy_value = policy});
    fenix::data::member_create(kGroup, 1, values_.data(), 200, MPI_DOUBLE);
    fenix::data::member_create(kGroup, 2, &step_, 1, MPI_INT);
    if (fenix::data::group_snapshots(kGroup).empty()) return;
    fenix::data::Subset found;
    CHECK(fenix::data::member_restore(kGroup, 1, nullptr, 200, FENIX_DATA_SNAPSHOT_LATEST, &found) == FENIX_SUCCESS);
    fenix::data::member_restore(kGroup, 2, nullptr, 1);
  }
  /** @return MPI's error, or 0 */
  int advance() {
    perhaps_die("step" + std::to_string(step_));
    const int rank = rank_now(), size = size_now();
    double left = 0;
    if (const int failed = MPI_Sendrecv(&values_.back(), 1, MPI_DOUBLE, (rank + 1) % size, 1, &left, 1, MPI_DOUBLE,
                                        (rank + size - 1) % size, 1, comm, MPI_STATUS_IGNORE))
      return failed;
    for (double &value : values_) {
      const double old = value;
      value = 0.25 * value + 0.75 * left;
      left = old;
    }
    ++step_;
    if (step_ % kEvery) return 0;
    if (const int failed = fenix::data::member_store(kGroup, 1, fenix::data::Subset({{0, 99}, {100, 199}}))) return failed;
    const Fenix_Request request = fenix::data::member_istore(kGroup, 2);
    if (const int failed = fenix::data::wait(request)) return failed;
    return fenix::data::commit_barrier(kGroup);
  }
  bool ready() const { return step_ >= options.steps; }
  void say() const {
    double sum = 0, all = 0;
    for (double value : values_) sum += value;
    MPI_Reduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, 0, comm);
    if (rank_now() == 0) result("%.17g", all);
  }

 private:
  std::vector<double> values_;
  int step_ = 0;
};

}  // namespace

void cpp() {
  const bool handler = options.way == "handler";
  Program program;
  bool failed = true;  // what there is has to be restored
  if (handler) fenix::set_option(FENIX_RESUME_MODE, FENIX_RESUME_RETURN);
  try {
    fenix::nspare();
  } catch (const fenix::RuntimeException &exception) {
    CHECK(exception.error == FENIX_ERROR_UNINITIALIZED);
  }
  fenix::init({.role = &role, .out_comm = &comm, .spares = options.spares});
  try {
    fenix::callback_register([&](MPI_Comm repaired, int) {
      CHECK(repaired == comm && fenix::fail_list().size() == 1);
      failed = true;
    });
  } catch (const fenix::RuntimeException &exception) {
    CHECK(exception.error == FENIX_ERROR_INVALID_LOGIC_CALL);  // the engine reprise: survivors come back to init()
  }
  while (!fenix::finalized()) {
    try {
      if (failed) program.restore();
      failed = false;
      while (!program.ready() && !failed) CHECK((program.advance() != 0) == failed);
      if (failed) continue;
      program.say();
      fenix::finalize();
    } catch (const fenix::CommException &exception) {
      CHECK(!handler && exception.repaired_comm == comm && failed);
    }
  }
}
