// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/result.h"

namespace netpipe {

// As the system knows it; on a simulated machine each rank has a host of its own.
std::string host_name();

// Exit::usage for what is longer than any name of a host (RFC 1035, 2.3.4) or address.
Outcome check_host_name(const std::string& name);

}  // namespace netpipe
