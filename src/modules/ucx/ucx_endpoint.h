// SPDX-License-Identifier: Apache-2.0
// What one rank of ucx keeps, and how it waits. One thread calls UCX for it; UCX moves bytes only while it is called.
#pragma once

#include <poll.h>
#include <sched.h>
#include <ucp/api/ucp.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "kit/gpu/cuda_memory.h"
#include "kit/streams/fd.h"
#include "kit/waiting.h"
#include "netpipe/module.h"
#include "ucx_log.h"
#include "ucx_options.h"

namespace netpipe::ucx {

using fd_io::fail;
using fd_io::kAbortSliceMs;
using fd_io::now_ns;

// np_request.word. A request ends when neither of the first two is set any more.
enum RequestWord { kHandle, kPosted, kFailed, kNext, kData, kBytes };

// A setting of UCX, and where it comes from.
struct Setting {
  std::string name, value;  // "RNDV_THRESH", "64k"
  Option option;
  std::string given;  // the name before it was spelt in another way
};

// A transport over a device, as UCX lists it: "tcp", "lo".
struct Resource {
  std::string transport, device;
};

struct Allocation {
  char* base;
  size_t bytes;
  ucp_mem_h handle;  // nullptr: ordinary pages
  bool on_device;
};

// An active message that came before its receive, or in the pool.
struct Arrival {
  enum Kind { copied, kept_by_ucx, rendezvous, left };
  Arrival* next = nullptr;
  Kind kind = copied;
  void* data = nullptr;  // what was copied, or UCX's; nullptr of what was left
  size_t bytes = 0;
  std::vector<char> room;
};

// What one peer sends by active messages.
struct Inbox {
  np_endpoint* endpoint = nullptr;
  np_request *first = nullptr, *last = nullptr;         // receives that wait, in order
  Arrival *arrived = nullptr, *arrived_last = nullptr;  // messages that wait, in order
  Arrival *signals = nullptr, *signals_last = nullptr;  // the same of put_signal
};

inline constexpr int kBarrierRounds = 16;  // of 2^16 ranks, more than active messages have numbers for

}  // namespace netpipe::ucx

struct np_endpoint {
  using Wait = netpipe::Wait;

  netpipe::ucx::Log log;
  const np_context* context = nullptr;
  ucp_context_h library = nullptr;
  ucp_worker_h worker = nullptr;
  std::vector<ucp_ep_h> to;   // by rank; its own is nullptr where there is no way to itself
  std::string not_to_itself;  // why there is none
  netpipe::ucx::Api api = netpipe::ucx::Api::tag;
  bool leaves = false;  // eager active messages stay where they came
  uint64_t own_tag = 0;
  size_t stream_bytes = 0;  // where UCX says how much came, which is what was asked for

  // How calls are made: with nothing to be said, for messages, for receives of streams, for atomics.
  ucp_request_param_t plain{}, message{}, whole{}, atomic{}, atomic_post{};
  uint64_t dropped = 0;  // what an atomic set returns

  std::vector<netpipe::ucx::Inbox> inboxes;                      // by rank
  std::vector<std::unique_ptr<netpipe::ucx::Arrival>> arrivals;  // all of them
  netpipe::ucx::Arrival* free_arrivals = nullptr;
  uint64_t barrier_turn = 0, barrier_arrived[netpipe::ucx::kBarrierRounds] = {};

  std::vector<netpipe::ucx::Allocation> memory;
  bool on_device = false;  // memory=cuda
  np_cuda cuda{};
  np_cuda_device device{};
  std::string memory_types;  // that UCX moves here: "host, cuda"
  std::vector<netpipe::ucx::Setting> settings;
  std::vector<netpipe::ucx::Resource> resources;
  std::vector<int> sockets_before, sockets;  // TCP connections that are not, and that are UCX's
  int event = -1;                            // descriptor of the worker; -1: it only polls

  Wait mode = Wait::poll;
  int64_t spin_ns = 0;
  bool only_looks = false;  // polls, and neither sleeps, nor yields, nor is told of lost peers
  uint64_t empty_polls = 0, sleeps = 0, unexpected = 0;

  int lost = -1;  // errors=peer: the rank that has gone
  ucs_status_t lost_status = UCS_OK;
  bool greeted_memory = false;  // a peer's memory was reached once
  bool broken = false;          // something was given up: UCX may still know buffers that are no more

  [[nodiscard]] int64_t option(netpipe::ucx::Option which) const { return context->options[which].number; }
  [[nodiscard]] const char* text(netpipe::ucx::Option which) const { return context->options[which].text; }

  // A call to UCX failed, or what it began did. peer -1: it has none.
  [[gnu::cold]] np_status failed(ucs_status_t status, const char* what, int peer);
  [[gnu::cold]] np_status gave_up(np_status status);

  // Moves whatever can be moved until done() says true.
  template <typename Done>
  np_status until(const Done& done) {
    if (only_looks) [[likely]] {
      while (!done()) {
        if (ucp_worker_progress(worker) == 0) ++empty_polls;
        if (*context->abort != 0) return gave_up(NP_ABORTED);
      }
      return NP_OK;
    }
    return until_patiently(done);
  }

  // Ends what a call to UCX returned.
  np_status finish(ucs_status_ptr_t begun, const char* what, int peer) {
    if (begun == nullptr) return NP_OK;
    if (UCS_PTR_IS_ERR(begun)) return failed(UCS_PTR_STATUS(begun), what, peer);
    ucs_status_t status = UCS_INPROGRESS;
    const np_status waited = until([&] { return (status = ucp_request_check_status(begun)) != UCS_INPROGRESS; });
    if (waited != NP_OK) ucp_request_cancel(worker, begun);
    ucp_request_free(begun);
    if (waited != NP_OK) return waited;
    return status == UCS_OK ? NP_OK : failed(status, what, peer);
  }

  // The same of what need not end before a flush.
  np_status leave(ucs_status_ptr_t begun, const char* what, int peer) {
    if (begun == nullptr) return NP_OK;
    if (UCS_PTR_IS_ERR(begun)) return failed(UCS_PTR_STATUS(begun), what, peer);
    ucp_request_free(begun);
    return NP_OK;
  }

 private:
  template <typename Done>
  np_status until_patiently(const Done& done) {
    int64_t sleep_at_ns = 0;  // 0: not polling in vain yet
    while (!done()) {
      if (*context->abort != 0) return gave_up(NP_ABORTED);
      if (lost_status != UCS_OK) return failed(lost_status, "waiting", lost);
      if (ucp_worker_progress(worker) != 0) {
        sleep_at_ns = 0;
        continue;
      }
      ++empty_polls;
      bool sleep = mode == Wait::block;
      if (mode == Wait::hybrid) {
        const int64_t now = now_of();
        if (sleep_at_ns == 0) sleep_at_ns = now + spin_ns;
        sleep = now >= sleep_at_ns;
      }
      if (!sleep) {
        if (context->oversubscribed != 0) sched_yield();
      } else if (const np_status status = sleep_until_event(); status != NP_OK) {
        return status;
      }
    }
    return NP_OK;
  }
  static int64_t now_of() { return netpipe::ucx::now_ns(); }
  np_status sleep_until_event();
};
