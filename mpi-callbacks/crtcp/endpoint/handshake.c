/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The words of a handshake: see handshake.h. */
#include "endpoint/handshake.h"

#include <errno.h>
#include <sodium.h>
#include <stddef.h>
#include <string.h>
#include <sys/random.h>

_Static_assert(CRTCP_SEAL == crypto_auth_hmacsha256_BYTES, "a seal is an HMAC-SHA-256");
_Static_assert(CRTCP_COOKIE == crypto_auth_hmacsha256_KEYBYTES, "a cookie is a key of HMAC-SHA-256");
_Static_assert(sizeof(struct crtcp_hello) == offsetof(struct crtcp_hello, seal) + CRTCP_SEAL, "the seal is last");

static void seal_word(const struct crtcp_hello *word, const uint8_t *key, const uint8_t before[CRTCP_SEAL],
                      uint8_t seal[CRTCP_SEAL])
{
  crypto_auth_hmacsha256_state state;

  crypto_auth_hmacsha256_init(&state, key, CRTCP_COOKIE);
  crypto_auth_hmacsha256_update(&state, before, CRTCP_SEAL);
  crypto_auth_hmacsha256_update(&state, (const uint8_t *) word, offsetof(struct crtcp_hello, seal));
  crypto_auth_hmacsha256_final(&state, seal);
}

bool crtcp_handshake_begin(int fd, bool accepting, uint8_t seal[CRTCP_SEAL])
{
  struct sockaddr_storage name = {0};
  const struct sockaddr_in *v4 = (const struct sockaddr_in *) &name;
  const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *) &name;
  socklen_t length = sizeof name;

  if ((accepting ? getsockname : getpeername)(fd, (struct sockaddr *) &name, &length)) return false;
  memset(seal, 0, CRTCP_SEAL);
  /* Not the scope of a link-local address: it is a number of the node. */
  if (name.ss_family == AF_INET) {
    memcpy(seal, &v4->sin_port, sizeof v4->sin_port);
    memcpy(seal + sizeof v4->sin_port, &v4->sin_addr, sizeof v4->sin_addr);
  } else {
    memcpy(seal, &v6->sin6_port, sizeof v6->sin6_port);
    memcpy(seal + sizeof v6->sin6_port, &v6->sin6_addr, sizeof v6->sin6_addr);
  }
  return true;
}

bool crtcp_say_word(int fd, const crtcp_endpoint_t *to, enum crtcp_word word, uint32_t reason, const uint8_t *key,
                    uint8_t seal[CRTCP_SEAL])
{
  struct crtcp_hello hello = {
      .word = word,
      .reason = reason,
      .jobid = OPAL_PROC_MY_NAME.jobid,
      .vpid = OPAL_PROC_MY_NAME.vpid,
      .to_jobid = to ? to->name.jobid : 0,
      .to_vpid = to ? to->name.vpid : 0,
      .recovery = crtcp.recovery,
      .incarnation = crtcp.incarnation,
      .wave = crtcp.wave,
      .sent = to ? to->sent : 0,
      .received = to ? to->received : 0,
  };

  memcpy(hello.magic, CRTCP_MAGIC, sizeof hello.magic);
  if (getrandom(hello.nonce, sizeof hello.nonce, 0) != sizeof hello.nonce) return false;
  if (key) {
    seal_word(&hello, key, seal, hello.seal);
    memcpy(seal, hello.seal, CRTCP_SEAL);
  }
  /* These are the first bytes on a connection, so they fit into the send buffer. */
  return send(fd, &hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello;
}

int crtcp_read_word(int fd, struct crtcp_hello *word, size_t *got)
{
  while (*got < sizeof *word) {
    const ssize_t n = recv(fd, (char *) word + *got, sizeof *word - *got, 0);

    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return 0;
    if (n == 0) errno = ECONNRESET;
    if (n <= 0) return -1;
    *got += n;
  }
  if (memcmp(word->magic, CRTCP_MAGIC, sizeof word->magic)) {
    errno = EPROTO;
    return -1;
  }
  return 1;
}

bool crtcp_genuine(const struct crtcp_hello *word, const uint8_t *key, uint8_t seal[CRTCP_SEAL])
{
  uint8_t expected[CRTCP_SEAL];

  seal_word(word, key, seal, expected);
  if (sodium_memcmp(expected, word->seal, CRTCP_SEAL)) return false;
  if (word->to_jobid != OPAL_PROC_MY_NAME.jobid || word->to_vpid != OPAL_PROC_MY_NAME.vpid) return false;
  memcpy(seal, word->seal, CRTCP_SEAL);
  return true;
}
