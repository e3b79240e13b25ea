// SPDX-License-Identifier: Apache-2.0
// gRPC's completion queue: what was started comes back from it, and bytes move only while somebody looks into it. So
// the rank's own thread does all the work, and no thread of the library takes part in a message.
#pragma once

#include <cstdint>

#include "grpc_library.h"
#include "kit/streams/fd_io.h"

namespace netpipe::grpc {

// What comes back from the queue. It stays where it is as long as it is outstanding.
struct Tag {
  void (*told)(void* owner, bool good) = nullptr;
  void* owner = nullptr;
};

class Loop {
 public:
  explicit Loop(const Library& library)
      : lib(library),
        queue(library.grpc_completion_queue_create_for_next(nullptr)),
        past_(library.gpr_inf_past(GPR_CLOCK_MONOTONIC)) {}
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  // Whoever started something has waited for its end().
  ~Loop() {
    lib.grpc_completion_queue_shutdown(queue);
    const int64_t deadline_ns = fd_io::now_ns() + kPatienceNs;
    grpc_event event{};
    while (event.type != GRPC_QUEUE_SHUTDOWN && fd_io::now_ns() < deadline_ns) {
      event = lib.grpc_completion_queue_next(queue, in_ms(fd_io::kAbortSliceMs), nullptr);
    }
    if (event.type == GRPC_QUEUE_SHUTDOWN) lib.grpc_completion_queue_destroy(queue);
  }

  // Waits for all that is outstanding, within reason.
  void end() {
    const int64_t deadline_ns = fd_io::now_ns() + kPatienceNs;
    while (outstanding_ > 0 && fd_io::now_ns() < deadline_ns) sleep(fd_io::kAbortSliceMs);
  }

  [[nodiscard]] bool idle() const { return outstanding_ == 0; }

  // What is there now: at most one of them.
  bool look() { return take(past_); }
  bool sleep(int ms) { return take(in_ms(ms)); }

  bool start(grpc_call* call, const grpc_op* operations, size_t count, Tag& tag) {
    if (lib.grpc_call_start_batch(call, operations, count, &tag, nullptr) != GRPC_CALL_OK) return false;
    ++outstanding_;
    return true;
  }
  void started() { ++outstanding_; }  // by another call of the library

  const Library& lib;
  grpc_completion_queue* const queue;

 private:
  static constexpr int64_t kPatienceNs = 2'000'000'000;

  bool take(gpr_timespec until) {
    const grpc_event event = lib.grpc_completion_queue_next(queue, until, nullptr);
    if (event.type != GRPC_OP_COMPLETE) return false;
    --outstanding_;
    const Tag& tag = *static_cast<const Tag*>(event.tag);
    tag.told(tag.owner, event.success != 0);
    return true;
  }
  [[nodiscard]] gpr_timespec in_ms(int ms) const {
    return lib.gpr_time_add(lib.gpr_now(GPR_CLOCK_MONOTONIC), lib.gpr_time_from_millis(ms, GPR_TIMESPAN));
  }

  const gpr_timespec past_;
  int64_t outstanding_ = 0;
};

}  // namespace netpipe::grpc
