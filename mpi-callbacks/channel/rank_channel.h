/* SPDX-License-Identifier: LGPL-2.1-or-later */
/**
 * @file
 * @brief The messages between a rank (its transport, crtcp) and the daemon of its node (crd).
 *
 * The channel is a Unix socket of type SOCK_SEQPACKET. A message is one packet of at most CR_RANK_MAX bytes and begins
 * with struct cr_rank_message. Fields have the machine's byte order, because messages never leave the node. The daemon
 * listens at the path in the variable CR_RANK_SOCKET. The path is the same on every node of a job, so that a rank that
 * has moved finds its new daemon. The first message on a connection is CR_RANK_HELLO, or CR_RANK_RESTORED after a
 * rollback. The daemon uses the newest connection of a rank and closes older ones without a message. Both sides check
 * each other's uid by SO_PEERCRED.
 *
 * A rank reads during its initialisation, in its libcr callback and after a rollback. It reads ABORT, CALM, LANES,
 * GONE, PINNED, STAY and KEPT_COPIED whenever it makes progress in MPI; its guard does, too, while no thread does. Every message
 * of the daemon has the number of its recovery. A rank drops messages of an older recovery than its own.
 *
 * A recovery may take back other namespaces only. The daemon then sends STAY instead of rolling the rank back, and for the
 * end of the recovery PEERS of these namespaces and RESUME, which have no answer.
 *
 * When a wave is given up, the daemon sends CR_RANK_ABORT to every rank of its node. This includes ranks that got no
 * CR_RANK_PREPARE: a peer's mark keeps their connection shut until they learn how the wave ended. Wave numbers only
 * increase, also over recoveries.
 */
#ifndef REPRISE_RANK_CHANNEL_H
#define REPRISE_RANK_CHANNEL_H 1

#include <stdint.h>

#define CR_RANK_SOCKET_VARIABLE "CR_RANK_SOCKET"
/** Maximum bytes of a message; longer tables are split into several messages. */
#define CR_RANK_MAX 65536
#define CR_RANK_PROTOCOL 8

enum cr_rank_type {
	/** rank: its identity and its listening addresses. struct cr_rank_hello, then its address strings */
	CR_RANK_HELLO = 1,
	/** daemon: answer to HELLO. struct cr_rank_welcome */
	CR_RANK_WELCOME,
	/** daemon: it will request a checkpoint of the rank for wave N. struct cr_rank_wave, then the names of the other
	 * namespaces whose processes take part, each ended by 0 */
	CR_RANK_PREPARE,
	/** daemon: wave N is given up: continue. struct cr_rank_wave */
	CR_RANK_ABORT,
	/** rank: the checkpoint was taken or refused. struct cr_rank_prepared, then a text if refused */
	CR_RANK_PREPARED,
	/** rank: first message after a pause or restart; the rank waits now. struct cr_rank_restored, then addresses */
	CR_RANK_RESTORED,
	/** daemon: with a descriptor (SCM_RIGHTS), a new connection to the PMIx server, which replaces the old one */
	CR_RANK_PMIX,
	/** rank: the connection to the PMIx server is replaced. No further fields */
	CR_RANK_PMIX_DONE,
	/** daemon: addresses of ranks of one namespace. struct cr_rank_peers, the namespace, then entries. Any number of
	 * messages before RESUME */
	CR_RANK_PEERS,
	/** daemon: all ranks are restored: continue. struct cr_rank_resume */
	CR_RANK_RESUME,
	/** rank: it has continued. struct cr_rank_resumed */
	CR_RANK_RESUMED,
	/** rank, any time: the connection to a peer was lost, or none can be made; repeated while that is so. struct cr_rank_lost, then a text */
	CR_RANK_LOST,
	/** rank, any time: a message for the log. The text follows the header */
	CR_RANK_LOG,
	/** daemon, between waves: a node is silent; leave the processors to the preparation of a recovery. struct
	 * cr_rank_calm */
	CR_RANK_CALM,
	/** daemon: ranks of one namespace whose processes are new: close the connections to them. struct cr_rank_moved, the
	 * namespace, then `count` ranks as uint32_t. Any number of messages before RESUME */
	CR_RANK_MOVED,
	/** daemon: with a descriptor (SCM_RIGHTS), the memory that the node's ranks share: see rank_lanes.h. After WELCOME,
	 * before RESUME, and as the answer to NEED_LANES. No further fields */
	CR_RANK_LANES,
	/** rank: a wave has ended, for which it had unmapped the shared memory. No further fields */
	CR_RANK_NEED_LANES,
	/** rank: after HELLO and RESTORED, where its counters are. struct cr_rank_counters_at */
	CR_RANK_COUNTERS,
	/** daemon, in a job whose program is told of failures: a process has failed and never comes back. struct cr_rank_gone,
	 * then the name of its namespace, ended by 0 */
	CR_RANK_GONE,
	/** rank: it waits for a wave that all ranks of the job ask for, and that recoveries go back to from then on; said again
	 * until PINNED. Or it needs it no more; or the program has made progress since it is back in it. struct
	 * cr_rank_wave_request */
	CR_RANK_WAVE_REQUEST,
	/** daemon: the wave that was asked for is committed, or, with the number 0, there is none for ranks that can do without.
	 * struct cr_rank_wave. After a rollback RESUME says so */
	CR_RANK_PINNED,
	/** daemon: a recovery begins in which the rank stays, and other namespaces go back to a wave. struct cr_rank_wave, then
	 * the names of these namespaces, each ended by 0 */
	CR_RANK_STAY,
	/** rank: the answer to STAY. If it can stay, it has closed its connections to these namespaces, and sends them nothing
	 * until RESUME. struct cr_rank_stays, then a text if it cannot */
	CR_RANK_STAYS,
	/** rank: it waits until another node has what its kept memory has now; said again until KEPT_COPIED. struct
	 * cr_rank_copy_kept, then the name of the memory */
	CR_RANK_COPY_KEPT,
	/** daemon: that is so, or cannot be. struct cr_rank_kept_copied, then a text if it cannot */
	CR_RANK_KEPT_COPIED,
};

struct cr_rank_message {
	uint32_t type; /**< enum cr_rank_type */
	uint32_t length; /**< bytes of the whole message */
	uint32_t rank; /**< the sender, or the receiver if the daemon sends */
	uint32_t recovery; /**< number of the sender's recovery */
};

struct cr_rank_hello {
	struct cr_rank_message head;
	uint32_t protocol; /**< CR_RANK_PROTOCOL */
	int32_t pid;
	uint32_t can_checkpoint; /**< 1: libcr is ready; 0: a LOG message has the reason */
	uint32_t addresses; /**< number of strings "1.2.3.4:5" that follow, each ended by 0 */
};

struct cr_rank_welcome {
	struct cr_rank_message head;
	uint8_t cookie[32]; /**< secret of the job: the key of the seals between ranks; never sent between them */
	uint32_t node; /**< number of this node in the job */
	uint32_t wave; /**< newest wave that had ended when the rank was started: its peers know it, too */
	uint32_t no_waves; /**< enum cr_rank_no_waves */
	uint32_t reserved;
};

enum cr_rank_no_waves {
	CR_RANK_WAVES, /**< waves are taken in this job */
	CR_RANK_NO_MODULE, /**< none are: the module is missing on a node */
	CR_RANK_TELLS_FAILURES, /**< none are: the program is told of failures instead */
};

struct cr_rank_wave {
	struct cr_rank_message head;
	uint32_t wave;
	uint32_t timeout_ms; /**< for quiescing */
};

struct cr_rank_stays {
	struct cr_rank_message head;
	uint32_t of; /**< the recovery of the STAY */
	uint32_t can; /**< 1: nothing has crossed since the wave between the rank and these namespaces; 0: a text follows */
};

enum cr_rank_prepared_state {
	CR_RANK_TAKEN, /**< the checkpoint was taken and is valid */
	CR_RANK_AGAIN, /**< not possible now, as within MPI_Init, MPI_Finalize or a PMIx call; a text follows */
	CR_RANK_UNABLE, /**< not possible at all; a text follows */
};

struct cr_rank_prepared {
	struct cr_rank_message head;
	uint32_t wave;
	uint32_t state; /**< enum cr_rank_prepared_state */
	uint64_t quiesce_ns; /**< time until all connections were empty */
	uint32_t connections;
	uint32_t reserved;
};

struct cr_rank_restored {
	struct cr_rank_message head;
	uint32_t wave; /**< wave of the image that was restored */
	int32_t pid;
	uint32_t restarted; /**< 1: restarted; 0: paused in place */
	uint32_t pmix_stale; /**< 1: CR_RANK_PMIX is needed, because the PMIx connection has carried data since the image, or
	                        because a restarted rank has no working one */
	uint32_t addresses; /**< as in cr_rank_hello; a restarted rank has new listening sockets */
	uint32_t reserved;
};

/** An entry of CR_RANK_PEERS, followed by `addresses` strings each ended by 0; entries are aligned to 4 bytes. */
struct cr_rank_peer {
	uint32_t rank;
	uint32_t incarnation;
	uint16_t addresses;
	uint16_t length; /**< bytes of the entry, padding included */
};

struct cr_rank_peers {
	struct cr_rank_message head;
	uint32_t entries;
	uint32_t nspace; /**< bytes of the namespace's name that follows, a multiple of 4, ended and padded by 0;
	                    0: it is the receiver's own, and no name follows */
};

struct cr_rank_resume {
	struct cr_rank_message head;
	uint8_t nonce[32];
	uint32_t node; /**< as in cr_rank_welcome: a restarted rank may be on another one */
	uint32_t spin; /**< on a node with more ranks than processors: polls before a rank waits; 0: as it was started */
	uint32_t pinned; /**< the rank is back in this wave, which it has asked for by WAVE_REQUEST; 0: in another one */
	uint32_t lost; /**< with `pinned`, 1: its process, or its node, was lost, and not only replaced in the recovery */
};

struct cr_rank_wave_request {
	struct cr_rank_message head;
	uint32_t release; /**< 1: it needs the wave no more */
	uint32_t progress; /**< 1: the program has stored something itself, from which it goes on when it is back in the wave again */
	uint32_t or_none; /**< 1: the rank goes on without the wave if none can be taken for some time */
	uint32_t reserved;
};

struct cr_rank_copy_kept {
	struct cr_rank_message head;
	uint64_t id; /**< of the request: never given again, also after a rollback */
	int32_t pid;
	int32_t fd; /**< descriptor of the process, of the memory */
};

struct cr_rank_kept_copied {
	struct cr_rank_message head;
	uint64_t id; /**< of the request */
	int32_t status; /**< 0; errno: EOPNOTSUPP: the nodes of this job keep no copies; EHOSTUNREACH: none can now; other: it
	                   cannot be copied */
	uint32_t reserved;
};

struct cr_rank_moved {
	struct cr_rank_message head;
	uint32_t count;
	uint32_t nspace; /**< as in cr_rank_peers */
};

struct cr_rank_resumed {
	struct cr_rank_message head;
	uint64_t discarded_bytes;
	uint32_t kept; /**< connections that stayed open */
	uint32_t closed; /**< connections to ranks that moved */
};

struct cr_rank_calm {
	struct cr_rank_message head;
	uint32_t on; /**< 1: block while waiting for messages; 0: poll as before. A rollback resets it to 0 */
	uint32_t reserved;
};

struct cr_rank_gone {
	struct cr_rank_message head;
	uint32_t peer; /**< its rank in the namespace */
	uint32_t reserved;
};

/** In CR_RANK_COUNTERS. */
struct cr_rank_counters_at {
	struct cr_rank_message head;
	int32_t pid;
	uint32_t reserved;
	uint64_t address; /**< of a struct cr_rank_counters in the process */
};

#define CR_RANK_COUNTERS_MAGIC 0x73746e756f637263ull

/**
 * What a rank has done, in memory of its own. The daemon reads it there (process_vm_readv), and needs no answer: a rank that
 * computes gives none. It is the same memory after a rollback, with older values.
 */
struct cr_rank_counters {
	uint64_t magic; /**< CR_RANK_COUNTERS_MAGIC */
	uint64_t moved; /**< how often bytes of messages were written or read */
	uint64_t waited_ns; /**< CPU time of threads that have found nothing to do in the transport again and again */
};

struct cr_rank_lost {
	struct cr_rank_message head;
	uint32_t peer; /**< UINT32_MAX: none, or a process of another namespace */
	int32_t error; /**< errno; 0: end of file; ENODATA: messages between the two are lost, which needs a recovery; EMFILE:
	                  no descriptors are left */
};

#endif
