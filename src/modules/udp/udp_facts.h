// SPDX-License-Identifier: Apache-2.0
// What udp tells of itself: the settings that are in force, and what it and the kernel count.
#pragma once

#include <span>

#include "udp_endpoint.h"

namespace netpipe::udp {

void describe(np_endpoint* endpoint, np_emit emit, void* to);
std::span<const np_counter> counters();
std::span<const np_measure> measures();  // made of these
void read_counters(np_endpoint* endpoint, int64_t* values);

}  // namespace netpipe::udp
