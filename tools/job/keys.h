// SPDX-License-Identifier: GPL-2.0-only
#pragma once
/** @file Keys made for each job: crrun has one pair; all daemons and crjob share another. */
#include <cstddef>
#include <string>

namespace reprise::job {

/** A CURVE key pair in ZeroMQ's text form (Z85, 40 characters each). */
struct KeyPair {
  std::string public_key, secret_key;
};

/** Generate a new pair. Throws std::runtime_error when libzmq was built without CURVE. */
KeyPair make_key_pair();

/** @return @p count bytes from the kernel's random number generator. Throws std::system_error. */
std::string random_bytes(std::size_t count);

/** @return a new job id, for instance "cr-4f1c09aa" */
std::string make_job_id();

/** @return @p bytes random bytes as hexadecimal digits */
std::string random_name(std::size_t bytes);

}  // namespace reprise::job
