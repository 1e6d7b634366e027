// SPDX-License-Identifier: GPL-2.0-only
#include "check.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options options = {.seed = 1, .iterations = 0, .seconds = 0, .size = 4 << 20, .compute_ms = 200, .threads = 3};
int rank, ranks;

static const char *const phase_names[PHASES] = {"p2p", "coll", "rma", "threads", "late", "compute", "ring"};

static const char help[] =
    "usage: mpicheck [--iterations N | --seconds S] [--phase p2p,coll,rma,threads,late,compute,ring]\n"
    "                [--size BYTES] [--sleep-compute MS] [--threads N] [--seed N] [--progress] [--linger S] [--while FILE]\n"
    "                [--pace MS]\n"
    "Verifies every message, collective and one-sided access that it makes. The last line depends only on\n"
    "--iterations, --phase, --size, --threads, --seed and the number of ranks, whatever happens meanwhile.\n"
    "With --while it runs as long as FILE exists; the last line is that of the same number of --iterations.\n"
    "With --pace an iteration takes at least MS milliseconds; the ranks sleep for the rest.\n"
    "With --linger all ranks but 0 wait S seconds before MPI_Finalize.\n";

void bad(const char *format, ...)
{
  va_list args;

  fprintf(stderr, "mpicheck, rank %d: ", rank);
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fprintf(stderr, "\n");
  MPI_Abort(MPI_COMM_WORLD, 3);
  abort();
}

static unsigned read_phases(char *text)
{
  unsigned phases = 0;
  char *save = NULL;

  for (char *word = strtok_r(text, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
    int p = 0;

    while (p < PHASES && strcmp(word, phase_names[p])) p++;
    if (p == PHASES) {
      fprintf(stderr, "mpicheck: no phase is called %s\n%s", word, help);
      exit(2);
    }
    phases |= 1u << p;
  }
  return phases;
}

static void read_options(int argc, char **argv)
{
  static const struct option names[] = {
      {"iterations", 1, 0, 'i'}, {"seconds", 1, 0, 's'}, {"phase", 1, 0, 'p'}, {"size", 1, 0, 'b'},
      {"sleep-compute", 1, 0, 'c'}, {"threads", 1, 0, 't'}, {"seed", 1, 0, 'r'}, {"progress", 0, 0, 'v'},
      {"linger", 1, 0, 'l'}, {"while", 1, 0, 'w'}, {"pace", 1, 0, 'm'},
      {"help", 0, 0, 'h'}, {0}};
  int option;

  options.phases = 1u << P2P | 1u << COLL | 1u << RMA;
  while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) switch (option) {
    case 'i': options.iterations = atol(optarg); break;
    case 's': options.seconds = atof(optarg); break;
    case 'p': options.phases = read_phases(optarg); break;
    case 'b': options.size = strtoull(optarg, NULL, 0); break;
    case 'c': options.compute_ms = atoi(optarg); break;
    case 't': options.threads = atoi(optarg); break;
    case 'r': options.seed = strtoull(optarg, NULL, 0); break;
    case 'l': options.linger = atoi(optarg); break;
    case 'w': options.hold = optarg; break;
    case 'm': options.pace_ms = atoi(optarg); break;
    case 'v': options.progress = 1; break;
    case 'h': fputs(help, stdout); exit(0);
    default: fputs(help, stderr); exit(2);
    }
  if (optind != argc || options.iterations < 0 || options.threads < 1) {
    fputs(help, stderr);
    exit(2);
  }
  if (!options.iterations && options.seconds <= 0 && !options.hold) options.iterations = 10;
}

/* No MPI call for compute_ms. */
static void compute(void)
{
  const double end = MPI_Wtime() + options.compute_ms / 1000.0;
  volatile double x = 1.0;

  while (MPI_Wtime() < end)
    for (int i = 0; i < 10000; i++) x = x * 0.999999 + 1e-6;
}

/* Sleep for what is left of pace_ms since then. */
static void rest(double begun)
{
  const double pace = options.pace_ms / 1000.0, left = pace - (MPI_Wtime() - begun);

  if (left > 0) usleep((useconds_t) ((left < pace ? left : pace) * 1e6));
}

static int more(long iteration, double end)
{
  int yes;

  if (options.iterations && !options.hold) return iteration < options.iterations;
  yes = iteration < options.iterations || MPI_Wtime() < end;
  if (options.hold && !access(options.hold, F_OK)) yes = 1;
  MPI_Bcast(&yes, 1, MPI_INT, 0, MPI_COMM_WORLD);
  return yes;
}

int main(int argc, char **argv)
{
  int provided, wanted;
  long iteration = 0;
  uint64_t sum, all;
  double end;

  read_options(argc, argv);
  wanted = options.phases & 1u << THREADS ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, wanted, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (provided < wanted) bad("this MPI has no MPI_THREAD_MULTIPLE");
  if (options.phases & 1u << THREADS) threads_begin(MPI_COMM_WORLD);
  end = MPI_Wtime() + options.seconds;
  for (; more(iteration, end); iteration++) {
    const double begun = MPI_Wtime();

    if (options.phases & 1u << P2P) p2p(MPI_COMM_WORLD, iteration);
    if (options.phases & 1u << COLL) coll(MPI_COMM_WORLD, iteration);
    if (options.phases & 1u << RMA) rma(MPI_COMM_WORLD, iteration);
    if (options.phases & 1u << THREADS) threads(iteration);
    if (options.phases & 1u << LATE) late(MPI_COMM_WORLD, iteration);
    if (options.phases & 1u << COMPUTE) compute();
    if (options.phases & 1u << RING) ring(MPI_COMM_WORLD, iteration);
    if (options.progress && rank == 0) {
      printf("iteration %ld\n", iteration);
      fflush(stdout);
    }
    rest(begun);
  }
  if (options.phases & 1u << THREADS) threads_end();
  sum = checksum();
  MPI_Reduce(&sum, &all, 1, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) {
    printf("mpicheck: %d ranks, %ld iterations, checksum %016llx\n", ranks, iteration, (unsigned long long) all);
    fflush(stdout);
  }
  if (rank > 0 && options.linger) sleep((unsigned) options.linger);
  MPI_Finalize();
  return 0;
}
