// SPDX-License-Identifier: Apache-2.0
// What an endpoint of cuda keeps.
#pragma once

#include <cstdint>

#include "cuda_options.h"
#include "kit/gpu/cuda_memory.h"
#include "netpipe/module.h"

struct np_endpoint {
  explicit np_endpoint(const np_context* given) : context(given) {}
  np_endpoint(const np_endpoint&) = delete;
  np_endpoint& operator=(const np_endpoint&) = delete;
  ~np_endpoint();

  [[nodiscard]] netpipe::cuda::Kind kind() const {
    return static_cast<netpipe::cuda::Kind>(context->options[netpipe::cuda::kKind].number);
  }
  [[nodiscard]] netpipe::cuda::Host host() const {
    return static_cast<netpipe::cuda::Host>(context->options[netpipe::cuda::kHost].number);
  }
  [[nodiscard]] netpipe::cuda::Wait wait() const {
    return static_cast<netpipe::cuda::Wait>(context->options[netpipe::cuda::kWait].number);
  }

  const np_context* context;
  np_cuda cuda{};
  np_cuda_device device{}, peer{};  // peer: of kind=p2p
  CUstream stream = nullptr;
  CUevent copied = nullptr;  // of wait=block
  bool p2p = false, blocks = false;
  std::uint64_t copies = 0;
};

namespace netpipe::cuda {

extern const np_one_sided kOneSided;
// Counted as limits count them.
enum MemoryPlace { kDeviceMemory, kPeerMemory, kHostMemory };
extern const np_memory* const kMemories[];

void describe(np_endpoint* e, np_emit emit, void* to);

}  // namespace netpipe::cuda
