// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace netpipe {

inline constexpr std::uint16_t default_port = 5002;  // where netpipe serve listens

}  // namespace netpipe
