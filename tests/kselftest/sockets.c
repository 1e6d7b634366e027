// SPDX-License-Identifier: GPL-2.0-only
// Sockets: a pause does not change open sockets; a restart binds listening sockets
// again, and every other one is substituted, dead or refused.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "harness.h"

/* ---- the target: a server of a single number, in a thread of its own */

enum { TCP, TCP6, UNIX, ABSTRACT, LISTENERS, MOST = 16 };
static int listener[LISTENERS], client[MOST], datagram[2], udp;
static bool has_tcp6;
static volatile int number, clients, dead_clients;

static void serve_one(int i) {
  char text[64];
  ssize_t n = recv(client[i], text, sizeof text - 1, 0);
  if (n <= 0) {
    close(client[i]);
    client[i] = -1;
    dead_clients++;
    return;
  }
  text[n] = 0;
  if (text[0] == 's') number = atoi(text + 1);
  char answer[64];
  snprintf(answer, sizeof answer, "%d.", number);
  send(client[i], answer, strlen(answer), MSG_NOSIGNAL);
}

static void *serve(void *arg) {
  for (;;) {
    struct pollfd p[LISTENERS + MOST];
    for (int i = 0; i < LISTENERS; i++) p[i] = (struct pollfd){listener[i], POLLIN, 0};
    for (int i = 0; i < clients; i++) p[LISTENERS + i] = (struct pollfd){client[i], POLLIN, 0};
    int have = clients;
    if (poll(p, LISTENERS + have, -1) < 0) continue;
    for (int i = 0; i < have; i++)
      if (p[LISTENERS + i].revents) serve_one(i);
    for (int i = 0; i < LISTENERS && clients < MOST; i++)
      if (p[i].revents) client[clients] = accept(listener[i], NULL, NULL), clients += client[clients] >= 0;
  }
  return arg;
}

static void bind_unix(int s, const char *name, bool abstract) {
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  snprintf(to.sun_path + abstract, sizeof to.sun_path - abstract, "%s", name);
  MUST(bind(s, (struct sockaddr *)&to, offsetof(struct sockaddr_un, sun_path) + abstract + strlen(name)));
}

static void server_setup(void) {
  int one = 1;
  struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  listener[TCP] = MUST(socket(AF_INET, SOCK_STREAM, 0));
  MUST(setsockopt(listener[TCP], SOL_SOCKET, SO_REUSEADDR, &one, sizeof one));
  MUST(setsockopt(listener[TCP], SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one));
  MUST(setsockopt(listener[TCP], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one));
  MUST(bind(listener[TCP], (struct sockaddr *)&any, sizeof any));
  listener[TCP6] = socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
  if (listener[TCP6] >= 0) {
    MUST(setsockopt(listener[TCP6], SOL_SOCKET, SO_REUSEADDR, &one, sizeof one));
    MUST(setsockopt(listener[TCP6], IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one));
    if (bind(listener[TCP6], (struct sockaddr *)&any6, sizeof any6)) close(listener[TCP6]), listener[TCP6] = -1;
  }
  has_tcp6 = listener[TCP6] >= 0;
  listener[UNIX] = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
  bind_unix(listener[UNIX], path("socket"), false);
  listener[ABSTRACT] = MUST(socket(AF_UNIX, SOCK_STREAM, 0));
  bind_unix(listener[ABSTRACT], path("abstract"), true);
  for (int i = 0; i < LISTENERS; i++)
    if (listener[i] >= 0) MUST(listen(listener[i], 7 + i));
  socklen_t size = sizeof any;
  MUST(getsockname(listener[TCP], (struct sockaddr *)&any, &size));
  int f = MUST(open(path("port"), O_RDWR | O_CREAT | O_TRUNC, 0600));
  dprintf(f, "%d\n", ntohs(any.sin_port));
  close(f);
  pthread_t t;
  pthread_create(&t, NULL, serve, NULL);
}
static int option(int s, int level, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  getsockopt(s, level, name, &value, &size);
  return value;
}
static const char *server_ok(void) {
  part("SO_REUSEADDR", option(listener[TCP], SOL_SOCKET, SO_REUSEADDR) == 1 ? NULL : no("is off"));
  part("SO_KEEPALIVE", option(listener[TCP], SOL_SOCKET, SO_KEEPALIVE) == 1 ? NULL : no("is off"));
  part("TCP_NODELAY", option(listener[TCP], IPPROTO_TCP, TCP_NODELAY) == 1 ? NULL : no("is off"));
  for (int i = 0; i < LISTENERS; i++)
    part("listening", (i == TCP6 && !has_tcp6) || option(listener[i], SOL_SOCKET, SO_ACCEPTCONN) == 1 ? NULL : no("%d is not", i));
  if (has_tcp6) {
    part("IPV6_V6ONLY", option(listener[TCP6], IPPROTO_IPV6, IPV6_V6ONLY) == 1 ? NULL : no("is off"));
    part("O_NONBLOCK", fcntl(listener[TCP6], F_GETFD) >= 0 && fcntl(listener[TCP6], F_GETFL) & O_NONBLOCK ? NULL : no("is off"));
    part("close-on-exec", fcntl(listener[TCP6], F_GETFD) == FD_CLOEXEC ? NULL : no("is off"));
  }
  return parts();
}
static void all_listeners_closed(void) {
  for (int i = 0; i < LISTENERS; i++) close(listener[i]), listener[i] = -1;
}

/* ---- sockets inside the process */

static void inside_setup(void) {
  MUST(socketpair(AF_UNIX, SOCK_DGRAM, 0, datagram));
  MUST(send(datagram[0], "waiting", 7, 0));
  struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  udp = MUST(socket(AF_INET, SOCK_DGRAM, 0));
  MUST(bind(udp, (struct sockaddr *)&any, sizeof any));
  socklen_t size = sizeof any;
  MUST(getsockname(udp, (struct sockaddr *)&any, &size));
  MUST(sendto(udp, "to itself", 9, 0, (struct sockaddr *)&any, size));
  fds_note();
}
static const char *inside_ok(void) {
  char text[16] = "";
  part("socketpair", recv(datagram[1], text, sizeof text, MSG_PEEK | MSG_DONTWAIT) != 7 ? no("%s", text) : NULL);
  part("UDP", recv(udp, text, sizeof text, MSG_PEEK | MSG_DONTWAIT) != 9 ? no("%s", text) : NULL);
  if (number) part("number", no("%d", number));
  const char *why = fds_same();
  if (why) part("table", why);
  return parts();
}
static void number_changed(void) { number = 5; }

/* ---- options of sockets that are created again */

enum { TCP_SOCKET, UDP_SOCKET, UDP6_SOCKET, NETLINK_SOCKET, MADE };
struct known_option {
  int socket, level, name, value;
  const char *text;
};
#define SOCKET_OPTION(socket, level, name, value) {socket, level, name, value, #name}
static const struct known_option known[] = {
    SOCKET_OPTION(TCP_SOCKET, SOL_SOCKET, SO_KEEPALIVE, 1),
    SOCKET_OPTION(TCP_SOCKET, SOL_SOCKET, SO_RCVLOWAT, 3),
    SOCKET_OPTION(TCP_SOCKET, SOL_SOCKET, SO_ZEROCOPY, 1),
    SOCKET_OPTION(TCP_SOCKET, SOL_SOCKET, SO_MAX_PACING_RATE, 1000000),
    SOCKET_OPTION(TCP_SOCKET, SOL_SOCKET, SO_INCOMING_CPU, 0),
    SOCKET_OPTION(TCP_SOCKET, IPPROTO_TCP, TCP_SYNCNT, 3),
    SOCKET_OPTION(TCP_SOCKET, IPPROTO_TCP, TCP_LINGER2, 7),
    SOCKET_OPTION(TCP_SOCKET, IPPROTO_TCP, TCP_WINDOW_CLAMP, 30000),
    SOCKET_OPTION(TCP_SOCKET, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 5000),
    SOCKET_OPTION(TCP_SOCKET, IPPROTO_TCP, TCP_SAVE_SYN, 1),
    SOCKET_OPTION(TCP_SOCKET, IPPROTO_TCP, TCP_INQ, 1),
    SOCKET_OPTION(TCP_SOCKET, IPPROTO_IP, IP_MINTTL, 9),
    SOCKET_OPTION(UDP_SOCKET, SOL_SOCKET, SO_MARK, 7),
    SOCKET_OPTION(UDP_SOCKET, SOL_SOCKET, SO_PRIORITY, 5),
    SOCKET_OPTION(UDP_SOCKET, SOL_SOCKET, SO_RXQ_OVFL, 1),
    SOCKET_OPTION(UDP_SOCKET, SOL_SOCKET, SO_TIMESTAMPING_OLD, 8 /* SOF_TIMESTAMPING_RX_SOFTWARE */),
    SOCKET_OPTION(UDP_SOCKET, SOL_SOCKET, SO_TIMESTAMPNS_NEW, 1),
    SOCKET_OPTION(UDP_SOCKET, SOL_SOCKET, SO_SELECT_ERR_QUEUE, 1),
    SOCKET_OPTION(UDP_SOCKET, SOL_SOCKET, SO_NO_CHECK, 1),
    SOCKET_OPTION(UDP_SOCKET, IPPROTO_IP, IP_RECVORIGDSTADDR, 1),
    SOCKET_OPTION(UDP_SOCKET, IPPROTO_IP, IP_RECVOPTS, 1),
    SOCKET_OPTION(UDP_SOCKET, IPPROTO_IP, IP_MULTICAST_ALL, 0),
    SOCKET_OPTION(UDP_SOCKET, IPPROTO_IP, IP_MULTICAST_TTL, 3),
    SOCKET_OPTION(UDP_SOCKET, IPPROTO_UDP, 1 /* UDP_CORK */, 1),
    SOCKET_OPTION(UDP6_SOCKET, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1),
    SOCKET_OPTION(UDP6_SOCKET, IPPROTO_IPV6, IPV6_RECVTCLASS, 1),
    SOCKET_OPTION(UDP6_SOCKET, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, 4),
    SOCKET_OPTION(UDP6_SOCKET, IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, 0),
    SOCKET_OPTION(NETLINK_SOCKET, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, 5),
    SOCKET_OPTION(NETLINK_SOCKET, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, 33),
    SOCKET_OPTION(NETLINK_SOCKET, SOL_NETLINK, NETLINK_EXT_ACK, 1),
    SOCKET_OPTION(NETLINK_SOCKET, SOL_NETLINK, NETLINK_NO_ENOBUFS, 1),
};
static int made[MADE];
static bool option_set[ARRAY_SIZE(known)];
static char option_value[ARRAY_SIZE(known)][64];
static socklen_t option_size[ARRAY_SIZE(known)];
static const struct sock_filter filter[] = {{BPF_RET | BPF_K, 0, 0, 0x7fff}};

static socklen_t read_option(const struct known_option *o, char value[64]) {
  socklen_t size = 64;
  memset(value, 0, 64);
  int name = o->level == SOL_NETLINK && o->name == NETLINK_ADD_MEMBERSHIP ? NETLINK_LIST_MEMBERSHIPS : o->name;
  return getsockopt(made[o->socket], o->level, name, value, &size) ? 0 : size;
}
static const struct ip_mreqn group = {.imr_multiaddr.s_addr = 0x010203ef /* 239.3.2.1 */, .imr_ifindex = 1};
static void options_setup(void) {
  made[TCP_SOCKET] = MUST(socket(AF_INET, SOCK_STREAM, 0));
  made[UDP_SOCKET] = MUST(socket(AF_INET, SOCK_DGRAM, 0));
  made[UDP6_SOCKET] = socket(AF_INET6, SOCK_DGRAM, 0);
  made[NETLINK_SOCKET] = MUST(socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE));
  for (size_t i = 0; i < ARRAY_SIZE(known); i++)  // some kernels lack some of the options
    option_set[i] = !setsockopt(made[known[i].socket], known[i].level, known[i].name, &known[i].value, sizeof(int));
  for (size_t i = 0; i < ARRAY_SIZE(known); i++) option_size[i] = read_option(&known[i], option_value[i]);
  struct sockaddr_in any = {.sin_family = AF_INET};
  MUST(bind(made[UDP_SOCKET], (struct sockaddr *)&any, sizeof any));
  struct sock_fprog program = {ARRAY_SIZE(filter), (struct sock_filter *)filter};
  int one = 1;
  MUST(setsockopt(made[UDP_SOCKET], SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
  MUST(setsockopt(made[UDP_SOCKET], SOL_SOCKET, SO_LOCK_FILTER, &one, sizeof one));
  MUST(setsockopt(made[UDP_SOCKET], IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group));
  MUST(listen(made[TCP_SOCKET], 5));
  fds_note();
}
static const char *options_ok(void) {
  for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
    char value[64];
    if (!option_set[i]) continue;
    if (read_option(&known[i], value) != option_size[i] || memcmp(value, option_value[i], 64))
      part("option", no("%s is %d instead of %d", known[i].text, *(int *)value, *(int *)option_value[i]));
  }
  struct sock_filter code[4];
  socklen_t n = ARRAY_SIZE(code);
  bool same = !getsockopt(made[UDP_SOCKET], SOL_SOCKET, SO_GET_FILTER, code, &n) && n == 1 && code[0].k == 0x7fff;
  part("filter", same ? NULL : no("is another"));
  part("lock", option(made[UDP_SOCKET], SOL_SOCKET, SO_LOCK_FILTER) == 1 ? NULL : no("is off"));
  struct group_filter members = {.gf_interface = 1};
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = group.imr_multiaddr};
  memcpy(&members.gf_group, &at, sizeof at);
  socklen_t size = sizeof members;
  part("group", getsockopt(made[UDP_SOCKET], IPPROTO_IP, MCAST_MSFILTER, &members, &size) ? no("errno %d", errno) : NULL);
  const char *why = fds_same();
  if (why) part("table", why);
  return parts();
}
static void options_closed(void) {
  for (int i = 0; i < MADE; i++) close(made[i]);
}

/* ---- TLS in the kernel */

static int tls[2];
static bool has_tls;
static void tls_connect(void) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof at;
  int l = MUST(socket(AF_INET, SOCK_STREAM, 0));
  MUST(bind(l, (struct sockaddr *)&at, sizeof at));
  MUST(listen(l, 1));
  MUST(getsockname(l, (struct sockaddr *)&at, &size));
  tls[0] = MUST(socket(AF_INET, SOCK_STREAM, 0));
  MUST(connect(tls[0], (struct sockaddr *)&at, size));
  tls[1] = MUST(accept(l, NULL, NULL));
  close(l);
}
static void tls_keys(void) {
  struct tls12_crypto_info_aes_gcm_128 key = {.info = {TLS_1_2_VERSION, TLS_CIPHER_AES_GCM_128}, .key = "0123456789abcde"};
  has_tls = !setsockopt(tls[0], IPPROTO_TCP, TCP_ULP, "tls", sizeof "tls") &&
            !setsockopt(tls[0], 282 /* SOL_TLS */, TLS_TX, &key, sizeof key) &&
            !setsockopt(tls[1], IPPROTO_TCP, TCP_ULP, "tls", sizeof "tls") &&
            !setsockopt(tls[1], 282 /* SOL_TLS */, TLS_RX, &key, sizeof key);
}
static void tls_setup(void) {
  tls_connect();
  tls_keys();
}
static const char *tls_ok(void) {
  if (number) return no("the number is %d", number);
  return NULL;
}
static const char *tls_works(void) {
  char text[8] = "";
  if (!has_tls) return NULL;
  if (send(tls[0], "secret", 6, MSG_NOSIGNAL) != 6) return no("cannot be sent, errno %d", errno);
  return recv(tls[1], text, 6, MSG_WAITALL) == 6 && !strcmp(text, "secret") ? NULL : no("%s, errno %d", text, errno);
}
static void tls_moves_on(void) {
  number = 5;
  for (int i = 0; i < 3; i++)
    if (tls_works()) die("no TLS");
}
static void tls_since(void) {
  tls_keys();
  tls_moves_on();
}

static int lone = -1;
static void elsewhere_setup(void) {
  if (unshare(CLONE_NEWNET)) die("unshare: %m");
  lone = MUST(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
}
static const char *elsewhere_ok(void) { return fcntl(lone, F_GETFD) < 0 ? no("the socket is closed") : NULL; }
static void elsewhere_closed(void) { close(lone); }

static const struct scenario scenarios[] = {
    {.name = "sockets inside", .flags = NO_RESTART | NO_SELF_CHECK /* a pause must not touch them */,
     .setup = inside_setup, .check = inside_ok, .mutate = number_changed},
    {.name = "server", .flags = NO_PAUSE | NO_RESTART, .setup = server_setup, .check = server_ok},
    {.name = "listening sockets", .flags = NO_PAUSE, .setup = server_setup, .check = server_ok,
     .mutate = all_listeners_closed},
    {.name = "listening sockets, closed since", .flags = PAUSE_MAY_REFUSE, .setup = server_setup, .check = server_ok,
     .mutate = all_listeners_closed},
    {.name = "options", .setup = options_setup, .check = options_ok, .mutate = options_closed},
    {.name = "kernel TLS", .flags = NO_RESTART, .setup = tls_setup, .check = tls_ok, .mutate = tls_moves_on,
     .finish = tls_works},
    {.name = "keys given since", .flags = NO_PAUSE | NO_RESTART, .setup = tls_connect, .check = tls_ok, .mutate = tls_since},
    {.name = "in another network", .flags = NO_PAUSE | NO_RESTART, .setup = elsewhere_setup, .check = elsewhere_ok,
     .mutate = elsewhere_closed},
    {},
};

/* ---- the test program: a client */

static struct target t;
static struct run r;

static int connect_tcp(void) {
  char text[16];
  slurp(path("port"), text, sizeof text);
  struct sockaddr_in to = {
      .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(atoi(text))};
  int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (!connect(s, (struct sockaddr *)&to, sizeof to)) return s;
  close(s);
  return -1;
}
static int connect_unix(const char *name, bool abstract) {
  struct sockaddr_un to = {.sun_family = AF_UNIX};
  snprintf(to.sun_path + abstract, sizeof to.sun_path - abstract, "%s", name);
  int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (!connect(s, (struct sockaddr *)&to, offsetof(struct sockaddr_un, sun_path) + abstract + strlen(name))) return s;
  close(s);
  return -1;
}
// The server's answer; -1: end of file, -2: nothing within 5 s, -3: an error
static int answer_of(int s) {
  char text[32] = "";
  struct pollfd p = {s, POLLIN, 0};
  if (s < 0) return -3;
  if (poll(&p, 1, 5000) != 1) return -2;
  ssize_t n = recv(s, text, sizeof text - 1, 0);
  return n > 0 ? atoi(text) : n == 0 ? -1 : -3;
}
static int ask(int s, const char *what) {
  if (s < 0 || send(s, what, strlen(what), MSG_NOSIGNAL) < 0) return -3;
  return answer_of(s);
}
static void tap_is(int got, int want, const char *what) {
  tap(got == want, what, "%d instead of %d; the last command: %s", got, want, why_not(&r));
}
static bool start_server(void) { return target_start(&t, &scenarios[1]); }
static bool checkpointed(const char *name) {
  if (target_checkpoint(&t, &r) == 0) return true;
  tap(false, name, "%s", why_not(&r));
  return false;
}

static void pause_keeps(void) {
  if (!start_server()) return;
  int tcp = connect_tcp(), un = connect_unix(path("socket"), false), late[3], got;
  ask(tcp, "s1");
  ask(un, "g");
  if (checkpointed("a pause keeps connections")) {
    for (int i = 0; i < 3; i++) {
      bool right = ask(tcp, "s2") == 2 && ask(un, "g") == 2;
      late[i] = connect_tcp();
      right = right && ask(late[i], "s3") == 3;
      const char *name = i ? "a pause keeps connections, once more" : "a pause keeps connections";
      if (!right || target_pause(&t, &r))
        tap(false, name, "%s", right ? why_not(&r) : "the server does not answer");
      else if ((got = ask(tcp, "g")) != 1 || (got = ask(un, "g")) != 1)
        tap(false, name, "the old connection reads %d instead of 1", got);
      else
        tap(true, name, " ");
      got = answer_of(late[i]);
      tap(got == -1 || got == -3, "a connection made since is closed", "%d", got);
      close(late[i]);
      int fresh = connect_tcp();
      tap_is(ask(fresh, "g"), 1, "a new connection reads the old number");
      close(fresh);
      sleep_ms(100);
    }
    // Data in the socket's queue must survive the pause: the target reads "s7" later.
    kill(t.pid, SIGSTOP);
    send(tcp, "s7", 2, 0);
    kill(t.pid, SIGCONT);
    got = answer_of(tcp);
    tap(got == 7, "what was sent is not lost", "%d", got);
  }
  close(tcp);
  close(un);
  target_end(&t);
}

static void closed_since(void) {
  if (!start_server()) return;
  int tcp = connect_tcp();
  ask(tcp, "s1");
  if (checkpointed("a connection closed since")) {
    ask(tcp, "s2");
    close(tcp);
    sleep_ms(200);
    int code = target_pause(&t, &r), fresh = connect_tcp(), got = ask(fresh, "g");
    tap((code == 3 && got == 2) || (code == 0 && got == 1), "a connection closed since: refused, or all is old",
        "exit %d, reads %d: %s", code, got, why_not(&r));
    close(fresh);
  }
  target_end(&t);
}

// cr_pause would create the socket in its own network namespace, which is not the target's: it must refuse.
static void other_network(void) {
  if (!target_start(&t, scenario_named(scenarios, "in another network"))) return;
  if (checkpointed("a process in another network namespace")) {
    int code = target_pause(&t, &r);
    tap(!code, "a pause keeps its sockets", "%s", why_not(&r));
    target_op(&t, OP_MUTATE);
    code = target_pause(&t, &r);
    tap(code == 3 && strstr(r.err, "network namespace") && target_alive(&t), "a closed one is refused by name", "%s",
        why_not(&r));
  }
  target_end(&t);
}

// The descriptor of the connection in the target.
static int find_connection(void) {
  char name[64], to[64];
  int found = -1;
  for (int i = 3; i < 64; i++) {
    snprintf(name, sizeof name, "/proc/%d/fd/%d", t.pid, i);
    ssize_t n = readlink(name, to, sizeof to - 1);
    if (n > 0 && !strncmp(to, "socket:", 7)) found = i;
  }
  return found;
}

static int restart_with(const char *option_, const char *value) {
  target_kill(&t);
  const char *argv[] = {"cr_restart", "--detach", option_ ? option_ : t.image, option_ ? (value ? value : t.image) : NULL,
                        option_ && value ? t.image : NULL, NULL};
  int code = run(&r, argv);
  if (code == 0) target_adopt(&t);
  return code;
}

static void connected_restart(void) {
  if (!start_server()) return;
  int tcp = connect_tcp(), got;
  ask(tcp, "s1");
  int descriptor = find_connection();
  char number_text[16], pair[32];
  snprintf(number_text, sizeof number_text, "%d", descriptor);
  if (!checkpointed("a connected socket")) {
    target_end(&t);
    return;
  }
  ask(tcp, "s2");
  int code = restart_with(NULL, NULL);
  tap(code == 3 && strstr(r.err, number_text), "a connected socket is refused by name", "descriptor %d, %s", descriptor,
      why_not(&r));
  tap(kill(t.pid, 0) != 0, "and no process is left", "process %d exists", t.pid);
  close(tcp);

  code = restart_with("--dead-sockets", NULL);
  int fresh = code ? -1 : connect_tcp();
  got = ask(fresh, "g");
  tap(code == 0 && got == 1, "--dead-sockets: a new client reads the old number", "%d, %s", got, why_not(&r));
  int un = connect_unix(path("socket"), false), abstract = connect_unix(path("abstract"), true);
  tap(ask(un, "g") == 1, "a Unix socket listens again", "errno %d", errno);
  tap(ask(abstract, "g") == 1, "an abstract Unix socket listens again", "errno %d", errno);
  close(un);
  close(abstract);
  close(fresh);

  int ends[2];
  socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
  fcntl(ends[0], F_SETFD, FD_CLOEXEC);
  snprintf(pair, sizeof pair, "%d=%d", descriptor, ends[1]);
  code = restart_with("--fd", pair);
  close(ends[1]);
  tap_is(code == 0 ? ask(ends[0], "g") : -4, 1, "--fd: a substituted socket reads the old number");
  tap_is(code == 0 ? ask(ends[0], "s4") : -4, 4, "--fd: and goes on");
  close(ends[0]);
  target_end(&t);
}

static void port_taken(void) {
  if (!start_server()) return;
  if (checkpointed("port taken")) {
    char text[16];
    slurp(path("port"), text, sizeof text);
    int port = atoi(text), s = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    target_kill(&t);
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    int bound = bind(s, (struct sockaddr *)&at, sizeof at) || listen(s, 1);
    snprintf(text, sizeof text, "%d", port);
    int code = restart_with(NULL, NULL);
    tap(!bound && (code == 3 || code == 4) && strstr(r.err, text), "a port that is taken is refused by name", "%s",
        why_not(&r));
    tap(kill(t.pid, 0) != 0, "and no process is left either", "process %d exists", t.pid);
    code = restart_with("--dead-sockets", NULL);
    tap(code == 0 && strstr(r.err, text), "--dead-sockets: does without it, and says so by name", "%s", why_not(&r));
    int un = code ? -1 : connect_unix(path("socket"), false);
    tap(ask(un, "g") == 0, "--dead-sockets: the others listen", "errno %d", errno);
    close(un);
    close(s);
    code = restart_with(NULL, NULL);
    int fresh = connect_tcp();
    tap(code == 0 && ask(fresh, "g") == 0, "and bound again when it is free", "%s", why_not(&r));
    close(fresh);
  }
  target_end(&t);
}

static void tls_keys_since(void) {
  if (!target_start(&t, scenario_named(scenarios, "keys given since"))) return;
  char text[64] = "";
  if (checkpointed("keys of TLS in the kernel") && !target_op(&t, OP_MUTATE)) {
    if (slurp("/proc/net/tls_stat", text, sizeof text) == 0) {
      tap_skip("keys of TLS in the kernel", "this kernel has none");
    } else {
      int code = target_pause(&t, &r);
      tap(code == 3 && strstr(r.err, "TLS"), "keys given since the checkpoint: refused by name", "%s", why_not(&r));
      tap(target_alive(&t), "and the process runs on", "it has ended");
      const char *argv[] = {"cr_pause", "--dead-sockets", pid_text(t.pid), t.image, NULL};
      code = run(&r, argv);
      const char *why = code ? NULL : target_op(&t, OP_CHECK);
      tap(code == 0 && !why, "--dead-sockets: given back dead", "%s %s", why_not(&r), why ? why : "");
    }
  }
  target_end(&t);
}

static const struct test tests[] = {{"kernel TLS", tls_keys_since},
                                    {"pause keeps", pause_keeps},
                                    {"closed since", closed_since},
                                    {"connected restart", connected_restart},
                                    {"other network", other_network},
                                    {"port taken", port_taken},
                                    {}};

int main(int argc, char **argv) { return harness_main(argc, argv, scenarios, tests); }
