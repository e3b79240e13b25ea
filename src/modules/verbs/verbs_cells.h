// SPDX-License-Identifier: Apache-2.0
// Messages of qp=uc by RDMA write (op=write and op=write_imm), into cells of the receiver. verbs_datagrams.h decides
// which of them are lost.
#pragma once

#include "verbs_endpoint.h"

namespace netpipe::verbs {

inline bool writes_cells(const np_endpoint& endpoint) { return endpoint.set.type == kUc && endpoint.set.op != kSend; }
// Whether the receiver learns of messages from its memory alone.
inline bool polls_cells(const np_endpoint& endpoint) { return writes_cells(endpoint) && endpoint.set.op == kWrite; }

// What of a cell is not the message: the word that tells of it, and up to 7 bytes between them.
inline constexpr size_t kWordRoom = 16;
size_t written_bytes(const np_endpoint& endpoint, size_t bytes);  // of a message and what is written with it

// Cells count from 1, as those of datagrams do.
inline char* cell_at(const np_endpoint& endpoint, uint32_t cell) {
  return endpoint.cells + (cell - 1) * endpoint.cell_bytes;
}
uint32_t cell_of(const np_endpoint& endpoint, int rank, uint32_t number);
const char* message_in(const np_endpoint& endpoint, const Piece& piece);

// The sender: until the cell of the next message may be overwritten.
np_status await_cell(np_endpoint& endpoint, Peer& peer);
// Makes this work request a write of message `number` into its cell. from: two parts, the first of which is the
// message.
void write_cell(np_endpoint& endpoint, int rank, uint32_t number, size_t bytes, ibv_sge* from, ibv_send_wr& request);

// The receiver: one message less is in its cells. Tells the sender now and then.
np_status free_cell(np_endpoint& endpoint, Peer& peer);
// The sender has been told.
void take_freed(Peer& peer);
// op=write: takes note of this message if it is in its cell. Whether it is.
bool find_message(np_endpoint& endpoint, int rank, uint32_t number);
// op=write: takes note of all messages that are in their cells, so those before the last one of them are lost or here.
void find_messages(np_endpoint& endpoint, int rank);
// op=write: polls the cells until the next message is decided on. NP_LOST: at deadline_ns it was not.
np_status poll_cells(np_endpoint& endpoint, int rank, int64_t deadline_ns);

}  // namespace netpipe::verbs
