// SPDX-License-Identifier: Apache-2.0
// Messages over the sockets of a library that queues whole messages and moves them by threads of its own: what zmq and
// nng share. One Channel joins two ranks; an endpoint has one for each peer, and what was started on any of them moves
// on while it waits for one.
//
// The library frames the messages and keeps them apart, so a receive is one call. The fast path is that call.
#pragma once

#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "kit/request_queue.h"
#include "kit/streams/fd_io.h"
#include "kit/waiting.h"
#include "netpipe/module.h"

namespace netpipe::queued {

using fd_io::fail;
using fd_io::now_ns;

constexpr int kSliceMs = fd_io::kAbortSliceMs;  // how long a call sleeps before *context->abort is read

struct Pace {
  Wait wait = Wait::block;
  int64_t spin_ns = 0;  // Wait::hybrid
  bool yields = false;  // somebody else needs this processor
};

// Whose turn it is where messages alternate (request and reply).
enum class Turn { any, to_send, to_receive };

template <typename Socket>
class Channel;

// What the channels of one endpoint have in common.
template <typename Socket>
struct Traffic {
  int pending = 0;  // requests that the library has not taken, of all channels and in both directions
  std::vector<Channel<Socket>*> channels;
  typename Socket::Sleeper sleeper;
};

enum Word { kChannel, kData, kBytes, kState, kNext, kTicket };
// held: handed over, and the library still reads the buffer.
enum State : uint64_t { kDone, kHeld, kQueued };

using Queue = RequestQueue<kNext>;

// A Socket has
//   kAlternates: the setting with which messages alternate
//   np_status send(const void*, size_t, bool sleep), recv(void*, size_t, bool sleep): NP_PENDING: not now (sleep: not
//     within kSliceMs); any other failure has left its sentence in the context
//   np_status take(void*, size_t room, size_t& bytes): a message of any size, without sleeping; what exceeds the room
//   is
//     dropped
//   uint64_t handed(), bool released(ticket): how many messages it was given, and whether it still reads them
//   Sleeper, and void add_wanted(Sleeper&, bool in, bool out, bool released)
// Used by one thread. Allocates in its constructor only.
template <typename Socket>
class Channel {
 public:
  Channel(const np_context* context, const char* layer, int peer, const Pace& pace, Turn turn, Traffic<Socket>& traffic,
          Socket socket)
      : context_(context),
        layer_(layer),
        peer_(peer),
        pace_(pace),
        turn_(turn),
        first_turn_(turn),
        traffic_(traffic),
        socket_(std::move(socket)),
        blocking_(pace.wait == Wait::block) {
    traffic_.channels.push_back(this);
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  [[nodiscard]] uint64_t empty_polls() const { return empty_polls_; }
  [[nodiscard]] uint64_t sleeps() const { return sleeps_; }
  [[nodiscard]] Socket& socket() { return socket_; }
  [[nodiscard]] int peer() const { return peer_; }
  static Channel& of(const np_request& request) { return *reinterpret_cast<Channel*>(request.word[kChannel]); }

  np_status send(const void* data, size_t bytes) {
    if (turn_ == Turn::to_receive) [[unlikely]]
      return out_of_turn("send");
    if (traffic_.pending != 0) [[unlikely]] {
      start(out_, &direct_, const_cast<void*>(data),
            bytes);  // NOLINT(cppcoreguidelines-pro-type-const-cast): only read
      return finish(&direct_);
    }
    const np_status status = directly([&](bool sleep) { return socket_.send(data, bytes, sleep); });
    if (turn_ != Turn::any && status == NP_OK) turn_ = Turn::to_receive;
    if constexpr (Socket::kHolds) {
      if (status == NP_OK && !socket_.released(socket_.handed())) {
        direct_.word[kState] = kHeld;
        direct_.word[kTicket] = socket_.handed();
        return finish(&direct_);
      }
    }
    return status;
  }

  np_status recv(void* data, size_t bytes) {
    if (turn_ == Turn::to_send) [[unlikely]]
      return out_of_turn("receive");
    if (traffic_.pending != 0) [[unlikely]] {
      start(in_, &direct_, data, bytes);
      return finish(&direct_);
    }
    const np_status status = directly([&](bool sleep) { return socket_.recv(data, bytes, sleep); });
    if (turn_ != Turn::any && status == NP_OK) turn_ = Turn::to_send;
    return status;
  }

  np_status isend(const void* data, size_t bytes, np_request* request) {
    if (const np_status status = startable(); status != NP_OK) return status;
    start(out_, request, const_cast<void*>(data), bytes);  // NOLINT(cppcoreguidelines-pro-type-const-cast): only read
    return advance(out_);
  }
  np_status irecv(void* data, size_t bytes, np_request* request) {
    if (const np_status status = startable(); status != NP_OK) return status;
    start(in_, request, data, bytes);
    return NP_OK;
  }

  static np_status wait(np_request* request) { return of(*request).finish(request); }
  static np_status test(np_request* request) {
    Channel& channel = of(*request);
    if (channel.is_done(request)) return NP_OK;
    if (channel.status_ != NP_OK) return channel.status_;
    if (*channel.context_->abort != 0) return channel.aborted();
    if (const np_status status = channel.advance_all(); status != NP_OK) return status;
    if (channel.is_done(request)) return NP_OK;
    ++channel.empty_polls_;
    if (channel.pace_.yields) sched_yield();
    return NP_PENDING;
  }

  // Where messages alternate: who has the first word has it again, whatever a pattern that was given up has left. Both
  // ranks call this. token: what tells this message from those.
  template <size_t Bytes>
  np_status align(const std::array<uint8_t, Bytes>& token) {
    if (turn_ == Turn::any) return NP_OK;
    std::array<uint8_t, Bytes> room{};
    size_t got = 0;
    const auto take = [&](bool) { return socket_.take(room.data(), room.size(), got); };
    const auto say = [&](const void* data, size_t bytes) {
      return directly([&](bool sleep) { return socket_.send(data, bytes, sleep); }, true);
    };
    if (first_turn_ == Turn::to_send) {
      if (turn_ == Turn::to_receive) {
        if (const np_status status = directly(take, true); status != NP_OK) return status;
      }
      if (const np_status status = say(token.data(), token.size()); status != NP_OK) return status;
      turn_ = Turn::to_send;
      return directly(take, true);
    }
    for (bool last = false; !last;) {
      if (turn_ == Turn::to_send) {  // a request that nobody has answered
        if (const np_status status = say(nullptr, 0); status != NP_OK) return status;
      }
      if (const np_status status = directly(take, true); status != NP_OK) return status;
      turn_ = Turn::to_send;
      last = got == token.size() && room == token;
    }
    turn_ = Turn::to_receive;
    return say(token.data(), token.size());
  }

 private:
  // One operation that need not share the time with others. naps: it never sleeps by itself.
  template <typename Operation>
  np_status directly(const Operation& operation, bool naps = false) {
    if (status_ != NP_OK) return status_;
    int64_t sleep_at_ns = 0;
    bool sleep = blocking_;
    for (;;) {
      const np_status status = operation(sleep);
      if (status == NP_OK) [[likely]]
        return NP_OK;
      if (status != NP_PENDING) return give_up(status);
      if (*context_->abort != 0) return aborted();
      if (naps) sched_yield();
      if (!sleep) sleep = look_again(sleep_at_ns);
    }
  }

  // After a look in vain. True: from now on sleep.
  bool look_again(int64_t& sleep_at_ns) {
    ++empty_polls_;
    if (pace_.yields) sched_yield();
    if (pace_.wait != Wait::hybrid) return false;
    const int64_t now = now_ns();
    if (sleep_at_ns == 0) sleep_at_ns = now + pace_.spin_ns;
    if (now < sleep_at_ns) return false;
    ++sleeps_;
    return true;
  }

  void start(Queue& queue, np_request* request, void* data, size_t bytes) {
    request->word[kChannel] = reinterpret_cast<uint64_t>(this);
    request->word[kData] = reinterpret_cast<uint64_t>(data);
    request->word[kBytes] = bytes;
    request->word[kState] = kQueued;
    queue.add(request);
    ++pending_;
    ++traffic_.pending;
  }

  bool is_done(np_request* request) {
    uint64_t& state = request->word[kState];
    if (state == kHeld && socket_.released(request->word[kTicket])) state = kDone;
    return state == kDone;
  }

  // As many requests of this direction as the library takes now.
  np_status advance(Queue& queue) {
    while (np_request* const request = queue.first) {
      void* const data = reinterpret_cast<void*>(request->word[kData]);
      const np_status status = &queue == &out_ ? socket_.send(data, request->word[kBytes], false)
                                               : socket_.recv(data, request->word[kBytes], false);
      if (status == NP_PENDING) return NP_OK;
      if (status != NP_OK) return give_up(status);
      queue.take();
      --pending_;
      --traffic_.pending;
      moved_ = true;
      request->word[kTicket] = socket_.handed();
      request->word[kState] = &queue == &out_ ? kHeld : kDone;
    }
    return NP_OK;
  }

  np_status advance_all() {
    moved_ = false;
    for (Channel* channel : traffic_.channels) {
      if (channel->pending_ == 0) continue;
      channel->moved_ = false;
      if (const np_status status = channel->advance(channel->out_); status != NP_OK) return status;
      if (const np_status status = channel->advance(channel->in_); status != NP_OK) return status;
      moved_ = moved_ || channel->moved_;
    }
    return NP_OK;
  }

  np_status finish(np_request* request) {
    int64_t sleep_at_ns = 0;
    bool sleep = blocking_;
    while (!is_done(request)) {
      if (status_ != NP_OK) return status_;
      if (*context_->abort != 0) return aborted();
      if (const np_status status = advance_all(); status != NP_OK) return status;
      if (moved_) {
        sleep_at_ns = 0;
        sleep = blocking_;
      } else if (sleep) {
        sleep_until_ready(request->word[kState] == kHeld);
      } else {
        sleep = look_again(sleep_at_ns);
      }
    }
    return NP_OK;
  }

  void sleep_until_ready(bool for_release) {
    traffic_.sleeper.clear();
    for (Channel* channel : traffic_.channels) {
      const bool in = channel->in_.first != nullptr, out = channel->out_.first != nullptr;
      const bool release = channel == this && for_release;
      if (in || out || release) channel->socket_.add_wanted(traffic_.sleeper, in, out, release);
    }
    traffic_.sleeper.sleep(kSliceMs);  // whatever it says: the next round finds out
  }

  np_status startable() {
    if (status_ != NP_OK) return status_;
    if (*context_->abort != 0) return aborted();
    if (turn_ == Turn::any) return NP_OK;
    return fail(context_, NP_UNSUPPORTED,
                "%s: with %s a request waits for its reply, so that no two messages are on their way", layer_,
                Socket::kAlternates);
  }

  np_status out_of_turn(const char* what) {
    if (status_ != NP_OK) return status_;
    return fail(context_, NP_UNSUPPORTED,
                "%s: with %s each request is followed by its reply, and here rank %d would %s out of turn", layer_,
                Socket::kAlternates, context_->rank, what);
  }

  // Requests belong to callers who may free them from here on.
  np_status give_up(np_status status) {
    status_ = status;
    in_ = out_ = Queue{};
    traffic_.pending -= pending_;
    pending_ = 0;
    return status;
  }
  np_status aborted() {
    give_up(NP_ABORTED);
    return fail(context_, NP_ABORTED, "%s: rank %d gave up a transfer that was under way", layer_, context_->rank);
  }

  const np_context* context_;
  const char* layer_;
  int peer_;
  Pace pace_;
  Turn turn_, first_turn_;
  Traffic<Socket>& traffic_;
  Socket socket_;
  bool blocking_;
  bool moved_ = false;
  int pending_ = 0;
  np_status status_ = NP_OK;
  np_request direct_{};  // of send or recv; there is one of them at a time
  Queue in_, out_;
  uint64_t empty_polls_ = 0, sleeps_ = 0;
};

constexpr np_counter kCounters[] = {fd_io::kEmptyPolls, fd_io::kSleepsAfterSpin};

// Of these, at the beginning of a module's table.
template <typename Endpoint>
void add_waiting(const Endpoint& endpoint, int64_t* values) {
  values[0] = values[1] = 0;
  for (const typename Endpoint::Channel* channel : endpoint.traffic.channels) {
    values[0] += static_cast<int64_t>(channel->empty_polls());
    values[1] += static_cast<int64_t>(channel->sleeps());
  }
}

// An Endpoint has to(peer), the Channel that messages take, and traffic.
// m: what a module has of its own.
template <typename Endpoint>
np_module queued_module(np_module m) {
  using Channel = typename Endpoint::Channel;
  m.magic = NP_MAGIC;
  m.abi = NP_ABI;
  m.size = sizeof m;
  m.option_bytes = sizeof(np_option);
  m.counters = kCounters;
  m.ncounters = std::size(kCounters);
  m.counter_bytes = sizeof(np_counter);
  m.process_model = NP_FORKED;
  m.min_ranks = 2;
  m.max_ranks = INT32_MAX;
  m.crosses_hosts = 1;
  m.messages = &fd_io::kWireMessages<Endpoint>;
  m.close = [](Endpoint* e) { delete e; };
  m.limits = [](Endpoint*, np_limits* limits) {
    limits->empty = 1;
    return NP_OK;
  };
  m.wait = [](Endpoint*, np_request* requests, size_t count) {
    np_status status = NP_OK;
    for (size_t i = 0; i < count && status == NP_OK; ++i) status = Channel::wait(&requests[i]);
    return status;
  };
  m.test = [](Endpoint*, np_request* request) { return Channel::test(request); };
  m.read_counters = [](Endpoint* e, int64_t* values) { add_waiting(*e, values); };
  return m;
}

}  // namespace netpipe::queued
