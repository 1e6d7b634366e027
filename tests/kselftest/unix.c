// SPDX-License-Identifier: GPL-2.0-only
// Unix sockets that are connected inside the process: the contents of their queues are restored, like those of pipes.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

static int s[8];  // pairs: stream, seqpacket, dgram
static const int types[] = {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM};

/* ---- queues */

// Does recv() with these flags return this text?
static const char *reads(int f, const char *text, int flags) {
  char got[256] = "";
  ssize_t n = recv(f, got, sizeof got - 1, MSG_DONTWAIT | flags);
  if (!text) return n < 0 && errno == EAGAIN ? NULL : no("%zd bytes, errno %d, instead of nothing: %s", n, errno, got);
  if (n == (ssize_t)strlen(text) && !strcmp(got, text)) return NULL;
  return no("%zd bytes, errno %d: %s instead of %s", n, errno, got, text);
}
static const char *looks(int f, const char *text) { return reads(f, text, MSG_PEEK); }

static void pairs_setup(void) {
  for (int i = 0; i < 3; i++) {
    MUST(socketpair(AF_UNIX, types[i] | SOCK_NONBLOCK, 0, s + 2 * i));
    MUST(send(s[2 * i], "one", 3, 0));
    MUST(send(s[2 * i], "four", 4, 0));
    MUST(send(s[2 * i + 1], "back", 4, 0));
  }
  MUST(fcntl(s[1], F_SETFL, 0));
  int one = 1;
  MUST(setsockopt(s[3], SOL_SOCKET, SO_PASSCRED, &one, sizeof one));
  fds_note();
}
static const char *pairs_ok(void) {
  part("stream", looks(s[1], "onefour"));
  part("packets", looks(s[3], "one"));
  part("datagrams", looks(s[5], "one"));
  for (int i = 0; i < 3; i++) part("backwards", looks(s[2 * i], "back"));
  const char *why = fds_same();
  if (why) part("table", why);
  return parts();
}
static void pairs_read(void) {
  char text[64];
  for (int i = 0; i < 6; i++)
    while (recv(s[i], text, sizeof text, MSG_DONTWAIT) > 0);
  for (int i = 0; i < 6; i++) MUST(send(s[i], "since", 5, 0));
}
static void pairs_closed(void) {
  for (int i = 0; i < 6; i++) close(s[i]);
}
static void half_closed(void) {
  pairs_read();
  close(s[0]), close(s[3]), close(s[4]);
}
static void shut_since(void) {
  pairs_read();
  for (int i = 0; i < 6; i += 2) shutdown(s[i], SHUT_RDWR);
}
static const char *pairs_finish(void) {
  for (int i = 0; i < 3; i++) {
    if (i) {
      part("first", reads(s[2 * i + 1], "one", 0));
      part("second", reads(s[2 * i + 1], "four", 0));
    } else {
      part("stream", reads(s[1], "onefour", 0));
    }
    part("no more", reads(s[2 * i + 1], NULL, 0));
    part("backwards", reads(s[2 * i], "back", 0));
    part("no more", reads(s[2 * i], NULL, 0));
    struct ucred who = {0};
    socklen_t size = sizeof who;
    getsockopt(s[2 * i], SOL_SOCKET, SO_PEERCRED, &who, &size);
    part("the peer", i == 2 || who.pid == getpid() ? NULL : no("is process %d", who.pid));
  }
  for (int i = 0; i < 6; i++) {
    MUST(send(s[i], "again", 5, MSG_NOSIGNAL));
    part("goes on", reads(s[i ^ 1], "again", 0));
  }
  // fill the queues again
  for (int i = 0; i < 3; i++) {
    MUST(send(s[2 * i], "one", 3, 0));
    MUST(send(s[2 * i], "four", 4, 0));
    MUST(send(s[2 * i + 1], "back", 4, 0));
  }
  return parts();
}

/* ---- SCM_CREDENTIALS */

static const char *credentials(void) {
  char byte[8];
  union {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(struct ucred))];
  } control;
  struct iovec data = {byte, sizeof byte};
  struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  if (recvmsg(s[1], &message, MSG_DONTWAIT | MSG_PEEK) < 0) return no("nothing, errno %d", errno);
  struct ucred who;
  memcpy(&who, CMSG_DATA(&control.header), sizeof who);
  return who.pid == getpid() && who.uid == getuid() ? NULL : no("sent by process %d of user %u", who.pid, who.uid);
}
static void credentials_setup(void) {
  int one = 1;
  MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, s));
  MUST(setsockopt(s[1], SOL_SOCKET, SO_PASSCRED, &one, sizeof one));
  MUST(send(s[0], "one", 3, 0));
  fds_note();
}
static void take_one(void) {
  char text[8];
  MUST(recv(s[1], text, sizeof text, 0));
}

/* ---- ends that are shut down, or closed with data left to read; full queues */

static void shut_setup(void) {
  MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
  MUST(send(s[0], "last", 4, 0));
  MUST(shutdown(s[0], SHUT_WR));
  MUST(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, s + 2));
  MUST(send(s[2], "left", 4, 0));
  close(s[2]);
  fds_note();
}
static const char *shut_ok(void) {
  part("shut down", looks(s[1], "last"));
  part("closed", looks(s[3], "left"));
  const char *why = fds_same();
  if (why) part("table", why);
  return parts();
}
static void shut_read(void) {
  char text[8];
  MUST(recv(s[1], text, sizeof text, 0));
  MUST(recv(s[3], text, sizeof text, 0));
}
static const char *shut_finish(void) {
  part("shut down", reads(s[1], "last", 0));
  part("shut down: the end", reads(s[1], "", 0));
  part("closed", reads(s[3], "left", 0));
  part("closed: the end", reads(s[3], "", 0));
  part("cannot write", send(s[0], "x", 1, MSG_NOSIGNAL) < 0 && errno == EPIPE ? NULL : no("errno %d", errno));
  MUST(send(s[1], "back", 4, MSG_NOSIGNAL));
  part("the other way", reads(s[0], "back", 0));
  return parts();
}

static size_t much;
static void full_setup(void) {
  char part_[777];
  MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, s));
  for (;; much += sizeof part_) {
    fill(part_, sizeof part_, much);
    if (send(s[0], part_, sizeof part_, MSG_DONTWAIT) != sizeof part_) break;
  }
  fds_note();
}
static int unread(int f) {
  int n = -1;
  ioctl(f, FIONREAD, &n);
  return n;
}
static const char *full_ok(void) {
  char part_[777];
  if ((size_t)unread(s[1]) / sizeof part_ * sizeof part_ != much) return no("%d bytes instead of %zu", unread(s[1]), much);
  if (recv(s[1], part_, sizeof part_, MSG_PEEK) != sizeof part_) return no("cannot be read");
  const char *why = filled(part_, sizeof part_, 0);
  return why ? why : fds_same();
}
static void full_read(void) {
  char part_[777];
  MUST(recv(s[1], part_, sizeof part_, 0));
}
static const char *full_finish(void) {
  char part_[777];
  for (size_t at = 0; at < much; at += sizeof part_) {
    if (recv(s[1], part_, sizeof part_, MSG_WAITALL) != sizeof part_) return no("ends at %zu", at);
    const char *why = filled(part_, sizeof part_, at);
    if (why) return no("at %zu: %s", at, why);
  }
  return NULL;
}

/* ---- an event loop that wakes itself up */

static void loop_setup(void) {
  s[2] = MUST(epoll_create1(0));
  MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, s));
  struct epoll_event e = {EPOLLIN, {.u64 = 7}};
  MUST(epoll_ctl(s[2], EPOLL_CTL_ADD, s[0], &e));
  MUST(send(s[1], "w", 1, 0));
  fds_note();
}
static const char *loop_ok(void) {
  struct epoll_event e = {0};
  part("awake", epoll_wait(s[2], &e, 1, 0) == 1 && e.data.u64 == 7 ? NULL : no("it sleeps"));
  const char *why = fds_same();
  if (why) part("table", why);
  return parts();
}
static void loop_read(void) {
  char byte;
  MUST(recv(s[0], &byte, 1, 0));
}
static void loop_closed(void) { close(s[0]), close(s[1]); }
static const char *loop_finish(void) {
  part("the byte", reads(s[0], "w", 0));
  struct epoll_event e;
  part("asleep", epoll_wait(s[2], &e, 1, 0) == 0 ? NULL : no("it is awake"));
  MUST(send(s[1], "w", 1, 0));
  return parts();
}

/* ---- names */

static void name_it(int f, const char *name) {
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  snprintf(to.sun_path, sizeof to.sun_path, "%s", path(name));
  MUST(bind(f, (struct sockaddr *)&to, sizeof to));
}
static const char *named(int f, const char *name, bool there) {
  struct sockaddr_un at = {0};
  socklen_t size = sizeof at;
  struct stat st;
  if (getsockname(f, (struct sockaddr *)&at, &size)) return no("errno %d", errno);
  if (strcmp(at.sun_path, path(name))) return no("is called %s", at.sun_path);
  return (stat(at.sun_path, &st) == 0) == there ? NULL : no("its name %s", there ? "does not exist" : "exists");
}
static void names_setup(void) {
  s[0] = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
  name_it(s[0], "listens");
  MUST(listen(s[0], 3));
  MUST(unlink(path("listens")));
  MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, s + 1));
  name_it(s[1], "one");
  name_it(s[2], "two");
  MUST(unlink(path("two")));
  MUST(send(s[1], "x", 1, 0));
  fds_note();
}
static const char *names_ok(void) {
  part("listens", named(s[0], "listens", false));
  part("one end", named(s[1], "one", true));
  part("the other", named(s[2], "two", false));
  struct sockaddr_un from = {0};
  socklen_t size = sizeof from;
  char byte;
  recvfrom(s[2], &byte, 1, MSG_PEEK | MSG_DONTWAIT, (struct sockaddr *)&from, &size);
  part("sender", strcmp(from.sun_path, path("one")) ? no("is %s", from.sun_path) : NULL);
  const char *why = fds_same();
  if (why) part("table", why);
  return parts();
}
static void names_closed(void) {
  for (int i = 0; i < 3; i++) close(s[i]);
  unlink(path("one"));
}

/* ---- messages that cannot be put into a queue again; ends that other processes have */

static void rights_setup(void) {
  MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, s));
  union {
    struct cmsghdr header;
    char room[CMSG_SPACE(sizeof(int))];
  } control = {.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
  int f = MUST(open("/dev/null", O_RDONLY));
  memcpy(CMSG_DATA(&control.header), &f, sizeof f);
  struct iovec data = {"x", 1};
  struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  MUST(sendmsg(s[0], &message, 0));
  close(f);
}
static void urgent_setup(void) {
  MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
  MUST(send(s[0], "x", 1, MSG_OOB));
}
static void shared_setup(void) {
  MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
  fflush(NULL);
  if (MUST(fork()) == 0) {
    close(s[0]);
    for (;;) {
      char byte;
      if (read(s[1], &byte, 1) <= 0) _exit(0);
    }
  }
  close(s[1]);
}
static const char *alive(void) { return fcntl(s[0], F_GETFD) >= 0 ? NULL : no("closed"); }
static void close_first(void) { close(s[0]); }

static const struct scenario scenarios[] = {
    {.name = "queues", .setup = pairs_setup, .check = pairs_ok, .mutate = pairs_read, .finish = pairs_finish},
    {.name = "closed", .setup = pairs_setup, .check = pairs_ok, .mutate = pairs_closed, .finish = pairs_finish},
    {.name = "one end closed", .setup = pairs_setup, .check = pairs_ok, .mutate = half_closed, .finish = pairs_finish},
    {.name = "shut down since", .setup = pairs_setup, .check = pairs_ok, .mutate = shut_since, .finish = pairs_finish},
    {.name = "credentials", .setup = credentials_setup, .check = credentials, .mutate = take_one},
    {.name = "half closed before", .flags = FINISH_LAST, .setup = shut_setup,
     .check = shut_ok, .mutate = shut_read, .finish = shut_finish},
    {.name = "full", .flags = FINISH_LAST, .setup = full_setup,
     .check = full_ok, .mutate = full_read, .finish = full_finish},
    {.name = "self-pipe of an event loop", .setup = loop_setup,
     .check = loop_ok, .mutate = loop_read, .finish = loop_finish},
    {.name = "self-pipe, closed", .setup = loop_setup, .check = loop_ok, .mutate = loop_closed, .finish = loop_finish},
    {.name = "names", .setup = names_setup, .check = names_ok, .mutate = names_closed},
    {.name = "descriptors under way", .flags = NO_PAUSE | NO_RESTART, .setup = rights_setup,
     .check = alive, .mutate = close_first},
    {.name = "an out-of-band byte", .flags = NO_PAUSE | NO_RESTART, .setup = urgent_setup,
     .check = alive, .mutate = close_first},
    {.name = "shared with a child", .flags = NO_PAUSE | NO_RESTART, .setup = shared_setup,
     .check = alive, .mutate = close_first},
    {},
};

static struct target t;
static struct run r;

static void refused(const char *scenario, const char *why) {
  if (!target_start(&t, scenario_named(scenarios, scenario))) return;
  if (target_checkpoint(&t, &r) || target_pause(&t, &r)) {
    tap(false, scenario, "%s", why_not(&r));
    target_end(&t);
    return;
  }
  tap(!target_op(&t, OP_CHECK), "a pause keeps it", "it does not");
  target_op(&t, OP_MUTATE);
  int code = target_pause(&t, &r);
  tap(code == 3 && strstr(r.err, why), "closed since: refused by name", "%s", why_not(&r));
  target_kill(&t);
  code = target_restart(&t, &r);
  tap(code == 3 && strstr(r.err, why), "a restart refuses it by name", "%s", why_not(&r));
  target_end(&t);
}
static void under_way(void) { refused("descriptors under way", "SCM_RIGHTS"); }
static void urgent(void) { refused("an out-of-band byte", "MSG_OOB"); }
static void shared(void) { refused("shared with a child", "Unix connection"); }

static const struct test tests[] = {{"descriptors under way", under_way}, {"out-of-band", urgent}, {"shared", shared}, {}};

int main(int argc, char **argv) { return harness_main(argc, argv, scenarios, tests); }
