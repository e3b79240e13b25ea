// SPDX-License-Identifier: Apache-2.0
// What the modules over byte streams share, tcp, unix and pipe: an endpoint's wires, what they count, and the parts of
// a module's table that follow from them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <vector>

#include "kit/streams/fd_wire.h"
#include "kit/waiting.h"
#include "netpipe/module.h"

namespace netpipe::fd_io {

// What a Wire counts, for the end of a module's table; add_waiting() adds them in this order.
constexpr np_counter kEmptyPolls = {"empty_polls", "1", "looks that found nothing", NP_COUNTS_UP};
constexpr np_counter kSleepsAfterSpin = {"sleeps_after_spin", "1", "sleeps after polling for spin_us in vain",
                                         NP_COUNTS_UP};
template <typename Io>
void add_waiting(const Traffic<Io>& traffic, int64_t* values) {
  for (const Wire<Io>* wire : traffic.wires) {
    values[0] += static_cast<int64_t>(wire->empty_polls());
    values[1] += static_cast<int64_t>(wire->sleeps());
  }
}
constexpr np_counter kWireCounters[] = {kEmptyPolls, kSleepsAfterSpin};

// The wires of an endpoint whose messages all take the same: by rank, none for the rank itself.
template <typename Io>
class Wires {
 public:
  Wires(const np_context* context, const WireSettings& settings) : wires_(static_cast<size_t>(context->nranks)) {
    for (int peer = 0; peer < context->nranks; ++peer) {
      if (peer != context->rank) wires_[static_cast<size_t>(peer)].emplace(context, peer, settings, traffic_);
    }
  }
  Wire<Io>& to(int peer) {
    return *wires_[static_cast<size_t>(peer)];  // NOLINT(bugprone-unchecked-optional-access): of another rank
  }
  [[nodiscard]] const Traffic<Io>& traffic() const { return traffic_; }

 private:
  Traffic<Io> traffic_;
  std::vector<std::optional<Wire<Io>>> wires_;
};

// The rank that a pattern for pairs joins with this one, whose connections are described for all.
inline int opposite(const np_context* context) {
  const int mirrored = context->nranks - 1 - context->rank;
  return mirrored == context->rank ? 0 : mirrored;
}

// What the modules over wires have in common. An Endpoint has to(peer), the wire that messages take, and traffic().
template <typename Endpoint>
constexpr np_messages kWireMessages = {
    .size = sizeof(np_messages),
    .send = [](Endpoint* e, int peer, const void* data, size_t bytes) { return e->to(peer).send(data, bytes); },
    .recv = [](Endpoint* e, int peer, void* data, size_t bytes) { return e->to(peer).recv(data, bytes); },
    .isend =
        [](Endpoint* e, int peer, const void* data, size_t stride, size_t bytes, np_request* requests, size_t count) {
          auto& wire = e->to(peer);
          const char* from = static_cast<const char*>(data);
          np_status status = NP_OK;
          for (size_t i = 0; i < count && status == NP_OK; ++i, from += stride) {
            status = wire.isend(from, bytes, &requests[i]);
          }
          return status;
        },
    .irecv =
        [](Endpoint* e, int peer, void* data, size_t stride, size_t bytes, np_request* requests, size_t count) {
          auto& wire = e->to(peer);
          char* into = static_cast<char*>(data);
          np_status status = NP_OK;
          for (size_t i = 0; i < count && status == NP_OK; ++i, into += stride) {
            status = wire.irecv(into, bytes, &requests[i]);
          }
          return status;
        },
};

// m: what a module has of its own.
template <typename Endpoint>
np_module wire_module(np_module m) {
  m.magic = NP_MAGIC;
  m.abi = NP_ABI;
  m.size = sizeof m;
  m.version = kernel_version();
  m.option_bytes = sizeof(np_option);
  m.counters = kWireCounters;
  m.ncounters = std::size(kWireCounters);
  m.counter_bytes = sizeof(np_counter);
  m.process_model = NP_FORKED;
  m.min_ranks = 2;
  m.max_ranks = INT32_MAX;
  m.messages = &kWireMessages<Endpoint>;
  m.close = [](Endpoint* e) { delete e; };
  m.wait = [](Endpoint*, np_request* requests, size_t count) {
    np_status status = NP_OK;
    for (size_t i = 0; i < count && status == NP_OK; ++i) status = Endpoint::Wire::wait(&requests[i]);
    return status;
  };
  m.test = [](Endpoint*, np_request* request) { return Endpoint::Wire::test(request); };
  m.read_counters = [](Endpoint* e, int64_t* values) {
    std::fill_n(values, std::size(kWireCounters), 0);
    add_waiting(e->traffic(), values);
  };
  return m;
}

}  // namespace netpipe::fd_io
