// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Connections that the kernel encrypts (TCP_ULP "tls"). A pause keeps them like every open connection: the kernel's
// record sequence numbers continue, so no nonce is used twice. But a program must not be rolled back to a time at which
// the connection had other keys, or none. It would set the same keys again, and nonces would be reused.
#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <sstream>

#include <xxhash.h>

#include "descriptors/kinds.h"
#include "descriptors/socket_name.h"

#ifndef SOL_TLS
#define SOL_TLS 282
#endif

namespace reprise {
namespace {

struct Cipher {
  unsigned type;
  std::size_t iv, key, salt;  // bytes; they follow struct tls_crypto_info in this order, then the record number
};
constexpr std::size_t kRecordNumber = 8;
constexpr Cipher kCiphers[] = {
    {51 /* AES_GCM_128 */, 8, 16, 4}, {52 /* AES_GCM_256 */, 8, 32, 4}, {53 /* AES_CCM_128 */, 8, 16, 4},
    {54 /* CHACHA20_POLY1305 */, 12, 32, 0}, {55 /* SM4_GCM */, 8, 16, 4}, {56 /* SM4_CCM */, 8, 16, 4},
    {57 /* ARIA_GCM_128 */, 8, 16, 4}, {58 /* ARIA_GCM_256 */, 8, 32, 4},
};

/** @return @p hash continued with the key of one direction (TLS_TX or TLS_RX) */
std::uint64_t with_key(int fd, int direction, std::uint64_t hash) {
  tls_crypto_info info = {};
  socklen_t size = sizeof info;
  if (::getsockopt(fd, SOL_TLS, direction, &info, &size) != 0) return hash;
  hash = ::XXH64(&info, sizeof info, hash + static_cast<std::uint64_t>(direction));
  for (const Cipher& cipher : kCiphers) {
    if (cipher.type != info.cipher_type) continue;
    char bytes[128];
    size = static_cast<socklen_t>(sizeof info + cipher.iv + cipher.key + cipher.salt + kRecordNumber);
    if (::getsockopt(fd, SOL_TLS, direction, bytes, &size) == 0)
      hash = ::XXH64(bytes + sizeof info + cipher.iv, cipher.key, hash);
    ::explicit_bzero(bytes, sizeof bytes);
  }
  return hash;
}

/** Does the kernel encrypt any connection in the process's network namespace (/proc/net/tls_stat)? */
bool any_tls(pid_t pid) {
  std::istringstream lines(ProcDir(pid, "net").try_read("tls_stat").value_or(""));
  std::string name;
  for (std::uint64_t count; lines >> name >> count;)
    if (name.rfind("TlsCurr", 0) == 0 && count > 0) return true;
  return false;
}

bool is_connection(const Socket& socket) {
  const bool inet = socket.family() == AF_INET || socket.family() == AF_INET6;
  return inet && socket.type() == SOCK_STREAM && socket_connected(socket);
}

}  // namespace

void collect_ulp(int fd, Socket& socket) {
  char name[16] = "";
  socklen_t size = sizeof name;
  socket.clear_ulp();
  socket.clear_ulp_state();
  if (::getsockopt(fd, IPPROTO_TCP, TCP_ULP, name, &size) != 0 || size == 0) return;
  socket.set_ulp(name, ::strnlen(name, std::min<std::size_t>(size, sizeof name)));
  if (socket.ulp() == "tls") socket.set_ulp_state(with_key(fd, TLS_RX, with_key(fd, TLS_TX, 0)));
}

std::set<std::uint32_t> look_at_ulps(Restorer& restorer) {
  std::set<std::uint32_t> replace;
  const bool tls = any_tls(restorer.source.pid());
  for (const auto& [index, number] : restorer.alive) {
    const Description& description = restorer.description(index);
    if (description.kind() != Description::SOCKET || !is_connection(description.socket())) continue;
    if (!tls && description.socket().ulp_state() == 0) continue;  // checking each of many sockets is slow
    Socket now;
    collect_ulp(restorer.source.get(number).get(), now);
    if (now.ulp_state() == description.socket().ulp_state()) continue;
    if (restorer.options.dead_sockets)
      replace.insert(index);
    else
      restorer.problems[index] =
          "it was given kernel TLS keys since the checkpoint, which the rolled back program would not know";
  }
  return replace;
}

}  // namespace reprise
