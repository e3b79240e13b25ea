// SPDX-License-Identifier: Apache-2.0
#include "cma_one_sided.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "cma_endpoint.h"

namespace netpipe::cma {
namespace {

// Memory is exposed by being there: a key is empty, and an address means the same to both sides.
np_status expose(np_endpoint*, void* memory, size_t bytes, np_region* region) {
  *region = {};
  region->base = memory;
  region->bytes = bytes;
  return NP_OK;
}
np_status attach(np_endpoint*, int, np_region*) { return NP_OK; }
void withdraw(np_endpoint*, np_region*) {}

uint64_t address_of(const np_region* region, size_t offset) {
  return reinterpret_cast<uint64_t>(region->base) + offset;
}

np_status put(np_endpoint* e, int peer, const void* source, const np_region* target, size_t offset, size_t bytes) {
  return e->move(Way::write, e->link(peer), const_cast<void*>(source), address_of(target, offset), bytes);
}
np_status get(np_endpoint* e, int peer, void* target, const np_region* source, size_t offset, size_t bytes) {
  return e->move(Way::read, e->link(peer), target, address_of(source, offset), bytes);
}

// A copy is complete when its call returns.
np_status flush(np_endpoint* e, int) {
  if (*e->context->abort == 0) return NP_OK;
  return fd_io::fail(e->context, NP_ABORTED, "cma: rank %d gave up between two copies", e->context->rank);
}
np_status fence(np_endpoint* e) { return e->barrier(); }

// As many blocks in one call as the kernel takes (IOV_MAX).
np_status strided(np_endpoint* e, Way way, int peer, char* near, uint64_t far, const np_strided* shape) {
  constexpr uint64_t kMost = 1024;
  std::array<iovec, kMost> local, remote;
  const Link& with = e->link(peer);
  for (uint64_t done = 0; done < shape->blocks;) {
    const uint64_t count = std::min(kMost, shape->blocks - done);
    for (uint64_t i = 0; i < count; ++i) {
      local[i] = {near + (done + i) * shape->near_stride, shape->block_bytes};
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      remote[i] = {reinterpret_cast<void*>(far + (done + i) * shape->far_stride), shape->block_bytes};
    }
    ++e->copies;
    const ssize_t moved = way == Way::read ? process_vm_readv(with.pid, local.data(), count, remote.data(), count, 0)
                                           : process_vm_writev(with.pid, local.data(), count, remote.data(), count, 0);
    if (moved < 0 && errno == EINTR) continue;
    // A call may end between two blocks, and may move 2 GiB at most.
    const uint64_t whole =
        moved <= 0 || shape->block_bytes == 0 ? 0 : static_cast<uint64_t>(moved) / shape->block_bytes;
    if (whole == 0) {  // one block that is too large for a call, or what fails
      const np_status s =
          e->move(way, with, local[0].iov_base, reinterpret_cast<uint64_t>(remote[0].iov_base), shape->block_bytes);
      if (s != NP_OK) return s;
    }
    done += std::max<uint64_t>(whole, 1);
  }
  return NP_OK;
}
np_status put_strided(np_endpoint* e, int peer, const void* source, const np_region* target, size_t offset,
                      const np_strided* shape) {
  char* const near = const_cast<char*>(static_cast<const char*>(source));
  return strided(e, Way::write, peer, near, address_of(target, offset), shape);
}
np_status get_strided(np_endpoint* e, int peer, void* target, const np_region* source, size_t offset,
                      const np_strided* shape) {
  return strided(e, Way::read, peer, static_cast<char*>(target), address_of(source, offset), shape);
}

}  // namespace

const np_one_sided kOneSided = {
    .size = sizeof(np_one_sided),
    .expose = expose,
    .attach = attach,
    .withdraw = withdraw,
    .put = put,
    .get = get,
    .fence = fence,
    .flush = flush,
    .put_strided = put_strided,
    .get_strided = get_strided,
};

}  // namespace netpipe::cma
