// SPDX-License-Identifier: Apache-2.0
// How far the clocks of ranks on other hosts are from that of rank 0.
#pragma once

#include "engine/opening/endpoint.h"
#include "patterns/kit/pattern.h"

namespace netpipe {

// Collective over the ranks of the endpoint, outside the timed region: sets clock_offset_ns and clock_error_ns of the
// stage, 0 for ranks that share a host with rank 0. NP_UNSUPPORTED with a sentence where the module has no messages.
np_status synchronise_clocks(Endpoint& endpoint, Stage& stage);

}  // namespace netpipe
