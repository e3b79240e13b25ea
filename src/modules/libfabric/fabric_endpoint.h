// SPDX-License-Identifier: Apache-2.0
// What one rank of libfabric keeps: the objects of the library, its peers, and what is in flight.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fabric_options.h"
#include "kit/sent_counts.h"
#include "kit/streams/fd_connect.h"

namespace netpipe::fabric {

using fd_io::fail;
using fd_io::now_ns;

struct Close {
  template <typename Object>
  void operator()(Object* object) const {
    fi_close(&object->fid);
  }
};
template <typename Object>
using Held = std::unique_ptr<Object, Close>;
struct FreeInfo {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

// The words of an np_request. The first four belong to the provider while the operation is in flight (FI_CONTEXT).
enum Word { kState = 4, kKind = 5, kPlace = 6, kNumber = 7 };
static_assert(sizeof(fi_context) <= 4 * sizeof(uint64_t));
enum State : uint64_t { kPending, kDone, kGivenUp };
// An operation of the caller's, a Slot, the receive of a Datagram; and a receive of the caller's, which is none of the
// library's.
enum Kind : uint64_t { kOwned, kPooled, kDatagram, kReceive };

// An operation that no request of the caller stands for: a put, a get, an atomic, a datagram on its way out.
struct Slot {
  np_request request{};
  uint64_t operand = 0, compare = 0;  // of an atomic
  uint8_t header[16]{};               // of a datagram
  int peer = 0;
  Slot* next = nullptr;  // free ones
};

// A completion counter, and how many operations it will have counted when all are done.
struct Counter {
  Held<fid_cntr> fid;
  uint64_t issued = 0;
};

// Memory that the provider knows.
struct Registered {
  uintptr_t base = 0;
  size_t bytes = 0;
  Held<fid_mr> mr;
};

struct Datagram {
  np_request request{};
  char* data = nullptr;  // the header, and behind it the message
  size_t bytes = 0;      // as they arrived, with the header
};

struct Peer {
  fid_ep* ep = nullptr;  // its own of ep=msg, otherwise the one of this rank
  fi_addr_t at = FI_ADDR_UNSPEC;
  uint64_t send_tag = 0, recv_tag = 0, barrier_send_tag = 0, barrier_recv_tag = 0;
  uint64_t transfers = 0;         // puts, gets and atomics that have not completed
  std::vector<uint64_t> signals;  // a ring of those that arrived
  uint64_t signals_in = 0, signals_out = 0;
  // Where the last atomic went that a flush has to confirm.
  bool unconfirmed = false;
  uint64_t unconfirmed_base = 0, unconfirmed_key = 0;
  uint64_t barriers_in = 0, barriers_out = 0;  // signals of barriers, of ep=msg
  uint64_t barrier_base = 0, barrier_key = 0;  // where they are written
  // Datagrams.
  uint64_t token = 0;                            // what this peer wants to see at the beginning of each
  uint32_t sent = 0, expected = 0;               // numbers of the next ones
  uint32_t seen = 0;                             // one more than the highest that arrived
  uint32_t settled = 0;                          // so many had left when a part of the patience began
  std::vector<Datagram*> held;                   // those from `expected` on, a ring by number
  np_request *first = nullptr, *last = nullptr;  // receives that were started, in order
  std::string name;                              // its address, for people
  fd_io::Proof proof{};                          // what it proves itself with when it connects
  std::vector<uint8_t> place;                    // where it listens
  Held<fid_ep> connection;                       // of ep=msg
};

struct Counts {
  uint64_t empty_polls = 0, sleeps = 0, retries = 0, lost = 0, late = 0, strangers = 0;
};

}  // namespace netpipe::fabric

struct np_endpoint {
  explicit np_endpoint(const np_context* given) : context(given) {}

  const np_context* context;
  netpipe::fabric::Ep type = netpipe::fabric::kRdm;
  bool tagged = false, counting = false, directed = false;
  netpipe::Wait wait = netpipe::Wait::poll;
  int64_t spin_ns = 0;
  int64_t inject_most = -1;  // the largest message that is injected; -1: none
  np_status status = NP_OK;  // what broke it
  std::string name;          // of the provider
  bool reaches = false, atomics = false, delivers = false, registers = false;
  bool confirms = false;  // flush confirms atomics by one that fetches

  // In the order in which they are opened; closed in reverse. Counters before the endpoints that count on them.
  netpipe::fabric::Info info;
  netpipe::fabric::Held<fid_fabric> fabric;
  netpipe::fabric::Held<fid_eq> events;
  netpipe::fabric::Held<fid_domain> domain;
  netpipe::fabric::Held<fid_av> addresses;
  netpipe::fabric::Held<fid_cq> queue;
  netpipe::fabric::Counter sends, receives, transfers;
  // What operations in flight point to outlives the endpoints.
  std::vector<netpipe::fabric::Slot> slots;
  netpipe::fabric::Slot* free_slot = nullptr;
  np_request direct_out{}, direct_in{};  // of send and recv
  std::unique_ptr<char[]> datagram_room;
  std::vector<netpipe::fabric::Datagram> datagrams;
  size_t datagram_most = 0;  // bytes of a message in one
  netpipe::fd_io::SentCounts left;
  int64_t patience_ns = 0;
  std::vector<uint8_t> place;  // the own address
  uint64_t next_key = 0;       // of memory that is exposed
  alignas(64) char barrier_word[64]{};
  std::vector<netpipe::fabric::Registered> registered;  // of this visit
  size_t registered_count = 0;
  netpipe::fabric::Held<fid_mr> datagram_memory, barrier_memory;
  netpipe::fabric::Held<fid_pep> listener;
  netpipe::fabric::Held<fid_ep> endpoint;
  std::vector<netpipe::fabric::Peer> peers;  // by rank
  netpipe::fabric::Counts counts;
};
