// SPDX-License-Identifier: Apache-2.0
// Requests in the order in which they were added. The module keeps the pointer to the next one in a word of the
// request.
#pragma once

#include <cstdint>

#include "netpipe/module.h"

namespace netpipe {

// next: which word of a request points to the one behind it.
template <int next>
struct RequestQueue {
  np_request *first = nullptr, *last = nullptr;
  void add(np_request* request) {
    request->word[next] = 0;
    if (last != nullptr) last->word[next] = reinterpret_cast<uint64_t>(request);
    (first == nullptr ? first : last) = request;
    last = request;
  }
  // The first one, which is there.
  np_request* take() {
    np_request* const request = first;
    first = reinterpret_cast<np_request*>(request->word[next]);
    if (first == nullptr) last = nullptr;
    return request;
  }
};

}  // namespace netpipe
