// SPDX-License-Identifier: GPL-2.0-only
#include "job/keys.h"

#include <cerrno>
#include <stdexcept>
#include <system_error>

#include <sys/random.h>
#include <zmq.h>

namespace reprise::job {

KeyPair make_key_pair() {
  char public_key[41], secret_key[41];
  if (::zmq_curve_keypair(public_key, secret_key) != 0)
    throw std::runtime_error("this libzmq was built without CURVE encryption: install one that was built with libsodium");
  return {public_key, secret_key};
}

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  for (std::size_t at = 0; at < count;) {
    const ssize_t got = ::getrandom(bytes.data() + at, count - at, 0);
    if (got < 0 && errno != EINTR) throw std::system_error(errno, std::generic_category(), "getrandom()");
    if (got > 0) at += static_cast<std::size_t>(got);
  }
  return bytes;
}

std::string random_name(std::size_t bytes) {
  std::string name;
  for (const char byte : random_bytes(bytes)) {
    constexpr char kDigits[] = "0123456789abcdef";
    name += kDigits[static_cast<unsigned char>(byte) >> 4];
    name += kDigits[byte & 15];
  }
  return name;
}

std::string make_job_id() { return "cr-" + random_name(4); }

}  // namespace reprise::job
