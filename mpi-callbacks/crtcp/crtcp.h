/* SPDX-License-Identifier: LGPL-2.1-or-later */
/**
 * @file
 * @brief crtcp, a byte transfer layer for Open MPI whose connections can be quiesced, rolled back and made anew.
 *
 * One TCP connection per peer. Everything below is guarded by crtcp.lock unless it says otherwise. Upcalls into Open
 * MPI are made without the lock and only by threads that called into Open MPI, never by libcr's callback thread.
 */
#ifndef CRTCP_H
#define CRTCP_H 1

#include "opal_config.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "opal/class/opal_free_list.h"
#include "opal/class/opal_list.h"
#include "opal/mca/btl/base/base.h"
#include "opal/mca/btl/btl.h"
#include "opal/util/proc.h"

#define CRTCP_COOKIE 32
#define CRTCP_NONCE 32
/** Bytes of a put that go behind one header: between two of them a wave may come. */
#define CRTCP_PUT_CHUNK (1u << 20)
/** Bytes read at once when it is not known what comes: what of them belongs to a put is copied once more, from the cache. */
#define CRTCP_SCRATCH (32u << 10)

/* ------------------------------------------------------------------------------------------ on the wire */

enum crtcp_kind {
  CRTCP_SEND = 0x51, /**< `length` bytes for the receiver of `tag` */
  CRTCP_PUT, /**< `length` bytes to be put at `value` */
  CRTCP_MARK, /**< all that follows was sent after wave `value` was taken */
  CRTCP_FIN, /**< the sender closes in good order */
};

/** Before every message. Both sides are of one byte order: images do not travel between kinds of machines either. */
struct crtcp_header {
  uint8_t kind;
  uint8_t tag;
  uint16_t reserved;
  uint32_t length;
  uint64_t value;
};

enum crtcp_word {
  CRTCP_HELLO = 0x68656c6f, /**< who connects */
  CRTCP_ACK = 0x61636b21, /**< the other: agreed */
  CRTCP_READY = 0x72656479, /**< who connects: the connection counts */
  CRTCP_REFUSE = 0x6e6f2121, /**< the other: `reason` */
};

enum crtcp_refusal {
  CRTCP_CROSSED = 1, /**< both connect: mine holds */
  CRTCP_BEHIND, /**< a wave or recovery that you have not seen yet: come again */
  CRTCP_GAP, /**< messages were lost between us: only going back to a wave helps */
  CRTCP_STRANGER, /**< cookie or incarnation are wrong */
};

#define CRTCP_MAGIC "crtcp\0\0\1"

/** Handshake: sent by both sides before anything else. */
struct crtcp_hello {
  char magic[8];
  uint8_t cookie[CRTCP_COOKIE]; /**< of the one it is sent to */
  uint32_t word; /**< enum crtcp_word */
  uint32_t reason; /**< enum crtcp_refusal */
  uint32_t jobid, vpid; /**< of the sender */
  uint32_t recovery, incarnation, wave, reserved;
  uint64_t sent, received; /**< messages between the two so far: a gap shows here */
};

/* ------------------------------------------------------------------------------------------- addresses */

struct crtcp_address {
  struct sockaddr_storage name;
  socklen_t length;
  int score; /**< how near it seems; higher is tried sooner */
};

/** Interfaces of this node that may be used, as strings "1.2.3.4:PORT", "[::1]:PORT".
 * @return number of strings, each ended by 0, in *text (to be freed) of *bytes; -1 without memory */
int crtcp_local_addresses(uint16_t port4, uint16_t port6, char **text, size_t *bytes);
/** Addresses out of `count` strings, the nearest first. @return how many could be read */
int crtcp_parse_addresses(const char *text, size_t bytes, unsigned count, struct crtcp_address **out);
/** An address as text, for messages; in a static buffer per thread. */
const char *crtcp_address_text(const struct sockaddr *name);

/* -------------------------------------------------------------------------------------------- messages */

/** Something to be sent: a descriptor of Open MPI's and where its writing stands. */
struct crtcp_fragment {
  mca_btl_base_descriptor_t base;
  mca_btl_base_segment_t segments[2];
  struct mca_btl_base_endpoint_t *endpoint;
  struct crtcp_header header;
  struct iovec vec[3];
  struct iovec *at;
  int vecs;
  int status; /**< for its callback */
  size_t size; /**< bytes behind the structure */
  opal_free_list_t *list; /**< where it came from */
  /* of a put */
  uint8_t *put_from;
  uint64_t put_to;
  size_t put_left; /**< not yet in `vec` */
  mca_btl_base_rdma_completion_fn_t put_done;
  void *put_local, *put_context, *put_data;
};
typedef struct crtcp_fragment crtcp_fragment_t;
OBJ_CLASS_DECLARATION(crtcp_fragment_t);

/** A message that came in while the transport was held: given to Open MPI by the next thread that progresses. */
struct crtcp_letter {
  opal_list_item_t super;
  struct mca_btl_base_endpoint_t *endpoint;
  uint32_t length;
  uint8_t tag;
  uint8_t bytes[];
};

/* ------------------------------------------------------------------------------------------- endpoints */

enum crtcp_state {
  CRTCP_IDLE, /**< no connection, none wanted */
  CRTCP_CONNECTING, /**< connect() is under way */
  CRTCP_ASKED, /**< HELLO is sent, ACK awaited */
  CRTCP_ANSWERED, /**< ACK is sent, READY awaited */
  CRTCP_CONNECTED,
  CRTCP_LOST, /**< the connection broke: suspended. Tried again from time to time */
  CRTCP_FAILED, /**< without crd: given up, Open MPI was told */
};

enum crtcp_watch { CRTCP_WATCH_LISTEN, CRTCP_WATCH_GUEST, CRTCP_WATCH_ENDPOINT, CRTCP_WATCH_CHANNEL };

/** A peer. Its first member says to epoll's user what it is. */
struct mca_btl_base_endpoint_t {
  enum crtcp_watch watch;
  opal_list_item_t super; /**< in crtcp.endpoints */
  opal_proc_t *proc;
  opal_process_name_t name;
  enum crtcp_state state;
  int fd;
  uint32_t events; /**< what epoll watches */
  uint32_t incarnation;
  uint8_t cookie[CRTCP_COOKIE]; /**< to be shown to it */
  struct crtcp_address *addresses;
  int address_count, address_next;
  int attempts; /**< without success */
  uint64_t retry_ns; /**< when to try again; 0: no such plan */
  uint64_t deadline_ns; /**< of a handshake */
  struct crtcp_hello word; /**< being received */
  size_t word_got;
  bool broken; /**< it was connected, and what was under way may be lost */
  bool gap; /**< messages were lost: nothing but a recovery helps */
  bool tell; /**< Open MPI is to be told that it failed */

  /* sending */
  opal_list_t queue; /**< fragments; the first may be partly written */
  uint64_t sent, received; /**< messages, see crtcp_hello */
  struct crtcp_header mark; /**< MARK to be written by the quiescing thread */
  size_t mark_left;

  /* receiving */
  const uint8_t *rest; /**< read but not looked at; of the scratch buffer, or of `owned` */
  size_t rest_length;
  uint8_t *owned; /**< what `rest` points into, when it is not the scratch buffer */
  uint8_t *part; /**< beginning of a message that has not come completely */
  size_t part_length, part_room;
  uint8_t *put_to; /**< within the data of a put */
  size_t put_left;
  uint32_t reader; /**< changes when somebody else took over the receiving */
  bool shut; /**< a MARK was read: what follows waits for the end of the wave */
  uint32_t mark_wave;
  bool done; /**< for the quiescing and discarding loops */
  size_t nonce_sent;
};
typedef struct mca_btl_base_endpoint_t crtcp_endpoint_t;

/** Somebody who was accepted and has not said who he is, or has to wait. */
struct crtcp_guest {
  enum crtcp_watch watch;
  opal_list_item_t super;
  int fd;
  bool gone; /**< to be freed when no event can name it any more */
  uint64_t deadline_ns;
  struct crtcp_hello word;
  size_t got;
  char from[80];
};
typedef struct crtcp_guest crtcp_guest_t;

/* ------------------------------------------------------------------------------------------- component */

struct crtcp_channel; /* channel.c */

struct crtcp_component {
  mca_btl_base_component_3_0_0_t super;

  /* parameters */
  char *if_include, *if_exclude;
  int free_list_num, free_list_max, free_list_inc;
  int sndbuf, rcvbuf;
  int keepalive_s, user_timeout_ms, handshake_ms;
  int spin; /**< polls without an event before a rank waits for the network; 0: it never does */

  pthread_mutex_t lock; /**< guards all that follows, endpoints and guests included */
  atomic_uint hold; /**< 1: nothing is read or sent, sends are queued. A futex: written under the lock, read without it too */
  bool holding; /**< the callback thread reads: messages go to the inbox */
  bool progressing; /**< a thread is in crtcp_progress(): there is one at a time */
  bool open; /**< between init and finalize */
  uint32_t turn; /**< changes in a rollback: events that were fetched before it name what is gone */
  int epoll;
  int listener4, listener6;
  enum crtcp_watch watch_listener4, watch_listener6, watch_channel;
  uint16_t port4, port6;
  uint8_t *scratch; /**< of the progressing thread */
  opal_list_t endpoints, guests, graveyard;
  uint64_t alarm_ns; /**< when crtcp_clock() has something to do; 0: never */
  opal_list_t inbox; /**< letters */
  opal_list_t finished; /**< fragments whose callback is due */
  int failures; /**< endpoints that Open MPI is to be told of */
  bool reconsider; /**< guests that wait may be answerable now */
  opal_free_list_t eager, full, user;
  mca_btl_base_module_error_cb_fn_t error_callback;

  uint8_t cookie[CRTCP_COOKIE]; /**< to be shown to us */
  bool calm; /**< a node is silent: who waits for messages leaves its processor to others */
  bool crowded; /**< `spin` is the daemon's, and Open MPI yields when it is idle */
  int spin_before; /**< of before */
  bool yield_before;
  uint32_t recovery, incarnation, wave; /**< wave: the last one that is over for this process */
  struct crtcp_channel *channel; /**< to crd; NULL: none, a plain transport */
};
extern struct crtcp_component mca_btl_crtcp_component;
extern mca_btl_base_module_t crtcp_module;
#define crtcp mca_btl_crtcp_component

static inline bool crtcp_with_daemon(void)
{
  return crtcp.channel != NULL;
}

/** A peer of another namespace: a process that the job has spawned, or, to such a one, a rank of the job. No wave is taken
 * while there are such processes, and none of them is ever restarted. */
static inline bool crtcp_foreign(uint32_t jobid)
{
  return jobid != OPAL_PROC_MY_NAME.jobid;
}

uint64_t crtcp_now(void);
/** A line on stderr through Open MPI, with our name before it. */
void crtcp_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** The same, seen with --mca btl_base_verbose 10. */
void crtcp_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* module.c */
mca_btl_base_descriptor_t *crtcp_alloc(mca_btl_base_module_t *, crtcp_endpoint_t *, uint8_t, size_t, uint32_t);
int crtcp_fragment_init(opal_free_list_item_t *item, void *list); /**< for opal_free_list_init() */
void crtcp_fragment_finish(crtcp_fragment_t *fragment); /**< callback and return; without the lock */
crtcp_endpoint_t *crtcp_find(uint32_t jobid, uint32_t vpid);
crtcp_endpoint_t *crtcp_find_or_make(uint32_t jobid, uint32_t vpid); /**< may let go of the lock meanwhile */
void crtcp_endpoint_forget_receiving(crtcp_endpoint_t *endpoint); /**< drops what was read and not delivered */

/* send.c */
int crtcp_send(mca_btl_base_module_t *, crtcp_endpoint_t *, mca_btl_base_descriptor_t *, mca_btl_base_tag_t);
int crtcp_sendi(mca_btl_base_module_t *, crtcp_endpoint_t *, struct opal_convertor_t *, void *, size_t, size_t, uint8_t,
                uint32_t, mca_btl_base_tag_t, mca_btl_base_descriptor_t **);
int crtcp_put(mca_btl_base_module_t *, crtcp_endpoint_t *, void *, uint64_t, mca_btl_base_registration_handle_t *,
              mca_btl_base_registration_handle_t *, size_t, int, int, mca_btl_base_rdma_completion_fn_t, void *,
              void *);
/** Write what is queued as far as the socket takes it; finished ones go to crtcp.finished.
 * @return false when the connection broke (and was handled) */
bool crtcp_write_queue(crtcp_endpoint_t *endpoint);
/** Only what is needed to end at the end of a message. @return 1 done, 0 not yet, -1 broken */
int crtcp_write_current(crtcp_endpoint_t *endpoint);
/** Let a message that was partly written begin anew on another connection. */
void crtcp_rewind(crtcp_endpoint_t *endpoint);

/* receive.c */
/** Read once and deliver what is complete. @return messages, -1 when the connection broke (and was handled) */
int crtcp_read(crtcp_endpoint_t *endpoint, uint8_t *scratch);
/** Look at what was read before. @return as crtcp_read() */
int crtcp_parse(crtcp_endpoint_t *endpoint);
/** The quiescing thread takes over what a thread in an upcall has not looked at. */
int crtcp_take_over(crtcp_endpoint_t *endpoint);

/* progress.c */
int crtcp_progress(void);
int crtcp_epoll_make(void); /**< a new set with all that is open, on the number of the old one. @return 0 or -1 */
void crtcp_watch_set(int fd, uint32_t *now, uint32_t wanted, void *who);
void crtcp_watch_endpoint(crtcp_endpoint_t *endpoint);

/* connect.c */
int crtcp_listen(void);
void crtcp_connect(crtcp_endpoint_t *endpoint); /**< begin, unless it is under way */
void crtcp_handshake_event(crtcp_endpoint_t *endpoint, uint32_t events);
void crtcp_accept_event(int listener);
void crtcp_guest_event(crtcp_guest_t *guest);
/** A connection is over. @param error errno, 0: end of file; tells crd or Open MPI unless `expected` */
void crtcp_lost(crtcp_endpoint_t *endpoint, int error, const char *doing);
void crtcp_close_endpoint(crtcp_endpoint_t *endpoint); /**< quietly: state IDLE, receiving state dropped, queue kept */
void crtcp_fin(crtcp_endpoint_t *endpoint); /**< say FIN and close */
void crtcp_clock(uint64_t now); /**< deadlines and retries */
void crtcp_alarm(uint64_t when); /**< have crtcp_clock() called then */
void crtcp_close_guests(void);

/* channel.c */
/** With CR_RANK_SOCKET: connect, say HELLO, hear WELCOME. @param why set when checkpoints are off
 * @return 0, or -1: there should be a daemon, and there is none */
int crtcp_channel_open(const char **why);
void crtcp_channel_event(void); /**< something can be read while nothing is going on */
void crtcp_channel_lost(const crtcp_endpoint_t *peer, int error, const char *why);
void crtcp_channel_log(const char *text);
int crtcp_channel_fd(void);

/* hold.c */
/** A wave is over, taken or not: what its marks held back goes on. */
void crtcp_wave_over(uint32_t wave);
void crtcp_hold_wait(void); /**< without the lock: until it may be over */
int crtcp_hold_register(const char **why); /**< callbacks with libcr. @return 0, or -1 and why checkpoints are off */

#endif
