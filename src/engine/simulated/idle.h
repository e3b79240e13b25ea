// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace netpipe {

// Called before the first wait of a rank. ranks: of this process.
void begin_idling(int ranks);

}  // namespace netpipe
