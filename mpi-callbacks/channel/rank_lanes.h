/* SPDX-License-Identifier: LGPL-2.1-or-later */
/**
 * @file
 * @brief The layout of the memory that the ranks of a node share: one lane for each pair of ranks and direction.
 *
 * The daemon makes the memory, a memfd, for each recovery anew, and hands it out with CR_RANK_LANES. So what an older
 * recovery has left in a lane is in memory that nobody maps any more.
 *
 * A lane is a ring of records with one writer and one reader, which together are a stream of bytes. Positions count bytes
 * of the ring and never wrap; the place of a position is its remainder. A record begins at a line:
 *
 *     size, uint64_t | that many bytes of the stream | unused up to the next line
 *
 * The writer writes the bytes, then 0 as the size of the next record, then the size. So a reader finds out by one line
 * that a short message is there, and what it is. All fields that change are accessed by atomic operations.
 *
 *     header | a line per rank | rounded up to pages | lane 0 -> 0 | lane 0 -> 1 | ... | lane N-1 -> N-1
 *     lane: a page with struct cr_lane | lane_bytes of data
 *
 * The lanes of a rank to itself are not used, and untouched pages take no memory.
 */
#ifndef REPRISE_RANK_LANES_H
#define REPRISE_RANK_LANES_H 1

#include <stddef.h>
#include <stdint.h>

#define CR_LANES_MAGIC 0x656e616cu
/** Ranks of a node that share lanes; with more of them all use TCP. */
#define CR_LANES_RANKS 512
#define CR_LANES_PAGE 4096u
#define CR_LANES_LINE 64

/** The daemon writes it before it hands out the memory. */
struct cr_lanes {
	uint32_t magic; /**< CR_LANES_MAGIC */
	uint32_t id; /**< another one for each memory */
	uint32_t ranks;
	uint32_t lane_bytes; /**< a power of two, at least CR_LANES_PAGE */
	uint8_t reserved[CR_LANES_LINE - 16];
};

/** One for each rank, behind the header. */
struct cr_lanes_rank {
	uint32_t rank; /**< its number in the job; written by the daemon */
	uint32_t mapped; /**< 1: the rank reads its lanes, or will do so after a wave; written by the rank */
	uint32_t asleep; /**< 1: the rank waits, and whoever sets this to 0 wakes it by a byte over their TCP connection */
	uint8_t reserved[CR_LANES_LINE - 12];
};

struct cr_lane {
	uint64_t tail; /**< position of the writer's next record; the reader does not look at it */
	uint8_t reserved1[CR_LANES_LINE - 8];
	uint64_t head; /**< position up to which the reader has read */
	uint8_t reserved2[CR_LANES_LINE - 8];
	uint32_t waiting; /**< 1: the writer waits for room */
};

/** Bytes of a lane's data for this number of ranks: all lanes of a node, when all are in use, take up to 128 MB of memory,
 * or a page for each. */
static inline uint32_t cr_lane_bytes(uint32_t ranks)
{
	uint64_t bytes = 256u << 10;

	while (bytes > CR_LANES_PAGE && bytes * ranks * ranks > (uint64_t) 128 << 20)
		bytes /= 2;
	return (uint32_t) bytes;
}

/** Offset of the first lane. */
static inline size_t cr_lanes_begin(uint32_t ranks)
{
	const size_t bytes = sizeof(struct cr_lanes) + ranks * sizeof(struct cr_lanes_rank);

	return (bytes + CR_LANES_PAGE - 1) / CR_LANES_PAGE * CR_LANES_PAGE;
}

/** Offset of the lane from one rank to another, by their indices. Its data begin a page later. */
static inline size_t cr_lane_at(uint32_t ranks, uint32_t lane_bytes, uint32_t from, uint32_t to)
{
	return cr_lanes_begin(ranks) + ((size_t) from * ranks + to) * ((size_t) CR_LANES_PAGE + lane_bytes);
}

/** Size of the memory. */
static inline size_t cr_lanes_bytes(uint32_t ranks, uint32_t lane_bytes)
{
	return cr_lane_at(ranks, lane_bytes, ranks, 0);
}

#endif
