// SPDX-License-Identifier: Apache-2.0
// What one rank of verbs keeps: the device, its queue pairs, its peers, and what is in flight.
//
// Of each two ranks there are `qps` queue pairs for messages of the size of the visit and for one-sided transfers (of
// qp=ud one for all peers), and one reliable one, the control pair, for everything else: small words between ranks,
// barriers, signals, messages of other sizes. So a word that acknowledges never lands where a message was expected.
// With qp=rc and op=send a rank also has one to itself, without a control pair: all such messages are the visit's.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kit/request_queue.h"
#include "kit/streams/fd_connect.h"
#include "verbs_options.h"

namespace netpipe::verbs {

using fd_io::fail;
using fd_io::now_ns;
using fd_io::Proof;

template <typename Object, int (*destroy)(Object*)>
struct Destroy {
  void operator()(Object* object) const { destroy(object); }
};
template <typename Object, int (*destroy)(Object*)>
using Held = std::unique_ptr<Object, Destroy<Object, destroy>>;
using HeldMr = Held<ibv_mr, ibv_dereg_mr>;

// The words of an np_request.
enum Word { kState, kQueue, kNumber, kMemory, kInto, kBytes, kNext, kLanded };
// sent, arrived: complete when its queue pair has come to the number in the request; queued: somebody else says so.
enum State : uint64_t { kPending, kDone, kGivenUp, kSent, kArrived };

// What wr_id says: its lowest bits are one of these, then the queue pair, then a number.
enum Kind : uint64_t { kToSend, kToReceive, kCell };
inline constexpr unsigned kKindBits = 2, kIndexBits = 18;
inline uint64_t id_of(Kind kind, uint64_t index, uint64_t number) {
  return number << (kKindBits + kIndexBits) | index << kKindBits | kind;
}

// A queue pair, and how far it has come. Numbers count from 1.
struct Queue {
  Held<ibv_qp, ibv_destroy_qp> pair;
  uint64_t index = 0;
  uint64_t sent = 0, completed = 0;      // work requests of the send queue
  uint64_t unsignalled = 0;              // since the last one that asked for a completion
  uint64_t posted = 0, arrived = 0;      // receives
  uint32_t first_number = 0;             // PSN of the first packet that it sends
  uint32_t far_pair = 0, far_first = 0;  // those of the peer
  int peer = 0;
};

using Line = RequestQueue<kNext>;

// Messages that arrived in memory of this module, in order: which cell, and how many bytes.
struct Piece {
  uint32_t cell = 0, bytes = 0;
};

inline constexpr size_t kControlCells = 32, kControlBytes = 4096;  // of each peer and direction
inline constexpr size_t kSignals = 4096;                           // of one peer, that nobody awaited yet
inline constexpr size_t kFlagCells = 64;                           // op=write: messages on their way, at most
inline constexpr uint32_t kAheadNumbers = 4096;                    // of datagrams; a power of two

struct Control {
  Queue* queue = nullptr;
  char *in = nullptr, *out = nullptr;  // kControlCells each
  std::vector<Piece> pieces;           // a ring of those that arrived
  uint64_t pieces_in = 0, pieces_out = 0;
  uint64_t sent = 0;                                   // cells filled
  std::array<uint64_t, kControlCells> cell_numbers{};  // of the work requests that send them
  Line receives;                                       // that wait for pieces
  uint64_t barriers_in = 0, barriers_out = 0;
  std::vector<uint64_t> signals;  // a ring of those that arrived
  uint64_t signals_in = 0, signals_out = 0;
};

// Messages by RDMA write, and where they land.
struct Written {
  uint64_t far_base = 0, far_stride = 0, far_count = 0, far_next = 0;
  uint32_t far_key = 0;
  // The cells there (op=write, and RDMA writes of qp=uc), and the word of credits; see credit.
  uint64_t far_flags = 0, far_credit = 0;
  uint32_t far_flags_key = 0;
  uint64_t sent = 0, started = 0, taken = 0, told = 0;  // messages
  Line receives;
};

// Datagrams of a peer; messages of qp=uc are treated alike.
struct Datagrams {
  uint32_t sent = 0, expected = 0, seen = 0;  // numbers of the next ones; one more than the highest that arrived
  uint32_t told = 0;                          // how many the peer had sent when it was asked
  std::vector<Piece> held;                    // from `expected` on, a ring by number; cell 0: none
  Line receives;
  // By RDMA write (verbs_cells.h): the ring of cells there; how many messages the peer says that it has taken, and
  // this rank has said that it took.
  uint32_t far_cells = 0, far_cell_bytes = 0, freed = 0, said_freed = 0;
  std::array<uint64_t, kFlagCells> word_requests{};  // op=write: the work requests that read the words, by cell

  Piece& held_at(uint32_t number) { return held[number % kAheadNumbers]; }
  // Whether it is known of the next message if it came.
  bool decided() { return held_at(expected).cell != 0 || static_cast<int32_t>(seen - expected) > 0; }
};

struct Peer {
  std::vector<Queue*> queues;                   // for messages
  uint64_t sent = 0, started = 0, ahead = 0;    // messages of this visit: sent; receives started, and posted ahead
  std::array<HeldMr, kMostAhead> ahead_memory;  // register=each: of receives that were posted ahead, by number
  Line backlog;                                 // receives that the queue pairs have no room for
  uint64_t transfers = 0;                       // one-sided ones
  Control control;
  Written written;
  Datagrams datagrams;
  Proof proof{};
  ibv_gid gid{};
  uint16_t lid = 0;
  uint32_t key = 0, far_pair = 0;  // of qp=ud: the Q_Key, and its queue pair
  Held<ibv_ah, ibv_destroy_ah> way;
};

struct Registered {
  uintptr_t base = 0;
  size_t bytes = 0;
  uint32_t lkey = 0, rkey = 0;
  HeldMr mr;  // none: that of another one
};

struct Span {
  uintptr_t base = 0;
  size_t bytes = 0;
};

struct Counts {
  uint64_t empty_polls = 0, sleeps = 0, registrations = 0, lost = 0, late = 0, strangers = 0, held_back = 0;
};

// What was asked for, and what the device has granted of it.
struct Settings {
  QpType type = kRc;
  Op op = kSend;
  Wait wait = Wait::poll;
  int64_t spin_ns = 0, patience_ns = 0;
  bool each = false;  // register=each
  uint64_t qps = 1, signal = 1, list = 1, ahead = 0, eager = 0;
  int64_t inline_most = -1;  // -1: nothing is inlined, not even the empty message
  uint32_t send_depth = 0, receive_depth = 0;
  int device_mtu = 0;  // an ibv_mtu
};

}  // namespace netpipe::verbs

struct np_endpoint {
  explicit np_endpoint(const np_context* given) : context(given) {}

  const np_context* context;
  netpipe::verbs::Settings set;
  np_status status = NP_OK;  // what broke it

  // In the order in which they are opened; closed in reverse.
  netpipe::verbs::Held<ibv_context, ibv_close_device> device;
  ibv_device_attr attributes{};
  ibv_port_attr port{};
  uint8_t port_number = 0;
  int gid_index = -1;  // -1: addressed by LID alone
  ibv_gid gid{};
  std::string gid_text, gid_type;
  netpipe::verbs::Held<ibv_pd, ibv_dealloc_pd> domain;
  netpipe::verbs::Held<ibv_comp_channel, ibv_destroy_comp_channel> channel;
  netpipe::verbs::Held<ibv_cq, ibv_destroy_cq> completions;
  unsigned unacknowledged = 0;  // events of the channel

  std::unique_ptr<char[]> room;  // of this module's own messages
  netpipe::verbs::HeldMr room_memory;
  char *cells = nullptr, *flags = nullptr;  // of datagrams, and RDMA writes of qp=uc; of op=write with qp=rc
  size_t cell_bytes = 0, cell_count = 0, flag_bytes = 0;
  uint64_t cells_per_queue = 0, datagram_most = 0;
  uint64_t* flag_words = nullptr;  // op=write: what is written behind a message; of qp=uc two words for each
  // By rank: how many messages it has taken (op=write), or this rank has sent to it (qp=uc, ud).
  volatile uint64_t* credit = nullptr;
  uint64_t* fetched = nullptr;  // by atomics

  std::array<netpipe::verbs::Registered, 2> visit_memory;  // where messages start, where they land
  std::vector<netpipe::verbs::Registered> exposed, late_memory;
  uint64_t visit_bytes = UINT64_MAX;  // of a message that takes the queue pairs for messages
  np_places landing{};
  std::array<netpipe::verbs::Span, 2> places{};  // where messages of the visit start, and land
  netpipe::verbs::Peer* ahead_from = nullptr;    // whose messages of the visit find receives that were posted ahead

  std::vector<netpipe::verbs::Queue> queues;
  std::vector<netpipe::verbs::Peer> peers;  // by rank
  netpipe::verbs::Counts counts;
};
