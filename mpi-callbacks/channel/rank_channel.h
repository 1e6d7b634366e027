/* SPDX-License-Identifier: LGPL-2.1-or-later */
/**
 * @file
 * @brief What a rank (its transport, crtcp) and the daemon of its node (crd) say to each other.
 *
 * A Unix socket of type SOCK_SEQPACKET: a message is one packet, begins with struct cr_rank_message and
 * has at most CR_RANK_MAX bytes. Fields are of the machine's own byte order: it never leaves the node. The daemon
 * listens at the path in the variable CR_RANK_SOCKET, which is the same on every node of a job, so that
 * a rank that has moved finds its new daemon by it. Every connection begins with CR_RANK_HELLO, or, after a
 * rollback, with CR_RANK_RESTORED; the newest connection of a rank counts, the older ones are
 * closed by the daemon without further notice. Peers check each other's uid by SO_PEERCRED.
 *
 * Who reads when: a rank reads in its initialisation, in its libcr callback, after a rollback, and, for ABORT and CALM,
 * whenever it makes progress in MPI. Everything from the daemon has the number of the recovery it is of; a rank drops
 * what is of an older one than it knows.
 *
 * A wave that is given up: the daemon says CR_RANK_ABORT to every rank of its node, also to those that it never said
 * CR_RANK_PREPARE to, because a peer's mark keeps their connection shut until they hear how the wave ended. Numbers
 * of waves only grow, over recoveries too.
 */
#ifndef REPRISE_RANK_CHANNEL_H
#define REPRISE_RANK_CHANNEL_H 1

#include <stdint.h>

#define CR_RANK_SOCKET_VARIABLE "CR_RANK_SOCKET"
/** Bytes of a message at most; longer tables are cut into several messages. */
#define CR_RANK_MAX 65536
#define CR_RANK_PROTOCOL 1

enum cr_rank_type {
	/** rank: who I am, where I listen. struct cr_rank_hello, then its address strings */
	CR_RANK_HELLO = 1,
	/** daemon: answer to HELLO. struct cr_rank_welcome */
	CR_RANK_WELCOME,
	/** daemon: a checkpoint of wave N is about to be asked of you. struct cr_rank_wave */
	CR_RANK_PREPARE,
	/** daemon: wave N is given up: let go. struct cr_rank_wave */
	CR_RANK_ABORT,
	/** rank: after its checkpoint, or after it refused. struct cr_rank_prepared, then a text when it refused */
	CR_RANK_PREPARED,
	/** rank: first words after a pause or restart; stands still now. struct cr_rank_restored, then addresses */
	CR_RANK_RESTORED,
	/** daemon: with a descriptor (SCM_RIGHTS), a new connection to the PMIx server; put it in the place of the old */
	CR_RANK_PMIX,
	/** rank: that is done. No further fields */
	CR_RANK_PMIX_DONE,
	/** daemon: addresses of ranks. struct cr_rank_peers, then entries; before RESUME, as many as it takes */
	CR_RANK_PEERS,
	/** daemon: all ranks are restored: go on. struct cr_rank_resume, then `moved` ranks as uint32_t */
	CR_RANK_RESUME,
	/** rank: going on. struct cr_rank_resumed */
	CR_RANK_RESUMED,
	/** rank, any time: the connection to a peer was lost. struct cr_rank_lost, then a text */
	CR_RANK_LOST,
	/** rank, any time: something that people should read. The text follows the header */
	CR_RANK_LOG,
	/** daemon, between waves: a node is silent, leave the processors to what is made ready. struct cr_rank_calm */
	CR_RANK_CALM,
};

struct cr_rank_message {
	uint32_t type; /**< enum cr_rank_type */
	uint32_t length; /**< of the whole message */
	uint32_t rank; /**< of the sender, or the receiver when the daemon sends */
	uint32_t recovery; /**< that the sender is in */
};

struct cr_rank_hello {
	struct cr_rank_message head;
	uint32_t protocol; /**< CR_RANK_PROTOCOL */
	int32_t pid;
	uint32_t can_checkpoint; /**< libcr is ready; else a reason stands in a LOG */
	uint32_t addresses; /**< how many strings "1.2.3.4:5" follow, each ended by 0 */
};

struct cr_rank_welcome {
	struct cr_rank_message head;
	uint8_t cookie[32]; /**< of the job: shown at every connection between ranks */
};

struct cr_rank_wave {
	struct cr_rank_message head;
	uint32_t wave;
	uint32_t timeout_ms; /**< for quiescing */
};

enum cr_rank_prepared_state {
	CR_RANK_TAKEN, /**< the checkpoint was taken and is sound */
	CR_RANK_AGAIN, /**< not now: within MPI_Init, MPI_Finalize or a PMIx call; a text follows */
	CR_RANK_UNABLE, /**< a text follows */
};

struct cr_rank_prepared {
	struct cr_rank_message head;
	uint32_t wave;
	uint32_t state; /**< enum cr_rank_prepared_state */
	uint64_t quiesce_ns; /**< until all connections were empty */
	uint32_t connections;
	uint32_t reserved;
};

struct cr_rank_restored {
	struct cr_rank_message head;
	uint32_t wave; /**< of the image that it was brought back to */
	int32_t pid;
	uint32_t restarted; /**< 0: paused in place */
	uint32_t pmix_stale; /**< its PMIx connection has carried something since the image, or, of a restarted one, none was
	                        put in its place: CR_RANK_PMIX is needed */
	uint32_t addresses; /**< as in cr_rank_hello; a restarted rank listens anew */
	uint32_t reserved;
};

/** One entry: this, then `addresses` strings each ended by 0; entries begin at multiples of 4 bytes. */
struct cr_rank_peer {
	uint32_t rank;
	uint32_t incarnation;
	uint16_t addresses;
	uint16_t length; /**< of the entry, padding included */
};

struct cr_rank_peers {
	struct cr_rank_message head;
	uint32_t entries;
	uint32_t reserved;
};

struct cr_rank_resume {
	struct cr_rank_message head;
	uint8_t nonce[32];
	uint32_t moved; /**< how many ranks follow */
	uint32_t spin; /**< on a node with more ranks than processors: polls before one waits; 0: as it was started */
};

struct cr_rank_resumed {
	struct cr_rank_message head;
	uint64_t discarded_bytes;
	uint32_t kept; /**< connections that stayed open */
	uint32_t closed; /**< connections to ranks that moved */
};

struct cr_rank_calm {
	struct cr_rank_message head;
	uint32_t on; /**< 1: wait for messages without using a processor; 0: as before. A rollback ends it, too */
	uint32_t reserved;
};

struct cr_rank_lost {
	struct cr_rank_message head;
	uint32_t peer;
	int32_t error; /**< errno, 0: end of file, ENODATA: messages between the two are lost, only a recovery helps */
};

#endif
