// SPDX-License-Identifier: Apache-2.0
// TLS 1.3 with a pre-shared key, the proof of the connecting rank, and an exchange of fresh keys (psk_dhe_ke): both
// sides prove that they know it. tls=openssl goes on with the library, as a path. tls=kernel takes two keys from the
// session (RFC 8446, section 7.5) and gives them to the kernel (Linux, Documentation/networking/tls.rst), and from then
// on send and recv of the socket are encrypted.
//
// The library is loaded when the option asks for it, so that tcp itself needs none.
#include "tcp_tls.h"

#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>

#include "tcp_endpoint.h"
#include "tcp_options.h"
#include "tcp_paths.h"

#if __has_include(<openssl/ssl.h>) && __has_include(<openssl/opensslconf.h>) && __has_include(<linux/tls.h>)
#include <linux/tls.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#define NP_HAS_TLS 1
#else
#define NP_HAS_TLS 0
#endif

namespace netpipe::tcp {
namespace {

using namespace netpipe::fd_io;

np_status fail_tls(const np_context* context, np_status status, const char* why) {
  return fail(context, status, "tcp: tls=%s: %s", context->options[kTls].text, why);
}

}  // namespace

#if NP_HAS_TLS

namespace {

#ifndef SOL_TLS
constexpr int kSolTls = 282;  // of linux/socket.h, which is not for programs
#else
constexpr int kSolTls = SOL_TLS;
#endif
constexpr char kSuite[] = "TLS_AES_128_GCM_SHA256";
constexpr char kIdentity[] = "netpipe";
constexpr char kLabel[] = "EXPORTER-netpipe kernel keys";

// The functions of the library that are used here, under its own names.
// NOLINTBEGIN(readability-identifier-naming, bugprone-macro-parentheses)
struct Library {
  void *ssl = nullptr, *crypto = nullptr;
#define NP_TLS_CALLS(each)                                                                                      \
  each(TLS_client_method) each(TLS_server_method) each(SSL_CTX_new) each(SSL_CTX_free) each(SSL_CTX_ctrl)       \
      each(SSL_CTX_set_ciphersuites) each(SSL_CTX_set_num_tickets) each(SSL_CTX_set_psk_use_session_callback)   \
          each(SSL_CTX_set_psk_find_session_callback) each(SSL_new) each(SSL_free) each(SSL_set_fd)             \
              each(SSL_set_connect_state) each(SSL_set_accept_state) each(SSL_do_handshake) each(SSL_get_error) \
                  each(SSL_read_ex) each(SSL_write_ex) each(SSL_set_ex_data) each(SSL_get_ex_data)              \
                      each(SSL_export_keying_material) each(SSL_SESSION_new) each(SSL_SESSION_set1_master_key)  \
                          each(SSL_SESSION_set_cipher) each(SSL_SESSION_set_protocol_version) each(SSL_CIPHER_find)
#define NP_TLS_POINTER(name) decltype(&::name) name = nullptr;
  NP_TLS_CALLS(NP_TLS_POINTER)
#undef NP_TLS_POINTER
  decltype(&::ERR_clear_error) ERR_clear_error = nullptr;
  decltype(&::OpenSSL_version) OpenSSL_version = nullptr;
  std::string missing;  // why it cannot be used
};
// NOLINTEND(readability-identifier-naming, bugprone-macro-parentheses)

template <typename Function>
void find(void* library, const char* name, Function& function, std::string& missing) {
  void* const found = library != nullptr ? dlsym(library, name) : nullptr;
  if (found == nullptr && missing.empty()) missing = std::string("libssl has no ") + name;
  function = reinterpret_cast<Function>(found);
}

// OpenSSL 3; loaded once in a process and never unloaded.
const Library& library() {
  static const Library loaded = [] {
    Library made;
    made.ssl = dlopen("libssl.so.3", RTLD_NOW | RTLD_LOCAL);
    if (made.ssl == nullptr) {
      made.missing = "libssl.so.3 cannot be loaded; install OpenSSL 3 (apt install libssl3)";
      return made;
    }
    made.crypto = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);
#define NP_TLS_FIND(name) find(made.ssl, #name, made.name, made.missing);
    NP_TLS_CALLS(NP_TLS_FIND)
#undef NP_TLS_FIND
    find(made.crypto, "ERR_clear_error", made.ERR_clear_error, made.missing);
    find(made.crypto, "OpenSSL_version", made.OpenSSL_version, made.missing);
    return made;
  }();
  return loaded;
}
#undef NP_TLS_CALLS

// NOLINTBEGIN(clang-analyzer-core.CallAndMessage): where `missing` is empty no function of the library is null
struct FreeSession {
  void operator()(SSL* session) const { library().SSL_free(session); }
};
using Session = std::unique_ptr<SSL, FreeSession>;

struct FreeContext {
  void operator()(SSL_CTX* context) const { library().SSL_CTX_free(context); }
};
using Context = std::unique_ptr<SSL_CTX, FreeContext>;

// The session that stands for the key that both sides know.
SSL_SESSION* known_session(SSL* ssl) {
  const Library& l = library();
  const auto* proof = static_cast<const Proof*>(l.SSL_get_ex_data(ssl, 0));
  static constexpr unsigned char kSuiteId[] = {0x13, 0x01};  // RFC 8446, appendix B.4
  SSL_SESSION* const session = l.SSL_SESSION_new();
  if (session == nullptr || proof == nullptr) return session;
  l.SSL_SESSION_set1_master_key(session, proof->data(), proof->size());
  l.SSL_SESSION_set_cipher(session, l.SSL_CIPHER_find(ssl, kSuiteId));
  l.SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION);
  return session;
}

int use_known(SSL* ssl, const EVP_MD*, const unsigned char** id, size_t* id_bytes, SSL_SESSION** session) {
  *session = known_session(ssl);
  *id = reinterpret_cast<const unsigned char*>(kIdentity);
  *id_bytes = sizeof kIdentity - 1;
  return *session != nullptr ? 1 : 0;
}

int find_known(SSL* ssl, const unsigned char* id, size_t id_bytes, SSL_SESSION** session) {
  const bool ours = id_bytes == sizeof kIdentity - 1 && std::memcmp(id, kIdentity, id_bytes) == 0;
  *session = ours ? known_session(ssl) : nullptr;
  return 1;
}

Context make_context(bool server) {
  const Library& l = library();
  Context made(l.SSL_CTX_new(server ? l.TLS_server_method() : l.TLS_client_method()));
  if (!made) return made;
  l.SSL_CTX_ctrl(made.get(), SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, nullptr);
  // A write that found no room is repeated from the same bytes, and may be of a part.
  l.SSL_CTX_ctrl(made.get(), SSL_CTRL_MODE, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER,
                 nullptr);
  l.SSL_CTX_set_num_tickets(made.get(), 0);  // nothing follows the handshake
  const bool suite = l.SSL_CTX_set_ciphersuites(made.get(), kSuite) == 1;
  if (server) {
    l.SSL_CTX_set_psk_find_session_callback(made.get(), find_known);
  } else {
    l.SSL_CTX_set_psk_use_session_callback(made.get(), use_known);
  }
  return suite ? std::move(made) : Context();
}

// ---------------------------------------------------------------------------------------------- tls=openssl

class ByOpenssl final : public TcpPath {
 public:
  [[nodiscard]] size_t direct_bytes() const override { return 0; }

  // The session of a socket, before it is added.
  void give(int fd, Session session) { made_.push_back({fd, std::move(session)}); }

  int add(int fd, int) override {
    const auto given = std::find_if(made_.begin(), made_.end(), [fd](const One& one) { return one.fd == fd; });
    const auto free = std::find_if(sockets_.begin(), sockets_.end(), [](const One& one) { return one.fd < 0; });
    const auto slot = static_cast<size_t>(free - sockets_.begin());
    if (free == sockets_.end()) sockets_.emplace_back();
    if (given == made_.end()) return static_cast<int>(slot);  // never: secure() comes first
    sockets_[slot] = std::move(*given);
    made_.erase(given);
    return static_cast<int>(slot);
  }
  void remove(int slot) override { of(slot) = One{}; }
  void cancel(int) override {}

  ssize_t write(int slot, const void* data, size_t bytes) override {
    size_t done = 0;
    SSL* const ssl = of(slot).session.get();
    const int result = library().SSL_write_ex(ssl, data, bytes, &done);
    return outcome(ssl, result, done);
  }
  ssize_t read(int slot, void* data, size_t bytes) override {
    size_t done = 0;
    SSL* const ssl = of(slot).session.get();
    const int result = library().SSL_read_ex(ssl, data, bytes, &done);
    return outcome(ssl, result, done);
  }

  uint64_t written(int) override { return 0; }
  bool settled(int, uint64_t) override { return true; }
  void submit() override {}
  // A receive is tried before its rank sleeps, so the library holds nothing then that somebody waits for.
  bool sleep(int) override { return false; }

 private:
  struct One {
    int fd = -1;
    Session session;
  };
  One& of(int slot) { return sockets_[static_cast<size_t>(slot)]; }

  static ssize_t outcome(SSL* ssl, int result, size_t done) {
    if (result == 1) [[likely]]
      return static_cast<ssize_t>(done);
    const int error = errno;
    const int why = library().SSL_get_error(ssl, result);
    library().ERR_clear_error();
    if (why == SSL_ERROR_ZERO_RETURN || (why == SSL_ERROR_SYSCALL && error == 0)) return 0;
    const bool later = why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE;
    errno = later ? EAGAIN : why == SSL_ERROR_SYSCALL ? error : EPROTO;
    return -1;
  }

  std::vector<One> made_, sockets_;
};

// ---------------------------------------------------------------------------------------------- tls=kernel

// What the kernel wants for one direction.
struct Keys {
  std::array<unsigned char, TLS_CIPHER_AES_GCM_128_KEY_SIZE> key;
  std::array<unsigned char, TLS_CIPHER_AES_GCM_128_SALT_SIZE> salt;
  std::array<unsigned char, TLS_CIPHER_AES_GCM_128_IV_SIZE> iv;
};

bool set_keys(int fd, int direction, const Keys& keys) {
  tls12_crypto_info_aes_gcm_128 info{};
  info.info.version = TLS_1_3_VERSION;
  info.info.cipher_type = TLS_CIPHER_AES_GCM_128;
  std::memcpy(info.key, keys.key.data(), sizeof info.key);
  std::memcpy(info.salt, keys.salt.data(), sizeof info.salt);
  std::memcpy(info.iv, keys.iv.data(), sizeof info.iv);
  return setsockopt(fd, kSolTls, direction, &info, sizeof info) == 0;
}

np_status hand_to_kernel(const np_context* context, int fd, SSL* ssl, bool client) {
  std::array<Keys, 2> keys;  // of what the client sends, and the server
  static_assert(sizeof keys == 2 * 28, "without gaps");
  if (library().SSL_export_keying_material(ssl, reinterpret_cast<unsigned char*>(keys.data()), sizeof keys, kLabel,
                                           sizeof kLabel - 1, nullptr, 0, 0) != 1) {
    return fail_tls(context, NP_FAILED, "the library gives no keys of the session");
  }
  const bool done = setsockopt(fd, IPPROTO_TCP, TCP_ULP, "tls", 3) == 0 && set_keys(fd, TLS_TX, keys[client ? 0 : 1]) &&
                    set_keys(fd, TLS_RX, keys[client ? 1 : 0]);
  if (done) return NP_OK;
  return fail(context, NP_UNAVAILABLE, "tcp: tls=kernel: the kernel takes no keys of AES-128-GCM for TLS 1.3: %s",
              std::strerror(errno));
}

// ---------------------------------------------------------------------------------------------- shaking hands

struct Hand {
  int fd = -1, peer = 0;
  bool client = false, done = false;
  short wants = POLLIN;
  Session session;
};

np_status shake(const np_context* context, Hand& hand) {
  const Library& l = library();
  errno = 0;
  const int result = l.SSL_do_handshake(hand.session.get());
  hand.done = result == 1;
  if (hand.done) return NP_OK;
  const int error = errno;
  const int why = l.SSL_get_error(hand.session.get(), result);
  l.ERR_clear_error();
  hand.wants = why == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN;
  if (why == SSL_ERROR_WANT_WRITE || why == SSL_ERROR_WANT_READ) return NP_OK;
  return fail(context, why == SSL_ERROR_SYSCALL ? NP_PEER_LOST : NP_FAILED,
              "tcp: tls=%s: the handshake with rank %d failed%s%s; its own error says why", context->options[kTls].text,
              hand.peer, error != 0 ? ": " : "", error != 0 ? std::strerror(error) : "");
}

np_status shake_all(const np_context* context, std::vector<Hand>& hands, int64_t deadline_ns) {
  const std::string what = std::string("tcp: tls=") + context->options[kTls].text + ": the handshake";
  for (;;) {
    std::vector<pollfd> wanted;
    int peer = 0;
    for (Hand& hand : hands) {
      if (!hand.done) {
        if (const np_status s = shake(context, hand); s != NP_OK) return s;
      }
      if (hand.done) continue;
      wanted.push_back({hand.fd, hand.wants, 0});
      peer = hand.peer;
    }
    if (wanted.empty()) return NP_OK;
    const np_status s = poll_slice(context, wanted.data(), wanted.size(), deadline_ns, what.c_str(), peer);
    if (s != NP_OK) return s;
  }
}

// Until both ends have their keys: the kernel takes none for a connection that the peer has closed, as reset() may at
// once.
np_status hand_all_to_kernel(const np_context* context, std::vector<Hand>& hands, int64_t deadline_ns) {
  for (Hand& hand : hands) {
    if (const np_status s = hand_to_kernel(context, hand.fd, hand.session.get(), hand.client); s != NP_OK) return s;
    set_blocking(hand.fd, true);
    (void)::send(hand.fd, &kWelcome, 1, MSG_NOSIGNAL);
  }
  const std::string what = "tcp: tls=kernel: waiting for the first bytes that are encrypted";
  for (const Hand& hand : hands) {
    const np_status s = await_welcome(context, hand.peer, hand.fd, deadline_ns, what.c_str());
    if (s != NP_OK) return s;
  }
  return NP_OK;
}

}  // namespace

np_status tls_is_here(const np_context* context) {
  const int64_t asked = context->options[kTls].number;
  if (asked == kTlsNo) return NP_OK;
  if (!library().missing.empty()) return fail_tls(context, NP_UNAVAILABLE, library().missing.c_str());
  if (asked != kTlsKernel) return NP_OK;
  // The kernel looks for its part before it sees that the socket is not connected (ENOTCONN).
  const Fd trial(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (setsockopt(trial.get(), IPPROTO_TCP, TCP_ULP, "tls", 3) == 0 || errno == ENOTCONN) return NP_OK;
  return fail(context, NP_UNAVAILABLE,
              "tcp: tls=kernel: this kernel has no TLS (%s); it needs CONFIG_TLS (modprobe tls), or use tls=openssl",
              std::strerror(errno));
}

np_status secure(np_endpoint& endpoint, std::vector<Fd>& joined, int64_t deadline_ns) {
  const np_context* context = endpoint.context;
  const bool in_kernel = context->options[kTls].number == kTlsKernel;
  if (context->options[kTls].number == kTlsNo) return NP_OK;
  const Context client = make_context(false), server = make_context(true);
  if (!client || !server) return fail_tls(context, NP_FAILED, "the library makes no context");
  std::vector<Hand> hands;
  for (size_t i = 0; i < joined.size(); ++i) {
    const int peer = static_cast<int>(i) / endpoint.streams;
    if (peer == context->rank) continue;
    Hand hand{.fd = joined[i].get(), .peer = peer, .client = context->rank < peer};
    // Proofs are told by ranks that connect.
    const Proof& proof = endpoint.proofs[static_cast<size_t>(std::min(peer, context->rank))];
    hand.session.reset(library().SSL_new((hand.client ? client : server).get()));
    if (!hand.session || !set_blocking(hand.fd, false) || library().SSL_set_fd(hand.session.get(), hand.fd) != 1) {
      return fail_tls(context, NP_NO_MEMORY, "the library makes no session");
    }
    library().SSL_set_ex_data(hand.session.get(), 0, const_cast<Proof*>(&proof));  // NOLINT(*-const-cast): only read
    hand.client ? library().SSL_set_connect_state(hand.session.get())
                : library().SSL_set_accept_state(hand.session.get());
    hands.push_back(std::move(hand));
  }
  if (const np_status s = shake_all(context, hands, deadline_ns); s != NP_OK) return s;
  if (in_kernel) return hand_all_to_kernel(context, hands, deadline_ns);
  for (Hand& hand : hands) static_cast<ByOpenssl&>(*endpoint.path).give(hand.fd, std::move(hand.session));
  return NP_OK;
}

np_status make_tls(const np_context* context, std::unique_ptr<TcpPath>& path) {
  path.reset(new (std::nothrow) ByOpenssl);
  return path ? NP_OK : fail_tls(context, NP_NO_MEMORY, "no memory");
}

std::string tls_library() {
  return library().missing.empty() ? library().OpenSSL_version(OPENSSL_FULL_VERSION_STRING) : "";
}
// NOLINTEND(clang-analyzer-core.CallAndMessage)

#else

np_status tls_is_here(const np_context* context) {
  if (context->options[kTls].number == kTlsNo) return NP_OK;
  return fail_tls(context, NP_UNAVAILABLE, "netpipe was built without OpenSSL 3 (apt install libssl-dev)");
}
np_status secure(np_endpoint&, std::vector<Fd>&, int64_t) { return NP_OK; }
np_status make_tls(const np_context* context, std::unique_ptr<TcpPath>&) { return tls_is_here(context); }
std::string tls_library() { return ""; }

#endif

}  // namespace netpipe::tcp
