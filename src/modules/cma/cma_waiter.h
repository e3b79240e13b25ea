// SPDX-License-Identifier: Apache-2.0
// How a rank of cma waits for the others: by looking, by sleeping on its own futex, or by the first and then the
// second.
#pragma once

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "cma_segment.h"
#include "kit/streams/fd.h"
#include "kit/waiting.h"

namespace netpipe::cma {

class Waiter {
 public:
  // Of one wait. It ends with what was waited for: then nobody needs to wake this rank.
  class Turns {
   public:
    explicit Turns(Waiter& waiter) : waiter_(waiter) {}
    Turns(const Turns&) = delete;
    Turns& operator=(const Turns&) = delete;
    ~Turns() {
      if (armed_) waiter_.own_->asleep.store(0, std::memory_order_relaxed);
    }

   private:
    friend class Waiter;
    Waiter& waiter_;
    std::uint32_t looks_ = 0, turns_ = 0;
    std::int64_t since_ns_ = 0;
    bool armed_ = false;
  };

  void bind(const np_context* context, Wait mode, std::int64_t spin_ns, Member* own) {
    context_ = context;
    mode_ = mode;
    spin_ns_ = spin_ns;
    own_ = own;
    // What blocks looks twice, before and after it asks to be woken; what shares its processor gives it away each time.
    mask_ = context->oversubscribed != 0 || mode == Wait::block ? 0 : 255;
  }

  // Nothing was there. NP_OK: look again. ended(): whether somebody has gone; asked now and then.
  template <typename Ended>
  [[gnu::always_inline]] inline np_status idle(Turns& turns, const Ended& ended) {
    if ((++turns.looks_ & mask_) != 0) return NP_OK;
    return turn(turns, ended);
  }

  // Something was published or copied for that rank.
  void ring(Member& other) {
    if (mode_ == Wait::poll) return;
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (other.asleep.load(std::memory_order_relaxed) == 0 || other.asleep.exchange(0) == 0) return;
    ++wakes_;
    syscall(SYS_futex, &other.asleep, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }

  [[nodiscard]] std::uint64_t sleeps() const { return sleeps_; }
  [[nodiscard]] std::uint64_t wakes() const { return wakes_; }

 private:
  template <typename Ended>
  [[gnu::noinline]] np_status turn(Turns& turns, const Ended& ended) {
    if (*context_->abort != 0) return NP_ABORTED;
    if (++turns.turns_ % 64 == 0 && ended()) return NP_PEER_LOST;
    if (!time_to_sleep(turns)) {
      if (context_->oversubscribed != 0) sched_yield();
      return NP_OK;
    }
    if (!turns.armed_) {
      // Publish-then-look there and look-then-publish here (Dekker): both sides need the full fence.
      own_->asleep.store(1, std::memory_order_seq_cst);
      std::atomic_thread_fence(std::memory_order_seq_cst);
      turns.armed_ = true;
      turns.looks_ = mask_;  // after the next look it is this function's turn again
      return NP_OK;
    }
    ++sleeps_;
    constexpr timespec kNap{0, 50'000'000};  // a bound, so that abort is seen
    syscall(SYS_futex, &own_->asleep, FUTEX_WAIT, 1, &kNap, nullptr, 0);
    own_->asleep.store(0, std::memory_order_relaxed);
    turns.armed_ = false;
    turns.since_ns_ = 0;
    return ended() ? NP_PEER_LOST : NP_OK;
  }

  bool time_to_sleep(Turns& turns) const {
    if (mode_ == Wait::poll) return false;
    if (mode_ == Wait::block || turns.armed_) return true;
    const std::int64_t now = fd_io::now_ns();
    if (turns.since_ns_ == 0) turns.since_ns_ = now;
    return now - turns.since_ns_ >= spin_ns_;
  }

  const np_context* context_ = nullptr;
  Wait mode_ = Wait::poll;
  std::int64_t spin_ns_ = 0;
  std::uint32_t mask_ = 0;
  Member* own_ = nullptr;
  std::uint64_t sleeps_ = 0, wakes_ = 0;
};

}  // namespace netpipe::cma
