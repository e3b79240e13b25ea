// SPDX-License-Identifier: Apache-2.0
// Put and get of cma: the kernel copies at once, and the other process does nothing.
#pragma once

#include "netpipe/module.h"

namespace netpipe::cma {

extern const np_one_sided kOneSided;

}  // namespace netpipe::cma
