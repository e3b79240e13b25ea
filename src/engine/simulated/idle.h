// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace netpipe {

// Before the first wait of a rank, out of so many of this process.
void begin_idling(int ranks);

}  // namespace netpipe
