// SPDX-License-Identifier: GPL-2.0-only
#include "crd/images/secure_stream.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <system_error>
#include <type_traits>
#include <utility>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

namespace reprise::crd {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr char kName[] = "reprise";
/** What the key is for: the secret has other uses. */
constexpr char kPurpose[] = "reprise: images that daemons read from each other";
/** Only the key that all have makes a connection: not a certificate. Both ciphers have SHA-256, as such a key needs one hash. */
constexpr char kPriority[] =
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:-KX-ALL:+ECDHE-PSK:-CIPHER-ALL:+AES-128-GCM:+CHACHA20-POLY1305:%SERVER_PRECEDENCE";
/** How often keep_on is asked. */
constexpr auto kLook = 100ms;
constexpr std::size_t kKeyBytes = 32;
constexpr char kUnusable[] = "the key cannot be used";

[[noreturn]] void fail(const std::string& what, int code) { throw Broken(what + ": " + ::gnutls_strerror(code)); }

void need(int code, const char* what) {
  if (code < 0) fail(what, code);
}

using Key = std::array<unsigned char, kKeyBytes>;

struct Release {
  void operator()(gnutls_session_t one) const { ::gnutls_deinit(one); }
  void operator()(gnutls_psk_server_credentials_t one) const { ::gnutls_psk_free_server_credentials(one); }
  void operator()(gnutls_psk_client_credentials_t one) const { ::gnutls_psk_free_client_credentials(one); }
};
template <class Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Release>;

/** @return what @p make has made */
template <class Handle, class Make>
Owned<Handle> owned(const char* what, Make make) {
  Handle out = nullptr;
  need(make(&out), what);
  return Owned<Handle>(out);
}

}  // namespace

struct SecureStream::Session {
  Session(UniqueFd socket, Side side, const std::string& secret) : fd(std::move(socket)) {
    need(::gnutls_hmac_fast(GNUTLS_MAC_SHA256, secret.data(), secret.size(), kPurpose, sizeof kPurpose - 1, key.data()), "no key");
    ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
    const int on = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::setsockopt(fd.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    const unsigned flags = (side == Side::server ? GNUTLS_SERVER : GNUTLS_CLIENT) | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL | GNUTLS_NO_TICKETS;
    if (side == Side::server) {
      server_key = owned<gnutls_psk_server_credentials_t>("no memory", ::gnutls_psk_allocate_server_credentials);
      ::gnutls_psk_set_server_credentials_function(server_key.get(), key_of);
    } else {
      reader_key = owned<gnutls_psk_client_credentials_t>("no memory", ::gnutls_psk_allocate_client_credentials);
      const gnutls_datum_t raw{key.data(), static_cast<unsigned>(key.size())};
      need(::gnutls_psk_set_client_credentials(reader_key.get(), kName, &raw, GNUTLS_PSK_KEY_RAW), kUnusable);
    }
    session = owned<gnutls_session_t>("no TLS", [flags](gnutls_session_t* out) { return ::gnutls_init(out, flags); });
    need(::gnutls_priority_set_direct(tls(), kPriority, nullptr), "TLS 1.3 with AES-GCM cannot be had");
    void* const credentials = side == Side::server ? static_cast<void*>(server_key.get()) : reader_key.get();
    need(::gnutls_credentials_set(tls(), GNUTLS_CRD_PSK, credentials), kUnusable);
    ::gnutls_session_set_ptr(tls(), this);
    ::gnutls_transport_set_int(tls(), fd.get());
    ::gnutls_handshake_set_timeout(tls(), 0);  // Patience has it
  }
  ~Session() { ::gnutls_memset(key.data(), 0, key.size()); }
  gnutls_session_t tls() const { return session.get(); }
  static int key_of(gnutls_session_t from, const char* name, gnutls_datum_t* out) {
    const auto* session = static_cast<Session*>(::gnutls_session_get_ptr(from));
    if (!name || std::string(name) != kName) return -1;
    out->data = static_cast<unsigned char*>(::gnutls_malloc(kKeyBytes));
    if (!out->data) return -1;
    std::copy(session->key.begin(), session->key.end(), out->data);
    out->size = kKeyBytes;
    return 0;
  }
  /** Call @p step until it does something. @return what it returns then, 0 or more */
  template <class Step>
  ssize_t until_done(const char* what, const Patience& patience, Step step) {
    const auto end = Clock::now() + patience.silence;
    for (;;) {
      const ssize_t done = step();
      if (done >= 0) return done;
      if (done == GNUTLS_E_INTERRUPTED) continue;
      if (done != GNUTLS_E_AGAIN) {
        if (::gnutls_error_is_fatal(static_cast<int>(done))) fail(what, static_cast<int>(done));
        continue;  // a warning
      }
      if (!ready(::gnutls_record_get_direction(tls()) ? POLLOUT : POLLIN, end, patience)) throw Broken(std::string(what) + ": it does not answer");
    }
  }
  /** @return false: not before @p end */
  bool ready(short events, Clock::time_point end, const Patience& patience) const {
    for (;;) {
      if (patience.keep_on && !patience.keep_on()) throw std::system_error(ECANCELED, std::generic_category(), "a connection between daemons");
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
      if (left <= 0ms) return false;
      pollfd one{fd.get(), events, 0};
      if (::poll(&one, 1, static_cast<int>(std::min<std::chrono::milliseconds>(left, kLook).count())) > 0) return true;
    }
  }

  const UniqueFd fd;
  Key key;
  Owned<gnutls_psk_server_credentials_t> server_key;
  Owned<gnutls_psk_client_credentials_t> reader_key;
  Owned<gnutls_session_t> session;  ///< it uses the key: released first
};

SecureStream::SecureStream(UniqueFd socket, Side side, const std::string& secret)
    : session_(std::make_unique<Session>(std::move(socket), side, secret)) {}
SecureStream::~SecureStream() = default;

void SecureStream::handshake(const Patience& patience) {
  session_->until_done("no encrypted connection", patience, [&] { return static_cast<ssize_t>(::gnutls_handshake(session_->tls())); });
}

void SecureStream::read(std::span<char> into, const Patience& patience) {
  while (!into.empty()) {
    const ssize_t got = session_->until_done("reading", patience, [&] { return ::gnutls_record_recv(session_->tls(), into.data(), into.size()); });
    if (got == 0) throw Broken("the other side has ended the connection");
    into = into.subspan(static_cast<std::size_t>(got));
  }
}

void SecureStream::write(std::span<const char> content, const Patience& patience) {
  while (!content.empty()) {
    const ssize_t put = session_->until_done("writing", patience, [&] { return ::gnutls_record_send(session_->tls(), content.data(), content.size()); });
    content = content.subspan(static_cast<std::size_t>(put));
  }
}

bool SecureStream::wait(const Patience& patience) {
  return ::gnutls_record_check_pending(session_->tls()) > 0 || session_->ready(POLLIN, Clock::now() + patience.silence, patience);
}

void SecureStream::write_message(const google::protobuf::MessageLite& message, const Patience& patience) {
  std::string out(4, '\0');
  if (!message.AppendToString(&out)) throw Broken("a message cannot be encoded");
  const std::uint32_t length = static_cast<std::uint32_t>(out.size() - 4);
  for (std::size_t i = 0; i < 4; ++i) out[i] = static_cast<char>(length >> (24 - 8 * i));
  write(out, patience);
}

void SecureStream::read_message(google::protobuf::MessageLite& message, std::size_t most, const Patience& patience) {
  std::array<char, 4> front;
  read(front, patience);
  std::uint32_t length = 0;
  for (const char byte : front) length = length << 8 | static_cast<unsigned char>(byte);
  if (length > most) throw Broken("a message of " + std::to_string(length) + " bytes came, and can have " + std::to_string(most));
  std::string body(length, '\0');
  read(body, patience);
  if (!message.ParseFromString(body)) throw Broken("a message came that cannot be read");
}

}  // namespace reprise::crd
