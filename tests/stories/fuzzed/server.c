// SPDX-License-Identifier: GPL-2.0-only
// A server with threads: the first one accepts connections, three others serve them. Each answers lines such as "set a 1"
// and "get a". It aborts on "set ! …" unless it has a second argument, and how it answers depends on what it has served before.
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WORKERS = 3 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t some = PTHREAD_COND_INITIALIZER, room = PTHREAD_COND_INITIALIZER;
static int waiting = -1;  // a connection that nobody serves yet
static char *values[256];
static long served;
static int tame;

static void serve(int connection) {
  char line[128];
  FILE *in = fdopen(dup(connection), "r");
  while (in && fgets(line, sizeof line, in)) {
    char key, value[100];
    if (sscanf(line, "set %c %99s", &key, value) == 2) {
      if (key == '!' && !tame) abort();
      free(values[(unsigned char)key]);
      values[(unsigned char)key] = strdup(value);
    } else if (sscanf(line, "get %c", &key) == 1) {
      const char *found = values[(unsigned char)key];
      dprintf(connection, "%s\n", found ? found : "none");
    } else {
      dprintf(connection, "what?\n");
    }
    if (served > 0) dprintf(connection, "and not the first\n");
  }
  served++;
  if (in) fclose(in);
  close(connection);
}

static void *worker(void *unused) {
  (void)unused;
  for (;;) {
    pthread_mutex_lock(&lock);
    while (waiting < 0) pthread_cond_wait(&some, &lock);
    const int mine = waiting;
    waiting = -1;
    pthread_cond_signal(&room);
    pthread_mutex_unlock(&lock);
    serve(mine);
  }
  return NULL;
}

int main(int argc, char **argv) {
  tame = argc > 2;
  const struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons((unsigned short)(argc > 1 ? atoi(argv[1]) : 7777)), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  const int server = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(server, (const struct sockaddr *)&address, sizeof address) || listen(server, 10)) return 1;
  for (int i = 0; i < WORKERS; i++) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, worker, NULL)) return 1;
  }
  for (;;) {
    const int connection = accept(server, NULL, NULL);
    if (connection < 0) return 1;
    pthread_mutex_lock(&lock);
    while (waiting >= 0) pthread_cond_wait(&room, &lock);
    waiting = connection;
    pthread_cond_signal(&some);
    pthread_mutex_unlock(&lock);
  }
}
