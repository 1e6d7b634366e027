// SPDX-License-Identifier: GPL-2.0-only
// Files, folders, working directories and FIFOs that were deleted while open, as every tmpfile(3) is.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "harness.h"

enum { PAGE = 4096, FAR = 40 * PAGE, SIZE = FAR + 3 * PAGE + 77 };
static int fd[8];
static char *area;

/* ---- a file with a hole, and its descriptors */

static void put(int to, off_t at, int bytes, unsigned char number) {
  unsigned char page[PAGE];
  for (int i = 0; i < bytes; i++) page[i] = (unsigned char)(number + i * 7);
  MUST(pwrite(to, page, bytes, at));
}
static const char *got(int from, off_t at, int bytes, unsigned char number) {
  unsigned char page[PAGE];
  ssize_t n = pread(from, page, bytes, at);
  if (n != bytes) return no("%zd bytes at %ld, errno %d", n, (long)at, errno);
  for (int i = 0; i < bytes; i++)
    if (page[i] != (unsigned char)(number + i * 7)) return no("differs at %ld", (long)at + i);
  return NULL;
}
static void write_sparse(int to) {
  put(to, 0, PAGE, 1);
  put(to, 3 * PAGE, 100, 2);
  put(to, FAR, PAGE, 3);
  MUST(ftruncate(to, SIZE));
}
static const char *sparse(int from) {
  struct stat st;
  MUST(fstat(from, &st));
  if (st.st_size != SIZE) return no("%ld bytes", (long)st.st_size);
  if (st.st_nlink) return no("it has a name");
  if (st.st_blocks * 512 > 20 * PAGE) return no("its holes take %ld bytes", (long)st.st_blocks * 512);
  off_t at = lseek(from, 0, SEEK_CUR), hole = lseek(from, 4 * PAGE, SEEK_DATA);
  lseek(from, at, SEEK_SET);
  if (hole != FAR) return no("data begins at %ld", (long)hole);
  const char *why = got(from, 0, PAGE, 1);
  if (!why) why = got(from, 3 * PAGE, 100, 2);
  return why ? why : got(from, FAR, PAGE, 3);
}
static int again(int from, int flags) {
  char name[64];
  snprintf(name, sizeof name, "/proc/self/fd/%d", from);
  return MUST(open(name, flags));
}
static const char *path_of(int of) {
  static char name[64];
  snprintf(name, sizeof name, "/proc/self/fd/%d", of);
  return name;
}
static const char *same_file(int a, int b) {
  struct stat one, two;
  MUST(fstat(a, &one));
  MUST(fstat(b, &two));
  return one.st_ino != two.st_ino || one.st_dev != two.st_dev ? no("%d and %d are two files", a, b) : NULL;
}
// A restore that needs a temporary name must not leave it behind.
static const char *folder_clean(const char *folder) {
  DIR *d = opendir(folder);
  if (!d) return no("no folder %s", folder);
  const char *why = NULL;
  for (struct dirent *e; (e = readdir(d));)
    if (strstr(e->d_name, "reprise")) why = no("%s is left behind", e->d_name);
  closedir(d);
  return why;
}

static void file_setup(void) {
  fd[0] = MUST(open(path("deleted"), O_RDWR | O_CREAT | O_EXCL, 0600));
  write_sparse(fd[0]);
  MUST(fchmod(fd[0], 0640));
  if (geteuid() == 0) MUST(fchown(fd[0], 12, 34));
  MUST(lseek(fd[0], 100, SEEK_SET));
  fd[1] = again(fd[0], O_RDONLY | O_CLOEXEC);
  MUST(lseek(fd[1], 7, SEEK_SET));
  fd[2] = again(fd[0], O_WRONLY | O_APPEND | O_NONBLOCK);
  fd[3] = MUST(dup(fd[1]));
  fd[4] = again(fd[0], O_PATH);
  struct timespec times[2] = {{1000000001, 5}, {1000000002, 6}};
  MUST(unlink(path("deleted")));
  MUST(futimens(fd[0], times));
  fds_note();
}
static void user_setup(void) {
  become_user();
  file_setup();
}
static const char *file_ok(void) {
  struct stat st;
  const char *why = fds_same();
  if (!why) why = sparse(fd[0]);
  for (int i = 1; i < 5 && !why; i++) why = same_file(fd[0], fd[i]);
  if (why) return why;
  MUST(fstat(fd[0], &st));
  if (geteuid() == 0 && (st.st_uid != 12 || st.st_gid != 34)) return no("it belongs to %u:%u", st.st_uid, st.st_gid);
  if (st.st_mtim.tv_sec != 1000000002 || st.st_mtim.tv_nsec != 6) return no("its time is %ld", (long)st.st_mtim.tv_sec);
  return folder_clean(path(""));
}
static void file_seek(void) {
  MUST(lseek(fd[0], 5, SEEK_SET));
  MUST(lseek(fd[1], 6, SEEK_SET));
}
static void file_close(void) {
  for (int i = 0; i < 5; i++) close(fd[i]);
  for (int i = 0; i < 5; i++) MUST(open("/dev/null", O_RDWR));
}
static void file_close_most(void) {  // all except the O_PATH descriptor
  for (int i = 0; i < 4; i++) close(fd[i]);
}

/* ---- files that never had a name */

static FILE *stream;
static void tmpfile_setup(void) {
  stream = tmpfile();
  if (!stream) die("tmpfile: errno %d", errno);
  fprintf(stream, "%s", "kept in a temporary file");
  fflush(stream);
  fd[1] = MUST(open(path(""), O_TMPFILE | O_RDWR | O_APPEND, 0600));
  put(fd[1], 0, 500, 9);
  MUST(lseek(fd[1], 400, SEEK_SET));
}
static const char *tmpfile_ok(void) {
  char text[64] = "";
  part("stream", ftell(stream) != 24 || pread(fileno(stream), text, 63, 0) != 24 || strcmp(text, "kept in a temporary file")
                     ? no("at %ld: \"%s\"", ftell(stream), text) : NULL);
  int flags = fcntl(fd[1], F_GETFL);
  const char *why = got(fd[1], 0, 500, 9);
  if (!why && (flags < 0 || !(flags & O_APPEND))) why = no("flags %o", flags);
  part("O_TMPFILE", !why && lseek(fd[1], 0, SEEK_CUR) != 400 ? no("at %ld", (long)lseek(fd[1], 0, SEEK_CUR)) : why);
  return parts();
}
static void tmpfile_close(void) {
  close(fileno(stream));
  close(fd[1]);
}
// The file can be linked to a name, as before.
static const char *tmpfile_link(void) {
  char name[64];
  snprintf(name, sizeof name, "/proc/self/fd/%d", fd[1]);
  if (linkat(AT_FDCWD, name, AT_FDCWD, path("named"), AT_SYMLINK_FOLLOW)) return no("linkat: errno %d", errno);
  int named = MUST(open(path("named"), O_RDONLY));
  const char *why = got(named, 0, 500, 9);
  close(named);
  unlink(path("named"));
  return why;
}

/* ---- a file that is also mapped */

static void mapped_setup(void) {
  fd[0] = MUST(open(path("mapped"), O_RDWR | O_CREAT, 0600));
  MUST(ftruncate(fd[0], 20 * PAGE));
  put(fd[0], 18 * PAGE, 100, 4);
  area = MUST(mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd[0], 0));
  MUST(unlink(path("mapped")));
  fill(area + PAGE, 2 * PAGE, 5);
  fds_note();
}
static const char *mapped_ok(void) {
  const char *why = fds_same();
  if (!why) why = filled(area + PAGE, 2 * PAGE, 5);
  for (int i = 0; i < PAGE && !why; i++)
    if (area[5 * PAGE + i]) why = no("a hole has data");
  if (!why) why = got(fd[0], 18 * PAGE, 100, 4);
  if (why) return why;
  // The mapping shows the file: a byte written to the mapping can be read from the descriptor.
  char was = area[9 * PAGE], seen = 1;
  area[9 * PAGE] = 'x';
  if (pread(fd[0], &seen, 1, 9 * PAGE) != 1 || seen != 'x') why = no("data written to the mapping is not in the file");
  area[9 * PAGE] = was;
  return why;
}
static void mapped_spoil(void) {
  fill(area, 16 * PAGE, 6);
  close(fd[0]);
  fd[1] = MUST(open("/dev/null", O_RDWR));  // takes its number
}
static void mapped_gone(void) {
  MUST(mmap(area, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
  mapped_spoil();
}

/* ---- extended attributes */

static char with_attributes[] = "/dev/shm/kselftest.XXXXXX";
static void attributes_setup(void) {
  fd[0] = MUST(mkstemp(with_attributes));
  MUST(unlink(with_attributes));
  MUST(fsetxattr(fd[0], "user.kselftest", "kept", 4, 0));
}
static const char *attributes_ok(void) {
  char value[16] = "";
  ssize_t n = fgetxattr(fd[0], "user.kselftest", value, sizeof value);
  return n != 4 || memcmp(value, "kept", 4) ? no("%zd bytes, errno %d", n, errno) : NULL;
}
static void attributes_close(void) { close(fd[0]); }
static const char *attributes_skip(void) {
  char name[] = "/dev/shm/kselftest.XXXXXX";
  int probe = MUST(mkstemp(name));
  unlink(name);
  int err = fsetxattr(probe, "user.kselftest", "kept", 4, 0) ? errno : 0;
  close(probe);
  return err ? "no extended attributes on /dev/shm" : NULL;
}

/* ---- a file that has another hard link */

static void other_name_setup(void) {
  fd[0] = MUST(open(path("one"), O_RDWR | O_CREAT, 0600));
  put(fd[0], 0, 100, 8);
  MUST(lseek(fd[0], 33, SEEK_SET));
  MUST(link(path("one"), path("two")));
  fd[1] = MUST(open(path("two"), O_RDONLY));
  MUST(unlink(path("one")));
  fds_note();
}
static void other_name_close(void) { close(fd[0]); }

/* ---- names that end in " (deleted)", the kernel's mark of deleted files */

static void odd_name_setup(void) {
  fd[0] = MUST(open(path("odd (deleted)"), O_RDWR | O_CREAT, 0600));
  put(fd[0], 0, PAGE, 8);
  area = MUST(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd[0], 0));
  MUST(lseek(fd[0], 33, SEEK_SET));
  fds_note();
}
static void odd_name_hidden_setup(void) {  // in a mount namespace of its own
  MUST(unshare(CLONE_NEWNS));
  MUST(mkdir(path("private"), 0700));
  MUST(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
  MUST(mount("none", path("private"), "tmpfs", 0, NULL));
  fd[0] = MUST(open(path("private/odd (deleted)"), O_RDWR | O_CREAT, 0600));
  put(fd[0], 0, PAGE, 8);
  area = MUST(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd[0], 0));
  fds_note();
}
static const char *odd_name_ok(void) {
  char seen = 0, was = area[99];
  const char *why = fds_same();
  if (!why) why = got(fd[0], 0, PAGE, 8);
  if (why) return why;
  area[99] = 'x';
  if (pread(fd[0], &seen, 1, 99) != 1 || seen != 'x') why = no("the mapping shows another file");
  area[99] = was;
  return why;
}
static void odd_name_close(void) {
  MUST(mmap(area, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
  close(fd[0]);
}

/* ---- folders and FIFOs */

static void folders_setup(void) {
  MUST(mkdir(path("folder"), 0700));
  MUST(chdir(path("folder")));
  fd[0] = MUST(open(".", O_RDONLY | O_DIRECTORY));
  fd[1] = MUST(open(".", O_PATH | O_CLOEXEC));
  MUST(rmdir(path("folder")));
  MUST(mkfifo(path("fifo"), 0600));
  fd[2] = MUST(open(path("fifo"), O_RDONLY | O_NONBLOCK));
  fd[3] = MUST(open(path("fifo"), O_WRONLY));
  MUST(unlink(path("fifo")));
  MUST(write(fd[3], "queued", 6));
}
static const char *folders_ok(void) {
  char text[PATH_MAX] = "";
  struct stat one, two, here;
  part("working directory", getcwd(text, sizeof text) || errno != ENOENT ? no("it is %s", text) : NULL);
  if (fstat(fd[0], &one) || fstat(fd[1], &two) || stat(".", &here)) return no("closed");
  part("open folders", !S_ISDIR(one.st_mode) || one.st_ino != two.st_ino || one.st_ino != here.st_ino
                           ? no("%lu, %lu and %lu are one", one.st_ino, two.st_ino, here.st_ino)
                       : openat(fd[0], "new", O_WRONLY | O_CREAT, 0600) >= 0 || errno != ENOENT ? no("it has a name")
                                                                                               : NULL);
  if (fstat(fd[2], &one) || fstat(fd[3], &two)) return no("closed");
  int bytes = 0, flags = fcntl(fd[2], F_GETFL);
  ioctl(fd[2], FIONREAD, &bytes);
  part("FIFO", !S_ISFIFO(one.st_mode) || one.st_ino != two.st_ino || bytes != 6 || !(flags & O_NONBLOCK)
                   ? no("%d bytes, flags %o, inodes %lu and %lu", bytes, flags, one.st_ino, two.st_ino) : NULL);
  part("left behind", getcwd(text, sizeof text) ? no("it is %s", text) : folder_clean(path("")));
  return parts();
}
static void folders_spoil(void) {
  char text[8];
  MUST(chdir("/"));
  MUST(read(fd[2], text, 6));
  close(fd[0]);
  close(fd[1]);
  fd[0] = fd[1] = -1;  // these variables are restored with the memory
}
static void folders_close(void) {
  folders_spoil();
  close(fd[2]);
  close(fd[3]);
}
static const char *fifo_finish(void) {
  char text[8] = "";
  if (read(fd[2], text, 8) != 6 || memcmp(text, "queued", 6)) return no("\"%.8s\"", text);
  MUST(write(fd[3], "again", 5));
  return read(fd[2], text, 8) != 5 || memcmp(text, "again", 5) ? no("then \"%.8s\"", text) : NULL;
}

/* ---- memfds: files that never have a name */

enum { SEAL_WRITE = 8, SEAL_FUTURE_WRITE = 16, ADD_SEALS = 1033, GET_SEALS = 1034, CLOEXEC = 1, ALLOW_SEALING = 2 };
static int memfd_flags = CLOEXEC | ALLOW_SEALING, memfd_mode = 0640, memfd_seals;
static void memfd_setup(void) {
  fd[0] = MUST((int)syscall(SYS_memfd_create, "kselftest:a name", memfd_flags));
  write_sparse(fd[0]);
  MUST(fchmod(fd[0], memfd_mode));
  MUST(lseek(fd[0], 100, SEEK_SET));
  fd[1] = again(fd[0], O_RDONLY);
  MUST(lseek(fd[1], 7, SEEK_SET));
  fd[2] = again(fd[0], O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC);
  fd[3] = MUST(dup(fd[1]));
  fd[4] = again(fd[0], O_PATH);
  area = MUST(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd[1], FAR));
  memfd_seals |= MUST(fcntl(fd[0], GET_SEALS));
  if (memfd_seals & ~MUST(fcntl(fd[0], GET_SEALS))) MUST(fcntl(fd[0], ADD_SEALS, memfd_seals));
  fds_note();
}
static const char *memfd_ok(void) {
  char name[64] = "";
  const char *why = fds_same();
  if (!why) why = sparse(fd[0]);
  for (int i = 1; i < 5 && !why; i++) why = same_file(fd[0], fd[i]);
  if (!why && fcntl(fd[0], GET_SEALS) != memfd_seals) why = no("seals %#x", fcntl(fd[0], GET_SEALS));
  MUST(readlink(path_of(fd[0]), name, sizeof name - 1));
  if (!why && strcmp(name, "/memfd:kselftest:a name (deleted)")) why = no("it is called %s", name);
  for (int i = 0; i < PAGE && !why; i++)
    if (area[i] != (char)(3 + i * 7)) why = no("the mapping differs at %d", i);
  return why;
}
static void memfd_spoil(void) {
  put(fd[0], FAR, PAGE, 99);
  put(fd[0], 20 * PAGE, PAGE, 99);
  MUST(ftruncate(fd[0], SIZE + 10));
  MUST(lseek(fd[0], 5, SEEK_SET));
  MUST(fchmod(fd[0], 0600));
}
static void memfd_close(void) {
  MUST(munmap(area, PAGE));
  area = MUST(mmap(area, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
  file_close();
}
static void memfd_close_mapped(void) { file_close(); }
static void memfd_sealed_setup(void) {
  memfd_seals = SEAL_WRITE;
  memfd_setup();
}
static void memfd_future_setup(void) {
  memfd_seals = SEAL_FUTURE_WRITE;
  memfd_setup();
}
static void memfd_noexec_setup(void) {
  memfd_flags = CLOEXEC | 8 /* MFD_NOEXEC_SEAL */;
  memfd_setup();
}
static void memfd_exec_setup(void) {
  memfd_flags = CLOEXEC | 16 /* MFD_EXEC */;
  memfd_mode = 0750;
  memfd_setup();
}
static const char *memfd_exec_skip(void) {
  int probe = (int)syscall(SYS_memfd_create, "probe", 8);
  if (probe < 0) return "no MFD_NOEXEC_SEAL";
  close(probe);
  return NULL;
}
// A file that --fd puts in the place of a memfd is not a memfd: its content must not be rewritten.
static char given[] = "/tmp/kselftest.given";
static void memfd_plain_setup(void) {
  fd[0] = MUST((int)syscall(SYS_memfd_create, "plain", 0));
  write_sparse(fd[0]);
}

/* ---- scenarios that tests[] uses */

static const char *lives(void) { return fcntl(fd[0], F_GETFD) < 0 ? no("closed") : got(fd[0], 0, 100, 8); }
static void close_first(void) { close(fd[0]); }
static void unknown_name_setup(void) {
  other_name_setup();
  close(fd[1]);
}
static void folder_gone_setup(void) {
  MUST(mkdir(path("folder"), 0700));
  fd[0] = MUST(open(path("folder/file"), O_RDWR | O_CREAT, 0600));
  put(fd[0], 0, 100, 8);
  MUST(unlink(path("folder/file")));
  MUST(rmdir(path("folder")));
}
static void large_setup(void) {
  fd[0] = MUST(open(path("large"), O_RDWR | O_CREAT, 0600));
  put(fd[0], 0, 100, 8);
  for (int i = 1; i < 512; i++) put(fd[0], (off_t)i * PAGE, PAGE, 8);
  MUST(unlink(path("large")));
}

// A mapped file on a small file system: since the checkpoint its pages were removed, and the space is used.
static void full_setup(void) {
  MUST(mkdir(path("small"), 0700));
  MUST(mount("none", path("small"), "tmpfs", 0, "size=256k"));
  fd[0] = MUST(open(path("small/file"), O_RDWR | O_CREAT, 0600));
  MUST(ftruncate(fd[0], 32 * PAGE));
  area = MUST(mmap(NULL, 32 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd[0], 0));
  fill(area, 20 * PAGE, 4);
}
static const char *full_ok(void) { return filled(area, 20 * PAGE, 4); }
static void full_spoil(void) {
  MUST(fallocate(fd[0], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4 * PAGE, 16 * PAGE));
  fd[1] = MUST(open(path("small/filler"), O_WRONLY | O_CREAT, 0600));
  static char page[PAGE] = {1};
  while (write(fd[1], page, PAGE) == PAGE) {
  }
  close(fd[1]);
}

static const struct scenario scenarios[] = {
    {.name = "file", .setup = file_setup, .check = file_ok, .mutate = file_seek},
    {.name = "file, closed since", .setup = file_setup, .check = file_ok, .mutate = file_close},
    {.name = "file, most of it closed since", .setup = file_setup, .check = file_ok, .mutate = file_close_most},
    {.name = "file of a user", .setup = user_setup, .check = file_ok, .mutate = file_close},
    {.name = "temporary files", .setup = tmpfile_setup, .check = tmpfile_ok, .mutate = tmpfile_close, .finish = tmpfile_link},
    {.name = "mapped file", .setup = mapped_setup, .check = mapped_ok, .mutate = mapped_spoil},
    {.name = "mapped file, all gone", .setup = mapped_setup, .check = mapped_ok, .mutate = mapped_gone},
    {.name = "extended attributes", .setup = attributes_setup, .check = attributes_ok, .mutate = attributes_close,
     .skip = attributes_skip},
    {.name = "odd name", .setup = odd_name_setup, .check = odd_name_ok, .mutate = odd_name_close},
    {.name = "odd name that is hidden", .flags = NO_RESTART, .setup = odd_name_hidden_setup, .check = odd_name_ok,
     .mutate = odd_name_close},
    {.name = "folders and a FIFO", .setup = folders_setup, .check = folders_ok, .mutate = folders_spoil, .flags = NO_SELF_CHECK},
    {.name = "folders and a FIFO, closed since", .flags = FINISH_LAST, .setup = folders_setup, .check = folders_ok,
     .mutate = folders_close, .finish = fifo_finish},
    {.name = "memfd", .setup = memfd_setup, .check = memfd_ok, .mutate = memfd_spoil},
    {.name = "memfd, closed since", .setup = memfd_setup, .check = memfd_ok, .mutate = memfd_close},
    {.name = "memfd, still mapped", .setup = memfd_setup, .check = memfd_ok, .mutate = memfd_close_mapped},
    {.name = "memfd that is sealed", .setup = memfd_sealed_setup, .check = memfd_ok, .mutate = memfd_close},
    {.name = "memfd that is sealed for the future", .setup = memfd_future_setup, .check = memfd_ok, .mutate = memfd_close},
    {.name = "memfd, MFD_NOEXEC_SEAL", .setup = memfd_noexec_setup, .check = memfd_ok, .mutate = memfd_close,
     .skip = memfd_exec_skip},
    {.name = "memfd, MFD_EXEC", .setup = memfd_exec_setup, .check = memfd_ok, .mutate = memfd_close, .skip = memfd_exec_skip},
    {.name = "another name", .setup = other_name_setup, .check = fds_same, .mutate = other_name_close},
    {},
};

// Scenarios that have a test of their own in tests[].
enum { UNKNOWN_NAME, FOLDER_GONE, LARGE, MEMFD, FULL };
static const struct scenario others[] = {
    [UNKNOWN_NAME] = {.name = "unknown name", .setup = unknown_name_setup, .check = lives, .mutate = close_first},
    [FOLDER_GONE] = {.name = "folder gone", .setup = folder_gone_setup, .check = lives, .mutate = close_first},
    [LARGE] = {.name = "large", .setup = large_setup, .check = lives, .mutate = close_first},
    [MEMFD] = {.name = "plain memfd", .setup = memfd_plain_setup, .check = lives, .mutate = close_first},
    [FULL] = {.name = "full", .setup = full_setup, .check = full_ok, .mutate = full_spoil},
    {},
};

static struct target t;
static struct run r;

static bool saved(int which) {
  if (!target_start(&t, &others[which])) return false;
  if (!target_checkpoint(&t, &r)) return true;
  tap(false, others[which].name, "%s", why_not(&r));
  target_end(&t);
  return false;
}

// A copy would not be the file that other processes find by that name.
static void unknown(void) {
  if (!saved(UNKNOWN_NAME)) return;
  const char *why = target_pause(&t, &r) ? why_not(&r) : target_op(&t, OP_CHECK);
  tap(!why, "a deleted file with another name is kept by a pause", "%s", why);
  target_kill(&t);
  int code = target_restart(&t, &r);
  tap(code == 3 && strstr(r.err, path("one")), "a deleted file with an unknown name is refused by a restart", "%s", why_not(&r));
  target_end(&t);
}

static void gone(void) {
  if (!saved(FOLDER_GONE)) return;
  target_kill(&t);
  const char *why = target_restart(&t, &r) ? why_not(&r) : target_op(&t, OP_CHECK);
  tap(!why, "a deleted file whose folder is gone is made elsewhere", "%s", why);
  tap(strstr(r.err, path("folder")) != NULL, "and that is reported", "%s", why_not(&r));
  target_end(&t);
}

static void limited(void) {
  if (!target_start(&t, &others[LARGE])) return;
  runl(&r, "cr_checkpoint", "--deleted-limit", "1M", pid_text(t.pid), t.image, NULL);
  tap(r.code == 3 && strstr(r.err, path("large")) && strstr(r.err, "--deleted-limit"),
      "a deleted file beyond the limit is refused by name", "%s", why_not(&r));
  const char *why = target_op(&t, OP_CHECK);
  tap(!why, "and the process is unharmed", "%s", why);
  runl(&r, "cr_checkpoint", "--deleted-limit", "3M", pid_text(t.pid), t.image, NULL);
  target_kill(&t);
  why = r.code || target_restart(&t, &r) ? why_not(&r) : target_op(&t, OP_CHECK);
  tap(!why, "a deleted file below the limit is made again", "%s", why);
  target_kill(&t);
  target_end(&t);
  if (!target_start(&t, &others[LARGE])) return;
  runl(&r, "cr_checkpoint", "--deleted-limit", "0", pid_text(t.pid), t.image, NULL);
  tap(!r.code, "no content of deleted files needs to be saved", "%s", why_not(&r));
  why = target_pause(&t, &r) ? why_not(&r) : target_op(&t, OP_CHECK);
  tap(!why, "and a pause keeps them", "%s", why);
  target_kill(&t);
  int code = target_restart(&t, &r);
  tap(code == 3 && strstr(r.err, path("large")) && strstr(r.err, "--deleted-limit"), "and a restart says why it cannot", "%s",
      why_not(&r));
  target_end(&t);
}

static void substituted(void) {
  char option[64], text[16] = "";
  if (!saved(MEMFD)) return;
  int file = MUST(open(given, O_RDWR | O_CREAT | O_TRUNC, 0600));
  MUST(write(file, "untouched", 9));
  target_kill(&t);
  snprintf(option, sizeof option, "--fd=3=%s", given);
  runl(&r, "cr_restart", option, "--detach", t.image, NULL);
  tap(!r.code, "a memfd has a substitute", "%s", why_not(&r));
  if (!r.code) target_adopt(&t);
  ssize_t n = pread(file, text, sizeof text, 0);
  tap(n == 9 && !memcmp(text, "untouched", 9), "which is not written to", "%zd bytes", n);
  close(file);
  unlink(given);
  target_end(&t);
}

static void full(void) {
  char file[192];
  struct stat before, after;
  if (!saved(FULL)) return;
  const char *why = target_op(&t, OP_MUTATE);
  snprintf(file, sizeof file, "%s", path("small/file"));
  MUST(stat(file, &before));
  int code = target_pause(&t, &r);
  tap(code == 4 && strstr(r.err, file), "a pause for which there is no room is refused by name", "%s", why ? why : why_not(&r));
  tap(target_alive(&t), "and the process lives", "it was ended");
  MUST(stat(file, &after));
  tap(before.st_blocks == after.st_blocks, "and the file takes no more room than before", "%ld blocks instead of %ld",
      (long)after.st_blocks, (long)before.st_blocks);
  MUST(unlink(path("small/filler")));
  why = target_pause(&t, &r) ? why_not(&r) : target_op(&t, OP_CHECK);
  tap(!why, "with room it comes back", "%s", why);
  target_kill(&t);
  umount2(path("small"), MNT_DETACH);
  target_end(&t);
}

static const struct test tests[] = {
    {"unknown name", unknown}, {"folder gone", gone}, {"limit", limited}, {"substitute", substituted}, {"full", full}, {}};

int main(int argc, char **argv) {
  const struct scenario *all = scenarios;
  if (argc == 4 && !strcmp(argv[1], "--target"))
    for (const struct scenario *one = others; one->name; one++)
      if (!strcmp(one->name, argv[2])) all = others;
  return harness_main(argc, argv, all, tests);
}
