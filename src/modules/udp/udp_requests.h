// SPDX-License-Identifier: Apache-2.0
// Messages in flight: isend, irecv, wait and test. A message has left when isend returns. A receive is posted nowhere:
// what comes meanwhile lies in the buffer of its socket, and what that has no room for is lost. Receives from one rank
// end in the order in which they were started.
#pragma once

#include <cstddef>
#include <cstdint>

#include "netpipe/module.h"

namespace netpipe::udp {

enum Word { kState, kLink, kInto, kBytes, kNext };
enum State : uint64_t { kDone, kPending, kGivenUp };

// Receives from one other rank that were started, the first one first. Requests belong to their callers.
class Started {
 public:
  [[nodiscard]] np_request* first() const { return first_; }
  void add(np_request* request) {
    request->word[kNext] = 0;
    if (last_ != nullptr) last_->word[kNext] = reinterpret_cast<uint64_t>(request);
    (first_ == nullptr ? first_ : last_) = request;
    last_ = request;
  }
  // status: how the receive of the first one ended, NP_OK or NP_LOST. What else it may be ends the endpoint.
  np_status end_first(np_status status) {
    np_request* const request = first_;
    first_ = reinterpret_cast<np_request*>(request->word[kNext]);
    if (first_ == nullptr) last_ = nullptr;
    request->word[kState] = status == NP_LOST ? kGivenUp : kDone;
    return status == NP_LOST ? NP_OK : status;
  }

 private:
  np_request *first_ = nullptr, *last_ = nullptr;
};

// As those of np_messages and np_module. wait ends all of count, and returns NP_LOST if any of them was lost.
np_status isend(np_endpoint* endpoint, int peer, const void* data, size_t stride, size_t bytes, np_request* requests,
                size_t count);
np_status irecv(np_endpoint* endpoint, int peer, void* data, size_t stride, size_t bytes, np_request* requests,
                size_t count);
np_status wait(np_endpoint* endpoint, np_request* requests, size_t count);
np_status test(np_endpoint* endpoint, np_request* request);

// Ends the receives that were started from this rank, before another one.
np_status end_started(np_endpoint& endpoint, int peer);

}  // namespace netpipe::udp
