/* SPDX-License-Identifier: GPL-2.0-only */
/**
 * @file
 * @brief Images of a rank without the module: a child that fork() makes while the transport stands still.
 *
 * An image has the rank's memory and its descriptors. Each process that is made of it is a further child. So after the
 * rank was killed, the new process has the memory of the wave and the same open connections, with the bytes that were
 * sent since: as a process that was rolled back in place. For a restart on another node it first loses its connections.
 *
 * fork() copies one thread only: the main thread forks while it waits for the end of the wave in the transport. The thread
 * that takes the image is continued in the new process, on its copied stack. libpmix's thread is not, so such a process
 * can make no PMIx calls: it cannot come to the end of MPI_Finalize.
 *
 * An image listens at the Unix address $CR_RANK_SOCKET.PID.N, N = 1 for the first image of that process. A client sends
 * 'p' (paused) or 's' (restarted); the answers are those of the new process. The image ends when the folder of
 * CR_RANK_SOCKET is gone, and its processes with it.
 */
#ifndef FORK_IMAGE_H
#define FORK_IMAGE_H 1

#include <stdbool.h>

struct image_use {
  char word; /**< 'i': the image is taken, this is the rank; 'p', 's': this is a process made of it; 'e': no image */
  int client; /**< connection to the client that has asked for the process */
};

/** Start the one thread that may call image_take(). */
bool image_thread(void *(*function)(void *));
/** This descriptor is a connection to another rank: a restarted process comes without it. */
void image_connection(int fd);
/** Take an image. Returns once in this process, and once in each that is made of it. */
struct image_use image_take(void);

#endif
