// SPDX-License-Identifier: Apache-2.0
// How ranks come to share sockets. Whoever connects proves itself in ZeroMQ's own handshake, before the library hands
// any message on: by PLAIN with its 32 random bytes as the password, or by CURVE with its public key. Who asks at the
// door is answered by a socket at the library's well-known place (ZAP, rfc.zeromq.org/spec/27), and only while ranks
// join: afterwards nobody answers, so nobody else comes in.
#include <array>
#include <charconv>
#include <cstdlib>
#include <string>
#include <vector>

#include "zmq_endpoint.h"

namespace netpipe::zmq {
namespace {

using namespace netpipe::queued;  // NOLINT(google-build-using-namespace): this file is about its words

np_status refused(const np_endpoint& e, const char* what) {
  return fail(e.context, NP_FAILED, "zmq: %s: %s", what, zmq_strerror(zmq_errno()));
}

bool set(void* socket, int option, int value) { return zmq_setsockopt(socket, option, &value, sizeof value) == 0; }
bool set(void* socket, int option, const std::string& text) {
  return zmq_setsockopt(socket, option, text.data(), text.size()) == 0;
}

std::string password(const Proof& proof) { return hex(proof.data(), proof.size()); }

bool prepare_socket(np_endpoint& e, void* socket, size_t size_class) {
  const int patience_ms = static_cast<int>(std::min<int64_t>(e.context->timeout_ns / 1'000'000 + 1, INT32_MAX));
  bool good = set(socket, ZMQ_LINGER, 0) && set(socket, ZMQ_SNDTIMEO, kSliceMs) && set(socket, ZMQ_RCVTIMEO, kSliceMs);
  good = good && set(socket, ZMQ_RECONNECT_IVL, -1);  // a connection that has broken has lost messages
  good = good && set(socket, ZMQ_HANDSHAKE_IVL, patience_ms);
  good = good && set(socket, ZMQ_SNDHWM, e.hwm(size_class)) && set(socket, ZMQ_RCVHWM, e.hwm(size_class));
  good = good && set(socket, ZMQ_IPV6, std::string_view(e.context->local_address).find(':') != std::string_view::npos);
  if (e.option(kSndbuf) != 0) good = good && set(socket, ZMQ_SNDBUF, static_cast<int>(e.option(kSndbuf)));
  if (e.option(kRcvbuf) != 0) good = good && set(socket, ZMQ_RCVBUF, static_cast<int>(e.option(kRcvbuf)));
  return good;
}

bool guard_door(np_endpoint& e, void* socket, int peer) {
  if (!set(socket, ZMQ_ZAP_DOMAIN, std::to_string(peer))) return false;
  if (e.option(kEncrypt) == 0) return set(socket, ZMQ_PLAIN_SERVER, 1);
  return set(socket, ZMQ_CURVE_SERVER, 1) && zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, e.secret_key.data(), 41) == 0;
}

bool carry_proof(np_endpoint& e, void* socket, const Place& there) {
  const Place& own = e.places[static_cast<size_t>(e.context->rank)];
  if (e.option(kEncrypt) == 0) {
    return set(socket, ZMQ_PLAIN_USERNAME, std::to_string(e.context->rank)) &&
           set(socket, ZMQ_PLAIN_PASSWORD, password(own.proof));
  }
  return zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, there.proof.data(), there.proof.size()) == 0 &&
         zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, e.public_key.data(), 41) == 0 &&
         zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, e.secret_key.data(), 41) == 0;
}

np_status make_socket(np_endpoint& e, int type, size_t size_class, Owned& made) {
  made.reset(zmq_socket(e.zmq.get(), type));
  if (!made) return refused(e, "zmq_socket");
  return prepare_socket(e, made.get(), size_class) ? NP_OK : refused(e, "zmq_setsockopt");
}

// Of the two ranks of a link the higher one listens; of pushpull each does, with its PULL.
int listening_type(Shape shape) {
  switch (shape) {
    case Shape::reqrep: return ZMQ_REP;
    case Shape::dealer: return ZMQ_DEALER;
    case Shape::pushpull: return ZMQ_PULL;
    default: return ZMQ_PAIR;
  }
}
int connecting_type(Shape shape) {
  switch (shape) {
    case Shape::reqrep: return ZMQ_REQ;
    case Shape::dealer: return ZMQ_DEALER;
    case Shape::pushpull: return ZMQ_PUSH;
    default: return ZMQ_PAIR;
  }
}

np_status watch(np_endpoint& e, Link& link, size_t at) {
  if (link.watch.open(e.zmq.get(), link.first.get(), "inproc://watch-" + std::to_string(at))) return NP_OK;
  return refused(e, "zmq_socket_monitor");
}

np_status listen_to(np_endpoint& e, int peer, size_t size_class) {
  Link& link = e.link(peer, size_class);
  Owned& socket = e.shape == Shape::pushpull ? link.second : link.first;
  if (const np_status s = make_socket(e, listening_type(e.shape), size_class, socket); s != NP_OK) return s;
  if (!guard_door(e, socket.get(), peer)) return refused(e, "zmq_setsockopt");
  Place& own = e.places[static_cast<size_t>(e.context->rank)];
  if (&socket == &link.first) {
    if (const np_status s = watch(e, link, slot(peer, size_class)); s != NP_OK) return s;
  }
  if (!e.over_tcp()) {
    const std::string name = "ipc://@" + abstract_name(own, slot(peer, size_class));
    return zmq_bind(socket.get(), name.c_str()) == 0 ? NP_OK : refused(e, name.c_str());
  }
  const std::string any = "tcp://" + numeric_host(own.host) + ":*";
  if (zmq_bind(socket.get(), any.c_str()) != 0) return refused(e, any.c_str());
  std::array<char, 256> bound{};
  size_t bytes = bound.size();
  if (zmq_getsockopt(socket.get(), ZMQ_LAST_ENDPOINT, bound.data(), &bytes) != 0) return refused(e, "zmq_getsockopt");
  const std::string_view text(bound.data());
  const std::string_view digits = text.substr(text.rfind(':') + 1);
  uint16_t port = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), port);
  own.ports[slot(peer, size_class)] = port;
  return NP_OK;
}

np_status connect_to(np_endpoint& e, int peer, size_t size_class) {
  Link& link = e.link(peer, size_class);
  const Place& there = e.places[static_cast<size_t>(peer)];
  const size_t at = slot(e.context->rank, size_class);
  if (const np_status s = make_socket(e, connecting_type(e.shape), size_class, link.first); s != NP_OK) return s;
  if (!carry_proof(e, link.first.get(), there)) return refused(e, "zmq_setsockopt");
  if (const np_status s = watch(e, link, slot(peer, size_class)); s != NP_OK) return s;
  std::string where = "ipc://@" + abstract_name(there, at);
  if (e.over_tcp()) {
    // From the own address, which is also that of the network that the other rank was told of: zmq_tcp(7).
    where = "tcp://" + numeric_host(e.context->local_address) + ":0;" + numeric_host(there.host) + ":" +
            std::to_string(there.ports[at]);
  }
  return zmq_connect(link.first.get(), where.c_str()) == 0 ? NP_OK : refused(e, where.c_str());
}

using Frame = std::string;

// One question of the library: may this one in?
void answer_at_door(np_endpoint& e) {
  std::vector<Frame> asked;
  for (bool more = true; more;) {
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    if (zmq_msg_recv(&frame, e.doorman.get(), ZMQ_DONTWAIT) < 0) {
      zmq_msg_close(&frame);
      return;
    }
    asked.emplace_back(static_cast<const char*>(zmq_msg_data(&frame)), zmq_msg_size(&frame));
    more = zmq_msg_more(&frame) != 0;
    zmq_msg_close(&frame);
  }
  enum Field { kVersion, kRequest, kDomain, kAddress, kIdentity, kMechanism, kCredentials };
  const bool encrypted = e.option(kEncrypt) != 0;
  bool known = asked.size() == (encrypted ? 7 : 8) && asked[kMechanism] == (encrypted ? "CURVE" : "PLAIN");
  int peer = -1;
  if (known) {
    const std::string& domain = asked[kDomain];
    const char* const end = domain.data() + domain.size();
    known = std::from_chars(domain.data(), end, peer).ptr == end;
  }
  known = known && peer >= 0 && peer < e.context->nranks;
  if (known) {
    const Proof& proof = e.places[static_cast<size_t>(peer)].proof;
    const std::string wanted = encrypted ? std::string(proof.begin(), proof.end()) : password(proof);
    const std::string& said = asked.back();
    known = said.size() == wanted.size() &&
            fd_io::same_bytes(reinterpret_cast<const uint8_t*>(said.data()),
                              reinterpret_cast<const uint8_t*>(wanted.data()), wanted.size());
  }
  const Frame request = asked.size() > kRequest ? asked[kRequest] : "";
  const Frame answer[] = {"1.0", request, known ? "200" : "400", known ? "OK" : "no", "", ""};
  for (size_t i = 0; i < std::size(answer); ++i) {
    const int flags = i + 1 < std::size(answer) ? ZMQ_SNDMORE : 0;
    (void)zmq_send(e.doorman.get(), answer[i].data(), answer[i].size(), flags | ZMQ_DONTWAIT);
  }
}

// What one rank still has to say to another, or to hear from it, before they are joined.
struct Greeting {
  int peer;
  void* socket;
  bool says, hears, hears_first;
  [[nodiscard]] bool done() const { return !says && !hears; }
  [[nodiscard]] bool speaks_now() const { return says && !(hears && hears_first); }
};

std::vector<Greeting> all_greetings(np_endpoint& e) {
  std::vector<Greeting> all;
  for (int peer = 0; peer < e.context->nranks; ++peer) {
    if (peer == e.context->rank) continue;
    for (size_t c = 0; c < e.classes(); ++c) {
      Link& link = e.link(peer, c);
      if (link.second) {
        all.push_back({peer, link.first.get(), true, false, false});
        all.push_back({peer, link.second.get(), false, true, false});
      } else {
        all.push_back({peer, link.first.get(), true, true, e.shape == Shape::reqrep && e.context->rank > peer});
      }
    }
  }
  return all;
}

np_status greet(np_endpoint& e, Greeting& greeting, const Token& word) {
  if (greeting.speaks_now() && zmq_send(greeting.socket, word.data(), word.size(), ZMQ_DONTWAIT) >= 0) {
    greeting.says = false;
  }
  // A REQ hears only when it has spoken.
  if (!greeting.hears || (greeting.says && !greeting.hears_first)) return NP_OK;
  Token heard{};
  const int got = zmq_recv(greeting.socket, heard.data(), heard.size(), ZMQ_DONTWAIT);
  if (got < 0) return NP_OK;
  if (got != static_cast<int>(heard.size()) || heard != word) {
    return fail(e.context, NP_FAILED,
                "zmq: rank %d greets with what is not this run's word; is the same netpipe there?", greeting.peer);
  }
  greeting.hears = false;
  return NP_OK;
}

void nap(np_endpoint& e, const std::vector<Greeting>& greetings) {
  std::vector<zmq_pollitem_t> items;
  items.push_back({e.doorman.get(), 0, ZMQ_POLLIN, 0});
  for (const Greeting& one : greetings) {
    const int wanted = (one.hears ? ZMQ_POLLIN : 0) | (one.speaks_now() ? ZMQ_POLLOUT : 0);
    if (wanted != 0) items.push_back({one.socket, 0, static_cast<short>(wanted), 0});
  }
  (void)zmq_poll(items.data(), static_cast<int>(items.size()), kSliceMs);
}

}  // namespace

np_status listen(np_endpoint& e) {
  e.doorman.reset(zmq_socket(e.zmq.get(), ZMQ_REP));
  if (!e.doorman || !set(e.doorman.get(), ZMQ_LINGER, 0) || zmq_bind(e.doorman.get(), "inproc://zeromq.zap.01") != 0) {
    return refused(e, "the handler of ZAP");
  }
  for (int peer = 0; peer < e.context->nranks; ++peer) {
    if (peer == e.context->rank || !listens_to(e.context, e.shape, peer)) continue;
    for (size_t c = 0; c < e.classes(); ++c) {
      if (const np_status s = listen_to(e, peer, c); s != NP_OK) return s;
    }
  }
  return NP_OK;
}

np_status join(np_endpoint& e) {
  const np_context* context = e.context;
  for (int peer = 0; peer < context->nranks; ++peer) {
    if (peer == context->rank || !connects_to(context, e.shape, peer)) continue;
    for (size_t c = 0; c < e.classes(); ++c) {
      if (const np_status s = connect_to(e, peer, c); s != NP_OK) return s;
    }
  }
  const int64_t deadline_ns = now_ns() + context->timeout_ns;
  std::vector<Greeting> greetings = all_greetings(e);
  while (!greetings.empty()) {
    if (*context->abort != 0) return fail(context, NP_ABORTED, "zmq: connecting was given up");
    if (now_ns() > deadline_ns) {
      return fail(context, NP_FAILED,
                  "zmq: connecting took longer than %.1f s; is rank %d alive, or is a firewall in between?",
                  static_cast<double>(context->timeout_ns) * 1e-9, greetings.front().peer);
    }
    nap(e, greetings);
    answer_at_door(e);
    for (Greeting& one : greetings) {
      if (const np_status s = greet(e, one, e.places[0].name); s != NP_OK) return s;
    }
    std::erase_if(greetings, [](const Greeting& one) { return one.done(); });
  }
  // A PUSH has spoken when its message is in the queue, which may be before it has a connection.
  for (Link& link : e.links) {
    while (link.first && !link.watch.connected() && *context->abort == 0 && now_ns() < deadline_ns)
      (void)zmq_poll(nullptr, 0, 1);
    link.watch.joined();
  }
  return NP_OK;
}

}  // namespace netpipe::zmq
