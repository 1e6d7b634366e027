// SPDX-License-Identifier: GPL-2.0-only
#include "counts.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

static struct count *add(struct counts *c, const char *what, const char *name, long value, long unit) {
  if (c->n == MAX_COUNTS) die("more than %d counts", MAX_COUNTS);
  struct count *one = &c->all[c->n++];
  snprintf(one->name, sizeof one->name, "%s%.40s", what, name);
  one->value = value;
  one->unit = unit;
  one->slack = 0;
  return one;
}

static void put(const char *file, const char *text) {
  int fd = open(file, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  if (write(fd, text, strlen(text)) < 0) note("%s: cannot be written", file);
  close(fd);
}

// Freed objects in per-CPU sheaves (since Linux 6.18) and in KASAN's quarantine count as in use until a shrink.
static void shrink_slabs(void) {
  static const char folder[] = "/sys/kernel/slab";
  char name[400];
  struct dirent *e;
  DIR *d = opendir(folder);
  while (d && (e = readdir(d))) {
    snprintf(name, sizeof name, "%s/%s/shrink", folder, e->d_name);
    if (e->d_name[0] != '.') put(name, "1");
  }
  if (d) closedir(d);
}

static void slabs(struct counts *c) {
  char line[512], name[64];
  long active, per_slab, processors = sysconf(_SC_NPROCESSORS_ONLN);
  FILE *file = fopen("/proc/slabinfo", "re");
  while (file && fgets(line, sizeof line, file))
    // kmemleak frees its records some time after the objects.
    if (sscanf(line, "%63s %ld %*d %*d %ld", name, &active, &per_slab) == 3 && line[0] != '#' && strncmp(name, "kmemleak", 8)) {
      // vmap areas of ended processes' kernel stacks are freed lazily, many at a time.
      struct count *one = add(c, "slab ", name, active, strcmp(name, "vmap_area") ? 1 : 8);
      // All objects of the slab that a processor allocates from count as in use: 512 of kmalloc-8.
      one->slack = processors * per_slab;
    }
  if (file) fclose(file);
}

// Pages on the per-CPU lists are also free.
static long free_on_lists(void) {
  char line[512];
  long sum = 0, count;
  FILE *file = fopen("/proc/zoneinfo", "re");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, " count: %ld", &count) == 1) sum += count;
  if (file) fclose(file);
  return sum;
}

static void pages(struct counts *c) {
  // counters in which leaked pages show, whoever is charged for them
  static const char *const used[] = {"nr_anon_pages", "nr_kernel_stack", "nr_page_table_pages", "nr_unevictable",
                                     "nr_mlock", "nr_slab_unreclaimable"};
  char line[256], name[64];
  long value, acquired = 0, released = 0, free_pages = 0;
  FILE *file = fopen("/proc/vmstat", "re");
  while (file && fgets(line, sizeof line, file)) {
    if (sscanf(line, "%63s %ld", name, &value) != 2) continue;
    for (size_t i = 0; i < ARRAY_SIZE(used); i++)
      if (!strcmp(name, used[i])) add(c, "vmstat ", name, value, 1);
    if (!strcmp(name, "nr_free_pages")) free_pages = value;
    if (!strcmp(name, "nr_foll_pin_acquired")) acquired = value;
    if (!strcmp(name, "nr_foll_pin_released")) released = value;
  }
  if (file) fclose(file);
  add(c, "", "pages that are not free", -(free_pages + free_on_lists()), 1);
  add(c, "", "pinned pages", acquired - released, 1);
}

static void meminfo(struct counts *c) {
  static const char *const used[] = {"SUnreclaim", "KernelStack", "PageTables", "Percpu", "VmallocUsed"};
  char line[256], name[64];
  long kb;
  FILE *file = fopen("/proc/meminfo", "re");
  while (file && fgets(line, sizeof line, file)) {
    if (sscanf(line, "%63[^:]: %ld", name, &kb) != 2) continue;
    for (size_t i = 0; i < ARRAY_SIZE(used); i++)
      if (!strcmp(name, used[i])) add(c, "", name, kb, 4);
  }
  if (file) fclose(file);
}

static long number_in(const char *file) {
  char text[64];
  return slurp(file, text, sizeof text) ? strtol(text, NULL, 10) : 0;
}

void counts_take(struct counts *c) {
  put("/proc/sys/vm/stat_refresh", "1");
  put("/proc/sys/vm/drop_caches", "3");
  put("/proc/sys/vm/compact_memory", "1");
  shrink_slabs();
  put("/proc/sys/vm/stat_refresh", "1");
  c->n = 0;
  slabs(c);
  pages(c);
  meminfo(c);
  add(c, "", "open files", number_in("/proc/sys/fs/file-nr"), 1);
  // The unit makes counts_grown() fail on a single extra use.
  add(c, "", "users of the module", number_in("/sys/module/cr/refcnt"), 1L << 20);
}

const char *counts_grown(const struct counts *before, const struct counts *after, long cycles) {
  for (size_t i = 0; i < after->n; i++) {
    const struct count *now = &after->all[i];
    for (size_t k = 0; k < before->n; k++) {
      const struct count *then = &before->all[k];
      long more = now->value - then->value;
      if (strcmp(now->name, then->name)) continue;
      if (now->unit >= 1L << 20 ? more > 0 : more > now->slack && more * 2 > now->unit * cycles)
        return no("%s: %ld before, %ld after %ld cycles", now->name, then->value, now->value, cycles);
    }
  }
  return NULL;
}

const char *counts_settle(const struct counts *before, struct counts *after, long cycles) {
  const char *why = NULL;
  for (int i = 0; i < 10; i++) {
    counts_take(after);
    if (!(why = counts_grown(before, after, cycles))) return NULL;
    sleep_ms(500);  // RCU callbacks, work queues and other tasks' task works free objects later
  }
  return why;
}
