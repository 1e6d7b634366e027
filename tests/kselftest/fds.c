// SPDX-License-Identifier: GPL-2.0-only
// The descriptor table, as far as the process itself can read it.
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "harness.h"

enum { LIMIT = 1024, KCMP_FILE = 0, OWN = 700 };

struct fd {
  bool open;
  int flags, fd_flags, first;  // first: lowest descriptor of the same open file description
  off_t position;
  mode_t mode;
  dev_t dev, rdev;
  ino_t ino;
};
static struct fd noted[LIMIT];

static void look(struct fd *all) {
  for (int i = 0; i < LIMIT; i++) {
    struct fd *f = &all[i];
    struct stat st;
    *f = (struct fd){.open = i != OWN && fcntl(i, F_GETFD) >= 0};
    if (!f->open) continue;
    f->fd_flags = fcntl(i, F_GETFD);
    f->flags = fcntl(i, F_GETFL) & ~0100000;  // O_LARGEFILE: has no effect in a 64-bit program
    fstat(i, &st);
    f->mode = st.st_mode;
    bool named = S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) || S_ISCHR(st.st_mode);
    f->position = named && !S_ISCHR(st.st_mode) ? lseek(i, 0, SEEK_CUR) : 0;
    f->rdev = st.st_rdev;
    if (named) f->dev = st.st_dev;
    struct statfs fs = {0};
    fstatfs(i, &fs);
    // A restart creates a new memfd, and a process's own files in /proc get new inodes.
    if (named && st.st_nlink && fs.f_type != PROC_SUPER_MAGIC) f->ino = st.st_ino;
    f->first = i;
    for (int j = 0; j < i && f->first == i; j++)
      if (all[j].open && syscall(SYS_kcmp, getpid(), getpid(), KCMP_FILE, i, j) == 0) f->first = j;
  }
}

void fds_note(void) { look(noted); }

const char *fds_same(void) {
  static struct fd now[LIMIT];
  look(now);
  for (int i = 0; i < LIMIT; i++) {
    const struct fd *a = &noted[i], *b = &now[i];
    if (a->open && !b->open) return no("descriptor %d is missing", i);
    if (!a->open && b->open) return no("descriptor %d should not be open", i);
    if (!a->open) continue;
    if (a->mode != b->mode || a->rdev != b->rdev || a->ino != b->ino || a->dev != b->dev)
      return no("descriptor %d is another file (mode %o instead of %o, inode %lu instead of %lu)", i, b->mode, a->mode,
                b->ino, a->ino);
    if (a->flags != b->flags) return no("descriptor %d has flags %#o instead of %#o", i, b->flags, a->flags);
    if (a->fd_flags != b->fd_flags) return no("descriptor %d: close-on-exec is %d", i, b->fd_flags);
    if (a->position != b->position)
      return no("descriptor %d is at %ld instead of %ld", i, (long)b->position, (long)a->position);
    if (a->first != b->first)
      return no("descriptor %d shares its description with %d instead of %d", i, b->first, a->first);
  }
  return NULL;
}
