// SPDX-License-Identifier: Apache-2.0
// How ranks come to reach each other.
#pragma once

#include "verbs_endpoint.h"

namespace netpipe::verbs {

np_status address(np_endpoint* endpoint, void* data, size_t* bytes);
np_status connect(np_endpoint* endpoint, const void* const* addresses, const size_t* bytes);

}  // namespace netpipe::verbs
