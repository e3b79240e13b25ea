// SPDX-License-Identifier: Apache-2.0
// Puts and gets (RDMA write and read), signals and atomics.
#pragma once

#include "verbs_endpoint.h"

namespace netpipe::verbs {

extern const np_one_sided kOneSided;

}  // namespace netpipe::verbs
