// SPDX-License-Identifier: Apache-2.0
// Messages over byte streams that are file descriptors. One Wire joins two processes over one or more lanes
// (descriptors); a message longer than a stripe is dealt out to the lanes stripe by stripe. An endpoint has a Wire for
// each peer, and all of them move while it waits for one.
//
// Nothing frames the messages: a receive names its exact size, so bytes need no header. The fast path is one system
// call.
#pragma once

#include <poll.h>
#include <sched.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "kit/streams/fd.h"
#include "kit/streams/fd_path.h"
#include "netpipe/module.h"

namespace netpipe::fd_io {

struct Lane {
  int in = -1, out = -1;  // the same descriptor for a socket
};

struct WireSettings {
  const char* layer = "";  // for sentences
  Wait wait = Wait::block;
  int64_t spin_ns = 0;                // Wait::hybrid
  uint64_t stripe_bytes = 0;          // more than one lane: how many bytes go to a lane before the next one's turn
  size_t max_call_bytes = SSIZE_MAX;  // the most that one write may carry
  Path* path = nullptr;               // another one than a system call for each piece
  const LaneNames* names = nullptr;   // for sentences
};

template <typename Io>
class Wire;

// What the wires of one endpoint have in common.
template <typename Io>
struct Traffic {
  int pending = 0;       // lanes with something to do, of all wires and in both directions
  bool unasked = false;  // a path moves them meanwhile
  std::vector<Wire<Io>*> wires;
  std::vector<pollfd> wanted;  // room for all of them
};

// Used by one thread. Allocates in attach() only. After a failure or an abort bytes of a message may be missing, so
// every later call returns the same status until attach(). Wires live as long as their traffic.
template <typename Io>
class Wire final : private Path::Mover {
 public:
  Wire(const np_context* context, int peer, const WireSettings& settings, Traffic<Io>& traffic)
      : context_(context),
        peer_(peer),
        settings_(settings),
        traffic_(traffic),
        blocking_(settings.wait == Wait::block),
        only_looks_(settings.wait == Wait::poll && context->oversubscribed == 0),
        max_call_bytes_(settings.max_call_bytes) {
    traffic_.wires.push_back(this);
  }
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;
  ~Wire() { detach(); }

  // Owns the descriptors of the lanes from here on. They must be in blocking mode.
  void attach(const Lane* lanes, int count) {
    detach();
    std::copy_n(lanes, count, lanes_);
    lane_count_ = count;
    if (settings_.path != nullptr) {
      lent_.resize(kMaxLanes);
      for (int j = 0; j < count; ++j) {
        lent_[at(j)].slot = settings_.path->add(lanes_[j].in, lanes_[j].out);
        lent_[at(j)].queue.resize(kMostLent);
      }
    }
    status_ = NP_OK;
    forget();
    traffic_.wanted.reserve(2 * kMaxLanes * traffic_.wires.size());
    out_blocks_ = in_blocks_ = true;
    if (!Io::kBlockingIsPerCall && !blocking_) {
      switch_to(out_, false);
      switch_to(in_, false);
    }
    direct_bytes_ = count == 1 ? SIZE_MAX : settings_.stripe_bytes;
    if (settings_.path != nullptr) direct_bytes_ = std::min<uint64_t>(direct_bytes_, settings_.path->direct_bytes());
  }

  void detach() {
    enter();
    for (int j = 0; j < lane_count_; ++j) {
      if (settings_.path != nullptr) settings_.path->remove(lent_[at(j)].slot);
      ::close(lanes_[j].in);
      if (lanes_[j].out != lanes_[j].in) ::close(lanes_[j].out);
    }
    lane_count_ = 0;
    direct_bytes_ = 0;
    forget();
  }

  void set_max_call_bytes(size_t bytes) { max_call_bytes_ = bytes; }
  [[nodiscard]] int lane_count() const { return lane_count_; }
  [[nodiscard]] const Lane& lane(int j) const { return lanes_[j]; }
  [[nodiscard]] uint64_t empty_polls() const { return empty_polls_; }
  [[nodiscard]] uint64_t sleeps() const { return sleeps_; }  // Wait::hybrid: polled in vain for spin_ns

  // direct_bytes_ is 0 where nothing is connected or something is broken, and bytes - 1 is the largest number for an
  // empty message. While anything is queued, for whichever peer, a call that sleeps would keep it waiting.
  np_status send(const void* data, size_t bytes) {
    ssize_t done = 0;
    if (bytes - 1 < direct_bytes_ && traffic_.pending == 0) [[likely]] {
      done = Io::write(lanes_[0].out, data, std::min(bytes, max_call_bytes_), blocking_);
      if (done == static_cast<ssize_t>(bytes)) return NP_OK;
    }
    return finish_direct(out_, const_cast<void*>(data), bytes, done);
  }

  np_status recv(void* data, size_t bytes) {
    ssize_t done = 0;
    if (bytes - 1 < direct_bytes_ && traffic_.pending == 0) [[likely]] {
      done = Io::read(lanes_[0].in, data, bytes, blocking_);
      // As finish() does, which has more to look at.
      while (only_looks_ && done < 0 && errno == EAGAIN && *context_->abort == 0) {
        ++empty_polls_;
        done = Io::read(lanes_[0].in, data, bytes, false);
      }
      if (done == static_cast<ssize_t>(bytes)) return NP_OK;
    }
    return finish_direct(in_, data, bytes, done);
  }

  np_status isend(const void* data, size_t bytes, np_request* request) {
    if (const np_status status = usable(bytes); status != NP_OK) return status;
    enter();
    enqueue(out_, request, const_cast<void*>(data), bytes, 0);
    const np_status status = advance(out_, false);
    if (settings_.path != nullptr) settings_.path->submit();
    leave();
    return status;
  }

  // Only posts: there is mostly nothing to read yet, and asking would cost a system call.
  np_status irecv(void* data, size_t bytes, np_request* request) {
    if (const np_status status = usable(bytes); status != NP_OK) return status;
    enter();
    enqueue(in_, request, data, bytes, 0);
    leave();
    return NP_OK;
  }

  static Wire& of(const np_request& request) { return *wire_of(&request); }  // that it was started on

  static np_status wait(np_request* request) {
    return request->word[kLanesLeft] == 0 ? NP_OK : wire_of(request)->finish(request);
  }

  static np_status test(np_request* request) {
    if (request->word[kLanesLeft] == 0) return NP_OK;
    Wire& wire = *wire_of(request);
    if (wire.status_ != NP_OK) return wire.status_;
    wire.enter();
    if (*wire.context_->abort != 0) return wire.aborted();
    if (const np_status status = wire.advance_all(); status != NP_OK) return status;
    if (wire.settings_.path != nullptr) wire.settings_.path->submit();
    wire.leave();
    return request->word[kLanesLeft] == 0 ? NP_OK : NP_PENDING;
  }

 private:
  // Of a request. Lanes left: how many have their share still to move.
  enum Word { kData, kBytes, kNext, kLanesLeft, kWire };

  // One direction: requests in order, and where each lane is in them. A lane may be several requests ahead of another.
  struct Flow {
    np_request* tail = nullptr;
    np_request* at[kMaxLanes] = {};  // null: this lane has nothing to do
    uint64_t done[kMaxLanes] = {};   // bytes of its share of that request
    int busy = 0;                    // lanes that have something to do
  };

  // Requests that a lane has written and whose bytes the kernel may still read, in order.
  static constexpr size_t kMostLent = 1024;
  struct Lent {
    struct One {
      np_request* request;
      uint64_t written;  // as the path counts
    };
    int slot = -1;
    size_t first = 0, count = 0;
    std::vector<One> queue;
  };

  // Around a call that touches the flows. After a failure nothing is left to be moved.
  void enter() {
    if (settings_.path != nullptr) settings_.path->enter();
  }
  void leave() {
    if (settings_.path != nullptr && traffic_.pending != 0) settings_.path->leave(*this);
  }
  bool move_unasked() override {
    traffic_.unasked = true;
    (void)advance_all();
    traffic_.unasked = false;
    return moved_;
  }

  static size_t at(int lane) { return static_cast<size_t>(lane); }
  static np_request* next(const np_request* request) { return reinterpret_cast<np_request*>(request->word[kNext]); }
  static Wire* wire_of(const np_request* request) { return reinterpret_cast<Wire*>(request->word[kWire]); }

  [[nodiscard]] uint64_t share(uint64_t bytes, int lane) const {
    if (lane_count_ == 1) return bytes;
    const uint64_t stripe = settings_.stripe_bytes, round = stripe * static_cast<uint64_t>(lane_count_);
    const uint64_t rest = bytes % round, before = stripe * static_cast<uint64_t>(lane);
    return bytes / round * stripe + (rest > before ? std::min(rest - before, stripe) : 0);
  }

  // The next run of bytes of a lane, contiguous in memory.
  struct Run {
    char* data;
    size_t bytes;
  };
  [[nodiscard]] Run run(const Flow& flow, int lane) const {
    const np_request& request = *flow.at[lane];
    char* base = reinterpret_cast<char*>(request.word[kData]);
    const uint64_t done = flow.done[lane];
    if (lane_count_ == 1) return {base + done, std::min<size_t>(request.word[kBytes] - done, SSIZE_MAX)};
    const uint64_t stripe = settings_.stripe_bytes, within = done % stripe;
    const uint64_t chunk = done / stripe * static_cast<uint64_t>(lane_count_) + static_cast<uint64_t>(lane);
    return {base + chunk * stripe + within, std::min(stripe - within, share(request.word[kBytes], lane) - done)};
  }

  void enqueue(Flow& flow, np_request* request, void* data, size_t bytes, uint64_t done_of_lane_0) {
    request->word[kData] = reinterpret_cast<uint64_t>(data);
    request->word[kBytes] = bytes;
    request->word[kNext] = 0;
    request->word[kLanesLeft] = static_cast<uint64_t>(lane_count_);
    request->word[kWire] = reinterpret_cast<uint64_t>(this);
    if (flow.tail != nullptr) flow.tail->word[kNext] = reinterpret_cast<uint64_t>(request);
    flow.tail = request;
    for (int j = 0; j < lane_count_; ++j) {
      if (flow.at[j] != nullptr) continue;  // it comes here by itself
      flow.at[j] = request;
      flow.done[j] = j == 0 ? done_of_lane_0 : 0;
      ++flow.busy;
      ++pending_;
      ++traffic_.pending;
      pass_finished(flow, j);
    }
  }

  // A request is complete when every lane has passed it, also those that had no share in it: nobody points to it then.
  void pass_finished(Flow& flow, int lane) {
    while (flow.at[lane] != nullptr && flow.done[lane] == share(flow.at[lane]->word[kBytes], lane)) {
      np_request* passed = flow.at[lane];
      const bool lends = settings_.path != nullptr && &flow == &out_ && flow.done[lane] != 0;
      flow.at[lane] = next(passed);
      flow.done[lane] = 0;
      if (!lends || !lend(lane, passed)) complete(flow, passed);
      if (flow.at[lane] == nullptr) {
        --flow.busy;
        --pending_;
        --traffic_.pending;
      }
    }
  }

  static void complete(Flow& flow, np_request* passed) {
    if (--passed->word[kLanesLeft] == 0 && flow.tail == passed) flow.tail = nullptr;
  }

  // False: the kernel has taken its bytes.
  bool lend(int lane, np_request* passed) {
    Lent& lent = lent_[at(lane)];
    const uint64_t written = settings_.path->written(lent.slot);
    if (settings_.path->settled(lent.slot, written)) return false;
    lent.queue[(lent.first + lent.count) % kMostLent] = {passed, written};
    if (lent.count++ == 0) {
      ++pending_;
      ++traffic_.pending;
    }
    return true;
  }

  [[nodiscard]] bool lends(int lane) const { return !lent_.empty() && lent_[at(lane)].count != 0; }

  void take_back() {
    for (int j = 0; j < lane_count_; ++j) {
      Lent& lent = lent_[at(j)];
      const bool had = lent.count != 0;
      while (lent.count != 0 && settings_.path->settled(lent.slot, lent.queue[lent.first].written)) {
        complete(out_, lent.queue[lent.first].request);
        lent.first = (lent.first + 1) % kMostLent;
        --lent.count;
        moved_ = true;
      }
      if (had && lent.count == 0) {
        --pending_;
        --traffic_.pending;
      }
    }
  }

  // Moves what can be moved in one direction. Blocking: only where exactly one lane has anything to do.
  np_status advance(Flow& flow, bool blocking) {
    if (flow.busy == 0) return NP_OK;
    const bool out = &flow == &out_;
    switch_to(flow, blocking);
    for (int j = 0; j < lane_count_; ++j) {
      while (flow.at[j] != nullptr && *context_->abort == 0) {
        const Run piece = run(flow, j);
        const size_t asked = out ? std::min(piece.bytes, max_call_bytes_) : piece.bytes;
        const ssize_t done = settings_.path != nullptr ? by_path(j, out, piece.data, asked)
                             : out                     ? Io::write(lanes_[j].out, piece.data, asked, blocking)
                                                       : Io::read(lanes_[j].in, piece.data, asked, blocking);
        if (done < 0) {
          if (errno == EAGAIN || errno == EINTR) break;
          return broken(errno, j);
        }
        if (done == 0 && !out) return broken(0, j);
        moved_ = true;
        flow.done[j] += static_cast<uint64_t>(done);
        pass_finished(flow, j);
        // Full, drained or interrupted; asking again would only say so. A packet is short and says nothing.
        if (static_cast<size_t>(done) < asked && max_call_bytes_ == SSIZE_MAX) break;
        if (blocking) break;  // the next request in the queue may be one that nobody has waited for yet
      }
    }
    return NP_OK;
  }

  ssize_t by_path(int lane, bool out, char* data, size_t bytes) {
    const Lent& lent = lent_[at(lane)];
    if (!out) return settings_.path->read(lent.slot, data, bytes);
    if (lent.count < kMostLent) return settings_.path->write(lent.slot, data, bytes);
    errno = EAGAIN;
    return -1;
  }

  np_status finish_direct(Flow& flow, void* data, size_t bytes, ssize_t done) {
    if (done < 0 && errno != EAGAIN && errno != EINTR) return broken(errno, 0);
    if (const np_status status = usable(bytes); status != NP_OK) return status;
    enter();
    enqueue(flow, &direct_, data, bytes, done > 0 ? static_cast<uint64_t>(done) : 0);
    return finish(&direct_);
  }

  // The same for both directions, so that two ranks with full buffers empty each other's, and for all other wires.
  np_status advance_all() {
    moved_ = false;
    if (settings_.path != nullptr) take_back();
    if (const np_status status = advance(out_, false); status != NP_OK) return status;
    if (const np_status status = advance(in_, false); status != NP_OK) return status;
    if (traffic_.pending == pending_) return NP_OK;
    for (Wire* other : traffic_.wires) {
      if (other == this || other->pending_ == 0) continue;
      other->moved_ = false;
      if (settings_.path != nullptr) other->take_back();
      if (const np_status status = other->advance(other->out_, false); status != NP_OK) return status;
      if (const np_status status = other->advance(other->in_, false); status != NP_OK) return status;
      moved_ = moved_ || other->moved_;
    }
    return NP_OK;
  }

  // Moves whatever can be moved until the request is complete.
  np_status finish(np_request* request) {
    enter();
    int64_t sleep_at_ns = 0;  // 0: not polling in vain yet
    bool sleep = blocking_;
    while (request->word[kLanesLeft] != 0) {
      if (status_ != NP_OK) return status_;
      if (*context_->abort != 0) return aborted();
      // With one thing to do the call itself can sleep: no poll() and no second try.
      const bool one_thing =
          traffic_.pending == 1 && (blocking_ || (sleep && Io::kBlockingIsPerCall)) && settings_.path == nullptr;
      moved_ = false;
      if (one_thing) {
        if (const np_status status = advance(out_.busy != 0 ? out_ : in_, true); status != NP_OK) return status;
      } else if (const np_status status = advance_all(); status != NP_OK) {
        return status;
      }
      if (moved_) {
        sleep_at_ns = 0;
        sleep = blocking_;
        continue;
      }
      if (sleep) {
        if (!one_thing) sleep_until_ready();
        continue;
      }
      ++empty_polls_;
      if (context_->oversubscribed != 0) sched_yield();
      if (settings_.wait == Wait::hybrid) {
        const int64_t now = now_ns();
        if (sleep_at_ns == 0) sleep_at_ns = now + settings_.spin_ns;
        sleep = now >= sleep_at_ns;
        sleeps_ += sleep ? 1 : 0;
      }
    }
    leave();
    return NP_OK;
  }

  void sleep_until_ready() {
    if (settings_.path != nullptr && settings_.path->sleep(kAbortSliceMs)) return;
    std::vector<pollfd>& wanted = traffic_.wanted;
    wanted.clear();
    for (const Wire* wire : traffic_.wires) {
      if (wire->pending_ != 0) wire->add_wanted(wanted);
    }
    ::poll(wanted.data(), wanted.size(), kAbortSliceMs);  // whatever it says: the next round finds out
  }

  void add_wanted(std::vector<pollfd>& wanted) const {
    for (int j = 0; j < lane_count_; ++j) {
      const short in = in_.at[j] != nullptr ? POLLIN : 0, out = out_.at[j] != nullptr ? POLLOUT : 0;
      if (lanes_[j].in == lanes_[j].out) {
        if (in != 0 || out != 0 || lends(j)) wanted.push_back({lanes_[j].in, static_cast<short>(in | out), 0});
        continue;
      }
      if (in != 0) wanted.push_back({lanes_[j].in, in, 0});
      if (out != 0) wanted.push_back({lanes_[j].out, out, 0});
    }
  }

  void switch_to(Flow& flow, bool blocking) {
    if constexpr (!Io::kBlockingIsPerCall) {
      bool& blocks = &flow == &out_ ? out_blocks_ : in_blocks_;
      if (blocks == blocking) return;
      blocks = blocking;
      set_blocking(&flow == &out_ ? lanes_[0].out : lanes_[0].in, blocking);
    }
  }

  np_status usable(size_t bytes) {
    if (status_ != NP_OK) return status_;
    if (*context_->abort != 0) return aborted();
    if (lane_count_ == 0) return fail(context_, NP_FAILED, "%s: not connected", settings_.layer);
    if (bytes != 0) return NP_OK;
    return fail(
        context_, NP_UNSUPPORTED,
        "%s: an empty message moves nothing through a byte stream, so there is nothing to measure; start at 1 byte",
        settings_.layer);
  }

  // The requests belong to callers who may free them from here on.
  void give_up(np_status status) {
    status_ = status;
    direct_bytes_ = 0;
    for (int j = 0; settings_.path != nullptr && j < lane_count_; ++j) settings_.path->cancel(lent_[at(j)].slot);
    forget();
  }

  void forget() {
    out_ = in_ = Flow{};
    for (Lent& lent : lent_) lent.count = 0;
    traffic_.pending -= pending_;
    pending_ = 0;
  }

  [[gnu::cold, gnu::noinline]] np_status aborted() {
    uint64_t waiting = 0;
    for (int j = 0; j < lane_count_; ++j) {
      const bool waits = in_.at[j] != nullptr || out_.at[j] != nullptr || lends(j);
      waiting |= uint64_t{waits} << j;
    }
    give_up(NP_ABORTED);
    return fail(context_, status_, "%s: rank %d gave up a transfer that was under way%s", settings_.layer,
                context_->rank, named(waiting).c_str());
  }

  // error 0: the end of the stream.
  [[gnu::cold, gnu::noinline]] np_status broken(int error, int lane) {
    if (traffic_.unasked) return NP_FAILED;  // a signal handler makes no sentences
    const std::string where = named(uint64_t{1} << lane);
    switch (error) {
      case 0:
      case EPIPE:
      case ECONNRESET:
      case ETIMEDOUT:
      case ENOTCONN:
        give_up(NP_PEER_LOST);
        return fail(context_, status_, "%s: rank %d has gone (%s); its own error says why%s", settings_.layer, peer_,
                    error == 0 ? "end of stream" : std::strerror(error), where.c_str());
      default:
        give_up(NP_FAILED);
        return fail(context_, status_, "%s: the transfer failed on rank %d: %s%s", settings_.layer, context_->rank,
                    std::strerror(error), where.c_str());
    }
  }

  [[nodiscard]] std::string named(uint64_t lanes) const {
    return settings_.names != nullptr ? settings_.names->stand_still(peer_, lanes) : std::string();
  }

  const np_context* context_;
  int peer_;
  WireSettings settings_;
  Traffic<Io>& traffic_;
  bool blocking_;
  bool only_looks_;  // polls, and neither sleeps nor yields
  size_t max_call_bytes_;
  uint64_t direct_bytes_ = 0;
  np_status status_ = NP_FAILED;
  bool moved_ = false;
  bool out_blocks_ = true, in_blocks_ = true;  // how the descriptors are now, where that is not said per call
  int pending_ = 0;                            // lanes with something to do, both directions
  int lane_count_ = 0;
  Lane lanes_[kMaxLanes];
  np_request direct_{};  // of send or recv; there is one of them at a time
  Flow out_, in_;
  uint64_t empty_polls_ = 0, sleeps_ = 0;
  std::vector<Lent> lent_;  // with a path: by lane
};

}  // namespace netpipe::fd_io
