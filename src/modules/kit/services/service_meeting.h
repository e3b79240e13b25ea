// SPDX-License-Identifier: Apache-2.0
// How two ranks find each other's sockets of a library for services, and prove who they are: what zmq, nng and grpc
// share.
//
// A rank listens at a place of its own for each peer that connects to it, so a place says who is expected there. The
// address that a rank tells the others has the ports of these places (transport=tcp) and a random name from which
// theirs follow (transport=ipc: the abstract AF_UNIX namespace, so no file is left behind), and 32 random bytes that
// whoever connects has to say. The address travels over netpipe's authenticated control connection.
#pragma once

#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "kit/services/queued.h"
#include "kit/streams/fd_connect.h"
#include "netpipe/module.h"

namespace netpipe::queued {

using fd_io::Proof;
using Token = std::array<uint8_t, 16>;

// Messages up to kLargeBytes and those above it may have connections of their own: queues that hold the library's usual
// number of the small ones would take gigabytes of the large ones.
constexpr size_t kClasses = 2;
constexpr uint64_t kLargeBytes = 64 * 1024;
constexpr uint64_t kLargeQueueBytes = 64 * 1024 * 1024;

enum class Transport { tcp, ipc };
#define NP_SERVICE_TRANSPORTS "tcp|ipc"

// Which sockets join two ranks. Of pushpull each rank has one for either direction; of the others one does both.
enum class Shape { pair, reqrep, dealer, pushpull };

inline std::string hex(const uint8_t* bytes, size_t count) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

// Names in the abstract namespace are seen within one network namespace of one running kernel.
inline std::string here() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  std::getline(file, boot);
  std::array<char, 64> room{};
  const ssize_t got = readlink("/proc/self/ns/net", room.data(), room.size());
  return boot + " " + std::string(room.data(), static_cast<size_t>(got > 0 ? got : 0));
}

// What one rank tells the others. Text and little-endian numbers only, so it is the same on every machine.
struct Place {
  Proof proof{};
  Token name{};
  std::vector<uint16_t> ports;  // by rank that connects here, kClasses for each; 0: it does not
  std::string host;             // numeric address
  std::string realm;            // here()
};

inline np_status random_place(const np_context* context, Place& place) {
  place.ports.assign(kClasses * static_cast<size_t>(context->nranks), 0);
  place.host = context->local_address;
  place.realm = here();
  const auto bytes = static_cast<ssize_t>(place.name.size());
  if (fd_io::make_proof(place.proof) && getrandom(place.name.data(), place.name.size(), 0) == bytes) return NP_OK;
  return fail(context, NP_FAILED, "getrandom: %s", std::strerror(errno));
}

inline np_status write_place(const np_context* context, const Place& place, void* data, size_t* bytes) {
  std::string text(place.proof.begin(), place.proof.end());
  text.append(place.name.begin(), place.name.end());
  for (const uint16_t port : place.ports) {
    text += static_cast<char>(port & 255);
    text += static_cast<char>(port >> 8);
  }
  text += place.host + '\n' + place.realm;
  if (text.size() > *bytes) {
    return fail(context, NP_USAGE, "%d ranks are more than this layer can join; ask for fewer", context->nranks);
  }
  std::memcpy(data, text.data(), text.size());
  *bytes = text.size();
  return NP_OK;
}

inline np_status read_place(const np_context* context, int peer, const void* data, size_t bytes, Place& place) {
  const auto* at = static_cast<const uint8_t*>(data);
  const size_t ports = kClasses * static_cast<size_t>(context->nranks);
  const size_t first = place.proof.size() + place.name.size(), text = first + 2 * ports;
  const std::string_view whole(static_cast<const char*>(data), bytes);
  const size_t end = bytes >= text ? whole.find('\n', text) : std::string_view::npos;
  if (end == std::string_view::npos) {
    return fail(context, NP_FAILED, "the address of rank %d is malformed; is the same netpipe installed there?", peer);
  }
  std::memcpy(place.proof.data(), at, place.proof.size());
  std::memcpy(place.name.data(), at + place.proof.size(), place.name.size());
  place.ports.resize(ports);
  for (size_t i = 0; i < ports; ++i) {
    place.ports[i] = static_cast<uint16_t>(at[first + 2 * i] | at[first + 2 * i + 1] << 8);
  }
  place.host = whole.substr(text, end - text);
  place.realm = whole.substr(end + 1);
  return NP_OK;
}

// Who listens: of two ranks the higher one; of pushpull each listens to the other.
inline bool listens_to(const np_context* context, Shape shape, int peer) {
  return shape == Shape::pushpull || context->rank > peer;
}
inline bool connects_to(const np_context* context, Shape shape, int peer) {
  return shape == Shape::pushpull || context->rank < peer;
}

// What a rank waits for a reply of, or is asked for one.
inline Turn first_turn(const np_context* context, Shape shape, int peer) {
  if (shape != Shape::reqrep) return Turn::any;
  return context->rank < peer ? Turn::to_send : Turn::to_receive;
}

inline std::string numeric_host(const std::string& host) {
  return host.find(':') != std::string::npos ? "[" + host + "]" : host;
}
// Which of the ports, or of the names.
inline size_t slot(int from, size_t size_class) { return kClasses * static_cast<size_t>(from) + size_class; }
// In the abstract namespace: where this place's rank listens.
inline std::string abstract_name(const Place& place, size_t slot) {
  return "netpipe-" + hex(place.name.data(), place.name.size()) + "-" + std::to_string(slot);
}

// Ranks that poll, and a thread of the library for each of them: where they have fewer processors than that, a loop
// that polls would keep somebody from working whom it waits for. processors: that the library's threads may use.
inline bool must_yield(const np_context* context, int64_t processors) {
  return context->oversubscribed != 0 || processors == 1 || processors < 2 * int64_t{context->nranks};
}

// Without it a stream of large messages could fill the memory of the host: a queue counts messages and not bytes.
inline np_status queues_fit(const np_context* context, const char* layer, const char* option, int64_t messages) {
  const uint64_t most =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) / 8;
  if (static_cast<uint64_t>(messages) * context->max_bytes <= most) return NP_OK;
  return fail(context, NP_USAGE,
              "%s: %s=%lld lets so many messages of %llu bytes wait on each side, more than an eighth of this host's "
              "memory; ask for fewer, or end at smaller messages",
              layer, option, static_cast<long long>(messages), static_cast<unsigned long long>(context->max_bytes));
}

// All ranks have told who they are: whether this transport can join them. setting: what chose it.
inline np_status same_realm(const np_context* context, const char* layer, const char* setting, Transport transport,
                            const std::vector<Place>& places) {
  if (transport != Transport::ipc) return NP_OK;
  for (size_t rank = 0; rank < places.size(); ++rank) {
    const std::string& realm = places[rank].realm;
    if (!realm.empty() && realm[0] != ' ' && realm == places[static_cast<size_t>(context->rank)].realm) continue;
    return fail(
        context, NP_USAGE,
        "%s: %s joins processes of one host and network namespace, and rank %zu is elsewhere; use transport=tcp", layer,
        setting, rank);
  }
  return NP_OK;
}

}  // namespace netpipe::queued
