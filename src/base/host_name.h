// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace netpipe {

// As the system knows it; on a simulated machine each rank has a host of its own.
std::string host_name();

}  // namespace netpipe
