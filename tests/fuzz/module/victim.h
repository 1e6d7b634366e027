/* SPDX-License-Identifier: GPL-2.0-only */
/* The secret in the registers of a set-uid program: no other process may ever see it. */
#ifndef FUZZ_VICTIM_H
#define FUZZ_VICTIM_H
#define kVictimR12 0x5ec2e75ec2e7a112ULL
#define kVictimR13 0x5ec2e75ec2e7a213ULL
#define kVictimR14 0x5ec2e75ec2e7a314ULL
#endif
