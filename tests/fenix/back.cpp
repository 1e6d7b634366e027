// SPDX-License-Identifier: GPL-2.0-only
// The engine reprise: what comes back with a recovery, what is kept, and what is refused.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "modes.h"

namespace {

/** Fenix_Init with one key of info. */
void init_with(const char *key, const char *value, int spares = 0) {
  MPI_Info info;
  MPI_Info_create(&info);
  MPI_Info_set(info, key, value);
  Fenix_Init(&role, MPI_COMM_WORLD, &comm, &argument_count, &arguments, spares, 0, info, &error);
  MPI_Info_free(&info);
}

void check_refusals() {
  init_with("FENIX_ENGINE", "reprise", 1);
  CHECK(error == FENIX_ERROR_NOCATEGORY && strstr(fenix_last_error(), "--spares"));
  init_with("FENIX_RESUME_MODE", "NO_JUMP");
  CHECK(error == FENIX_ERROR_INVALID_SETTING_OPTION && strstr(fenix_last_error(), "NO_JUMP"));
  CHECK(Fenix_set_option(FENIX_RESUME_MODE, FENIX_RESUME_JUMP) == FENIX_SUCCESS);
  init_with("FENIX_MEMORY", "much");
  CHECK(error == FENIX_ERROR_INVALID_SETTING_OPTION && strstr(fenix_last_error(), "FENIX_MEMORY"));
  init_with("FENIX_ENGINE", "diesel");
  CHECK(error == FENIX_ERROR_INVALID_SETTING_OPTION && strstr(fenix_last_error(), "reprise"));
  MPI_Comm few;
  MPI_Comm_split(MPI_COMM_WORLD, 0, 0, &few);
  MPI_Comm_free(&few);
  MPI_Comm_dup(MPI_COMM_SELF, &few);
  Fenix_Init(&role, few, &comm, &argument_count, &arguments, 0, 0, MPI_INFO_NULL, &error);
  CHECK(error == FENIX_ERROR_INTERN && strstr(fenix_last_error(), "MPI_COMM_WORLD"));
  MPI_Comm_free(&few);
  CHECK(comm == MPI_COMM_NULL);
}

/** Counts in a file, which no recovery takes back. */
int count_again(const char *name) {
  const int fd = open(name, O_CREAT | O_WRONLY | O_APPEND, 0600);
  CHECK(fd >= 0 && write(fd, "x", 1) == 1);
  const int count = static_cast<int>(lseek(fd, 0, SEEK_END));
  close(fd);
  return count;
}

}  // namespace

void back() {
  check_refusals();
  MPI_Comm older;  // than Fenix_Init
  MPI_Comm_dup(MPI_COMM_WORLD, &older);
  int world, local = 5;
  MPI_Comm_rank(MPI_COMM_WORLD, &world);
  std::vector<int> *heap = new std::vector<int>(1000, 3);
  init_with("FENIX_MEMORY", "4000000");
  CHECK(error == FENIX_SUCCESS && local == 5 && heap->size() == 1000 && (*heap)[999] == 3);
  const int rank = rank_now(), times = count_again(("times-" + std::to_string(world)).c_str());
  CHECK(rank == world && size_now() == 3);
  int sum, *lost;
  CHECK(MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, older) == MPI_SUCCESS && sum == 3);
  // Rank 1 is lost in the first round, rank 2 in the second: those that were lost before are survivors of later losses.
  const int who = times - 1;
  if (who > 0) {
    CHECK(role == (rank == who ? FENIX_ROLE_RECOVERED_RANK : FENIX_ROLE_SURVIVOR_RANK));
    CHECK(Fenix_Process_fail_list(&lost) == 1 && lost[0] == who);
  } else {
    CHECK(role == FENIX_ROLE_INITIAL_RANK && Fenix_Process_fail_list(&lost) == 0);
  }
  CHECK(Fenix_Callback_register([](MPI_Comm, int, void *) {}, nullptr) == FENIX_ERROR_INVALID_LOGIC_CALL);
  CHECK(Fenix_set_option(FENIX_RESUME_MODE, FENIX_RESUME_RETURN) == FENIX_ERROR_INVALID_SETTING_OPTION);
  CHECK(Fenix_get_nspare() == 0);

  static char data[100'000];
  int flag, neighbours[] = {1, 1};
  CHECK(Fenix_Data_group_create(1, comm, 0, 0, FENIX_DATA_POLICY_IN_MEMORY_RAID, neighbours, &flag) == FENIX_SUCCESS);
  CHECK(Fenix_Data_member_create(1, 7, data, sizeof data, MPI_CHAR) == FENIX_SUCCESS);
  const int code = Fenix_Data_member_restore(1, 7, data, sizeof data, FENIX_DATA_SNAPSHOT_LATEST, FENIX_DATA_SUBSET_IGNORE);
  CHECK(code == (who > 0 ? FENIX_SUCCESS : FENIX_ERROR_NODATA_FOUND));
  for (std::size_t i = 0; who > 0 && i < sizeof data; ++i) CHECK(data[i] == static_cast<char>('a' + who - 1 + rank));
  local = 6;
  heap->clear();
  // More than fits in the memory if nothing is given back.
  for (int round = 0; round < 50; ++round) {
    memset(data, round < 49 ? round : 'a' + who + rank, sizeof data);
    CHECK(Fenix_Data_member_store(1, FENIX_DATA_MEMBER_ALL, FENIX_DATA_SUBSET_FULL) == FENIX_SUCCESS);
    CHECK(Fenix_Data_commit_barrier(1, nullptr) == FENIX_SUCCESS);
  }
  if (who < 2) {
    if (rank == who + 1) die();
    for (;;) usleep(1000);  // recoveries interrupt computing ranks
  }
  delete heap;
  MPI_Comm_free(&older);
  CHECK(Fenix_Finalize() == FENIX_SUCCESS && comm == MPI_COMM_NULL);
  if (rank == 0) result("all is back");
}
