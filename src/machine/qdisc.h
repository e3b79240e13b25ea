// SPDX-License-Identifier: Apache-2.0
// In what queue the kernel holds packets before an interface sends them: the queueing discipline at its root. One that
// limits the rate is the link, whatever the adapter could do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>

namespace netpipe {

struct Qdisc {
  std::string kind;                          // "noqueue", "fq_codel", "tbf"
  std::optional<std::uint64_t> bits_per_s;   // of tbf: it lets through no more than this
  std::optional<std::uint64_t> burst_bytes;  // and so much beyond it at once
};

using Qdiscs = std::map<int, Qdisc>;  // by the index of the interface

// Those of this process's network namespace; none where the kernel does not say.
Qdiscs root_qdiscs();

// What one read of an answer to RTM_GETQDISC holds. false: it was the last one.
bool read_qdiscs(std::span<const std::byte> answer, Qdiscs& into);

}  // namespace netpipe
