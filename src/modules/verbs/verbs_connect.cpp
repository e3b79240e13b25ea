// SPDX-License-Identifier: Apache-2.0
// Each rank tells the others the numbers of the queue pairs that it has for them, where packets come from, and 32
// random bytes. When a rank's own pairs are ready it says the peer's random bytes over the control pair: whoever was
// not told on netpipe's authenticated connection cannot.
#include "verbs_connect.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "verbs_cells.h"
#include "verbs_control.h"
#include "verbs_datagrams.h"
#include "verbs_progress.h"
#include "verbs_queues.h"

namespace netpipe::verbs {
namespace {

struct Card {
  Proof proof{};
  ibv_gid gid{};
  uint32_t lid = 0, key = 0, mtu = 0, type = 0, op = 0, qps = 0;
  uint32_t room_key = 0;
  uint64_t flag_bytes = 0;
  uint32_t cells = 0, cell_bytes = 0;  // of each peer, for RDMA writes of qp=uc
};
// Behind it for each rank: what this rank has for it.
struct ForRank {
  uint64_t flags = 0, credit = 0;
};
struct PairNumbers {
  uint32_t pair = 0, first = 0;
};

size_t card_bytes(const np_endpoint& endpoint) {
  const size_t each = sizeof(ForRank) + (1 + pairs_of_peer(endpoint.set)) * sizeof(PairNumbers);
  return sizeof(Card) + endpoint.peers.size() * each;
}

np_status same_settings(const np_endpoint& endpoint, int rank, const Card& card) {
  const Settings& set = endpoint.set;
  if (card.type == set.type && card.op == set.op && card.qps == set.qps && card.flag_bytes == endpoint.flag_bytes) {
    return NP_OK;
  }
  return fail(endpoint.context, NP_FAILED, "verbs: rank %d has other settings than rank %d", rank,
              endpoint.context->rank);
}

np_status read_card(np_endpoint& endpoint, int rank, const void* data, size_t bytes) {
  Card card;
  if (bytes != card_bytes(endpoint)) {
    return fail(endpoint.context, NP_FAILED, "verbs: the address of rank %d is malformed", rank);
  }
  std::memcpy(&card, data, sizeof card);
  if (const np_status s = same_settings(endpoint, rank, card); s != NP_OK) return s;
  Peer& peer = peer_of(endpoint, rank);
  peer.proof = card.proof;
  peer.gid = card.gid;
  peer.lid = static_cast<uint16_t>(card.lid);
  peer.key = card.key;
  peer.datagrams.far_cells = card.cells;
  peer.datagrams.far_cell_bytes = card.cell_bytes;
  endpoint.set.device_mtu = std::min(endpoint.set.device_mtu, static_cast<int>(card.mtu));
  const size_t pairs = 1 + pairs_of_peer(endpoint.set);
  const size_t each = sizeof(ForRank) + pairs * sizeof(PairNumbers);
  const char* at = static_cast<const char*>(data) + sizeof card + static_cast<size_t>(endpoint.context->rank) * each;
  ForRank places;
  std::memcpy(&places, at, sizeof places);
  at += sizeof places;
  peer.written.far_flags = places.flags;
  peer.written.far_credit = places.credit;
  peer.written.far_flags_key = card.room_key;
  for (size_t i = 0; i < pairs; ++i) {
    PairNumbers numbers;
    std::memcpy(&numbers, at + i * sizeof numbers, sizeof numbers);
    Queue& queue = i == 0 ? *peer.control.queue : *peer.queues[i - 1];
    if (endpoint.set.type == kUd && i > 0) {
      peer.far_pair = numbers.pair;
      continue;
    }
    queue.far_pair = numbers.pair;
    queue.far_first = numbers.first;
  }
  return NP_OK;
}

}  // namespace

np_status address(np_endpoint* endpoint, void* data, size_t* bytes) {
  np_endpoint& e = *endpoint;
  const Peer& own = peer_of(e, e.context->rank);
  if (*bytes < card_bytes(e)) {
    return fail(e.context, NP_USAGE, "verbs: %d ranks with qps=%llu are more than this layer can join; ask for fewer",
                e.context->nranks, static_cast<unsigned long long>(e.set.qps));
  }
  Card card;
  card.proof = own.proof;
  card.gid = e.gid;
  card.lid = e.port.lid;
  card.key = own.key;
  card.mtu = static_cast<uint32_t>(e.set.device_mtu);
  card.type = e.set.type;
  card.op = e.set.op;
  card.qps = static_cast<uint32_t>(e.set.qps);
  card.room_key = e.room_memory->rkey;
  card.flag_bytes = e.flag_bytes;
  card.cells = static_cast<uint32_t>(e.cells_per_queue);
  card.cell_bytes = static_cast<uint32_t>(e.cell_bytes);
  char* at = static_cast<char*>(data);
  const auto write = [&at](const auto& value) {
    std::memcpy(at, &value, sizeof value);
    at += sizeof value;
  };
  write(card);
  for (size_t rank = 0; rank < e.peers.size(); ++rank) {
    const Peer& peer = e.peers[rank];
    const char* flags = e.flags + rank * kFlagCells * e.flag_bytes;
    const bool is_own = peer.control.queue == nullptr;
    if (writes_cells(e) && !is_own) flags = cell_at(e, cell_of(e, static_cast<int>(rank), 0));
    write(ForRank{reinterpret_cast<uint64_t>(flags), reinterpret_cast<uint64_t>(e.credit) + rank * kLine});
    for (uint64_t i = 0; i <= pairs_of_peer(e.set); ++i) {
      const Queue* queue = is_own ? nullptr : i == 0 ? peer.control.queue : peer.queues[i - 1];
      write(queue == nullptr ? PairNumbers{} : PairNumbers{queue->pair->qp_num, queue->first_number});
    }
  }
  *bytes = card_bytes(e);
  return NP_OK;
}

np_status connect(np_endpoint* endpoint, const void* const* addresses, const size_t* bytes) {
  np_endpoint& e = *endpoint;
  for (int rank = 0; rank < e.context->nranks; ++rank) {
    if (rank == e.context->rank) continue;
    const auto at = static_cast<size_t>(rank);
    if (const np_status s = read_card(e, rank, addresses[at], bytes[at]); s != NP_OK) return s;
  }
  for (Queue& queue : e.queues) {
    if (const np_status s = bring_up(e, queue); s != NP_OK) return s;
  }
  for (Peer& peer : e.peers) {
    if (e.set.type != kUd || peer.queues.empty()) continue;
    ibv_ah_attr way = way_to(e, peer);
    peer.way.reset(ibv_create_ah(e.domain.get(), &way));
    if (!peer.way) return no_way(e, "ibv_create_ah", errno);
  }
  if (const np_status s = open_datagrams(e); s != NP_OK) return s;
  return greet_all(e);
}

}  // namespace netpipe::verbs
