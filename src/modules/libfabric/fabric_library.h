// SPDX-License-Identifier: Apache-2.0
// Is libfabric here, and is it the one that this module was built with?
#pragma once

#include <string>

namespace netpipe::fabric {

// Without loading it. A sentence; "": it is installed.
std::string why_missing();

// Loads it. A sentence; "": it can be used.
std::string why_not_usable();

}  // namespace netpipe::fabric
