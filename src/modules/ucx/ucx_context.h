// SPDX-License-Identifier: Apache-2.0
// Options become settings of UCX, and what UCX does not take is refused in its own words.
#pragma once

#include <string>
#include <vector>

#include "netpipe/module.h"
#include "ucx_endpoint.h"

namespace netpipe::ucx {

// Makes e->library and e->worker, and fills e->resources.
np_status open_library(np_endpoint* e);

// Once the ranks are joined: that a transport of which something was set is among those that join them, and that UCX's
// protocols change where they were told to. protocols: as message_protocols() has them.
np_status check_in_force(const np_endpoint* e, const std::vector<std::string>& used, const std::string& protocols);

// "tcp", "shm" or "verbs": the module whose layer this transport stands on; "" where there is none.
const char* layer_of(const std::string& transport);

}  // namespace netpipe::ucx
