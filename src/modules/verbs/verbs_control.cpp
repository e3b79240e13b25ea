// SPDX-License-Identifier: Apache-2.0
#include "verbs_control.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "verbs_cells.h"
#include "verbs_memory.h"
#include "verbs_progress.h"

namespace netpipe::verbs {
namespace {

// The immediate data of what is sent over a control pair. RDMA writes have the value of a signal there.
enum Said : uint32_t { kPiece, kBarrier, kFreed };

void post_cell(np_endpoint& endpoint, Control& control, uint32_t cell) {
  ibv_sge into{reinterpret_cast<uint64_t>(control.in + cell * kControlBytes), kControlBytes,
               endpoint.room_memory->lkey};
  ibv_recv_wr wanted{};
  wanted.wr_id = id_of(kCell, control.queue->index, cell);
  wanted.sg_list = &into;
  wanted.num_sge = 1;
  post_receive(endpoint, *control.queue, wanted);  // a failure is in the status of the endpoint
}

np_status say(np_endpoint& endpoint, Control& control, const void* data, size_t bytes, uint32_t what) {
  ibv_sge from{reinterpret_cast<uint64_t>(data), static_cast<uint32_t>(bytes), endpoint.room_memory->lkey};
  ibv_send_wr request{};
  request.sg_list = &from;
  request.num_sge = bytes > 0 ? 1 : 0;
  request.opcode = IBV_WR_SEND_WITH_IMM;
  request.imm_data = htonl(what);
  const unsigned flags = inlined(endpoint, bytes);
  request.send_flags = flags;
  return start(endpoint, *control.queue, request, flags == 0);
}

np_status send_piece(np_endpoint& endpoint, Control& control, const char* data, size_t bytes) {
  if (bytes == 0 || inlined(endpoint, bytes) != 0) return say(endpoint, control, data, bytes, kPiece);
  const size_t place = control.sent++ % kControlCells;
  uint64_t& number = control.cell_numbers[place];
  if (const np_status s = await_sent(endpoint, *control.queue, number); s != NP_OK) return s;
  char* const cell = control.out + place * kControlBytes;
  std::memcpy(cell, data, bytes);
  const np_status status = say(endpoint, control, cell, bytes, kPiece);
  number = control.queue->sent;
  return status;
}

// Copies pieces to the receives that wait for them.
void serve(np_endpoint& endpoint, Control& control) {
  while (control.receives.first != nullptr && control.pieces_in != control.pieces_out) {
    np_request* const request = control.receives.first;
    const Piece piece = control.pieces[control.pieces_out++ % kControlCells];
    uint64_t& moved = request->word[kNumber];
    const uint64_t left = request->word[kBytes] - moved;
    if (piece.bytes != std::min<uint64_t>(left, kControlBytes)) {
      endpoint.status = NP_FAILED;
      fail(endpoint.context, NP_FAILED, "verbs: %u bytes arrived where %llu were expected", piece.bytes,
           static_cast<unsigned long long>(left));
      return;
    }
    if (piece.bytes > 0) {
      std::memcpy(reinterpret_cast<char*>(request->word[kInto]) + moved, control.in + piece.cell * kControlBytes,
                  piece.bytes);
    }
    moved += piece.bytes;
    post_cell(endpoint, control, piece.cell);
    if (moved == request->word[kBytes]) control.receives.take()->word[kState] = kDone;
  }
}

}  // namespace

np_status open_control(np_endpoint& endpoint) {
  for (Peer& peer : endpoint.peers) {
    if (peer.control.queue == nullptr) continue;
    peer.control.pieces.assign(kControlCells, Piece{});
    peer.control.signals.assign(kSignals, 0);
    for (uint32_t cell = 0; cell < kControlCells; ++cell) post_cell(endpoint, peer.control, cell);
  }
  return endpoint.status;
}

np_status greet_all(np_endpoint& endpoint) {
  const np_context* context = endpoint.context;
  const int64_t deadline_ns = now_ns() + context->timeout_ns;
  const Proof& own = peer_of(endpoint, context->rank).proof;
  for (Peer& peer : endpoint.peers) {
    if (peer.control.queue == nullptr) continue;
    const np_status s = control_send(endpoint, peer, peer.proof.data(), peer.proof.size());
    if (s != NP_OK) return s;
  }
  for (int rank = 0; rank < context->nranks; ++rank) {
    if (rank == context->rank) continue;
    Proof said{};
    np_request request{};
    control_irecv(endpoint, peer_of(endpoint, rank), said.data(), said.size(), &request);
    const np_status s = await(endpoint, [&] { return request.word[kState] == kDone; }, deadline_ns);
    if (s == NP_LOST) {
      endpoint.status = NP_FAILED;  // the request ends here
      return fail(
          context, NP_FAILED,
          "verbs: no word from rank %d at %s within %.1f s; is it alive, and is there a route between the GIDs?", rank,
          endpoint.gid_text.c_str(), static_cast<double>(context->timeout_ns) * 1e-9);
    }
    if (s != NP_OK) return s;
    if (!fd_io::same_bytes(said.data(), own.data(), own.size())) {
      return fail(context, NP_FAILED, "verbs: who answers as rank %d was not told by netpipe who this rank is", rank);
    }
  }
  return NP_OK;
}

np_status control_send(np_endpoint& endpoint, Peer& peer, const void* data, size_t bytes) {
  const char* const from = static_cast<const char*>(data);
  size_t moved = 0;
  do {
    const size_t piece = std::min(bytes - moved, kControlBytes);
    if (const np_status s = send_piece(endpoint, peer.control, from + moved, piece); s != NP_OK) return s;
    moved += piece;
  } while (moved < bytes);
  return NP_OK;
}

void control_irecv(np_endpoint& endpoint, Peer& peer, void* data, size_t bytes, np_request* request) {
  request->word[kState] = kPending;
  request->word[kNumber] = 0;
  request->word[kInto] = reinterpret_cast<uint64_t>(data);
  request->word[kBytes] = bytes;
  request->word[kMemory] = 0;
  peer.control.receives.add(request);
  serve(endpoint, peer.control);
}

np_status control_recv(np_endpoint& endpoint, Peer& peer, void* data, size_t bytes) {
  np_request request{};
  control_irecv(endpoint, peer, data, bytes, &request);
  const np_status status = await(endpoint, [&] { return request.word[kState] == kDone; });
  // The request ends here.
  if (status != NP_OK && endpoint.status == NP_OK) endpoint.status = status;
  return status;
}

// In round k each rank tells the one 2^k above it and hears the one 2^k below it (dissemination): log2(n) rounds.
np_status barrier(np_endpoint* endpoint) {
  const int n = endpoint->context->nranks, own = endpoint->context->rank;
  for (int distance = 1; distance < n; distance *= 2) {
    Control& above = peer_of(*endpoint, (own + distance) % n).control;
    Control& below = peer_of(*endpoint, (own - distance + n) % n).control;
    np_status status = say(*endpoint, above, nullptr, 0, kBarrier);
    if (status == NP_OK) status = await(*endpoint, [&] { return below.barriers_in != below.barriers_out; });
    if (status != NP_OK) return status;
    ++below.barriers_out;
  }
  return NP_OK;
}

np_status say_freed(np_endpoint& endpoint, Peer& peer) { return say(endpoint, peer.control, nullptr, 0, kFreed); }

void take_control(np_endpoint& endpoint, Peer& peer, const ibv_wc& completion) {
  Control& control = peer.control;
  const auto cell = static_cast<uint32_t>(completion.wr_id >> (kKindBits + kIndexBits));
  const uint32_t said = ntohl(completion.imm_data);
  if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
    if (control.signals_in - control.signals_out == kSignals) {
      endpoint.status = NP_FAILED;
      fail(endpoint.context, NP_FAILED, "verbs: more than %zu signals arrived that nobody awaited", kSignals);
      return;
    }
    control.signals[control.signals_in++ % kSignals] = said;
    post_cell(endpoint, control, cell);
  } else if (said == kBarrier) {
    ++control.barriers_in;
    post_cell(endpoint, control, cell);
  } else if (said == kFreed) {
    take_freed(peer);
    post_cell(endpoint, control, cell);
  } else {
    control.pieces[control.pieces_in++ % kControlCells] = {cell, completion.byte_len};
    serve(endpoint, control);
  }
}

}  // namespace netpipe::verbs
