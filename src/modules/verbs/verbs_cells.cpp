// SPDX-License-Identifier: Apache-2.0
// Message n of a sender goes to cell n modulo their number. The sender writes into a cell only when the receiver has
// said, over the control pair and every quarter of the ring, that it took what was there or gave it up. So no message
// that nobody has read is overwritten, and none finds its receiver late.
//
// op=write_imm: the immediate data is n, as in sends of qp=uc. Each cell has an empty receive.
//
// op=write: one write carries the message and, behind it, a word with the number of bytes and, in its last bytes, the
// number n + 1. A device may copy a word byte by byte (soft-RoCE does in the guest): when its last bytes tell of
// message n, all bytes before them are here. The word begins at a multiple of 8 bytes in the write, and so lies in one
// packet. Packets of an unreliable connection arrive in order, and one that is lost takes the rest of its message with
// it: whose word is there is complete. A message whose word is not there, but that of a later one, is lost. So are
// those that left and did not come within the patience.
#include "verbs_cells.h"

#include <algorithm>

#include "verbs_control.h"
#include "verbs_progress.h"

namespace netpipe::verbs {
namespace {

constexpr uint64_t kLookForErrors = 64, kLookForLost = 1024;

size_t padded(size_t bytes) { return (bytes + 7) / 8 * 8; }

uint32_t quarter(uint64_t cells) { return static_cast<uint32_t>(std::max<uint64_t>(cells / 4, 1)); }

char* word_of(const np_endpoint& endpoint, uint32_t cell) {
  return cell_at(endpoint, cell) + endpoint.cell_bytes - sizeof(uint64_t);
}

}  // namespace

size_t written_bytes(const np_endpoint& endpoint, size_t bytes) {
  return polls_cells(endpoint) ? padded(bytes) + sizeof(uint64_t) : bytes;
}

uint32_t cell_of(const np_endpoint& endpoint, int rank, uint32_t number) {
  const auto ring = static_cast<uint64_t>(rank > endpoint.context->rank ? rank - 1 : rank);
  return static_cast<uint32_t>(ring * endpoint.cells_per_queue + number % endpoint.cells_per_queue + 1);
}

const char* message_in(const np_endpoint& endpoint, const Piece& piece) {
  return polls_cells(endpoint) ? word_of(endpoint, piece.cell) - padded(piece.bytes) : cell_at(endpoint, piece.cell);
}

np_status await_cell(np_endpoint& endpoint, Peer& peer) {
  Datagrams& way = peer.datagrams;
  const auto is_free = [&way] { return way.sent - way.freed < way.far_cells; };
  if (!is_free()) [[unlikely]] {
    int found = 1;  // what the receiver said may be here already
    while (!is_free() && found > 0) found = drain(endpoint);
    if (found < 0) return endpoint.status;
    if (!is_free()) ++endpoint.counts.held_back;
    if (const np_status s = await(endpoint, is_free); s != NP_OK) return s;
  }
  if (!polls_cells(endpoint)) return NP_OK;
  return await_sent(endpoint, *peer.queues.front(), way.word_requests[way.sent % way.far_cells]);
}

void write_cell(np_endpoint& endpoint, int rank, uint32_t number, size_t bytes, ibv_sge* from, ibv_send_wr& request) {
  const Peer& peer = peer_of(endpoint, rank);
  const uint64_t cell = number % peer.datagrams.far_cells, cell_bytes = peer.datagrams.far_cell_bytes;
  const uint64_t far = peer.written.far_flags + cell * cell_bytes;
  request.wr.rdma.rkey = peer.written.far_flags_key;
  request.wr.rdma.remote_addr = far;
  request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  if (!polls_cells(endpoint)) return;
  uint64_t* const word = endpoint.flag_words + 2 * (static_cast<size_t>(rank) * kFlagCells + cell) + 1;
  *word = uint64_t{number + 1} << 32 | bytes;
  const size_t between = padded(bytes) - bytes;
  from[request.num_sge++] = {reinterpret_cast<uint64_t>(word) - between, static_cast<uint32_t>(between + sizeof *word),
                             endpoint.room_memory->lkey};
  request.wr.rdma.remote_addr = far + cell_bytes - written_bytes(endpoint, bytes);
  request.opcode = IBV_WR_RDMA_WRITE;
}

np_status free_cell(np_endpoint& endpoint, Peer& peer) {
  Datagrams& way = peer.datagrams;
  const uint32_t some = quarter(endpoint.cells_per_queue);
  if (way.expected - way.said_freed < some) return NP_OK;
  way.said_freed += some;
  return say_freed(endpoint, peer);
}

void take_freed(Peer& peer) { peer.datagrams.freed += quarter(peer.datagrams.far_cells); }

bool find_message(np_endpoint& endpoint, int rank, uint32_t number) {
  const uint32_t cell = cell_of(endpoint, rank, number);
  const auto* const at = reinterpret_cast<const uint64_t*>(word_of(endpoint, cell));
  const uint64_t word = __atomic_load_n(at, __ATOMIC_ACQUIRE);
  if (word >> 32 != number + 1) return false;
  peer_of(endpoint, rank).datagrams.held_at(number) = {cell, static_cast<uint32_t>(word)};
  return true;
}

// From the last to the first: what is looked for after a later one was found has arrived, or never will.
void find_messages(np_endpoint& endpoint, int rank) {
  Datagrams& way = peer_of(endpoint, rank).datagrams;
  for (auto ahead = static_cast<uint32_t>(endpoint.cells_per_queue); ahead-- > 0;) {
    const uint32_t number = way.expected + ahead;
    if (find_message(endpoint, rank, number) && static_cast<int32_t>(number + 1 - way.seen) > 0) way.seen = number + 1;
  }
}

np_status poll_cells(np_endpoint& endpoint, int rank, int64_t deadline_ns) {
  Datagrams& way = peer_of(endpoint, rank).datagrams;
  const bool yields = endpoint.context->oversubscribed != 0;
  for (uint64_t looks = 1; !find_message(endpoint, rank, way.expected); ++looks) {
    if (endpoint.status != NP_OK) return endpoint.status;
    if (*endpoint.context->abort != 0) return aborted(endpoint);
    if (yields) sched_yield();
    ++endpoint.counts.empty_polls;
    if (looks % kLookForErrors == 0 && drain(endpoint) < 0) return endpoint.status;
    if (!yields && looks % kLookForLost != 0) continue;
    const bool late = now_ns() >= deadline_ns;  // before it looks: a process that was stopped has not looked since
    find_messages(endpoint, rank);
    if (way.decided()) return NP_OK;
    if (late) return NP_LOST;
  }
  return NP_OK;
}

}  // namespace netpipe::verbs
