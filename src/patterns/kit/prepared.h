// SPDX-License-Identifier: Apache-2.0
// A collective operation that has been prepared outside the timed region.
#pragma once

#include "patterns/kit/pattern.h"

namespace netpipe::patterns {

class Prepared {
 public:
  // Collective: all ranks prepare the same operations in the same order.
  Prepared(const Stage& s, np_collective_plan plan) : layer_(s.module), endpoint_(s.endpoint) {
    plan.size = sizeof plan;
    status_ = layer_.np_collectives::prepare(endpoint_, &plan, &prepared_);
  }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;
  ~Prepared() {
    if (status_ == NP_OK) layer_.release(endpoint_, &prepared_);
  }

  // What preparing came to; NP_UNSUPPORTED: the layer does not have the operation.
  [[nodiscard]] np_status status() const { return status_; }

  // Carries it out. With a request it is only started.
  np_status operator()(const void* source, void* target, np_request* request = nullptr) const {
    return prepared_.call(endpoint_, prepared_.state, source, target, request);
  }

 private:
  const Layer& layer_;
  np_endpoint* endpoint_;
  np_prepared prepared_{};
  np_status status_;
};

}  // namespace netpipe::patterns
