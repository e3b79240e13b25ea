// SPDX-License-Identifier: Apache-2.0
// Which provider carries this endpoint, as fi_getinfo offers it.
#pragma once

#include <string>

#include "fabric_endpoint.h"

namespace netpipe::fabric {

// Of this header: the oldest library that can be used.
inline constexpr uint32_t kInterface = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);

// Chooses and fills endpoint.info, .name, .tagged, .directed, .reaches, .atomics and .delivers.
np_status choose_provider(np_endpoint& endpoint);

// For people: "127.0.0.1 port 40001".
std::string address_text(const fi_info& info, const void* address, size_t bytes);

}  // namespace netpipe::fabric
