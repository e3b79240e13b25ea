// SPDX-License-Identifier: Apache-2.0
// How ranks come to reach each other. Each tells the others which provider it took, where it is, and 32 random bytes.
// ep=rdm and ep=dgram need no more: the addresses go into the address vector. ep=msg makes a connection for each two
// ranks: the higher one listens, the lower one connects and proves itself with its random bytes, as a connection of tcp
// does; who says anything else is rejected.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "fabric_datagrams.h"
#include "fabric_memory.h"
#include "fabric_messages.h"
#include "fabric_open.h"
#include "fabric_progress.h"
#include "fabric_provider.h"

namespace netpipe::fabric {
namespace {

using fd_io::Number;
using fd_io::Proof;

constexpr size_t kNameBytes = 64, kHostBytes = 40;

// What travels to the other ranks, with the place behind it.
struct Card {
  char provider[kNameBytes]{};
  char host[kHostBytes]{};  // the boot of the kernel: the same for processes that can share memory
  Proof proof{};
  uint64_t barrier_base = 0, barrier_key = 0;  // of ep=msg
  fd_io::SentCounts::Desk desk;                // of ep=dgram
};

// What a connection says first.
struct Hello {
  Proof proof{};
  Number rank;
};

void read_boot_id(char (&host)[kHostBytes]) {
  if (std::FILE* file = std::fopen("/proc/sys/kernel/random/boot_id", "re"); file != nullptr) {
    const size_t got = std::fread(host, 1, sizeof host - 1, file);
    host[got] = '\0';
    std::fclose(file);
  }
}

Card own_card(const np_endpoint& endpoint) {
  Card card;
  std::snprintf(card.provider, sizeof card.provider, "%s", endpoint.name.c_str());
  read_boot_id(card.host);
  card.proof = endpoint.peers[static_cast<size_t>(endpoint.context->rank)].proof;
  if (endpoint.type == kDgram) card.desk = endpoint.left.desk();
  if (endpoint.barrier_memory) {
    const bool by_address = (endpoint.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
    card.barrier_base = by_address ? reinterpret_cast<uint64_t>(endpoint.barrier_word) : 0;
    card.barrier_key = fi_mr_key(endpoint.barrier_memory.get());
  }
  return card;
}

uint64_t number_of(const Proof& proof, size_t at) {
  uint64_t number = 0;
  for (size_t i = 0; i < sizeof number; ++i) number |= uint64_t{proof[at + i]} << (8 * i);
  return number;
}

// What messages from one rank to another carry: nobody else knows the random part, if the provider's tags have room
// for one.
uint64_t tag_of(const np_endpoint& endpoint, int from, const Proof& to, bool barrier) {
  constexpr int kRankBits = 24;
  const uint64_t own = uint64_t{static_cast<uint32_t>(from)} << 1 | (barrier ? 1 : 0);
  const uint64_t format = endpoint.info->ep_attr->mem_tag_format;
  constexpr uint64_t kUsed = UINT64_C(0x0fffffffffffffff);
  return format > kUsed / 2 ? (number_of(to, 0) << (kRankBits + 1) & kUsed) | own : own;
}

np_status read_card(np_endpoint& endpoint, int rank, const void* data, size_t bytes, const Card& own) {
  const np_context* context = endpoint.context;
  Card card;
  if (bytes < sizeof card) return fail(context, NP_FAILED, "libfabric: the address of rank %d is malformed", rank);
  std::memcpy(&card, data, sizeof card);
  card.provider[kNameBytes - 1] = card.host[kHostBytes - 1] = '\0';
  if (std::strcmp(card.provider, own.provider) != 0) {
    return fail(context, NP_UNAVAILABLE,
                "libfabric: rank %d takes provider %s and rank %d %s; name one that both have with provider=",
                context->rank, own.provider, rank, card.provider);
  }
  if (std::strcmp(card.provider, "shm") == 0 && std::strcmp(card.host, own.host) != 0) {
    return fail(context, NP_UNAVAILABLE,
                "libfabric: provider=shm joins processes of one host, and rank %d is on another", rank);
  }
  Peer& peer = endpoint.peers[static_cast<size_t>(rank)];
  const auto* place = static_cast<const uint8_t*>(data) + sizeof card;
  peer.proof = card.proof;
  peer.barrier_base = card.barrier_base;
  peer.barrier_key = card.barrier_key;
  peer.place.assign(place, place + (bytes - sizeof card));
  peer.name = address_text(*endpoint.info, peer.place.data(), peer.place.size());
  peer.token = number_of(card.proof, 16);
  peer.send_tag = tag_of(endpoint, context->rank, card.proof, false);
  peer.barrier_send_tag = tag_of(endpoint, context->rank, card.proof, true);
  peer.recv_tag = tag_of(endpoint, rank, own.proof, false);
  peer.barrier_recv_tag = tag_of(endpoint, rank, own.proof, true);
  if (endpoint.type == kDgram && rank != context->rank) return endpoint.left.meet(rank, card.desk);
  return NP_OK;
}

np_status insert_addresses(np_endpoint& endpoint) {
  for (int rank = 0; rank < endpoint.context->nranks; ++rank) {
    Peer& peer = endpoint.peers[static_cast<size_t>(rank)];
    peer.ep = endpoint.endpoint.get();
    const int code = fi_av_insert(endpoint.addresses.get(), peer.place.data(), 1, &peer.at, 0, nullptr);
    if (code != 1) return failed(endpoint, ("fi_av_insert of " + peer.name).c_str(), code < 0 ? code : -FI_EINVAL);
  }
  return NP_OK;
}

// ---------------------------------------------------------------------------------------------- ep=msg

np_status begin(np_endpoint& endpoint, int rank) {
  Peer& peer = endpoint.peers[static_cast<size_t>(rank)];
  const Info there(fi_dupinfo(endpoint.info.get()));
  if (!there) return fail(endpoint.context, NP_NO_MEMORY, "libfabric: no memory for a connection");
  std::free(there->dest_addr);
  there->dest_addr = std::malloc(peer.place.size());
  if (there->dest_addr == nullptr) return fail(endpoint.context, NP_NO_MEMORY, "libfabric: no memory for an address");
  std::memcpy(there->dest_addr, peer.place.data(), peer.place.size());
  there->dest_addrlen = peer.place.size();
  if (const np_status s = make_endpoint(endpoint, there.get(), peer.connection); s != NP_OK) return s;
  peer.ep = peer.connection.get();
  int code = fi_enable(peer.ep);
  if (code != 0) return failed(endpoint, "fi_enable", code);
  Hello hello;
  hello.proof = endpoint.peers[static_cast<size_t>(endpoint.context->rank)].proof;
  hello.rank = Number(static_cast<uint32_t>(endpoint.context->rank));
  code = fi_connect(peer.ep, peer.place.data(), &hello, sizeof hello);
  return code == 0 ? NP_OK : failed(endpoint, ("fi_connect to " + peer.name).c_str(), code);
}

// Somebody connects. Strangers are rejected, and the others are none the worse for it.
np_status admit(np_endpoint& endpoint, const fi_eq_cm_entry& entry, size_t said) {
  const Info offer(entry.info);
  Hello hello;
  uint32_t rank = UINT32_MAX;
  if (said >= sizeof hello) {
    std::memcpy(&hello, entry.data, sizeof hello);
    rank = hello.rank.value();
  }
  const bool known = rank < static_cast<uint32_t>(endpoint.context->rank);
  Peer* const peer = known ? &endpoint.peers[rank] : nullptr;
  if (peer == nullptr || peer->connection ||
      !fd_io::same_bytes(hello.proof.data(), peer->proof.data(), hello.proof.size())) {
    fi_reject(endpoint.listener.get(), offer->handle, nullptr, 0);
    return NP_OK;
  }
  if (const np_status s = make_endpoint(endpoint, offer.get(), peer->connection); s != NP_OK) return s;
  peer->ep = peer->connection.get();
  int code = fi_enable(peer->ep);
  if (code == 0) code = fi_accept(peer->ep, nullptr, 0);
  return code == 0 ? NP_OK : failed(endpoint, "fi_accept", code);
}

// One event, if there is any.
np_status take_event(np_endpoint& endpoint, int& missing) {
  alignas(fi_eq_cm_entry) char room[sizeof(fi_eq_cm_entry) + 512];
  uint32_t event = 0;
  const ssize_t got = fi_eq_sread(endpoint.events.get(), &event, room, sizeof room, 10, 0);
  if (got == -FI_EAGAIN || got == -FI_EINTR || got == -FI_ETIMEDOUT || got == 0) return NP_OK;
  if (got == -FI_EAVAIL) {
    fi_eq_err_entry error{};
    fi_eq_readerr(endpoint.events.get(), &error, 0);
    // A stranger who went away has no endpoint here.
    const auto is_of = [&](const Peer& peer) { return peer.ep != nullptr && error.fid == &peer.ep->fid; };
    const auto peer = std::find_if(endpoint.peers.begin(), endpoint.peers.end(), is_of);
    if (peer == endpoint.peers.end()) return NP_OK;
    return fail(endpoint.context, NP_FAILED, "libfabric: connecting to rank %d at %s: %s",
                static_cast<int>(peer - endpoint.peers.begin()), peer->name.c_str(), fi_strerror(error.err));
  }
  if (got < 0) return failed(endpoint, "fi_eq_sread", got);
  const auto& entry = *reinterpret_cast<fi_eq_cm_entry*>(room);
  if (event == FI_CONNREQ) return admit(endpoint, entry, static_cast<size_t>(got) - sizeof entry);
  if (event == FI_CONNECTED) --missing;
  if (event == FI_SHUTDOWN) {
    return fail(endpoint.context, NP_PEER_LOST, "libfabric: a peer closed its connection; its own error says why");
  }
  return NP_OK;
}

}  // namespace

np_status listen(np_endpoint& endpoint) {
  if (!fd_io::listens(endpoint.context)) return NP_OK;
  fid_pep* listener = nullptr;
  int code = fi_passive_ep(endpoint.fabric.get(), endpoint.info.get(), &listener, nullptr);
  endpoint.listener.reset(listener);
  if (code == 0) code = fi_pep_bind(listener, &endpoint.events->fid, 0);
  if (code == 0) code = fi_listen(listener);
  if (code != 0) return failed(endpoint, "fi_listen", code);
  endpoint.place.resize(1024);
  size_t bytes = endpoint.place.size();
  code = fi_getname(&listener->fid, endpoint.place.data(), &bytes);
  if (code != 0) return failed(endpoint, "fi_getname", code);
  endpoint.place.resize(bytes);
  return NP_OK;
}

np_status connect_all(np_endpoint& endpoint) {
  const np_context* context = endpoint.context;
  const int64_t deadline_ns = now_ns() + context->timeout_ns;
  for (int rank = context->rank + 1; rank < context->nranks; ++rank) {
    if (const np_status s = begin(endpoint, rank); s != NP_OK) return s;
  }
  for (int missing = context->nranks - 1; missing > 0;) {
    if (*context->abort != 0) return aborted(endpoint);
    if (now_ns() > deadline_ns) {
      return fail(
          context, NP_FAILED,
          "libfabric: %d of %d peers did not connect within %.1f s; are they alive, or is a firewall in between?",
          missing, context->nranks - 1, static_cast<double>(context->timeout_ns) * 1e-9);
    }
    if (const np_status s = take_event(endpoint, missing); s != NP_OK) return s;
  }
  endpoint.listener.reset();
  return NP_OK;
}

np_status address(np_endpoint* endpoint, void* data, size_t* bytes) {
  const Card card = own_card(*endpoint);
  if (*bytes < sizeof card + endpoint->place.size()) {
    return fail(endpoint->context, NP_FAILED, "libfabric: no room for an address of %zu bytes",
                sizeof card + endpoint->place.size());
  }
  std::memcpy(data, &card, sizeof card);
  if (!endpoint->place.empty()) {
    std::memcpy(static_cast<char*>(data) + sizeof card, endpoint->place.data(), endpoint->place.size());
  }
  *bytes = sizeof card + endpoint->place.size();
  return NP_OK;
}

np_status connect(np_endpoint* endpoint, const void* const* addresses, const size_t* bytes) {
  const np_context* context = endpoint->context;
  const Card own = own_card(*endpoint);
  for (int rank = 0; rank < context->nranks; ++rank) {
    const auto at = static_cast<size_t>(rank);
    if (const np_status s = read_card(*endpoint, rank, addresses[at], bytes[at], own); s != NP_OK) return s;
  }
  if (endpoint->type == kMsg) return connect_all(*endpoint);
  if (const np_status s = insert_addresses(*endpoint); s != NP_OK) return s;
  return endpoint->type == kDgram ? endpoint->left.start() : greet_all(*endpoint);
}

}  // namespace netpipe::fabric
