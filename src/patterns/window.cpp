// SPDX-License-Identifier: Apache-2.0
// So many messages in flight at once, then a word from the receiver that all have come, and the next so many: what a
// layer moves when it is kept busy, and of small messages how many a second.
//
//     time of one operation = time of a window, the acknowledgement included / messages in it
//     throughput = size_bytes / that time; message rate = 1 / that time
//
// directions=both: each rank sends a window and receives one at the same time. Their arrival is acknowledgement enough,
// and both directions are counted: throughput = 2 x size_bytes / that time.
//
// completion=local: as Liu et al. describe it, the sender waits until its own requests are complete, which says that it
// may reuse its buffers and not that anything has arrived, and sends the next window. Nothing comes back within a
// sample. What a layer takes faster than it delivers piles up at the receiver, so a sample is at most 64 MiB, each
// message taken for 1 KiB at least; between samples, outside of the clock, the receiver says that it has everything.
// The messages of the last window, and whatever else the layer still holds, arrive after the clock has stopped.
//
// Over a layer that loses messages a receiver waits for each message by itself, finds out which are lost, and
// acknowledges all the same. Somebody has waited in vain then, for a message or for an acknowledgement that was lost,
// so the sample has no time; with completion=local it has none either, so that no time is that of windows of which only
// a part arrived.
//
// Every message in flight lands in a place of its own, and sends start from one place, unless they are verified.
// places=one: all messages land in one place too, as in osu_bw, although MPI does not allow it; places=all: each starts
// from a place of its own, too. The clock is rank 0's, which sends.
#include <algorithm>
#include <array>
#include <string>

#include "patterns/kit/pattern.h"

namespace netpipe::patterns {
namespace {

enum Option { in_flight, directions, completion, places };
enum Places { for_receives, for_none, for_all };
constexpr std::array<np_option, 4> options{{
    {"in_flight", NP_INT, "16", 1, 65536, nullptr, "messages", "messages of a window, in flight together", 1},
    {"directions", NP_CHOICE, "one", 0, 0, "one|both", "", "whether both ranks send at once", 0},
    {"completion", NP_CHOICE, "acknowledged", 0, 0, "acknowledged|local", "",
     "a window is done when the receiver says that it has come, or when the sender's own requests are complete", 0},
    {"places", NP_CHOICE, "receives", 0, 0, "receives|one|all", "",
     "which messages of a window have a place of their own: those received, none (one place for all), or all", 1},
}};

std::uint32_t width(const Part& part) { return static_cast<std::uint32_t>(part.options[in_flight].number); }
bool both(const Part& part) { return part.options[directions].number != 0; }
bool local(const Part& part) { return part.options[completion].number != 0; }
bool sends(const Part& part) { return both(part) || is_first(part); }
bool shares_place(const Part& part) { return part.options[places].number == for_none; }
bool receives(const Part& part) { return both(part) || !is_first(part); }

// Of local completion: how many windows may be on their way at once, if the receiver takes none.
std::uint64_t most_rounds(const Part& part) {
  constexpr std::uint64_t piled_up_bytes = 64ULL << 20, least_bytes = 1024;
  if (!local(part)) return 0;
  const std::uint64_t window_bytes = std::max(part.size_bytes, least_bytes) * width(part);
  return std::max<std::uint64_t>(piled_up_bytes / window_bytes, 1);
}

std::string unfit(const Part& part, const Layer&) {
  if (!local(part) || !both(part)) return {};
  return "has no acknowledgement to leave out: with directions=both what arrives is one";
}

np_status windows(Stage& s, std::uint64_t times) {
  const Layer& m = s.module;
  np_endpoint* const endpoint = s.endpoint;
  const int peer = mirrored(s.rank, s.nranks);
  const std::size_t bytes = s.size_bytes;
  const std::uint64_t count = width(s);
  const bool sending = sends(s), receiving = receives(s), acknowledged = !both(s) && !local(s);
  const std::uint64_t all = (sending ? count : 0) + (receiving ? count : 0);
  np_status status = NP_OK;
  for (std::uint64_t round = 0; round < times && status == NP_OK; ++round) {
    if (receiving) status = start_receives(s, peer, bytes, s.requests, count);
    if (sending && status == NP_OK) status = start_sends(s, peer, bytes, s.requests + (all - count), count);
    if (status == NP_OK) status = m.wait(endpoint, s.requests, all);
    if (!acknowledged) continue;
    if (sending && status == NP_OK) status = m.recv(endpoint, peer, s.token_in, 1);
    if (receiving && status == NP_OK) status = m.send(endpoint, peer, s.token_out, 1);
  }
  return status;
}

np_status lossy_windows(Stage& s, std::uint64_t times, std::uint64_t sample) {
  const Layer& m = s.module;
  const int peer = mirrored(s.rank, s.nranks);
  const bool acknowledged = !both(s) && !local(s);
  const std::uint64_t sent = sends(s) ? width(s) : 0;
  const std::uint64_t received = receives(s) ? width(s) : 0;
  np_status status = NP_OK;
  for (std::uint64_t round = 0; round < times && status == NP_OK; ++round) {
    const Slots landing = s.incoming;
    if (received > 0) status = start_receives(s, peer, s.size_bytes, s.requests, received);
    if (sent > 0 && status == NP_OK) status = start_sends(s, peer, s.size_bytes, s.requests + received, sent);
    if (status == NP_OK) status = await_each(s, landing, received, sample);
    if (sent > 0 && status == NP_OK) status = m.wait(s.endpoint, s.requests + received, sent);
    if (!acknowledged || status != NP_OK) continue;
    if (sent > 0) status = m.recv(s.endpoint, peer, s.token_in, 1);
    if (received > 0) status = m.send(s.endpoint, peer, s.token_out, 1);
    if (only_lost_word(s, status, sample)) status = NP_OK;
  }
  return status;
}

np_status take_sample(Stage& s, std::uint64_t rounds, std::uint64_t sample) {
  return s.lost != nullptr ? lossy_windows(s, rounds, sample) : windows(s, rounds);
}

// Before each sample the receiver says that it is here and has all that was sent before. Where that word was lost, the
// sender has waited long enough for it.
np_status unacknowledged(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* stamps) {
  const int peer = mirrored(s.rank, s.nranks);
  for (std::uint64_t sample = 0; sample < samples; ++sample) {
    np_status status =
        sends(s) ? s.module.recv(s.endpoint, peer, s.token_in, 1) : s.module.send(s.endpoint, peer, s.token_out, 1);
    if (status == NP_LOST && s.lost != nullptr) status = NP_OK;
    *stamps++ = now_ns();
    if (status == NP_OK) status = take_sample(s, rounds, sample);
    *stamps++ = now_ns();
    if (status != NP_OK) return status;
  }
  return NP_OK;
}

np_status run(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* stamps) {
  if (local(s)) return unacknowledged(s, samples, rounds, stamps);
  // The other rank may still be on its way out of the barrier.
  if (const np_status status = take_sample(s, 1, no_sample); status != NP_OK) return status;
  *stamps++ = now_ns();
  for (std::uint64_t sample = 0; sample < samples; ++sample) {
    if (const np_status status = take_sample(s, rounds, sample); status != NP_OK) return status;
    *stamps++ = now_ns();
  }
  return NP_OK;
}

}  // namespace

extern const Pattern window;
const Pattern window = {
    .name = "window",
    .summary = "many messages in flight until they have arrived, or only left; one way or both",
    .formula =
        "time of one operation = time of a window / messages in it; throughput = size_bytes / that time, twice "
        "that with directions=both",
    .source =
        "Liu et al.: Performance Comparison of MPI Implementations over InfiniBand, Myrinet and Quadrics (2003), "
        "sections 3.1 and 3.3",
    .options = options,
    .operations = width,
    .messages_per_operation = [](const Part& part) { return both(part) ? 2U : 1U; },
    .extra_rounds = [](const Part& part) { return local(part) ? 0U : 1U; },
    .arrivals = [](const Part& part) { return receives(part) ? width(part) : 0; },
    .departures = [](const Part& part) { return sends(part) ? width(part) : 0; },
    .in_flight = [](const Part& part) { return shares_place(part) ? 1U : width(part); },
    .starts = [](const Part& part) { return part.options[places].number == for_all ? width(part) : 1U; },
    .overwrites = shares_place,
    .requests = [](const Part& part, std::uint64_t) { return std::uint64_t{2} * width(part); },
    .most_rounds = most_rounds,
    .single_rounds = true,
    .pauses = local,
    .one_buffer = false,
    .in_pairs = true,
    .loss = Loss::spoils,
    .min_ranks = 2,
    .max_ranks = INT32_MAX,
    .multiple_of = 2,
    .missing = without_requests,
    .unfit = unfit,
    .run = run,
};

}  // namespace netpipe::patterns
