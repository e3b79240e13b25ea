// SPDX-License-Identifier: Apache-2.0
// Messages of qp=ud and qp=uc may be lost, so each carries its number as immediate data. They arrive in cells of this
// module, always as many receives posted as there are cells, and are copied to where their receive wants them. A
// message that finds no receive posted is lost too. RDMA writes (verbs_cells.h) land in cells that the sender chooses.
//
// A message is lost when one with a higher number has arrived. A receive that has waited for its patience reads from
// the sender's memory, by RDMA over the control pair, how many messages it has sent: those of them that do not come
// within another patience are lost, all at once. A message that has not been sent is waited for. What comes after it
// was counted as lost is late, and dropped.
#include "verbs_datagrams.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "verbs_cells.h"
#include "verbs_device.h"
#include "verbs_memory.h"
#include "verbs_progress.h"
#include "verbs_queues.h"

namespace netpipe::verbs {
namespace {

constexpr size_t kGlobalHeader = 40;         // in front of each datagram of qp=ud (GRH)
constexpr uint64_t kMostOfUc = 1 << 20;      // there is a cell for each
constexpr size_t kMostCellBytes = 64 << 20;  // of all cells of a rank

size_t header_bytes(const np_endpoint& endpoint) { return endpoint.set.type == kUd ? kGlobalHeader : 0; }
size_t extra_bytes(const np_endpoint& endpoint) { return polls_cells(endpoint) ? kWordRoom : header_bytes(endpoint); }

bool is_for_messages(const np_endpoint& endpoint, const Queue& queue) {
  return endpoint.peers[static_cast<size_t>(queue.peer)].control.queue != &queue;
}

// A cell belongs to the queue pair that it was first posted to.
Queue& queue_of_cell(np_endpoint& endpoint, uint32_t cell) {
  uint64_t number = (cell - 1) / endpoint.cells_per_queue;
  for (Queue& queue : endpoint.queues) {
    if (is_for_messages(endpoint, queue) && number-- == 0) return queue;
  }
  return endpoint.queues.front();
}

np_status post_cell(np_endpoint& endpoint, Queue& queue, uint32_t cell) {
  ibv_recv_wr wanted{};
  wanted.wr_id = id_of(kCell, queue.index, cell);
  if (writes_cells(endpoint)) return post_receive(endpoint, queue, wanted);  // the write says where it goes
  ibv_sge into{reinterpret_cast<uint64_t>(cell_at(endpoint, cell)), static_cast<uint32_t>(endpoint.cell_bytes),
               endpoint.room_memory->lkey};
  wanted.sg_list = &into;
  wanted.num_sge = 1;
  return post_receive(endpoint, queue, wanted);
}

// Who sent it; nullptr: a stranger.
Peer* sender_of(np_endpoint& endpoint, const Queue& queue, const ibv_wc& completion) {
  if (endpoint.set.type == kUc) return &peer_of(endpoint, queue.peer);
  for (Peer& peer : endpoint.peers) {
    if (!peer.queues.empty() && peer.far_pair == completion.src_qp) return &peer;
  }
  return nullptr;
}

bool decided(np_endpoint& endpoint, int rank) {
  Datagrams& way = peer_of(endpoint, rank).datagrams;
  return way.decided() || (polls_cells(endpoint) && find_message(endpoint, rank, way.expected));
}

// The next message of this peer, of which is known whether it came.
np_status finish_next(np_endpoint& endpoint, Peer& peer, void* data, size_t bytes) {
  Datagrams& way = peer.datagrams;
  Piece& place = way.held_at(way.expected++);
  const Piece piece = place;
  if (piece.cell == 0) {
    ++endpoint.counts.lost;
    if (!writes_cells(endpoint)) return NP_LOST;
    const np_status status = free_cell(endpoint, peer);
    return status == NP_OK ? NP_LOST : status;
  }
  place = Piece{};
  if (piece.bytes != bytes) {
    return fail(endpoint.context, NP_FAILED, "verbs: a message of %u bytes arrived where one of %zu was expected",
                piece.bytes, bytes);
  }
  if (writes_cells(endpoint)) {
    std::memcpy(data, message_in(endpoint, piece), bytes);
    return free_cell(endpoint, peer);
  }
  std::memcpy(data, cell_at(endpoint, piece.cell) + header_bytes(endpoint), bytes);
  return post_cell(endpoint, queue_of_cell(endpoint, piece.cell), piece.cell);
}

volatile uint64_t& sent_word(np_endpoint& endpoint, int rank) {
  return endpoint.credit[static_cast<size_t>(rank) * kLine / sizeof *endpoint.credit];
}

// Reads how many messages the peer has sent to this rank.
np_status ask(np_endpoint& endpoint, Peer& peer) {
  uint64_t* const into = endpoint.fetched;
  ibv_sge near{reinterpret_cast<uint64_t>(into), sizeof *into, endpoint.room_memory->lkey};
  ibv_send_wr request{};
  request.sg_list = &near;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_READ;
  request.wr.rdma.remote_addr = peer.written.far_credit;
  request.wr.rdma.rkey = peer.written.far_flags_key;
  Queue& queue = *peer.control.queue;
  if (const np_status s = start(endpoint, queue, request, true); s != NP_OK) return s;
  if (const np_status s = await_sent(endpoint, queue, queue.sent); s != NP_OK) return s;
  peer.datagrams.told = static_cast<uint32_t>(*static_cast<volatile uint64_t*>(into));
  return NP_OK;
}

// After a patience in vain. What is known to have left the peer has had its time.
np_status lose_patience(np_endpoint& endpoint, int rank) {
  Peer& peer = peer_of(endpoint, rank);
  Datagrams& way = peer.datagrams;
  if (polls_cells(endpoint)) find_messages(endpoint, rank);
  if (way.decided()) return NP_OK;
  if (static_cast<int32_t>(way.told - way.expected) <= 0) return ask(endpoint, peer);
  if (static_cast<int32_t>(way.told - way.seen) > 0) way.seen = way.told;
  return NP_OK;
}

// Until it is known whether the next message of this peer came.
np_status await_decision(np_endpoint& endpoint, int rank) {
  Datagrams& way = peer_of(endpoint, rank).datagrams;
  while (!decided(endpoint, rank)) {
    const int64_t deadline_ns = now_ns() + endpoint.set.patience_ns;
    np_status status = polls_cells(endpoint) ? poll_cells(endpoint, rank, deadline_ns)
                                             : await(endpoint, [&way] { return way.decided(); }, deadline_ns);
    if (status == NP_LOST) status = lose_patience(endpoint, rank);
    if (status != NP_OK) return status;
  }
  return NP_OK;
}

// The first receive that was started, of which is known whether its message came.
np_status finish_first(np_endpoint& endpoint, Peer& peer) {
  np_request* const first = peer.datagrams.receives.take();
  const np_status status =
      finish_next(endpoint, peer, reinterpret_cast<void*>(first->word[kInto]), first->word[kBytes]);
  first->word[kState] = status == NP_LOST ? kGivenUp : kDone;
  return status == NP_LOST ? NP_OK : status;
}

np_status too_long(const np_endpoint& endpoint, size_t bytes) {
  return fail(endpoint.context, NP_UNSUPPORTED, "verbs: a message of qp=%s holds %llu bytes here, not %zu",
              endpoint.context->options[kQp].text, static_cast<unsigned long long>(endpoint.datagram_most), bytes);
}

bool is_receive(const np_request& request) { return request.word[kState] != kSent && request.word[kLanded] != 0; }

np_status outcome(const np_request& request) { return request.word[kState] == kGivenUp ? NP_LOST : NP_OK; }

}  // namespace

uint64_t most_datagram(const np_endpoint& endpoint) {
  if (endpoint.set.type == kUd) return static_cast<uint64_t>(mtu_bytes(endpoint.set.device_mtu));
  return std::min<uint64_t>(endpoint.port.max_msg_sz - extra_bytes(endpoint), kMostOfUc);
}

void plan_datagrams(np_endpoint& endpoint) {
  if (endpoint.set.type == kRc) return;
  const uint64_t wanted = std::max<uint64_t>(endpoint.context->max_bytes, 1);
  endpoint.datagram_most = std::min(most_datagram(endpoint), wanted);
  endpoint.cell_bytes = (extra_bytes(endpoint) + endpoint.datagram_most + 63) / 64 * 64;
  const auto queues =
      static_cast<uint64_t>(std::count_if(endpoint.queues.begin(), endpoint.queues.end(),
                                          [&](const Queue& queue) { return is_for_messages(endpoint, queue); }));
  const uint64_t fit = kMostCellBytes / endpoint.cell_bytes / queues;
  const uint64_t most = polls_cells(endpoint) ? kFlagCells : endpoint.set.receive_depth;
  endpoint.cells_per_queue = std::clamp<uint64_t>(fit, 2, most);
  endpoint.cell_count = endpoint.cells_per_queue * queues;
}

np_status open_datagrams(np_endpoint& endpoint) {
  if (endpoint.set.type == kRc) return NP_OK;
  for (Peer& peer : endpoint.peers) peer.datagrams.held.assign(kAheadNumbers, Piece{});
  if (polls_cells(endpoint)) return NP_OK;  // nothing completes
  for (uint32_t cell = 1; cell <= endpoint.cell_count; ++cell) {
    const np_status s = post_cell(endpoint, queue_of_cell(endpoint, cell), cell);
    if (s != NP_OK) return s;
  }
  return NP_OK;
}

void take_datagram(np_endpoint& endpoint, Queue& queue, const ibv_wc& completion) {
  auto cell = static_cast<uint32_t>(completion.wr_id >> (kKindBits + kIndexBits));
  Peer* const peer = sender_of(endpoint, queue, completion);
  if (peer == nullptr || (completion.wc_flags & IBV_WC_WITH_IMM) == 0) {
    ++endpoint.counts.strangers;
    post_cell(endpoint, queue, cell);
    return;
  }
  Datagrams& way = peer->datagrams;
  const uint32_t number = ntohl(completion.imm_data);
  const auto before = static_cast<int32_t>(number - way.expected);
  if (before >= 0 && static_cast<int32_t>(number + 1 - way.seen) > 0) way.seen = number + 1;
  const bool late = before < 0 || before >= static_cast<int32_t>(kAheadNumbers) || way.held_at(number).cell != 0;
  if (late) ++endpoint.counts.late;
  if (late || writes_cells(endpoint)) post_cell(endpoint, queue, cell);
  if (late) return;
  if (writes_cells(endpoint)) cell = cell_of(endpoint, queue.peer, number);
  way.held_at(number) = {cell, completion.byte_len - static_cast<uint32_t>(header_bytes(endpoint))};
}

np_status send_datagram(np_endpoint& endpoint, int rank, const void* data, size_t bytes, np_request* request) {
  if (bytes > endpoint.datagram_most) return too_long(endpoint, bytes);
  Peer& peer = peer_of(endpoint, rank);
  if (writes_cells(endpoint)) {
    if (const np_status s = await_cell(endpoint, peer); s != NP_OK) return s;
  }
  const uint32_t message = peer.datagrams.sent++;
  Queue& queue = *peer.queues[message % peer.queues.size()];
  const unsigned flags = inlined(endpoint, written_bytes(endpoint, bytes));
  HeldMr mr;
  ibv_sge from[2] = {{reinterpret_cast<uint64_t>(data), static_cast<uint32_t>(bytes), 0}, {}};
  if (flags == 0 && bytes > 0) {
    if (endpoint.set.each) {
      if (const np_status s = register_memory(endpoint, data, bytes, 0, mr); s != NP_OK) return s;
      from[0].lkey = mr->lkey;
    } else {
      from[0].lkey = key_of(endpoint, data, bytes);
    }
  }
  if (endpoint.status != NP_OK) return endpoint.status;
  ibv_send_wr wanted{};
  wanted.sg_list = from;
  wanted.num_sge = bytes > 0 ? 1 : 0;
  wanted.opcode = IBV_WR_SEND_WITH_IMM;
  wanted.imm_data = htonl(message);
  wanted.send_flags = flags;
  if (endpoint.set.type == kUd) {
    wanted.wr.ud.ah = peer.way.get();
    wanted.wr.ud.remote_qpn = peer.far_pair;
    wanted.wr.ud.remote_qkey = peer.key;
  }
  if (writes_cells(endpoint)) write_cell(endpoint, rank, message, bytes, from, wanted);
  const np_status status = start(endpoint, queue, wanted, flags == 0);
  if (status != NP_OK) return status;
  sent_word(endpoint, rank) = peer.datagrams.sent;
  if (polls_cells(endpoint)) {
    peer.datagrams.word_requests[message % peer.datagrams.far_cells] = flags != 0 ? 0 : queue.sent;
  }
  if (request == nullptr) return flags != 0 ? NP_OK : await_sent(endpoint, queue, queue.sent);
  *request = np_request{};
  request->word[kState] = flags != 0 ? kDone : kSent;
  request->word[kQueue] = reinterpret_cast<uint64_t>(&queue);
  request->word[kNumber] = queue.sent;
  request->word[kMemory] = reinterpret_cast<uint64_t>(mr.release());
  return NP_OK;
}

np_status recv_datagram(np_endpoint& endpoint, int rank, void* data, size_t bytes) {
  Peer& peer = peer_of(endpoint, rank);
  np_status status = NP_OK;
  while (peer.datagrams.receives.first != nullptr && status == NP_OK) [[unlikely]] {
    status = await_decision(endpoint, rank);
    if (status == NP_OK) status = finish_first(endpoint, peer);
  }
  if (status == NP_OK) status = await_decision(endpoint, rank);
  return status == NP_OK ? finish_next(endpoint, peer, data, bytes) : status;
}

np_status irecv_datagram(np_endpoint& endpoint, int rank, void* data, size_t bytes, np_request* request) {
  if (bytes > endpoint.datagram_most) return too_long(endpoint, bytes);
  *request = np_request{};
  request->word[kInto] = reinterpret_cast<uint64_t>(data);
  request->word[kBytes] = bytes;
  request->word[kState] = kPending;
  request->word[kLanded] = static_cast<uint64_t>(rank) + 1;
  // For test(): when it gives up.
  request->word[kNumber] = static_cast<uint64_t>(now_ns() + endpoint.set.patience_ns);
  peer_of(endpoint, rank).datagrams.receives.add(request);
  return NP_OK;
}

np_status wait_datagram(np_endpoint& endpoint, np_request* request) {
  if (is_receive(*request)) {
    const int rank = static_cast<int>(request->word[kLanded] - 1);
    while (request->word[kState] == kPending) {
      if (const np_status s = await_decision(endpoint, rank); s != NP_OK) return s;
      if (const np_status s = finish_first(endpoint, peer_of(endpoint, rank)); s != NP_OK) return s;
    }
    return outcome(*request);
  }
  const Queue& queue = *reinterpret_cast<const Queue*>(request->word[kQueue]);
  if (request->word[kState] == kSent) {
    if (const np_status s = await_sent(endpoint, queue, request->word[kNumber]); s != NP_OK) return s;
  }
  HeldMr(reinterpret_cast<ibv_mr*>(request->word[kMemory])).reset();
  request->word[kMemory] = 0;
  request->word[kState] = kDone;
  return NP_OK;
}

np_status test_datagram(np_endpoint& endpoint, np_request* request) {
  if (endpoint.status != NP_OK) return endpoint.status;
  if (*endpoint.context->abort != 0) return aborted(endpoint);
  if (!is_receive(*request)) {
    const Queue& queue = *reinterpret_cast<const Queue*>(request->word[kQueue]);
    if (request->word[kState] == kSent && queue.completed < request->word[kNumber]) {
      if (drain(endpoint) < 0) return endpoint.status;
      if (queue.completed < request->word[kNumber]) return NP_PENDING;
    }
    return wait_datagram(endpoint, request);
  }
  const int rank = static_cast<int>(request->word[kLanded] - 1);
  Peer& peer = peer_of(endpoint, rank);
  while (request->word[kState] == kPending) {
    if (!decided(endpoint, rank) && drain(endpoint) < 0) return endpoint.status;
    uint64_t& ask_at_ns = peer.datagrams.receives.first->word[kNumber];
    if (!decided(endpoint, rank)) {
      if (now_ns() <= static_cast<int64_t>(ask_at_ns)) return NP_PENDING;
      if (const np_status s = lose_patience(endpoint, rank); s != NP_OK) return s;
      ask_at_ns = static_cast<uint64_t>(now_ns() + endpoint.set.patience_ns);
      if (!decided(endpoint, rank)) return NP_PENDING;
    }
    if (const np_status s = finish_first(endpoint, peer); s != NP_OK) return s;
  }
  return outcome(*request);
}

}  // namespace netpipe::verbs
