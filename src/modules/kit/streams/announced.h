// SPDX-License-Identifier: Apache-2.0
// Messages whose pages are lent to the kernel, which does not say when it has done with them (vmsplice, splice). Only
// those at places that were announced for the visit can be: they do not change until all ranks have finished it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kit/streams/fd.h"
#include "netpipe/module.h"

namespace netpipe::fd_io {

class Announced {
 public:
  explicit Announced(size_t least) : least_(least) {}

  [[nodiscard]] size_t least() const { return least_; }  // smaller messages are copied

  // The messages of a visit start there. what: the setting, for the sentence where they cannot be lent.
  np_status expect(const np_context* context, const np_visit& visit, const char* what) {
    const np_places& from = visit.outgoing;
    span_ = 0;
    if (visit.bytes < least_ || (visit.uses & NP_USES_MESSAGES) == 0) return NP_OK;
    if (from.count == 0) {
      return fail(context, NP_UNSUPPORTED,
                  "%s needs messages that stay as they are until all have arrived, and with fresh buffers they do not",
                  what);
    }
    base_ = reinterpret_cast<uintptr_t>(from.base);
    span_ = from.stride * (from.count - 1) + visit.bytes;
    return NP_OK;
  }

  [[nodiscard]] bool lends(const void* data, size_t bytes) const {
    const uintptr_t at = offset(data);
    return bytes >= least_ && at < span_ && bytes <= span_ - at;
  }
  [[nodiscard]] uintptr_t offset(const void* data) const { return reinterpret_cast<uintptr_t>(data) - base_; }
  [[nodiscard]] uint64_t span() const { return span_; }  // 0: nothing is lent in this visit

 private:
  size_t least_;
  uintptr_t base_ = 0;
  uint64_t span_ = 0;
};

}  // namespace netpipe::fd_io
