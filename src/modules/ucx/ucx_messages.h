// SPDX-License-Identifier: Apache-2.0
// Two-sided messages: by tags, as a stream, or by active messages. And the barrier, which is made of active messages.
#pragma once

#include "netpipe/module.h"
#include "ucx_endpoint.h"

namespace netpipe::ucx {

extern const np_messages kMessages;

// Numbers of active messages: those of a rank carry its messages; behind them come the barrier and the signals.
unsigned message_number(const np_endpoint* e, int from);
unsigned barrier_number(const np_endpoint* e, int round);
unsigned signal_number(const np_endpoint* e, int from);

np_status take_active_messages(np_endpoint* e);  // from here on

np_status wait(np_endpoint* e, np_request* requests, size_t count);
np_status test(np_endpoint* e, np_request* request);
np_status barrier(np_endpoint* e);

// Whether anything of it is still under way; what UCX had of it is freed when nothing is.
bool under_way(np_request& request);
void begin(np_request& request, ucs_status_ptr_t begun);

// The next value of put_signal from this peer.
np_status await_signal(np_endpoint* e, int peer, uint64_t* value);

}  // namespace netpipe::ucx
