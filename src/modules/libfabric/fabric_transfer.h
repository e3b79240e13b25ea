// SPDX-License-Identifier: Apache-2.0
// How a put or a get is begun, of one block or of several.
#pragma once

#include <rdma/fi_rma.h>

#include "fabric_progress.h"

namespace netpipe::fabric {

enum class Way { put, get };

// One transfer, whose completion comes to the context of the message.
template <Way way>
np_status transfer(np_endpoint& endpoint, const Peer& peer, const fi_msg_rma& message, uint64_t flags = 0) {
  ++endpoint.transfers.issued;
  const uint64_t completion = endpoint.counting ? 0 : FI_COMPLETION;
  if constexpr (way == Way::put) {
    return post(endpoint, "fi_writemsg",
                [&] { return fi_writemsg(peer.ep, &message, completion | FI_DELIVERY_COMPLETE | flags); });
  } else {
    return post(endpoint, "fi_readmsg", [&] { return fi_readmsg(peer.ep, &message, completion | flags); });
  }
}

// Where the completion of one that nobody asks for goes. With counters there is none.
inline np_status place_for(np_endpoint& endpoint, int rank, Slot*& slot) {
  if (endpoint.counting) return NP_OK;
  return new_slot(endpoint, rank, slot);
}

}  // namespace netpipe::fabric
