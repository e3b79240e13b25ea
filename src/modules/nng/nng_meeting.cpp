// SPDX-License-Identifier: Apache-2.0
// How ranks come to share sockets. nng asks nobody for a password, so the first message of whoever connects has to be
// its 32 random bytes; who says something else, or nothing for a second, is turned out, and once the ranks are joined
// nobody else is let in. The one who listens answers with the same bytes, where the protocol has a way back.
#include <arpa/inet.h>
#include <nng/nng.h>

// Those below need it first.
#include <nng/protocol/pair0/pair.h>
#include <nng/protocol/pipeline0/pull.h>
#include <nng/protocol/pipeline0/push.h>
#include <nng/protocol/reqrep0/rep.h>
#include <nng/protocol/reqrep0/req.h>

#include <ctime>
#include <string>
#include <vector>

#include "nng_endpoint.h"

namespace netpipe::nng {
namespace {

using namespace netpipe::queued;  // NOLINT(google-build-using-namespace): this file is about its words

constexpr int64_t kNapNs = 500'000;
constexpr nng_duration kRetryMs = 20;

np_status refused(const np_endpoint& e, const std::string& what, int error) {
  return fail(e.context, NP_FAILED, "nng: %s: %s", what.c_str(), nng_strerror(error));
}

int open_socket(Shape shape, bool listens, nng_socket* socket) {
  switch (shape) {
    case Shape::reqrep: return listens ? nng_rep0_open(socket) : nng_req0_open(socket);
    case Shape::pushpull: return listens ? nng_pull0_open(socket) : nng_push0_open(socket);
    default: return nng_pair0_open(socket);
  }
}

np_status make_door(np_endpoint& e, bool listens, std::unique_ptr<Door>& made) {
  nng_socket socket = NNG_SOCKET_INITIALIZER;
  if (const int error = open_socket(e.shape, listens, &socket); error != 0)
    return refused(e, "opening a socket", error);
  made = std::make_unique<Door>(socket, listens && e.shape == Shape::pair);
  int error = nng_socket_set_ms(socket, NNG_OPT_SENDTIMEO, kSliceMs);
  if (error == 0) error = nng_socket_set_ms(socket, NNG_OPT_RECVTIMEO, kSliceMs);
  if (error == 0) error = nng_socket_set_size(socket, NNG_OPT_RECVMAXSZ, 0);  // any size
  if (error == 0) error = nng_socket_set_ms(socket, NNG_OPT_RECONNMINT, kRetryMs);
  if (error == 0) error = nng_socket_set_ms(socket, NNG_OPT_RECONNMAXT, kRetryMs);
  // A request that is sent again would be measured twice.
  if (error == 0 && e.shape == Shape::reqrep && !listens) {
    error = nng_socket_set_ms(socket, NNG_OPT_REQ_RESENDTIME, NNG_DURATION_INFINITE);
  }
  const auto count = [&](Option option, const char* name) {
    if (error != 0 || e.option(option) == 0) return;
    error = nng_socket_set_int(socket, name, static_cast<int>(e.option(option)));
  };
  const bool one_way = e.shape == Shape::pushpull;
  if (!one_way || !listens) count(kSendbuf, NNG_OPT_SENDBUF);
  if (!one_way || listens) count(kRecvbuf, NNG_OPT_RECVBUF);
  return error == 0 ? NP_OK : refused(e, "setting up a socket", error);
}

np_status listen_to(np_endpoint& e, int peer) {
  Link& link = e.links[static_cast<size_t>(peer)];
  Place& own = e.places[static_cast<size_t>(e.context->rank)];
  std::unique_ptr<Door>& door = e.shape == Shape::pushpull ? link.second : link.first;
  if (const np_status s = make_door(e, true, door); s != NP_OK) return s;
  const std::string where =
      e.over_tcp() ? "tcp://" + numeric_host(own.host) + ":0" : "abstract://" + abstract_name(own, slot(peer, 0));
  nng_listener listener;
  int error = nng_listener_create(&listener, door->socket, where.c_str());
  if (error == 0 && e.over_tcp()) error = nng_listener_set_bool(listener, NNG_OPT_TCP_NODELAY, e.option(kNodelay) != 0);
  if (error == 0) error = nng_listener_start(listener, 0);
  int port = 0;
  if (error == 0 && e.over_tcp()) error = nng_listener_get_int(listener, NNG_OPT_TCP_BOUND_PORT, &port);
  if (error != 0) return refused(e, "listening at " + where, error);
  own.ports[slot(peer, 0)] = static_cast<uint16_t>(port);
  return NP_OK;
}

// From the own address, which is also that of the network that the other rank was told of.
int leave_from(nng_dialer dialer, const char* host) {
  nng_sockaddr from{};
  if (inet_pton(AF_INET, host, &from.s_in.sa_addr) == 1) {
    from.s_in.sa_family = NNG_AF_INET;
  } else if (inet_pton(AF_INET6, host, &from.s_in6.sa_addr) == 1) {
    from.s_in6.sa_family = NNG_AF_INET6;
  } else {
    return NNG_EADDRINVAL;
  }
  return nng_dialer_set_addr(dialer, NNG_OPT_LOCADDR, &from);
}

np_status connect_to(np_endpoint& e, int peer) {
  Link& link = e.links[static_cast<size_t>(peer)];
  const Place& there = e.places[static_cast<size_t>(peer)];
  const size_t at = slot(e.context->rank, 0);
  if (const np_status s = make_door(e, false, link.first); s != NP_OK) return s;
  const std::string where = e.over_tcp() ? "tcp://" + numeric_host(there.host) + ":" + std::to_string(there.ports[at])
                                         : "abstract://" + abstract_name(there, at);
  nng_dialer dialer;
  int error = nng_dialer_create(&dialer, link.first->socket, where.c_str());
  if (error == 0 && e.over_tcp()) error = nng_dialer_set_bool(dialer, NNG_OPT_TCP_NODELAY, e.option(kNodelay) != 0);
  if (error == 0 && e.over_tcp()) error = leave_from(dialer, e.context->local_address);
  if (error == 0) error = nng_dialer_start(dialer, NNG_FLAG_NONBLOCK);  // it goes on trying
  return error == 0 ? NP_OK : refused(e, "connecting to " + where, error);
}

int say(nng_socket socket, const Proof& proof) {
  return nng_send(socket, const_cast<uint8_t*>(proof.data()), proof.size(), NNG_FLAG_NONBLOCK);
}

// One end of a connection that is being made.
struct Greeting {
  int peer;
  Door* door;
  bool listens, answers;  // answers: the protocol has a way back
  bool done = false;
  bool asked = false;
  int said_to = -1;  // the pipe that was there when the own bytes were said
};

void hear_of(Greeting& g, const Proof& wanted) {
  nng_msg* message = nullptr;
  if (nng_recvmsg(g.door->socket, &message, NNG_FLAG_NONBLOCK) != 0) return;
  const nng_pipe pipe = nng_msg_get_pipe(message);
  const auto* said = static_cast<const uint8_t*>(nng_msg_body(message));
  const bool known = nng_msg_len(message) == wanted.size() && fd_io::same_bytes(said, wanted.data(), wanted.size());
  nng_msg_free(message);
  if (!known) {
    nng_pipe_close(pipe);
    return;
  }
  g.asked = g.door->shut(pipe);
}

void listen_for(np_endpoint& e, Greeting& g) {
  const Proof& wanted = e.places[static_cast<size_t>(g.peer)].proof;
  if (!g.asked) hear_of(g, wanted);
  if (!g.asked) {
    for (const Door::Guest& guest : g.door->guests()) {
      if (now_ns() - guest.since_ns > fd_io::kStrangerPatienceNs) nng_pipe_close(guest.pipe);
    }
    return;
  }
  g.done = !g.answers || say(g.door->socket, wanted) == 0;
}

void connect_for(np_endpoint& e, Greeting& g) {
  const Proof& own = e.places[static_cast<size_t>(e.context->rank)].proof;
  const std::vector<Door::Guest> there = g.door->guests();
  if (there.empty()) return;
  const nng_pipe pipe = there.back().pipe;
  if (nng_pipe_id(pipe) != g.said_to) {  // one that was closed has taken what was said with it
    if (say(g.door->socket, own) != 0) return;
    g.said_to = nng_pipe_id(pipe);
  }
  if (!g.answers) {
    g.done = g.door->shut(pipe);
    return;
  }
  Proof heard{};
  size_t bytes = heard.size();
  if (nng_recv(g.door->socket, heard.data(), &bytes, NNG_FLAG_NONBLOCK) != 0) return;
  g.done = bytes == own.size() && heard == own && g.door->shut(pipe);
}

std::vector<Greeting> all_greetings(np_endpoint& e) {
  std::vector<Greeting> all;
  for (int peer = 0; peer < e.context->nranks; ++peer) {
    Link& link = e.links[static_cast<size_t>(peer)];
    const bool one_way = e.shape == Shape::pushpull;
    if (link.first) all.push_back({peer, link.first.get(), !one_way && e.context->rank > peer, !one_way});
    if (link.second) all.push_back({peer, link.second.get(), true, false});
  }
  return all;
}

}  // namespace

np_status listen(np_endpoint& e) {
  for (int peer = 0; peer < e.context->nranks; ++peer) {
    if (peer == e.context->rank || !listens_to(e.context, e.shape, peer)) continue;
    if (const np_status s = listen_to(e, peer); s != NP_OK) return s;
  }
  return NP_OK;
}

np_status join(np_endpoint& e) {
  const np_context* context = e.context;
  for (int peer = 0; peer < context->nranks; ++peer) {
    if (peer == context->rank || !connects_to(context, e.shape, peer)) continue;
    if (const np_status s = connect_to(e, peer); s != NP_OK) return s;
  }
  const int64_t deadline_ns = now_ns() + context->timeout_ns;
  std::vector<Greeting> greetings = all_greetings(e);
  while (!greetings.empty()) {
    if (*context->abort != 0) return fail(context, NP_ABORTED, "nng: connecting was given up");
    if (now_ns() > deadline_ns) {
      return fail(context, NP_FAILED,
                  "nng: connecting took longer than %.1f s; is rank %d alive, or is a firewall in between?",
                  static_cast<double>(context->timeout_ns) * 1e-9, greetings.front().peer);
    }
    for (Greeting& g : greetings) g.listens ? listen_for(e, g) : connect_for(e, g);
    std::erase_if(greetings, [](const Greeting& g) { return g.done; });
    const timespec nap = {0, kNapNs};
    nanosleep(&nap, nullptr);
  }
  return NP_OK;
}

}  // namespace netpipe::nng
