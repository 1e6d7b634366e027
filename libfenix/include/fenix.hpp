// SPDX-License-Identifier: LGPL-2.1-or-later
/**
 * @file fenix.hpp
 * Recovery of processes and data: C++ (17 or newer) over fenix.h, which documents the meaning of each function.
 *
 * Survivors go on by an exception or by a handler, as you like:
 *
 *     fenix::init({.out_comm = &comm, .spares = 2});        // FENIX_RESUME_THROW
 *     while (!done) try { compute(comm); done = true; }
 *     catch (const fenix::CommException &) { restore(); }   // comm is repaired; destructors have run
 *
 *     fenix::set_option(FENIX_RESUME_MODE, FENIX_RESUME_RETURN);
 *     fenix::init({.out_comm = &comm});
 *     fenix::callback_register([&](MPI_Comm repaired, int) { failed = true; });
 *
 * Functions throw RuntimeException for errors of fenix.h. They return warnings, and with FENIX_RESUME_RETURN MPI's error class.
 */
#ifndef FENIX_HPP
#define FENIX_HPP

#include <deque>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "fenix.h"
#include "fenix_exception.hpp"

namespace fenix {

/** An error of fenix.h, and fenix_last_error(). */
struct RuntimeException : public std::runtime_error {
  explicit RuntimeException(int code) : std::runtime_error(fenix_last_error()), error(code) {}
  const int error;
};

namespace detail {
inline int check(int code) {
  if (code < 0) throw RuntimeException(code);
  return code;
}
/** Where Fenix_Init writes what the program does not ask for. */
struct Outputs {
  int role, error;
  MPI_Comm comm;
};
inline Outputs &outputs() {
  static Outputs all{};
  return all;
}
using Callback = std::function<void(MPI_Comm, int)>;
inline std::deque<Callback> &callbacks() {
  static std::deque<Callback> all;  // their addresses stay as they are
  return all;
}
}  // namespace detail

inline void set_option(Fenix_Setting_name setting, unsigned option) { detail::check(Fenix_set_option(setting, option)); }
inline unsigned get_option(Fenix_Setting_name setting) {
  unsigned option = 0;
  detail::check(Fenix_get_option(setting, &option));
  return option;
}

namespace args {
struct FenixInitArgs {
  int *role = nullptr;
  MPI_Comm in_comm = MPI_COMM_WORLD;
  MPI_Comm *out_comm = nullptr;
  int *argc = nullptr;
  char ***argv = nullptr;
  int spares = 0;
  int *err = nullptr;
};
}  // namespace args

/** Fenix_Init with FENIX_RESUME_THROW, or FENIX_RESUME_RETURN if that is set. What is pointed to must live until Fenix_Finalize. */
inline void init(const args::FenixInitArgs &given) {
  if (get_option(FENIX_RESUME_MODE) == FENIX_RESUME_JUMP) set_option(FENIX_RESUME_MODE, FENIX_RESUME_THROW);
  int *role = given.role ? given.role : &detail::outputs().role, *error = given.err ? given.err : &detail::outputs().error;
  fenix_enter_(role, given.in_comm, given.out_comm ? given.out_comm : &detail::outputs().comm, given.argc, given.argv, given.spares,
               -1, MPI_INFO_NULL, error, nullptr);
  detail::check(*error);
  fenix_leave_();
}

/** Fenix_Finalize(). @throw CommException if there was a recovery instead */
inline int finalize() { return detail::check(Fenix_Finalize()); }

inline bool initialized() {
  int flag = 0;
  Fenix_Initialized(&flag);
  return flag;
}
inline bool finalized() {
  int flag = 0;
  Fenix_Finalized(&flag);
  return flag;
}
/** Role of a rank of the resilient communicator, or of one derived from it. */
inline Fenix_Rank_role rank_role(MPI_Comm comm, int rank) {
  int role = 0;
  detail::check(Fenix_get_rank_role(comm, rank, &role));
  return static_cast<Fenix_Rank_role>(role);
}
inline int n_ranks_with_role(Fenix_Rank_role role) {
  int number = 0;
  detail::check(Fenix_get_number_of_ranks_with_role(role, &number));
  return number;
}
inline int error() { return detail::check(Fenix_get_error()); }
inline int nspare() { return detail::check(Fenix_get_nspare()); }
inline std::vector<int> fail_list() {
  int *list = nullptr;
  const int count = detail::check(Fenix_Process_fail_list(&list));
  return {list, list + count};
}
inline int detect_failures(bool recover = true) { return detail::check(Fenix_Process_detect_failures(recover)); }

/** Fenix_Callback_register() with anything that can be called. */
inline void callback_register(std::function<void(MPI_Comm, int)> callback) {
  detail::callbacks().push_back(std::move(callback));
  const int code = Fenix_Callback_register(
      [](MPI_Comm comm, int failure, void *data) { (*static_cast<detail::Callback *>(data))(comm, failure); },
      &detail::callbacks().back());
  if (code >= 0) return;
  detail::callbacks().pop_back();
  throw RuntimeException(code);
}
/** Forget the latest callback; all must have been registered by the function above. */
inline void callback_pop() {
  detail::check(Fenix_Callback_pop());
  detail::callbacks().pop_back();
}

namespace data {

/** A Fenix_Data_subset that frees itself. */
class Subset {
 public:
  /** Nothing; also to be filled by restore(). */
  Subset() = default;
  /** Fenix_Data_subset_create(). */
  Subset(int blocks, int first, int last, int stride) { detail::check(Fenix_Data_subset_create(blocks, first, last, stride, &own_)); }
  /** Fenix_Data_subset_createv(): first and last elements. */
  explicit Subset(const std::vector<std::pair<int, int>> &blocks) {
    std::vector<int> firsts, lasts;
    for (const auto &[first, last] : blocks) {
      firsts.push_back(first);
      lasts.push_back(last);
    }
    detail::check(Fenix_Data_subset_createv(static_cast<int>(blocks.size()), firsts.data(), lasts.data(), &own_));
  }
  Subset(Subset &&other) noexcept : own_(std::exchange(other.own_, {})) {}
  Subset &operator=(Subset &&other) noexcept {
    std::swap(own_, other.own_);
    return *this;
  }
  ~Subset() {
    if (own_.impl) Fenix_Data_subset_delete(&own_);
  }
  operator Fenix_Data_subset() const { return own_.impl ? own_ : FENIX_DATA_SUBSET_EMPTY; }
  /** For an output. */
  Fenix_Data_subset *put() {
    if (own_.impl) Fenix_Data_subset_delete(&own_);
    return &own_;
  }

 private:
  Fenix_Data_subset own_{};
};

struct GroupCreateArgs {
  MPI_Comm comm;
  int start_time_stamp = 0;
  int depth = 0;
  int policy_name = FENIX_DATA_POLICY_IN_MEMORY_RAID;
  void *policy_value = nullptr;
  int *flag = nullptr;
};
inline int group_create(int group, const GroupCreateArgs &args) {
  return detail::check(Fenix_Data_group_create(group, args.comm, args.start_time_stamp, args.depth, args.policy_name, args.policy_value,
                                               args.flag));
}
inline int member_create(int group, int member, void *buffer, int count, MPI_Datatype type) {
  return detail::check(Fenix_Data_member_create(group, member, buffer, count, type));
}
inline int member_store(int group, int member, Fenix_Data_subset subset = FENIX_DATA_SUBSET_FULL) {
  return detail::check(Fenix_Data_member_store(group, member, subset));
}
inline int member_storev(int group, int member, Fenix_Data_subset subset) {
  return detail::check(Fenix_Data_member_storev(group, member, subset));
}
inline Fenix_Request member_istore(int group, int member, Fenix_Data_subset subset = FENIX_DATA_SUBSET_FULL) {
  Fenix_Request request{0};
  detail::check(Fenix_Data_member_istore(group, member, subset, &request));
  return request;
}
inline int wait(Fenix_Request request) { return detail::check(Fenix_Data_wait(request)); }
inline bool test(Fenix_Request request) {
  int flag = 0;
  detail::check(Fenix_Data_test(request, &flag));
  return flag;
}
inline int commit(int group, int *time_stamp = nullptr) { return detail::check(Fenix_Data_commit(group, time_stamp)); }
inline int commit_barrier(int group, int *time_stamp = nullptr) { return detail::check(Fenix_Data_commit_barrier(group, time_stamp)); }
/** @param target nullptr: the member's buffer. @return FENIX_SUCCESS or FENIX_WARNING_PARTIAL_RESTORE */
inline int member_restore(int group, int member, void *target, int max_count, int time_stamp = FENIX_DATA_SNAPSHOT_LATEST,
                          Subset *found = nullptr) {
  return detail::check(Fenix_Data_member_restore(group, member, target, max_count, time_stamp, found ? found->put() : nullptr));
}
/** Time stamps, newest first. */
inline std::vector<int> group_snapshots(int group) {
  int count = 0;
  detail::check(Fenix_Data_group_get_number_of_snapshots(group, &count));
  std::vector<int> times(count);
  for (int i = 0; i < count; ++i) detail::check(Fenix_Data_group_get_snapshot_at_position(group, i, &times[i]));
  return times;
}
inline int group_delete(int group) { return detail::check(Fenix_Data_group_delete(group)); }

}  // namespace data
}  // namespace fenix

namespace Fenix = fenix;  // as older programs write it

#endif
