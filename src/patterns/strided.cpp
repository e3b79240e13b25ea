// SPDX-License-Identifier: Apache-2.0
// Rank 0 moves blocks that lie evenly apart, as a column of a matrix does, into the memory of the last rank or out of
// it, in one call for all blocks of a message. one_sided.h says what is timed; what this costs more than `put` or `get`
// of as many bytes is what lies between the blocks.
//
//     time of one operation = (in_flight transfers and what completes them) / in_flight
//     throughput = size_bytes / that time, where size_bytes = block x blocks: what lies between them does not count
//
// The blocks lie alike on both sides. A process alone moves them within its own memory.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "patterns/kit/one_sided.h"
#include "patterns/kit/verify.h"

namespace netpipe::patterns {
namespace {

using namespace one_sided;

enum OwnOption { direction = one_sided::options.size(), block, stride };
constexpr std::array<np_option, 5> own_options{{
    one_sided::options[sync],
    one_sided::options[in_flight],
    {"direction", NP_CHOICE, "put", 0, 0, "put|get", "", "into the memory of the last rank, or out of it", 0},
    {"block", NP_SIZE, "8", 1, 1 << 20, nullptr, "bytes",
     "size of a block; message sizes that are no multiple of it are left out", 1},
    {"stride", NP_SIZE, "16", 1, 1 << 20, nullptr, "bytes",
     "from the beginning of a block to that of the next, on both sides; block or more", 1},
}};

bool getting(const Part& part) { return part.options[direction].number != 0; }
std::uint64_t block_bytes(const Part& part) { return static_cast<std::uint64_t>(part.options[block].number); }
std::uint64_t stride_bytes(const Part& part) { return static_cast<std::uint64_t>(part.options[stride].number); }
std::uint64_t blocks(const Part& part) { return part.size_bytes / block_bytes(part); }

const char* lacking(const Layer& m, int nranks) {
  if (m.put_strided == nullptr && m.get_strided == nullptr) return "put_strided and get_strided";
  return missing(m, nranks);
}

std::string unfit(const Part& part, const Layer& m) {
  if (stride_bytes(part) < block_bytes(part)) {
    return "has blocks of " + std::to_string(block_bytes(part)) + " bytes that begin every " +
           std::to_string(stride_bytes(part)) + ", so that they lie on each other: choose a larger stride";
  }
  if ((getting(part) ? m.get_strided != nullptr : m.put_strided != nullptr)) return {};
  return std::string("needs ") + (getting(part) ? "get" : "put") + "_strided, which module " + m.name + " lacks";
}

// Of one transfer, with what lies behind its last block.
std::uint64_t extent(const Part& part) {
  constexpr std::uint64_t most = 1ULL << 62U;
  const std::uint64_t count = (part.size_bytes + block_bytes(part) - 1) / block_bytes(part);
  return count > most / stride_bytes(part) ? most : count * stride_bytes(part);
}
// What is in flight together has one place.
std::uint64_t place_bytes(const Part& part) {
  constexpr std::uint64_t most = 1ULL << 62U;
  return extent(part) > most / width(part) ? most : extent(part) * width(part);
}

np_status run_strided(Stage& s, std::uint64_t samples, std::uint64_t rounds, std::int64_t* stamps) {
  const auto put = s.module.put_strided;
  const auto get = s.module.get_strided;
  const int peer = mirrored(s.rank, s.nranks);
  const bool out_of_it = getting(s);
  const np_strided shape{block_bytes(s), blocks(s), stride_bytes(s), stride_bytes(s)};
  const std::uint64_t step = extent(s);
  const std::uint32_t many = width(s);
  Slots& nearby = out_of_it ? s.incoming : s.outgoing;
  Slots& faraway = out_of_it ? s.outgoing : s.incoming;
  const np_region* const region = out_of_it ? s.far_out : s.far_in;
  const char* const base = out_of_it ? s.near_out : s.near_in;
  std::uint32_t part = many;
  char* near = nullptr;
  std::size_t far = 0;
  return run(
      s, samples, rounds, stamps,
      [&] {
        if (part == many) {
          part = 0;
          near = nearby.take();
          far = static_cast<std::size_t>(faraway.take() - base);  // the peer's places lie alike
        }
        const std::size_t at = part++ * step;
        return out_of_it ? get(s.endpoint, peer, near + at, region, far + at, &shape)
                         : put(s.endpoint, peer, near + at, region, far + at, &shape);
      },
      false, [](std::uint64_t, std::uint64_t&) { return NP_OK; }, not_started);
}

// ------------------------------------------------------------------------------------------------- verification

enum Whose { sent, before };

void fill_place(const Part& part, std::uint64_t seed, std::uint64_t i, char* out, char* in) {
  fill(out, place_bytes(part), message_seed(seed, i, part.rank, sent));
  fill(in, place_bytes(part), message_seed(seed, i, part.rank, before));
}

// Every block is the peer's where something arrives here, and every other byte is what it was.
std::string check_place(const Part& part, std::uint64_t seed, std::uint64_t i, const char* in) {
  const std::size_t bytes = place_bytes(part);
  std::vector<char> expected(bytes), of_peer(bytes);
  fill(expected.data(), bytes, message_seed(seed, i, part.rank, before));
  fill(of_peer.data(), bytes, message_seed(seed, i, mirrored(part.rank, part.nranks), sent));
  const std::uint64_t size = block_bytes(part), apart = stride_bytes(part);
  const bool arrives = part.nranks == 1 || is_origin(part) == getting(part);
  for (std::size_t at = 0; arrives && at < bytes; at += apart) {
    std::copy_n(of_peer.begin() + static_cast<std::ptrdiff_t>(at), size,
                expected.begin() + static_cast<std::ptrdiff_t>(at));
  }
  const auto wrong =
      static_cast<std::size_t>(std::mismatch(expected.begin(), expected.end(), in).first - expected.begin());
  if (wrong == bytes) return {};
  const std::string number = std::to_string(wrong / apart + 1);
  if (!arrives) return "changed the memory of a rank that only gives, at byte " + std::to_string(wrong);
  if (wrong % apart >= size) return "wrote between its blocks, behind block " + number;
  return "differs from what was sent, first at byte " + std::to_string(wrong % apart) + " of block " + number;
}

std::uint32_t one(const Part&) { return 1; }

}  // namespace

extern const Pattern strided;
const Pattern strided = {
    .name = "strided",
    .summary = "one rank puts or gets blocks that lie apart in the memory of another, which only waits",
    .formula =
        "time of one operation = (in_flight transfers and what completes them) / in_flight; throughput = size_bytes / "
        "that time",
    .source = "Nieplocha, Carpenter: ARMCI: A Portable Remote Memory Copy Library (1999): ARMCI_PutS and ARMCI_GetS",
    .options = own_options,
    .operations = width,
    .extra_rounds = one,
    .arrivals = one,
    .departures = one,
    .place_bytes = place_bytes,
    .unit_bytes = block_bytes,
    .single_rounds = true,
    .one_buffer = false,
    .in_pairs = true,
    .reach = [](const Part& part) { return getting(part) ? NP_REACH_GET : NP_REACH_PUT; },
    .uses = NP_USES_STRIDED,
    .min_ranks = 1,
    .max_ranks = INT32_MAX,
    .multiple_of = 2,
    .missing = lacking,
    .unfit = unfit,
    .fill = fill_place,
    .check = check_place,
    .run = run_strided,
};

}  // namespace netpipe::patterns
