// SPDX-License-Identifier: Apache-2.0
// Blocks are lists on both sides of a transfer, as long as the provider takes (iov_limit and rma_iov_limit; most take
// 4 of each, and some one). So a shape is as many transfers as that needs, and flush waits for all of them.
#include "fabric_strided.h"

#include <algorithm>
#include <array>

#include "fabric_memory.h"
#include "fabric_reach.h"
#include "fabric_transfer.h"

namespace netpipe::fabric {
namespace {

constexpr size_t kMostBlocks = 64;

template <Way way>
np_status strided(np_endpoint& endpoint, int rank, char* near, const np_region& far, size_t offset,
                  const np_strided& shape) {
  const auto extent = [&shape](size_t stride) { return (shape.blocks - 1) * stride + shape.block_bytes; };
  if (const np_status s = within(endpoint, far, offset, extent(shape.far_stride)); s != NP_OK) return s;
  const Peer& peer = endpoint.peers[static_cast<size_t>(rank)];
  const size_t most = blocks_at_once(endpoint);
  std::array<iovec, kMostBlocks> here;
  std::array<fi_rma_iov, kMostBlocks> there;
  std::array<void*, kMostBlocks> descriptors;
  descriptors.fill(descriptor_of(endpoint, near, extent(shape.near_stride)));
  uint64_t at = far.word[kBase] + offset;
  for (size_t done = 0; done < shape.blocks;) {
    const size_t count = std::min(most, shape.blocks - done);
    for (size_t i = 0; i < count; ++i, near += shape.near_stride, at += shape.far_stride) {
      here[i] = {near, shape.block_bytes};
      there[i] = {at, shape.block_bytes, far.word[kKey]};
    }
    Slot* slot = nullptr;
    if (const np_status s = place_for(endpoint, rank, slot); s != NP_OK) return s;
    void* const context = slot != nullptr ? &slot->request : nullptr;
    const fi_msg_rma message = {here.data(), descriptors.data(), count, peer.at, there.data(), count, context, 0};
    if (const np_status s = transfer<way>(endpoint, peer, message); s != NP_OK) return s;
    done += count;
  }
  return NP_OK;
}

}  // namespace

size_t blocks_at_once(const np_endpoint& endpoint) {
  const fi_tx_attr& most = *endpoint.info->tx_attr;
  return std::clamp<size_t>(std::min(most.iov_limit, most.rma_iov_limit), 1, kMostBlocks);
}

np_status put_strided(np_endpoint* endpoint, int rank, const void* source, const np_region* target, size_t offset,
                      const np_strided* shape) {
  char* const near = const_cast<char*>(static_cast<const char*>(source));
  return strided<Way::put>(*endpoint, rank, near, *target, offset, *shape);
}

np_status get_strided(np_endpoint* endpoint, int rank, void* target, const np_region* source, size_t offset,
                      const np_strided* shape) {
  return strided<Way::get>(*endpoint, rank, static_cast<char*>(target), *source, offset, *shape);
}

}  // namespace netpipe::fabric
