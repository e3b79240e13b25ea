// SPDX-License-Identifier: Apache-2.0
// Messages by send and receive (op=send), and which other way a message takes.
#pragma once

#include "verbs_endpoint.h"

namespace netpipe::verbs {

extern const np_messages kMessages;
np_status wait(np_endpoint* endpoint, np_request* requests, size_t count);
np_status test(np_endpoint* endpoint, np_request* request);

// All ranks: what this visit's messages are, and where.
np_status prepare(np_endpoint* endpoint, const np_visit* visit);

}  // namespace netpipe::verbs
