/* SPDX-License-Identifier: LGPL-2.1-or-later */
/**
 * @file
 * @brief The words of a handshake, and the proof that they come from a process of the job.
 *
 *     connecting rank                                   accepting rank
 *       HELLO   names, recovery, wave, counts, nonce ──>
 *                                          <── ACK      the same, of the accepting rank; or REFUSE, reason
 *       READY ─────────────────────────────────────────>   now it may send, too
 *
 * Every word ends with a seal, HMAC-SHA-256 with the accepting rank's cookie as the key. The cookie itself is never sent
 * between ranks. The seal of HELLO covers the address at which the accepting rank is reached, so that nobody can pass the
 * handshake on from another address. Each further seal covers the seal before it, so that no word can be used again.
 */
#ifndef CRTCP_HANDSHAKE_H
#define CRTCP_HANDSHAKE_H 1

#include "base/crtcp.h"

/** Begin a handshake: set `seal` to what the seal of HELLO covers. @param accepting this is the accepting side
 * @return false with errno */
bool crtcp_handshake_begin(int fd, bool accepting, uint8_t seal[CRTCP_SEAL]);
/**
 * Send a word of the handshake.
 * @param to the peer; NULL: unknown
 * @param key the accepting rank's cookie; NULL: a REFUSE that nobody needs to believe
 * @param seal of the word before; receives the seal of this word
 * @return false with errno
 */
bool crtcp_say_word(int fd, const crtcp_endpoint_t *to, enum crtcp_word word, uint32_t reason, const uint8_t *key,
                    uint8_t seal[CRTCP_SEAL]);
/** Read a word of the handshake. @return 1: complete; 0: not yet; -1 with errno */
int crtcp_read_word(int fd, struct crtcp_hello *word, size_t *got);
/** Does the word come from a process that knows `key`, is it for this rank, and does it follow the word with this `seal`?
 * If so, `seal` becomes that of the word. */
bool crtcp_genuine(const struct crtcp_hello *word, const uint8_t *key, uint8_t seal[CRTCP_SEAL]);

#endif
