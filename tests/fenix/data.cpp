// SPDX-License-Identifier: GPL-2.0-only
// Data recovery: a program that goes back to its latest snapshot, in the ways in which members can be stored.
#include <algorithm>
#include <cstring>
#include <vector>

#include "modes.h"

namespace {

constexpr int kGroup = 3, kEvery = 3;
enum Number { kValues = 0, kStep = 1, kPairs = 7 };

struct Pair {
  char tag;  // a gap follows
  double value;
};

struct State {
  int step = 0;
  std::vector<double> values;  // as many as the rank likes
  Pair pairs[5];
};

State state;
MPI_Datatype pair_type;
MPI_Comm members_comm;  // of the group

void make_type() {
  const int lengths[] = {1, 1};
  const MPI_Aint places[] = {offsetof(Pair, tag), offsetof(Pair, value)};
  const MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE};
  MPI_Datatype bare;
  MPI_Type_create_struct(2, lengths, places, types, &bare);
  MPI_Type_create_resized(bare, 0, sizeof(Pair), &pair_type);
  MPI_Type_commit(&pair_type);
  MPI_Type_free(&bare);
}

void begin_state() {
  const int rank = rank_now();
  state.step = 0;
  state.values.assign(500 + 37 * rank, 0);
  for (std::size_t i = 0; i < state.values.size(); ++i) state.values[i] = static_cast<double>(i % 17) + rank;
  for (int i = 0; i < 5; ++i) state.pairs[i] = {static_cast<char>('a' + i), rank + i / 8.0};
}

void advance() {
  perhaps_die("step" + std::to_string(state.step));
  const int rank = rank_now(), size = size_now();
  double left = 0, sum = 0;
  MPI_Sendrecv(&state.values.back(), 1, MPI_DOUBLE, (rank + 1) % size, 1, &left, 1, MPI_DOUBLE, (rank + size - 1) % size, 1, comm,
               MPI_STATUS_IGNORE);
  for (double &value : state.values) {
    const double old = value;
    value = 0.5 * value + 0.5 * left + 0.01;
    left = old;
  }
  for (Pair &pair : state.pairs) pair.value += state.values[3] / 64;
  MPI_Allreduce(&state.pairs[4].value, &sum, 1, MPI_DOUBLE, MPI_SUM, comm);
  state.pairs[0].value += sum / size;
  ++state.step;
}

void create_group(MPI_Comm over) {
  int values[3] = {0, 0, 3}, flag;
  const int given = sscanf(options.policy.c_str(), "%d:%d:%d", &values[0], &values[1], &values[2]);
  members_comm = over;
  CHECK(Fenix_Data_group_create(kGroup, over, 10, options.depth, FENIX_DATA_POLICY_IN_MEMORY_RAID, given > 0 ? values : nullptr, &flag) ==
        FENIX_SUCCESS);
  const int count = static_cast<int>(state.values.size());
  CHECK(Fenix_Data_member_create(kGroup, kValues, state.values.data(), count, MPI_DOUBLE) == FENIX_SUCCESS);
  CHECK(Fenix_Data_member_create(kGroup, kStep, &state.step, 1, MPI_INT) == FENIX_SUCCESS);
  CHECK(Fenix_Data_member_create(kGroup, kPairs, state.pairs, 5, pair_type) == FENIX_SUCCESS);
}

/** Store everything, in the way that the command line says. */
void store_all() {
  perhaps_die("store" + std::to_string(state.step));
  if (options.way == "async") {
    Fenix_Request requests[2];
    int flag = 0;
    CHECK(Fenix_Data_member_istore(kGroup, kValues, FENIX_DATA_SUBSET_FULL, &requests[0]) == FENIX_SUCCESS);
    CHECK(Fenix_Data_member_istorev(kGroup, kPairs, FENIX_DATA_SUBSET_FULL, &requests[1]) == FENIX_SUCCESS);
    CHECK(Fenix_Data_commit(kGroup, nullptr) == FENIX_ERROR_DATA_WAIT);
    std::vector<double> kept(state.values);
    std::fill(state.values.begin(), state.values.end(), -1);  // they may be changed at once
    CHECK(Fenix_Data_wait(requests[0]) == FENIX_SUCCESS);
    while (!flag) CHECK(Fenix_Data_test(requests[1], &flag) == FENIX_SUCCESS);
    CHECK(Fenix_Data_wait(requests[0]) == FENIX_ERROR_DATA_WAIT);
    std::copy(kept.begin(), kept.end(), state.values.begin());
    CHECK(Fenix_Data_member_store(kGroup, kStep, FENIX_DATA_SUBSET_FULL) == FENIX_SUCCESS);
  } else if (options.way == "parts") {  // the members in two subsets; those of `values` differ between ranks
    Fenix_Data_subset odd, rest;
    const int count = static_cast<int>(state.values.size()), middle = 100 + 10 * rank_now();
    int firsts[] = {middle, 0}, lasts[] = {count - 1, middle / 2};
    CHECK(Fenix_Data_subset_createv(2, firsts, lasts, &odd) == FENIX_SUCCESS);
    CHECK(Fenix_Data_subset_create(1, middle / 2, middle, 0, &rest) == FENIX_SUCCESS);
    CHECK(Fenix_Data_member_storev(kGroup, kValues, odd) == FENIX_SUCCESS);
    perhaps_die("between" + std::to_string(state.step));
    CHECK(Fenix_Data_member_storev(kGroup, kValues, rest) == FENIX_SUCCESS);
    CHECK(Fenix_Data_subset_delete(&odd) == FENIX_SUCCESS && Fenix_Data_subset_delete(&rest) == FENIX_SUCCESS);
    CHECK(Fenix_Data_member_store(kGroup, kStep, FENIX_DATA_SUBSET_FULL) == FENIX_SUCCESS);
    CHECK(Fenix_Data_subset_create(3, 0, 0, 2, &odd) == FENIX_SUCCESS);
    CHECK(Fenix_Data_subset_create(2, 1, 1, 2, &rest) == FENIX_SUCCESS);
    CHECK(Fenix_Data_member_store(kGroup, kPairs, odd) == FENIX_SUCCESS);
    CHECK(Fenix_Data_member_store(kGroup, kPairs, FENIX_DATA_SUBSET_EMPTY) == FENIX_SUCCESS);
    CHECK(Fenix_Data_member_store(kGroup, kPairs, rest) == FENIX_SUCCESS);
    Fenix_Data_subset_delete(&odd);
    Fenix_Data_subset_delete(&rest);
  } else {
    CHECK(Fenix_Data_member_store(kGroup, FENIX_DATA_MEMBER_ALL, FENIX_DATA_SUBSET_FULL) == FENIX_SUCCESS);
  }
}

void commit() {
  int time = 0;
  perhaps_die("commit" + std::to_string(state.step));
  if (options.way == "local")
    CHECK(Fenix_Data_commit(kGroup, &time) == FENIX_SUCCESS);
  else
    CHECK(Fenix_Data_commit_barrier(kGroup, &time) == FENIX_SUCCESS);
  CHECK(time == 9 + state.step / kEvery);
  perhaps_die("committed" + std::to_string(state.step));
}

/** @return there was a snapshot; the same in all ranks */
bool restore_all() {
  perhaps_die("restore");
  Fenix_Data_subset found;
  int least, most;
  const int count = static_cast<int>(state.values.size());
  const int code = Fenix_Data_member_restore(kGroup, kValues, state.values.data(), count, FENIX_DATA_SNAPSHOT_LATEST, &found);
  if (code == FENIX_ERROR_NODATA_FOUND) {
    int one = 1, sum;
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    CHECK(sum == size_now());
    return false;
  }
  CHECK(code == FENIX_SUCCESS && Fenix_Data_subset_delete(&found) == FENIX_SUCCESS);
  CHECK(Fenix_Data_member_restore(kGroup, kStep, nullptr, 1, FENIX_DATA_SNAPSHOT_LATEST, FENIX_DATA_SUBSET_IGNORE) == FENIX_SUCCESS);
  CHECK(Fenix_Data_member_restore(kGroup, kPairs, state.pairs, 5, FENIX_DATA_SNAPSHOT_ALL, FENIX_DATA_SUBSET_IGNORE) == FENIX_SUCCESS);
  MPI_Allreduce(&state.step, &least, 1, MPI_INT, MPI_MIN, comm);
  MPI_Allreduce(&state.step, &most, 1, MPI_INT, MPI_MAX, comm);
  CHECK(least == most && state.step % kEvery == 0);
  return true;
}

void say() {
  double numbers[2] = {0, 0}, sums[2];
  for (std::size_t i = 0; i < state.values.size(); ++i) numbers[0] += state.values[i] * static_cast<double>(i % 5);
  for (const Pair &pair : state.pairs) numbers[1] += pair.tag * pair.value;
  MPI_Reduce(numbers, sums, 2, MPI_DOUBLE, MPI_SUM, 0, comm);
  if (rank_now() == 0) result("step %d %.17g %.17g", state.step, sums[0], sums[1]);
}

}  // namespace

void stored() {
  static MPI_Comm copy;
  make_type();
  INIT("Fenix_init");
  begin_state();
  MPI_Comm_dup(comm, &copy);
  create_group(options.way == "derived" ? copy : comm);
  if (role != FENIX_ROLE_INITIAL_RANK) perhaps_die("created");
  if (!restore_all()) {
    begin_state();
    if (role != FENIX_ROLE_INITIAL_RANK) printf("begins again\n");
  }
  while (state.step < options.steps) {
    advance();
    if (state.step % kEvery) continue;
    store_all();
    commit();
  }
  say();
  Fenix_Finalize();
}

// A survivor that has become one of fewer goes on with its own data.
void smaller() {
  make_type();
  INIT("Fenix_init");
  static int before;
  if (role == FENIX_ROLE_INITIAL_RANK) before = rank_now();
  begin_state();
  if (role != FENIX_ROLE_INITIAL_RANK) state.values.resize(500 + 37 * before);
  create_group(comm);
  if (role == FENIX_ROLE_INITIAL_RANK) {
    state.values[0] = before;
    store_all();
    CHECK(Fenix_Data_commit_barrier(kGroup, nullptr) == FENIX_SUCCESS);
    perhaps_die("begin");
    MPI_Barrier(comm);
    CHECK(options.kills.empty());
  } else {
    CHECK(error == FENIX_WARNING_SPARE_RANKS_DEPLETED);
    const int count = static_cast<int>(state.values.size());
    CHECK(Fenix_Data_member_restore(kGroup, kValues, nullptr, count, FENIX_DATA_SNAPSHOT_LATEST, FENIX_DATA_SUBSET_IGNORE) ==
          FENIX_ERROR_INVALID_LOGIC_CALL);
    CHECK(Fenix_Data_member_lrestore(kGroup, kValues, nullptr, count, FENIX_DATA_SNAPSHOT_LATEST, FENIX_DATA_SUBSET_IGNORE) ==
          FENIX_SUCCESS);
    CHECK(state.values[0] == before && state.values[1] == 1 + before);
    // The new rank i takes the data of the old ranks i and i + 1, of which one is lost.
    for (int old = rank_now(); old <= rank_now() + 1; ++old) {
      std::vector<double> theirs(500 + 37 * old);
      CHECK(Fenix_Data_member_restore_from_rank(kGroup, kValues, theirs.data(), static_cast<int>(theirs.size()), 10,
                                                FENIX_DATA_SUBSET_IGNORE, old) == FENIX_SUCCESS);
      CHECK(theirs[0] == old);
      for (std::size_t i = 1; i < theirs.size(); ++i) CHECK(theirs[i] == static_cast<double>(i % 17) + old);
    }
    CHECK(Fenix_Data_member_restore_from_rank(kGroup, kValues, nullptr, 1, 10, FENIX_DATA_SUBSET_IGNORE, 99) ==
          FENIX_ERROR_NODATA_FOUND);
  }
  state.values[0] = 5;
  store_all();
  CHECK(Fenix_Data_commit(kGroup, nullptr) == FENIX_SUCCESS);
  state.values[0] = 6;
  CHECK(Fenix_Data_member_restore(kGroup, kValues, nullptr, 1, FENIX_DATA_SNAPSHOT_LATEST, FENIX_DATA_SUBSET_IGNORE) == FENIX_SUCCESS);
  CHECK(state.values[0] == 5);
  if (rank_now() == 0) result("each has its own");
  Fenix_Finalize();
}

// What can be asked and refused, without failures.
void queries() {
  int numbers[20], other[20], flag, value, name, policy[3], time;
  void *address;
  MPI_Datatype type;
  Fenix_Data_subset part, found, beyond;
  CHECK(Fenix_Data_group_created(1) == 0 && Fenix_Data_commit(1, nullptr) == FENIX_ERROR_UNINITIALIZED);
  INIT("Fenix_init");
  const int rank = rank_now(), size = size_now();
  int parity[3] = {5, 1, 3}, wrong[3] = {3, 1, 3};
  const auto create = [&](int id, int start, int depth, int policy_name, void *values) {
    return Fenix_Data_group_create(id, comm, start, depth, policy_name, values, &flag);
  };
  const int raid = FENIX_DATA_POLICY_IN_MEMORY_RAID;
  CHECK(create(-1, 0, 0, raid, parity) == FENIX_ERROR_GROUP_CREATE && create(1, 0, 0, 99, parity) == FENIX_ERROR_GROUP_CREATE);
  CHECK(create(1, 0, 0, raid, wrong) == FENIX_ERROR_GROUP_CREATE && create(1, 0, -1, raid, parity) == FENIX_ERROR_INVALID_DEPTH);
  CHECK(create(1, -1, 0, raid, parity) == FENIX_ERROR_INVALID_TIMESTAMP);
  CHECK(create(1, rank == 1, 0, raid, parity) == FENIX_ERROR_GROUP_CREATE && strstr(fenix_last_error(), "different"));
  CHECK(Fenix_Data_member_create(1, 1, numbers, 20, MPI_INT) == FENIX_ERROR_INVALID_GROUPID);
  CHECK(create(1, 5, 1, raid, parity) == FENIX_SUCCESS && create(1, 6, 2, raid, nullptr) == FENIX_SUCCESS);
  CHECK(Fenix_Data_group_get_redundancy_policy(1, &name, policy, &flag) == FENIX_SUCCESS && flag && name == raid);
  CHECK(policy[0] == 5 && policy[1] == 1 && policy[2] == 3);

  CHECK(Fenix_Data_member_create(1, -1, numbers, 20, MPI_INT) == FENIX_ERROR_MEMBER_CREATE);
  CHECK(Fenix_Data_member_create(1, 4, numbers, -1, MPI_INT) == FENIX_ERROR_MEMBER_CREATE);
  CHECK(Fenix_Data_member_create(1, 4, numbers, 20, MPI_DATATYPE_NULL) == FENIX_ERROR_MEMBER_CREATE);
  CHECK(Fenix_Data_member_create(1, 4, numbers, 20, MPI_INT) == FENIX_SUCCESS);
  CHECK(Fenix_Data_member_create(1, 4, numbers, 20, MPI_INT) == FENIX_ERROR_MEMBER_CREATE);
  CHECK(Fenix_Data_member_create(1, 2, nullptr, 1, MPI_DOUBLE) == FENIX_SUCCESS);
  CHECK(Fenix_Data_member_created(1, 4) && !Fenix_Data_member_created(1, 3));
  CHECK(Fenix_Data_group_get_number_of_members(1, &value) == FENIX_SUCCESS && value == 2);
  CHECK(Fenix_Data_group_get_member_at_position(1, &value, 1) == FENIX_SUCCESS && value == 4);
  CHECK(Fenix_Data_group_get_member_at_position(1, &value, 2) == FENIX_ERROR_INVALID_POSITION);
  CHECK(Fenix_Data_member_store(1, 2, FENIX_DATA_SUBSET_FULL) == FENIX_ERROR_INVALID_ATTRIBUTE_VALUE);
  CHECK(Fenix_Data_member_store(1, 3, FENIX_DATA_SUBSET_FULL) == FENIX_ERROR_INVALID_MEMBERID);
  CHECK(Fenix_Data_member_delete(1, 2) == FENIX_SUCCESS && Fenix_Data_member_delete(1, 2) == FENIX_ERROR_INVALID_MEMBERID);

  const auto get = [&](int attribute, void *to, int source) { return Fenix_Data_member_attr_get(1, 4, attribute, to, &flag, source); };
  CHECK(get(FENIX_DATA_MEMBER_ATTRIBUTE_BUFFER, &address, rank) == FENIX_SUCCESS && flag && address == numbers);
  CHECK(get(FENIX_DATA_MEMBER_ATTRIBUTE_DATATYPE, &type, rank) == FENIX_SUCCESS && type == MPI_INT);
  CHECK(get(FENIX_DATA_MEMBER_ATTRIBUTE_SIZE, &value, rank) == FENIX_SUCCESS && value == sizeof(int));
  CHECK(get(FENIX_DATA_MEMBER_ATTRIBUTE_COUNT, &value, size) == FENIX_ERROR_NODATA_FOUND && !flag);
  CHECK(get(99, &value, rank) == FENIX_ERROR_INVALID_ATTRIBUTE_NAME);
  value = 10 + rank;
  CHECK(Fenix_Data_member_attr_set(1, 4, FENIX_DATA_MEMBER_ATTRIBUTE_COUNT, &value, &flag) == FENIX_SUCCESS && flag);
  CHECK(Fenix_Data_member_attr_set(1, 4, FENIX_DATA_MEMBER_ATTRIBUTE_SIZE, &value, &flag) == FENIX_ERROR_INVALID_ATTRIBUTE_NAME);
  type = MPI_DOUBLE;
  CHECK(Fenix_Data_member_attr_set(1, 4, FENIX_DATA_MEMBER_ATTRIBUTE_DATATYPE, &type, &flag) == FENIX_ERROR_INVALID_ATTRIBUTE_VALUE);

  CHECK(Fenix_Data_subset_create(0, 0, 1, 1, &part) == FENIX_ERROR_SUBSET_NUM_BLOCKS);
  CHECK(Fenix_Data_subset_create(2, 0, 1, 0, &part) == FENIX_ERROR_SUBSET_STRIDE);
  CHECK(Fenix_Data_subset_create(1, -1, 1, 0, &part) == FENIX_ERROR_SUBSET_START_OFFSET);
  CHECK(Fenix_Data_subset_create(1, 2, 1, 0, &part) == FENIX_ERROR_SUBSET_END_OFFSET);
  CHECK(Fenix_Data_subset_create(2, 1, 2, 4, &part) == FENIX_SUCCESS);  // 1 2 5 6
  CHECK(Fenix_Data_subset_create(1, 0, 30, 0, &beyond) == FENIX_SUCCESS);
  CHECK(Fenix_Data_member_store(1, 4, beyond) == FENIX_ERROR_SUBSET_END_OFFSET);
  CHECK(Fenix_Data_member_restore(1, 4, other, 20, FENIX_DATA_SNAPSHOT_LATEST, &found) == FENIX_ERROR_NODATA_FOUND);
  for (int i = 0; i < 20; ++i) numbers[i] = 100 * rank + i;
  CHECK(Fenix_Data_member_store(1, 4, part) == FENIX_SUCCESS);
  CHECK(Fenix_Data_member_restore(1, 4, other, 20, FENIX_DATA_SNAPSHOT_LATEST, &found) == FENIX_ERROR_NODATA_FOUND);
  CHECK(Fenix_Data_commit_barrier(1, &time) == FENIX_SUCCESS && time == 5);
  std::fill_n(other, 20, -1);
  CHECK(Fenix_Data_member_restore(1, 4, other, 10, FENIX_DATA_SNAPSHOT_LATEST, &found) == FENIX_WARNING_PARTIAL_RESTORE);
  for (int i = 0; i < 20; ++i) CHECK(other[i] == (i == 1 || i == 2 || i == 5 || i == 6 ? numbers[i] : -1));
  for (int i = 0; i < 20; ++i) numbers[i] += 1000;
  CHECK(Fenix_Data_member_store(1, 4, found) == FENIX_SUCCESS);  // what was found is a subset like others
  Fenix_Data_subset_delete(&found);
  CHECK(Fenix_Data_commit(1, &time) == FENIX_SUCCESS && time == 6);
  CHECK(Fenix_Data_member_restore(1, 4, other, 7, 5, FENIX_DATA_SUBSET_IGNORE) == FENIX_WARNING_PARTIAL_RESTORE && other[5] == numbers[5] - 1000);
  CHECK(Fenix_Data_member_restore(1, 4, other, 7, 6, FENIX_DATA_SUBSET_IGNORE) == FENIX_WARNING_PARTIAL_RESTORE && other[5] == numbers[5]);
  CHECK(Fenix_Data_member_restore(1, 4, other, 7, 4, FENIX_DATA_SUBSET_IGNORE) == FENIX_ERROR_INVALID_TIMESTAMP);
  CHECK(Fenix_Data_member_restore(1, 9, other, 7, 6, FENIX_DATA_SUBSET_IGNORE) == FENIX_ERROR_INVALID_MEMBERID);
  // The cohorts are 0 1 2 and 3 4.
  const int other_rank = rank < 3 ? (rank + 1) % 3 : 7 - rank;
  CHECK(get(FENIX_DATA_MEMBER_ATTRIBUTE_COUNT, &value, other_rank) == FENIX_SUCCESS && value == 10 + other_rank);
  // The depth is 1: two snapshots.
  CHECK(Fenix_Data_member_store(1, 4, FENIX_DATA_SUBSET_FULL) == FENIX_SUCCESS);
  CHECK(Fenix_Data_commit_barrier(1, &time) == FENIX_SUCCESS && time == 7);
  CHECK(Fenix_Data_group_get_number_of_snapshots(1, &value) == FENIX_SUCCESS && value == 2);
  CHECK(Fenix_Data_group_get_snapshot_at_position(1, 1, &time) == FENIX_SUCCESS && time == 6);
  CHECK(Fenix_Data_group_get_snapshot_at_position(1, 2, &time) == FENIX_ERROR_INVALID_POSITION);
  CHECK(Fenix_Data_member_restore(1, 4, other, 10 + rank, FENIX_DATA_SNAPSHOT_LATEST, FENIX_DATA_SUBSET_IGNORE) == FENIX_SUCCESS);
  CHECK(!memcmp(other, numbers, (10 + rank) * sizeof(int)));
  CHECK(Fenix_Data_barrier(1) == FENIX_SUCCESS);
  CHECK(Fenix_Data_snapshot_delete(1, 6) == FENIX_SUCCESS && Fenix_Data_snapshot_delete(1, 6) == FENIX_ERROR_INVALID_TIMESTAMP);
  CHECK(Fenix_Data_snapshot_delete(1, FENIX_DATA_SNAPSHOT_ALL) == FENIX_SUCCESS);
  CHECK(Fenix_Data_member_restore(1, 4, other, 1, FENIX_DATA_SNAPSHOT_LATEST, nullptr) == FENIX_ERROR_NODATA_FOUND);
  CHECK(Fenix_Data_wait({77}) == FENIX_ERROR_DATA_WAIT);
  Fenix_Data_subset_delete(&part);
  Fenix_Data_subset_delete(&beyond);
  CHECK(Fenix_Data_group_delete(1) == FENIX_SUCCESS && Fenix_Data_group_delete(1) == FENIX_ERROR_INVALID_GROUPID);
  MPI_Barrier(comm);
  if (rank == 0) result("all is answered");
  Fenix_Finalize();
}
