// SPDX-License-Identifier: Apache-2.0
// What put and get have in common: rank 0 moves data into or out of the memory of the last rank, which does nothing
// but wait.
//
//     time of one operation = (in_flight of them and what completes them) / in_flight
//     throughput = size_bytes / that time
//
// sync=flush: the rank that moves the data, the origin, completes them. sync=fence: all ranks do, together, which is
// what the 2003 paper means by fence calls between operations. in_flight=64 of either: hardly any between them.
// sync=wait, of put and get: they are started with requests, in one call where their places lie evenly apart, and the
// origin waits for these. Then the bytes of a get are there, and the source of a put may be used again: whether they
// are at the target the layer may not know yet. A flush behind the last sample is not timed.
//
// Operations that are in flight together land in places of their own. The other rank waits in a barrier, inside its
// library: most libraries move a transfer only while its target calls them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include "patterns/kit/pattern.h"

namespace netpipe::patterns::one_sided {

enum Option { sync, in_flight };
enum Sync { by_flush, by_fence, by_wait };
inline constexpr np_option in_flight_option{
    "in_flight", NP_INT, "1", 1, 65536, nullptr, "messages", "operations between two of these", 1};
inline constexpr std::array<np_option, 2> options{{
    {"sync", NP_CHOICE, "flush", 0, 0, "flush|fence", "",
     "what completes operations: a flush by the rank that began them, or a fence of all ranks", 0},
    in_flight_option,
}};
// Of operations that can be started with requests, too.
inline constexpr std::array<np_option, 2> options_with_requests{{
    {"sync", NP_CHOICE, "flush", 0, 0, "flush|fence|wait", "",
     "what completes operations: a flush by the rank that began them, a fence of all ranks, or a wait for their "
     "requests, after which the source of a put may be used again",
     0},
    in_flight_option,
}};

inline std::uint32_t width(const Part& part) { return static_cast<std::uint32_t>(part.options[in_flight].number); }
inline bool fences(const Part& part) { return part.options[sync].number == by_fence; }
inline bool waits(const Part& part) { return part.options[sync].number == by_wait; }
inline std::uint64_t requests(const Part& part, std::uint64_t) { return waits(part) ? width(part) : 0; }

// For Pattern::unfit. operation: what starts transfers with requests, and whether the layer has it.
inline std::string without_start(const Part& part, const Layer& m, const char* operation, bool there) {
  if (!waits(part) || there) return {};
  return std::string("needs ") + operation + ", which module " + m.name + " lacks: choose sync=flush or sync=fence";
}

// Whether this rank moves the data.
inline bool is_origin(const Part& part) { return part.nranks == 1 || is_first(part); }

inline const char* missing(const Layer& m, int nranks) {
  return nranks > 1 && m.barrier == nullptr ? "barrier" : nullptr;
}

// The next places on both sides, as many as lie evenly on both.
struct Both {
  Slots::Row near, far;
};
inline Both take_both(Slots& near, Slots& far, std::uint64_t wanted) {
  const std::uint64_t count = std::min(near.left_in_row(wanted), far.left_in_row(wanted));
  return {near.take(count), far.take(count)};
}

// For operations that have no requests.
inline constexpr auto not_started = [](np_request*, std::uint64_t, std::uint64_t&) { return NP_OK; };

// What puts and what gets: begins the next one (transfer); does several, each flushed before the next, and adds how
// many to its second argument (each, called only where the layer has it); or starts several with these requests, and
// adds how many to its third (start, called only with sync=wait).
template <typename Transfer, typename Each, typename Start>
np_status run(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* stamps, Transfer transfer,
              bool has_each, Each each, Start start) {
  const Layer& m = s.module;
  np_endpoint* const endpoint = s.endpoint;
  const int peer = mirrored(s.rank, s.nranks);
  const std::uint64_t count = width(s);
  const bool waiting = waits(s), moving = is_origin(s);
  // With sync=wait either will do: it comes once, at the end.
  const bool fencing = fences(s) || (waiting && m.flush == nullptr);
  if (fencing ? m.fence == nullptr : m.flush == nullptr) {
    std::snprintf(s.message.data(), s.message.size(), "it has no %s", fencing ? "fence" : "flush: choose sync=fence");
    return NP_UNSUPPORTED;
  }
  const auto waited = [&](std::uint64_t times) {
    np_status status = NP_OK;
    for (std::uint64_t round = 0; round < times && status == NP_OK; ++round) {
      for (std::uint64_t started = 0; started < count && status == NP_OK;) {
        status = start(s.requests + started, count - started, started);
      }
      if (status == NP_OK) status = m.wait(endpoint, s.requests, count);
    }
    return status;
  };
  const auto moved = [&](std::uint64_t times) {
    if (waiting) return waited(times);
    if (has_each && count == 1 && !fencing) {
      for (std::uint64_t done = 0; done < times;) {
        if (const np_status status = each(times - done, done); status != NP_OK) return status;
      }
      return NP_OK;
    }
    for (std::uint64_t round = 0; round < times; ++round) {
      for (std::uint64_t i = 0; i < count; ++i) {
        if (const np_status status = transfer(); status != NP_OK) return status;
      }
      const np_status status = fencing ? m.fence(endpoint) : m.flush(endpoint, peer);
      if (status != NP_OK) return status;
    }
    return NP_OK;
  };
  np_status status = fencing ? m.fence(endpoint) : NP_OK;
  if (moving) {
    if (status == NP_OK) status = moved(1);  // the other rank may only be on its way
    *stamps++ = now_ns();
    for (std::uint64_t sample = 0; sample < samples && status == NP_OK; ++sample) {
      status = moved(rounds);
      *stamps++ = now_ns();
    }
    if (waiting && status == NP_OK) status = fencing ? m.fence(endpoint) : m.flush(endpoint, peer);
  } else if (fencing) {
    const std::uint64_t fenced = waiting ? 1 : 1 + samples * rounds;
    for (std::uint64_t round = 0; round < fenced && status == NP_OK; ++round) status = m.fence(endpoint);
  }
  return status == NP_OK && s.nranks > 1 ? m.barrier(endpoint) : status;
}

inline std::uint32_t sent_by_origin(const Part& part) { return is_origin(part) ? width(part) : 0; }
inline std::uint32_t sent_by_other(const Part& part) { return part.nranks == 1 || !is_origin(part) ? width(part) : 0; }

}  // namespace netpipe::patterns::one_sided
