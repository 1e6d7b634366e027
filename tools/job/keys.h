// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Keys made per job: crrun has one pair, all daemons and crjob share another. */
#include <cstddef>
#include <string>

namespace reprise::job {

/** A CURVE key pair in the text form of ZeroMQ (Z85, 40 characters each). */
struct KeyPair {
  std::string public_key, secret_key;
};

/** A new pair. Throws std::runtime_error when libzmq was built without CURVE. */
KeyPair make_key_pair();

/** @p count bytes from the kernel's random numbers. Throws std::system_error. */
std::string random_bytes(std::size_t count);

/** A new name of a job: "cr-4f1c09aa". */
std::string make_job_id();

}  // namespace reprise::job
