// SPDX-License-Identifier: LGPL-2.1-or-later
#include "greeting.h"

#include <sodium.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace croff {
namespace {

constexpr double kPatience = 10;  // seconds for a greeting
constexpr std::size_t kMostGuests = 256;

static_assert(sizeof(Nonce) == crypto_auth_hmacsha256_BYTES && sizeof(Secret) == crypto_auth_hmacsha256_KEYBYTES);

Nonce prove(const Secret &secret, bool master, const Nonce &of_booster, const Nonce &of_master, std::uint32_t rank) {
  const unsigned char who = master;
  Nonce proof;
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, secret.data(), secret.size());
  crypto_auth_hmacsha256_update(&state, &who, 1);
  crypto_auth_hmacsha256_update(&state, of_booster.data(), of_booster.size());
  crypto_auth_hmacsha256_update(&state, of_master.data(), of_master.size());
  crypto_auth_hmacsha256_update(&state, reinterpret_cast<const unsigned char *>(&rank), sizeof rank);
  crypto_auth_hmacsha256_final(&state, proof.data());
  return proof;
}

/** The words of a greeting fit into the socket's buffer. */
template <class Word>
bool say(int socket, const Word &word) {
  return send(socket, &word, sizeof word, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof word);
}

/** @return 1: complete; 0: not yet; -1: the other side has gone */
template <class Word>
int collect(int socket, Word &word, std::size_t &got) {
  const ssize_t n = recv(socket, reinterpret_cast<char *>(&word) + got, sizeof word - got, MSG_DONTWAIT);
  if (n < 0) return errno == EAGAIN || errno == EINTR ? 0 : -1;
  if (n == 0) return -1;
  got += static_cast<std::size_t>(n);
  return got == sizeof word;
}

bool has_gone(int socket) {
  char byte;
  const ssize_t n = recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

}  // namespace

int greet(const std::string &where, const Secret &secret, int rank, const Waiting &wait) {
  const int socket = connect_to(where);
  if (socket < 0) return -1;
  Greeting greeting;
  Challenge challenge;
  greeting.rank = static_cast<std::uint32_t>(rank);
  randombytes_buf(greeting.nonce.data(), greeting.nonce.size());
  const auto known = [&] {
    const Nonce expected = prove(secret, true, greeting.nonce, challenge.nonce, greeting.rank);
    return sodium_memcmp(expected.data(), challenge.proof.data(), expected.size()) == 0;
  };
  // A master answers in its next call of the library only: it may compute for long.
  if (say(socket, greeting) && read_all(socket, &challenge, sizeof challenge, wait) && known() &&
      say(socket, Proof{prove(secret, false, greeting.nonce, challenge.nonce, greeting.rank)}))
    return socket;
  close(socket);
  return -1;
}

Arrivals::Arrivals(int boosters, const Secret &secret)
    : entrance_("the entrance for boosters", boosters + 16), secret_(secret), arrived_(boosters, -1) {}

Arrivals::~Arrivals() {
  for (const Guest &guest : guests_) close(guest.socket);
  for (int socket : arrived_)
    if (socket >= 0) close(socket);
}

void Arrivals::serve() {
  for (;;) {
    const int socket = accept4(entrance_.socket(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) break;
    if (guests_.size() >= kMostGuests) {
      close(socket);
      continue;
    }
    prepare(socket);
    guests_.push_back({socket, Idle(kPatience), false, {}, {}, {}, 0});
  }
  std::erase_if(guests_, [this](Guest &guest) {
    if (hear(guest)) return false;
    if (guest.socket >= 0) close(guest.socket);
    return true;
  });
  for (int &socket : arrived_)
    if (socket >= 0 && has_gone(socket)) {
      close(socket);
      socket = -1;
    }
}

/** @return false: it is no guest any more */
bool Arrivals::hear(Guest &guest) {
  const int there = guest.challenged ? collect(guest.socket, guest.proof, guest.got) : collect(guest.socket, guest.greeting, guest.got);
  if (there == 0) return !guest.patience.over();
  if (there < 0) return false;
  if (!guest.challenged) return challenge(guest);
  if (sodium_memcmp(guest.proof.proof.data(), guest.expected.proof.data(), guest.proof.proof.size()) != 0) return false;
  int &arrived = arrived_[guest.greeting.rank];
  if (arrived >= 0) close(arrived);
  arrived = std::exchange(guest.socket, -1);
  return false;
}

bool Arrivals::challenge(Guest &guest) {
  const Greeting &greeting = guest.greeting;
  if (memcmp(greeting.magic, Greeting{}.magic, sizeof greeting.magic) != 0 || greeting.rank >= arrived_.size()) return false;
  Challenge challenge;
  randombytes_buf(challenge.nonce.data(), challenge.nonce.size());
  challenge.proof = prove(secret_, true, greeting.nonce, challenge.nonce, greeting.rank);
  guest.expected.proof = prove(secret_, false, greeting.nonce, challenge.nonce, greeting.rank);
  guest.challenged = true;
  guest.got = 0;
  return say(guest.socket, challenge);
}

bool Arrivals::any() const {
  return std::any_of(arrived_.begin(), arrived_.end(), [](int socket) { return socket >= 0; });
}

bool Arrivals::all() const {
  return std::all_of(arrived_.begin(), arrived_.end(), [](int socket) { return socket >= 0; });
}

std::vector<int> Arrivals::take() { return std::exchange(arrived_, std::vector<int>(arrived_.size(), -1)); }

}  // namespace croff
