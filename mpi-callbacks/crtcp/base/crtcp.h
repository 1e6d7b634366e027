/* SPDX-License-Identifier: LGPL-2.1-or-later */
/**
 * @file
 * @brief crtcp, a byte transfer layer for Open MPI whose connections can be quiesced, rolled back and reconnected.
 *
 * There is one TCP connection per peer. Between ranks of one node it becomes a signal only: messages then go through lanes
 * in shared memory. crtcp.lock protects everything below unless a comment says otherwise. Only
 * threads that called into Open MPI make upcalls into it, without the lock; libcr's callback thread never does.
 */
#ifndef CRTCP_H
#define CRTCP_H 1

#include "opal_config.h"

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "opal/class/opal_free_list.h"
#include "opal/class/opal_hash_table.h"
#include "opal/class/opal_list.h"
#include "opal/mca/btl/base/base.h"
#include "opal/mca/btl/btl.h"
#include "opal/util/proc.h"

#include "base/lock.h"

#define CRTCP_COOKIE 32
#define CRTCP_NONCE 32
#define CRTCP_SEAL 32
/** Bytes of a put behind one header. A wave may come between two chunks. */
#define CRTCP_PUT_CHUNK (1u << 20)
/** Images of which a rank knows what it had exchanged before: of three waves that count, and of one that is being taken. */
#define CRTCP_SAVED 4
/** Bytes of a read when the next message is unknown. Data of a put in it is copied once more, from the cache. */
#define CRTCP_SCRATCH (32u << 10)

/* ------------------------------------------------------------------------------------------ on the wire */

enum crtcp_kind {
  CRTCP_SEND = 0x51, /**< `length` bytes for the receiver of `tag` */
  CRTCP_PUT, /**< `length` bytes to be written at address `value` */
  CRTCP_MARK, /**< all later messages were sent after wave `value` was taken */
  CRTCP_FIN, /**< the sender closes the connection normally */
  CRTCP_LANE, /**< the last message over TCP: the sender goes on in its lane, from position `value` */
};

/** Header of every message. Both sides have the same byte order: images do not move between architectures either. */
struct crtcp_header {
  uint8_t kind;
  uint8_t tag;
  uint16_t lanes; /**< LANE: the id of the shared memory, its lower half */
  uint32_t length;
  uint64_t value;
};

enum crtcp_word {
  CRTCP_HELLO = 0x68656c6f, /**< sent by the connecting side */
  CRTCP_ACK = 0x61636b21, /**< sent by the accepting side: agreed */
  CRTCP_READY = 0x72656479, /**< sent by the connecting side: the connection is in use */
  CRTCP_REFUSE = 0x6e6f2121, /**< sent by the accepting side: refused, see `reason` */
};

enum crtcp_refusal {
  CRTCP_CROSSED = 1, /**< both sides connect at once: the connection of the refusing side is used */
  CRTCP_BEHIND, /**< the refused side has not seen a wave or recovery yet: it must try again */
  CRTCP_GAP, /**< messages between the two were lost: only a recovery helps */
  CRTCP_STRANGER, /**< the seal, recovery or incarnation is wrong */
};

#define CRTCP_MAGIC "crtcp\0\0\2"

/** A word of the handshake, which precedes all messages of a connection: see handshake.h. */
struct crtcp_hello {
  char magic[8];
  uint32_t word; /**< enum crtcp_word */
  uint32_t reason; /**< enum crtcp_refusal */
  uint32_t jobid, vpid; /**< of the sender */
  uint32_t to_jobid, to_vpid; /**< of the receiver */
  uint32_t recovery, incarnation, wave, reserved;
  uint64_t sent, received; /**< messages between the two so far; a difference means that messages were lost */
  uint8_t nonce[CRTCP_NONCE];
  uint8_t seal[CRTCP_SEAL]; /**< HMAC of the handshake up to here */
};

/* ------------------------------------------------------------------------------------------- addresses */

struct crtcp_address {
  struct sockaddr_storage name;
  socklen_t length;
  int score; /**< see score() in address.c; addresses with a higher score are tried earlier */
};

/* -------------------------------------------------------------------------------------------- messages */

/** A message to be sent: a descriptor of Open MPI and the progress of writing it. */
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
  size_t reserve; /**< bytes of Open MPI's header, from crtcp_prepare_src() */
  opal_free_list_t *list; /**< the free list it belongs to */
  const void *comm; /**< while it is queued: of its request, with `sequence`, if it has one that ob1.c knows */
  uint64_t sequence;
  /* the following only for a put */
  uint8_t *put_from;
  uint64_t put_to;
  size_t put_left; /**< bytes not yet in `vec` */
  mca_btl_base_rdma_completion_fn_t put_done;
  void *put_local, *put_context, *put_data;
};
typedef struct crtcp_fragment crtcp_fragment_t;
OBJ_CLASS_DECLARATION(crtcp_fragment_t);

/** A message received while the transport was held. The next thread that progresses gives it to Open MPI. */
struct crtcp_letter {
  opal_list_item_t super;
  struct mca_btl_base_endpoint_t *endpoint;
  uint32_t length;
  uint8_t tag;
  uint8_t bytes[];
};

/* ------------------------------------------------------------------------------------------- endpoints */

enum crtcp_state {
  CRTCP_IDLE, /**< no connection, none needed */
  CRTCP_CONNECTING, /**< connect() is in progress */
  CRTCP_ASKED, /**< HELLO is sent, ACK awaited */
  CRTCP_ANSWERED, /**< ACK is sent, READY awaited */
  CRTCP_CONNECTED,
  CRTCP_LOST, /**< the connection broke or could not be made; crtcp_clock() tries again */
  CRTCP_FAILED, /**< given up for good, reported to Open MPI: lost without crd, or crd says that the peer has failed */
};

struct crtcp_wire; /* wire.h */
struct cr_lane;
struct cr_lanes;
struct cr_lanes_rank;

/** This rank's end of a lane. */
struct crtcp_lane_end {
  struct cr_lane *shared; /**< NULL: the memory is not mapped, or the peer has no part of it */
  uint8_t *data;
  size_t bytes; /**< of the ring, a power of two */
  uint64_t at; /**< own position, which the shared memory has, too */
  uint64_t left; /**< reader: bytes of the record at which it is; 0: at the beginning of one */
  uint64_t other; /**< writer: the reader's position as last seen */
};

enum crtcp_watch { CRTCP_WATCH_LISTEN, CRTCP_WATCH_GUEST, CRTCP_WATCH_ENDPOINT, CRTCP_WATCH_CHANNEL };

/** A peer. epoll events point to this structure; the first member says what the pointer refers to. */
struct mca_btl_base_endpoint_t {
  enum crtcp_watch watch;
  opal_list_item_t super; /**< in crtcp.endpoints */
  opal_proc_t *proc;
  opal_process_name_t name;
  enum crtcp_state state;
  int fd;
  uint32_t events; /**< events that epoll watches */
  uint32_t incarnation;
  uint8_t cookie[CRTCP_COOKIE]; /**< the peer's cookie: the key of a handshake that this rank begins */
  bool located; /**< `addresses` are known: from PMIx or, after the peer has moved, from crd */
  struct crtcp_address *addresses;
  int address_count, address_next;
  int attempts; /**< failed attempts since the last success */
  uint64_t retry_ns; /**< time of the next attempt; 0: none is scheduled */
  uint64_t deadline_ns; /**< deadline of a handshake; 0: none */
  struct crtcp_hello word; /**< word being received */
  size_t word_got;
  uint8_t seal[CRTCP_SEAL]; /**< of the latest word of the handshake */
  uint64_t asked_ns; /**< since when the guard has seen that the peer's host leaves questions unanswered; 0: it does not */
  bool ended; /**< the guard has seen the end of the connection, and has to deal with it */
  uint64_t report_ns; /**< while it cannot be reached: time from which the next failed attempt is reported to crd */
  bool moved; /**< CR_RANK_MOVED named it: its connection ends with the recovery */
  bool broken; /**< it was connected; messages in flight may be lost */
  bool gap; /**< messages were lost: only a recovery helps */
  bool tell; /**< the failure is still to be reported to Open MPI */

  /* wires */
  const struct crtcp_wire *in, *out; /**< of the messages from and to the peer */
  uint32_t met; /**< id of the memory in which its lanes were looked for */
  struct cr_lanes_rank *line; /**< of the peer; NULL: it is on another node, or no memory is mapped */
  struct crtcp_lane_end in_lane, out_lane;

  /* sending */
  opal_list_t queue; /**< fragments; the first may be partly written */
  uint64_t sent, received; /**< messages, see crtcp_hello */
  struct {
    uint64_t sent, received;
  } saved[CRTCP_SAVED]; /**< the same when the images of crtcp.saved were taken */
  struct crtcp_header mark; /**< MARK or LANE that is being written */
  size_t mark_left; /**< bytes of `mark` still to be written; nothing else is written before them */
  bool rewind; /**< the connection was closed: the first fragment of the queue starts from its beginning */
  uint32_t mark_due; /**< wave whose MARK is to be written; 0: none */

  /* receiving */
  const uint8_t *rest; /**< bytes read but not parsed; in the scratch buffer or in `owned` */
  size_t rest_length;
  size_t lent; /**< bytes that the lane has lent for `rest`, and that it has not got back */
  uint8_t *owned; /**< buffer that `rest` points into, unless it is the scratch buffer */
  uint8_t *part; /**< beginning of an incomplete message */
  size_t part_length, part_room;
  uint8_t *put_to; /**< where the next bytes of a put's data go */
  size_t put_left;
  uint32_t reader; /**< changes when another thread takes over the receiving */
  bool shut; /**< a MARK was read: later messages wait for the end of the wave */
  uint32_t mark_wave;

  /* while a wave drains the connections, or a recovery exchanges nonces over them */
  uint32_t awaited; /**< events, see crtcp_wait_for() */
  bool done; /**< the peer's nonce was read */
  size_t nonce_sent;
  size_t tail_length;
  uint8_t tail[CRTCP_NONCE - 1]; /**< the last bytes that were read, in which the nonce may have begun */
};
typedef struct mca_btl_base_endpoint_t crtcp_endpoint_t;

/** An accepted connection whose HELLO is incomplete or cannot be answered yet. */
struct crtcp_guest {
  enum crtcp_watch watch;
  opal_list_item_t super;
  int fd;
  bool gone; /**< dismissed; freed when no fetched event can point to it any more */
  uint64_t deadline_ns;
  struct crtcp_hello word;
  size_t got;
  uint8_t seal[CRTCP_SEAL]; /**< of the handshake: first what it begins with, then that of HELLO */
  bool genuine; /**< HELLO has the right seal */
  char from[80];
};
typedef struct crtcp_guest crtcp_guest_t;

/** Where a peer listens for which there is no endpoint yet. */
struct crtcp_heard {
  opal_list_item_t super;
  uint32_t jobid, vpid;
  uint32_t incarnation;
  struct crtcp_address *addresses;
  int address_count;
};

/* ----------------------------------------------------------------------------------------------- state */

struct crtcp_channel; /* channel.h */

/** The state of the transport. */
struct crtcp {
  mca_btl_base_module_t *module; /**< what Open MPI knows of this transport */

  /* parameters */
  char *if_include, *if_exclude;
  int free_list_num, free_list_max, free_list_inc;
  int sndbuf, rcvbuf;
  int keepalive_s, handshake_ms;
  int spin; /**< polls without an event before a rank blocks; 0: it never blocks */

  struct crtcp_lock lock; /**< protects all that follows, endpoints and guests included */
  bool use_guard; /**< a parameter */
  int guard_epoll; /**< what the guard waits for; -1: there is no guard */
  atomic_bool guard_armed; /**< it has the connections, not only what wakes the guard. Changed under the lock, also read without */
  atomic_uint turns; /**< calls of crtcp_progress(). Changed under the lock, also read without */
  atomic_uint hold; /**< 1: no reads or sends, sends are queued. A futex: changed to 0 under the lock, also read without */
  bool recovering; /**< the rollback thread works: it alone uses the channel, and ends the hold */
  bool holding; /**< the callback thread reads: messages go to the inbox */
  bool progressing; /**< a thread is in crtcp_progress(); only one at a time is */
  bool open; /**< between init and finalize */
  uint32_t turn; /**< changes in a rollback: older fetched events point to freed objects */
  int epoll;
  int listener4, listener6;
  enum crtcp_watch watch_listener4, watch_listener6, watch_channel;
  uint16_t port4, port6;
  uint8_t *scratch; /**< of the progressing thread */

  bool use_lanes; /**< a parameter */
  struct cr_lanes *lanes; /**< the memory that the node's ranks share; NULL: none, or unmapped for a wave */
  size_t lanes_bytes;
  uint32_t lanes_id; /**< of the latest one */
  struct cr_lanes_rank *line; /**< this rank's */
  crtcp_endpoint_t **neighbours; /**< endpoints with lanes */
  int neighbour_count;
  bool asleep; /**< this rank's line says so */
  bool upcall; /**< Open MPI has got bytes in a lane that are not given back yet */

  opal_list_t endpoints, guests, graveyard;
  opal_list_t heard; /**< what crd has said of peers that Open MPI has not mentioned yet */
  opal_hash_table_t by_name; /**< endpoints, by jobid and vpid */
  uint64_t listen_ns; /**< time from which connections are accepted again; 0: they are */
  bool crammed; /**< it was said that no descriptors are left */
  uint64_t alarm_ns; /**< time of the next crtcp_clock(); 0: none */
  opal_list_t inbox; /**< letters */
  opal_list_t finished; /**< fragments whose callback is due */
  opal_list_t unheard; /**< such whose sender cannot be told yet */
  int failures; /**< endpoints whose failure is still to be reported to Open MPI */
  bool reconsider; /**< call reconsider(): read bytes or waiting guests can perhaps be handled now */
  opal_free_list_t eager, full, user;
  mca_btl_base_module_error_cb_fn_t error_callback;

  uint8_t cookie[CRTCP_COOKIE]; /**< this rank's cookie: the key of a handshake that a peer begins */
  bool calm; /**< a node is silent: a thread that waits for messages leaves its processor to others */
  bool crowded; /**< the daemon has set `spin`, and Open MPI yields when it is idle */
  int spin_before; /**< value of `spin` before `crowded` was set */
  bool yield_before; /**< the same for Open MPI's setting */
  uint32_t recovery, incarnation, wave; /**< wave: the latest one that has ended for this process */
  uint32_t back; /**< the recovery that has last taken this process back, or in which it was started. Since then it has stayed */
  uint32_t goodbyes; /**< how often counts of messages with a process of another namespace were dropped */
  struct {
    uint32_t wave, goodbyes;
  } saved[CRTCP_SAVED]; /**< the newest images that were not given up, newest first; wave 0: none */
  uint32_t *held; /**< jobids of namespaces that a recovery takes back while this process stays */
  size_t held_count;
  struct crtcp_channel *channel; /**< to crd; NULL: none, a plain transport */
};
extern struct crtcp crtcp;

static inline bool crtcp_with_daemon(void)
{
  return crtcp.channel != NULL;
}

/** Is the peer of another namespace? It is a process that the job has spawned or, seen from such a process, a rank of
 * the job. */
static inline bool crtcp_foreign(uint32_t jobid)
{
  return jobid != OPAL_PROC_MY_NAME.jobid;
}

enum { MILLISECOND = 1000000 };

/** Nothing may be sent to the processes of this namespace now, or come from them. */
static inline bool crtcp_is_held(uint32_t jobid)
{
  for (size_t i = 0; i < crtcp.held_count; i++)
    if (crtcp.held[i] == jobid) return true;
  return false;
}

/** @return NULL, or in words that this process is not between MPI_Init and MPI_Finalize */
const char *crtcp_outside_of_mpi(void);
uint64_t crtcp_now(void); /**< nanoseconds of CLOCK_MONOTONIC */
/** Print a line on stderr through Open MPI, with the prefix "crtcp, rank N". */
void crtcp_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** The same, but only with --mca btl_base_verbose 10. */
void crtcp_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** A call has failed with this error: can it be tried again, because the soft limit of descriptors was raised? */
bool crtcp_more_descriptors(int error);

#endif
