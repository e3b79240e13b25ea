// SPDX-License-Identifier: Apache-2.0
// Messages of any size between two processes, started and finished in any order: what is waiting, what is on its way,
// and the work that moves it. While a process waits for one peer it also moves what it has started with others. A
// message up to `eager` is one entry of the cells; above, it is offered to its receiver and copied once, or goes
// through the ring in parts.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "netpipe/module.h"
#include "shm_cells.h"
#include "shm_memory.h"
#include "shm_pace.h"
#include "shm_signals.h"
#include "shm_transfer.h"
#include "shm_wait.h"

namespace netpipe::shm {

enum class Copy { automatic = 0, pipeline = 1, cma = 2 };  // in the order of the option's choices

class Messages;

// An operation that has been started and is not done: lives in the np_request, or on the stack of a blocking call.
struct Operation {
  enum class State : std::uint32_t { waiting, parts, pulling, joining, done };
  Operation* next = nullptr;
  unsigned char* data = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t moved = 0;   // parts: bytes; pulling alone: units
  std::uint64_t ticket = 0;  // of an offer
  Messages* with = nullptr;  // of one that lives in a request: whose queues it is in
  State state = State::waiting;
};
static_assert(sizeof(Operation) <= sizeof(np_request) && alignof(Operation) <= alignof(np_request));

class Queue {
 public:
  [[nodiscard]] Operation* head() const { return head_; }
  void push(Operation* operation) {
    operation->next = nullptr;
    (head_ == nullptr ? head_ : tail_->next) = operation;
    tail_ = operation;
  }
  Operation* pop() {
    Operation* first = head_;
    head_ = first->next;
    if (head_ == nullptr) tail_ = nullptr;
    return first;
  }

 private:
  Operation *head_ = nullptr, *tail_ = nullptr;
};

// Whom this process talks to, and where its sentences go.
struct Peer {
  const np_context* context = nullptr;
  int rank = 0;
  pid_t pid = -1;

  [[gnu::format(printf, 3, 4), gnu::cold]] np_status fail(np_status status, const char* format, ...) const {
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(context->message, context->message_bytes, format, arguments);
    va_end(arguments);
    return status;
  }
  // What a wait ended with, as a sentence.
  [[gnu::cold]] np_status gave_up(np_status status) const {
    if (status == NP_ABORTED) return fail(status, "gave up waiting for rank %d in shared memory", rank);
    return fail(status, "rank %d (process %d) has ended or closed its shared memory; its own error says why", rank,
                static_cast<int>(pid));
  }
};

// What the messages of a process to and from all its peers have in common.
struct Crowd {
  std::uint64_t busy = 0;        // of them, those with operations in their queues
  OwnMemory* memory = nullptr;   // of this process
  std::vector<Messages*> begun;  // that have exchanged anything; room for all
};

class Messages {
 public:
  struct Settings {
    std::uint64_t eager = 0, cma_min = 0, chunk = 0;  // bytes
    Copy copy = Copy::automatic;
    bool cooperate = true;
    bool cma = false;  // the kernel lets each process reach the other's memory
  };
  struct Counts {
    std::uint64_t mapped = 0, cma = 0, ring = 0;  // messages above eager, by how they went
    std::uint64_t helped_units = 0;
  };

  // transfers: of the two directions, by the side that sends; side: 0 of the lower rank.
  void bind(const Settings& settings, const Peer& peer, Crowd& crowd, Transfer* transfers, unsigned side) {
    set_ = settings;
    peer_ = peer;
    crowd_ = &crowd;
    out_ = &transfers[side];
    in_ = &transfers[1 - side];
    quick_end_ = waiter.only_looks() ? std::min<std::uint64_t>(settings.eager, kInlineBytes) + 1 : 0;
  }

  // The two calls that a small message makes hold its shortest way and nothing else, so that a line that has come goes
  // back before the peer looks at it again.
  np_status send(const void* data, std::size_t bytes) {
    if (pending_ == 0 && bytes < quick_end_ && cells.hand_over(data, bytes)) return NP_OK;
    return send_any_way(data, bytes);
  }

  np_status receive(void* data, std::size_t bytes) {
    if (pending_ == 0 && bytes < quick_end_) {
      const unsigned gap = waiter.pace.gap(0);
      for (int looks = 0; looks < kQuickLooks; ++looks) {
        const Cells::Seen seen = cells.take_handed(data, bytes);
        if (seen == Cells::Seen::taken) return NP_OK;
        if (seen == Cells::Seen::other) break;
        Pace::leave(gap);
      }
    }
    return receive_any_way(data, bytes);
  }

  np_status start_send(Operation* operation, const void* data, std::size_t bytes) {
    if (pending_ == 0 && bytes <= set_.eager && cells.put(data, bytes, bytes)) {
      waiter.ring();
      operation->state = Operation::State::done;
      return NP_OK;
    }
    if (broken_ != NP_OK) return broken_;
    enqueue(operation, sends_, const_cast<void*>(data), bytes);
    return step();
  }

  np_status start_receive(Operation* operation, void* data, std::size_t bytes) {
    if (broken_ != NP_OK) return broken_;
    enqueue(operation, receives_, data, bytes);
    return step();
  }

  np_status test(const Operation* operation) {
    if (operation->state == Operation::State::done) return NP_OK;
    if (const np_status status = step(); status != NP_OK) return status;
    if (operation->state == Operation::State::done) return NP_OK;
    bool moved = false;
    if (const np_status status = progress_others(moved); status != NP_OK) return status;
    const np_status status = waiter.glance();
    return status == NP_OK ? NP_PENDING : breaks(peer_.gave_up(status));
  }

  // Does what there is to do, both ways, until `reached` says so.
  template <typename Reached>
  np_status work_until(Reached reached) {
    if (broken_ != NP_OK) return broken_;
    Waiter::Patience patience(waiter);
    const unsigned gap = waiter.pace.gap(0);
    while (!reached()) {
      bool moved = false;
      if (const np_status status = progress(moved); status != NP_OK) return breaks(status);
      if (const np_status status = progress_others(moved); status != NP_OK) return status;
      if (moved && *peer_.context->abort == 0) continue;
      if (const np_status status = waiter.idle(patience, gap); status != NP_OK) {
        take_target_back();
        return breaks(peer_.gave_up(status));
      }
    }
    return NP_OK;
  }

  np_status wait(const Operation* operation) {
    return work_until([operation] { return operation->state == Operation::State::done; });
  }

  // A call of the kernel on the peer's memory failed, with an errno.
  [[gnu::cold]] np_status kernel_refused(int reason, const char* what) {
    if (reason == ESRCH) return breaks(peer_.gave_up(NP_PEER_LOST));
    return breaks(peer_.fail(NP_FAILED, "%s the memory of rank %d (process %d) failed: %s", what, peer_.rank,
                             static_cast<int>(peer_.pid), std::strerror(reason)));
  }

  [[nodiscard]] const Counts& counts() const { return counts_; }
  [[nodiscard]] const Peer& peer() const { return peer_; }

  // A few looks with nothing between them. False: nothing was seen.
  template <typename There>
  bool see(There there) {
    const unsigned gap = waiter.pace.gap(0);
    for (int looks = 0; looks < kQuickLooks; ++looks) {
      if (there()) return true;
      Pace::leave(gap);
    }
    return false;
  }

  Cells cells;
  Waiter waiter;
  PeerMemory memory;  // of the peer

 private:
  // After a failure in the middle of a message nobody knows where the next one begins, and the queues may name
  // operations whose call is about to return: nothing more is done here.
  [[gnu::cold]] np_status breaks(np_status status) {
    broken_ = status;
    sends_ = offered_ = receives_ = Queue();
    if (pending_ == 0) ++crowd_->busy;
    pending_ = 1;  // never the short way again
    return status;
  }

  [[gnu::cold]] np_status wrong_size(std::uint64_t expected, std::uint64_t sent) {
    return peer_.fail(NP_FAILED, "a message of %llu bytes arrived from rank %d where one of %llu bytes was expected",
                      static_cast<unsigned long long>(sent), peer_.rank, static_cast<unsigned long long>(expected));
  }

  void enqueue(Operation* operation, Queue& queue, void* data, std::size_t bytes) {
    operation->data = static_cast<unsigned char*>(data);
    operation->bytes = bytes;
    queue.push(operation);
    if (pending_++ == 0) ++crowd_->busy;
  }

  void finish(Operation* operation) {
    operation->state = Operation::State::done;
    if (--pending_ == 0) --crowd_->busy;
  }

  [[gnu::noinline]] np_status send_any_way(const void* data, std::size_t bytes) {
    if (pending_ == 0 && bytes <= set_.eager && cells.put(data, bytes, bytes)) {
      waiter.ring();
      return NP_OK;
    }
    if (broken_ != NP_OK) return broken_;
    Operation operation;
    enqueue(&operation, sends_, const_cast<void*>(data), bytes);
    // NOLINTNEXTLINE(clang-analyzer-core.StackAddressEscape): when this returns no queue names it, see breaks()
    return wait(&operation);
  }

  [[gnu::noinline]] np_status receive_any_way(void* data, std::size_t bytes) {
    if (pending_ == 0 && crowd_->busy == 0 && bytes <= set_.eager) {
      Waiter::Patience patience(waiter);
      const unsigned gap = waiter.pace.gap(bytes);
      Cells::Found found = cells.look();
      for (; found.cell == nullptr; found = cells.look()) {
        if (const np_status status = waiter.idle(patience, gap); status != NP_OK) return peer_.gave_up(status);
      }
      if (found.info == bytes) {
        if (cells.take(found.cell, data, bytes)) waiter.ring();
        return NP_OK;
      }
    }
    if (broken_ != NP_OK) return broken_;
    Operation operation;
    enqueue(&operation, receives_, data, bytes);
    // NOLINTNEXTLINE(clang-analyzer-core.StackAddressEscape): when this returns no queue names it, see breaks()
    return wait(&operation);
  }

  np_status step() {
    if (broken_ != NP_OK) return broken_;
    bool moved = false;
    const np_status status = progress(moved);
    return status == NP_OK ? NP_OK : breaks(status);
  }

  np_status progress_others(bool& moved) {
    if (crowd_->busy == (pending_ != 0 ? 1 : 0)) return NP_OK;
    for (Messages* other : crowd_->begun) {
      if (other == this || other->pending_ == 0) continue;
      if (const np_status status = other->progress(moved); status != NP_OK) return other->breaks(status);
    }
    return NP_OK;
  }

  np_status progress(bool& moved) {
    if (receives_.head() != nullptr) {
      if (const np_status status = progress_receives(moved); status != NP_OK) return status;
    }
    if (sends_.head() != nullptr) progress_sends(moved);
    return offered_.head() != nullptr ? progress_offered(moved) : NP_OK;
  }

  // -------------------------------------------------------------------------------------------- sending

  // Puts what the queue holds into the cells, as far as there is room.
  void progress_sends(bool& moved) {
    while (Operation* send = sends_.head()) {
      if (send->bytes <= set_.eager) {
        if (!cells.put(send->data, send->bytes, send->bytes)) return;
        finish(sends_.pop());
      } else if (send->state == Operation::State::waiting) {
        if (!announce(send)) return;
      } else {
        const std::uint64_t part = std::min(set_.chunk, send->bytes - send->moved);
        if (!cells.put(send->data + send->moved, part, part)) return;
        send->moved += part;
        if (send->moved == send->bytes) finish(sends_.pop());
      }
      waiter.ring();
      moved = true;
    }
  }

  // The first entry of a message above eager, which says how it goes on. False: there was no room for it.
  bool announce(Operation* send) {
    Offer offer{send->bytes, tickets_ + 1, crowd_->memory->place(send->data, send->bytes)};
    const bool mapped = set_.copy == Copy::automatic && offer.source.slot < kAllocations;
    const bool through_kernel =
        !mapped && set_.cma && set_.copy != Copy::pipeline && (set_.copy == Copy::cma || send->bytes >= set_.cma_min);
    if (!mapped) offer.source.slot = kAllocations;
    if (!mapped && !through_kernel) {
      if (!cells.put(&offer, sizeof offer, kLong)) return false;
      send->state = Operation::State::parts;
      ++counts_.ring;
      return true;
    }
    if (!cells.put(&offer, sizeof offer, kOffer)) return false;
    ++(mapped ? counts_.mapped : counts_.cma);
    send->ticket = ++tickets_;
    offered_.push(sends_.pop());
    return true;
  }

  // An offered message is done when its receiver says so; until then this process helps to copy it.
  np_status progress_offered(bool& moved) {
    Operation* send = offered_.head();
    if (out_->done.load(std::memory_order_acquire) >= send->ticket) {
      finish(offered_.pop());
      moved = true;
      return NP_OK;
    }
    if (!set_.cooperate || out_->open.load(std::memory_order_acquire) != send->ticket) return NP_OK;
    const std::uint64_t slot = out_->slot.load(std::memory_order_relaxed);
    const Place target{out_->address.load(std::memory_order_relaxed), static_cast<std::uint32_t>(slot),
                       static_cast<std::uint32_t>(slot >> 32), out_->offset.load(std::memory_order_relaxed)};
    unsigned char* mapped = memory.reach(target, send->bytes);
    if (mapped == nullptr && !set_.cma) return NP_OK;
    const std::uint64_t units = units_of(send->bytes);
    const Share share = claim(out_->claims, send->ticket, units, Side::back, least_share(units, mapped != nullptr));
    if (share.units == 0) return NP_OK;
    // The claim holds: so the receiver waits for this share, and the target read above is that of this message.
    const std::uint64_t begin = share.begin * kUnitBytes;
    const std::uint64_t bytes = std::min(share.units * kUnitBytes, send->bytes - begin);
    if (mapped != nullptr) {
      std::memcpy(mapped + begin, send->data + begin, bytes);
    } else if (const int reason = copy_to_process(peer_.pid, target.address + begin, send->data + begin, bytes)) {
      return kernel_refused(reason, "writing to");
    }
    counts_.helped_units += share.units;
    out_->helped.store(counts_.helped_units, std::memory_order_release);
    waiter.ring();
    moved = true;
    return NP_OK;
  }

  // -------------------------------------------------------------------------------------------- receiving

  np_status progress_receives(bool& moved) {
    Operation* receive = receives_.head();
    if (receive->state == Operation::State::pulling) return progress_pull(receive, moved);
    if (receive->state == Operation::State::joining) return join(moved);
    const auto [cell, info] = cells.look();
    if (cell == nullptr) return NP_OK;
    moved = true;
    if (receive->state == Operation::State::parts) {
      const std::uint64_t part = std::min(info, receive->bytes - receive->moved);
      if (cells.take(cell, receive->data + receive->moved, part)) waiter.ring();
      receive->moved += part;
      if (receive->moved == receive->bytes) finish(receives_.pop());
      return NP_OK;
    }
    if (info <= kLargestEntryBytes) {
      if (info != receive->bytes) return wrong_size(receive->bytes, info);
      if (cells.take(cell, receive->data, info)) waiter.ring();
      finish(receives_.pop());
      return NP_OK;
    }
    Offer offer;
    if (cells.take(cell, &offer, sizeof offer)) waiter.ring();
    if (offer.bytes != receive->bytes) return wrong_size(receive->bytes, offer.bytes);
    if (info == kLong) {
      receive->state = Operation::State::parts;
      return NP_OK;
    }
    return begin_pull(receive, offer);
  }

  np_status begin_pull(Operation* receive, const Offer& offer) {
    pull_ = {.mapped = memory.reach(offer.source, offer.bytes),
             .remote = offer.source.address,
             .ticket = offer.ticket,
             .units = units_of(offer.bytes)};
    const bool mapped = pull_.mapped != nullptr;
    if (!mapped && !set_.cma) {
      return peer_.fail(NP_FAILED, "cannot map the message memory of rank %d: %s; try copy=pipeline", peer_.rank,
                        std::strerror(errno));
    }
    receive->state = Operation::State::pulling;
    pull_.least = least_share(pull_.units, mapped);
    pull_.shared = set_.cooperate && worth_sharing(pull_.units, mapped);
    if (!pull_.shared) return NP_OK;
    Place target = crowd_->memory->place(receive->data, receive->bytes);
    if (set_.copy == Copy::cma) target.slot = kAllocations;
    const std::uint64_t first = share_of(pull_.units, pull_.least);
    in_->address.store(target.address, std::memory_order_relaxed);
    in_->slot.store(std::uint64_t{target.generation} << 32 | target.slot, std::memory_order_relaxed);
    in_->offset.store(target.offset, std::memory_order_relaxed);
    in_->claims.store(claims_word(pull_.ticket, first), std::memory_order_relaxed);
    in_->open.store(pull_.ticket, std::memory_order_release);
    return copy_share(receive, Share{0, first});
  }

  np_status copy_share(const Operation* receive, const Share& share) {
    const std::uint64_t begin = share.begin * kUnitBytes;
    const std::uint64_t bytes = std::min(share.units * kUnitBytes, receive->bytes - begin);
    if (pull_.mapped != nullptr) {
      std::memcpy(receive->data + begin, pull_.mapped + begin, bytes);
    } else if (const int reason = copy_from_process(peer_.pid, receive->data + begin, pull_.remote + begin, bytes)) {
      return kernel_refused(reason, "reading from");
    }
    return NP_OK;
  }

  np_status progress_pull(Operation* receive, bool& moved) {
    moved = true;
    Share share;
    if (pull_.shared) {
      share = claim(in_->claims, pull_.ticket, pull_.units, Side::front, pull_.least);
    } else {
      share = {receive->moved, std::min(pull_.units - receive->moved, kLargestShareUnits)};
      receive->moved += share.units;
    }
    if (share.units != 0) return copy_share(receive, share);
    if (pull_.shared) helped_before_ += claimed_from_back(in_->claims.load(std::memory_order_relaxed));
    pull_.shared = false;
    receive->state = Operation::State::joining;
    return join(moved);
  }

  // Everything is claimed: the message is whole when the sender has copied its shares.
  np_status join(bool& moved) {
    if (in_->helped.load(std::memory_order_acquire) != helped_before_) return NP_OK;
    moved = true;
    in_->done.store(pull_.ticket, std::memory_order_release);
    waiter.ring();
    finish(receives_.pop());
    return NP_OK;
  }

  // Given up in the middle of a message: the memory that the sender was helping to fill may be freed next. No further
  // share can be claimed, and one that is being written is waited for a little.
  [[gnu::cold]] void take_target_back() {
    if (pull_.shared) {
      const std::uint64_t closed = in_->claims.exchange(claims_word(pull_.ticket + 1, 0), std::memory_order_acq_rel);
      helped_before_ += claimed_from_back(closed);
      pull_.shared = false;
    }
    const std::int64_t end = now_ns() + 50'000'000;
    while (in_->helped.load(std::memory_order_acquire) < helped_before_ && now_ns() < end) relax();
  }

  static constexpr int kQuickLooks = 256;  // before the peer and *context->abort are looked at

  std::uint64_t quick_end_ = 0;  // messages of fewer bytes may take the shortest way
  std::uint64_t pending_ = 0;    // operations in the queues; 0: a small message may take the short way
  Settings set_;
  Queue sends_;                       // not in the cells yet, or only in parts
  Queue offered_;                     // offered, not yet fetched by the receiver
  Queue receives_;                    // posted
  std::uint64_t tickets_ = 0;         // offers made
  std::uint64_t helped_before_ = 0;   // units that the sender has copied, of all messages that are whole
  struct {                            // the peer's offer that is being fetched; one at a time, in their order
    unsigned char* mapped = nullptr;  // where it is mapped here, or nullptr
    std::uint64_t remote = 0;         // where it is there
    std::uint64_t ticket = 0, units = 0, least = 0;
    bool shared = false;  // the sender may help
  } pull_;
  Transfer *out_ = nullptr, *in_ = nullptr;
  Crowd* crowd_ = nullptr;
  Peer peer_;
  np_status broken_ = NP_OK;
  Counts counts_;

 public:
  Signals signals;  // behind what every message needs
};

}  // namespace netpipe::shm
