// SPDX-License-Identifier: Apache-2.0
// What the kernel says of the connections: the settings that it granted, and what it counts (TCP_INFO).
#pragma once

#include <span>

#include "tcp_endpoint.h"

namespace netpipe::tcp {

// Adds what these connections have counted; before they are closed.
void add_counts(Totals& totals, const np_endpoint::Wires& wires);

void describe(np_endpoint* endpoint, np_emit emit, void* to);

// The table of counters, and their values in its order.
std::span<const np_counter> counters();
void read_counters(np_endpoint* endpoint, int64_t* values);

}  // namespace netpipe::tcp
