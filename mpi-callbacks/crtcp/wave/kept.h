/* SPDX-License-Identifier: LGPL-2.1-or-later */
/** @file @brief Copies of kept memory that the program asks for: see rank_services.h. */
#ifndef CRTCP_KEPT_H
#define CRTCP_KEPT_H 1

int crtcp_copy_kept(const char *name, int fd, char *why, unsigned long bytes);

#endif
