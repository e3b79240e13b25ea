// SPDX-License-Identifier: Apache-2.0
// How a process of the shm module waits for another one: by looking again and again, by sleeping in the kernel
// (futex), or by the first for a while and then the second. Every wait sees *context->abort and a peer that has gone.
#pragma once

#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "kit/waiting.h"
#include "netpipe/module.h"
#include "shm_cells.h"
#include "shm_pace.h"

namespace netpipe::shm {

// One process's line in the shared memory: is it asleep, has it closed.
struct alignas(kApart) Bell {
  std::atomic<std::uint32_t> asleep;  // 1: wake me after you have published something. The futex word.
  std::atomic<std::uint32_t> closed;
};

class Waiter {
 public:
  // What one wait remembers. A wait is a loop of looks; between two of them it calls Waiter::idle.
  class Patience {
   public:
    explicit Patience(Waiter& waiter) : waiter_(waiter) {}
    Patience(const Patience&) = delete;
    Patience& operator=(const Patience&) = delete;
    ~Patience() {
      if (armed_) waiter_.own_->asleep.store(0, std::memory_order_relaxed);
    }

   private:
    friend class Waiter;
    Waiter& waiter_;
    std::uint32_t looks_ = 0;
    std::uint32_t turns_ = 0;
    std::int64_t since_ns_ = 0;
    bool armed_ = false;  // the peer has been asked to wake this process: one more look, then sleep
    bool gone_ = false;   // the peer has gone: one more look for what it left, then give up
  };

  struct Settings {
    Wait mode = Wait::poll;
    std::int64_t spin_ns = 0;  // hybrid: how long to look before sleeping
    bool oversubscribed = false;
    const volatile int* abort = nullptr;
  };

  void bind(const Settings& settings) {
    settings_ = settings;
    // What blocks looks twice, before and after it asks to be woken, and then sleeps, as a read of a socket does. With
    // 16 looks two processes kept each other awake for a while: 75 ns at one size, 20 us at the next.
    const bool look_once = settings.oversubscribed || settings.mode == Wait::block;
    mask_ = look_once ? 0 : settings.mode == Wait::poll ? 255 : 15;
  }

  void attach(Bell* own, Bell* peer, int peer_pidfd) {
    own_ = own;
    peer_ = peer;
    peer_pidfd_ = peer_pidfd;
  }

  [[nodiscard]] std::uint64_t sleeps() const { return sleeps_; }
  [[nodiscard]] std::uint64_t wakes() const { return wakes_; }

  Pace pace;

  // Nobody sleeps and nobody has to give the processor away: a wait is made of looks alone.
  [[nodiscard]] bool only_looks() const { return settings_.mode == Wait::poll && !settings_.oversubscribed; }

  // Nothing was there: wait a little. NP_OK: look again. NP_ABORTED, NP_PEER_LOST: give up.
  [[gnu::always_inline]] inline np_status idle(Patience& patience, unsigned gap) {
    if ((++patience.looks_ & mask_) == 0) return turn(patience);
    Pace::leave(gap);
    return NP_OK;
  }

  // Something was published: wakes the peer when it sleeps. No system call otherwise, and nothing at all when
  // processes poll.
  void ring() { ring(*peer_); }
  // The same for another process than the peer.
  void ring(Bell& other) {
    if (settings_.mode != Wait::poll) wake(other);
  }

  // A test() found nothing. NP_OK: the caller may test again.
  np_status glance() {
    if (*settings_.abort != 0) return NP_ABORTED;
    if (settings_.oversubscribed) sched_yield();
    if (++glances_ % 65536 != 0) return NP_OK;
    if (gone_at_last_glance_) return NP_PEER_LOST;
    gone_at_last_glance_ = peer_->closed.load(std::memory_order_acquire) != 0 || peer_ended();
    return NP_OK;
  }

 private:
  [[gnu::noinline]] np_status turn(Patience& patience) {
    if (*settings_.abort != 0) return NP_ABORTED;
    if (patience.gone_) return NP_PEER_LOST;
    ++patience.turns_;
    patience.gone_ = peer_->closed.load(std::memory_order_acquire) != 0;
    if (settings_.mode == Wait::poll || !time_to_sleep(patience)) {
      if (settings_.oversubscribed) sched_yield();
      if (patience.turns_ % 64 == 0) patience.gone_ = patience.gone_ || peer_ended();
      return NP_OK;
    }
    if (!patience.armed_) {
      // Publish-then-look here and look-then-publish there (Dekker): both sides need the full fence.
      own_->asleep.store(1, std::memory_order_seq_cst);
      std::atomic_thread_fence(std::memory_order_seq_cst);
      patience.armed_ = true;
      patience.looks_ = mask_;  // after the next look it is this function's turn again
      return NP_OK;
    }
    ++sleeps_;
    constexpr timespec kNap{0, 50'000'000};  // a bound, so that abort is seen; a wake-up is never lost
    syscall(SYS_futex, &own_->asleep, FUTEX_WAIT, 1, &kNap, nullptr, 0);
    own_->asleep.store(0, std::memory_order_relaxed);
    patience.armed_ = false;
    patience.since_ns_ = 0;
    patience.gone_ = patience.gone_ || peer_ended();
    return NP_OK;
  }

  [[nodiscard]] bool time_to_sleep(Patience& patience) const {
    if (settings_.mode == Wait::block || patience.armed_) return true;
    const std::int64_t now = now_ns();
    if (patience.since_ns_ == 0) patience.since_ns_ = now;
    return now - patience.since_ns_ >= settings_.spin_ns;
  }

  [[gnu::noinline]] void wake(Bell& other) {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (other.asleep.load(std::memory_order_relaxed) == 0) return;
    if (other.asleep.exchange(0) == 0) return;
    ++wakes_;
    syscall(SYS_futex, &other.asleep, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }

  // A killed process stays a zombie until its parent has asked for it: only a pidfd tells that it has ended.
  [[nodiscard]] bool peer_ended() const {
    if (peer_pidfd_ < 0) return false;
    pollfd ended{peer_pidfd_, POLLIN, 0};
    return poll(&ended, 1, 0) == 1;
  }

  Settings settings_;
  std::uint32_t mask_ = 0;
  Bell *own_ = nullptr, *peer_ = nullptr;
  int peer_pidfd_ = -1;
  std::uint64_t sleeps_ = 0, wakes_ = 0, glances_ = 0;
  bool gone_at_last_glance_ = false;
};

}  // namespace netpipe::shm
