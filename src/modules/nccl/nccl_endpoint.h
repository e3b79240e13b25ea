// SPDX-License-Identifier: Apache-2.0
// What one rank of nccl keeps. A rank has one device, one communicator of all ranks, and one stream, to which every
// operation is handed; an operation is over when the stream is empty.
#pragma once

#include <cstdint>
#include <vector>

#include "kit/gpu/cuda_memory.h"
#include "nccl_library.h"
#include "netpipe/module.h"

namespace netpipe::nccl {

enum Option { kDevice, kOptions };

// NCCL's own bound on the operations between ncclGroupStart and ncclGroupEnd.
inline constexpr std::size_t kMostInGroup = 2048;

// Of a request. kState: a State. kBatch: the launch that it went with. kAsked: it is to go with the next one.
enum Word { kState, kBatch, kData, kBytes, kPeer, kSends, kAsked };
enum State : std::uint64_t { kDone, kWaiting, kLaunched };

}  // namespace netpipe::nccl

struct np_endpoint {
  explicit np_endpoint(const np_context* given) : context(given) {}
  np_endpoint(const np_endpoint&) = delete;
  np_endpoint& operator=(const np_endpoint&) = delete;
  ~np_endpoint();

  np_status move(int peer, bool sends, void* data, size_t bytes);
  np_status start(int peer, bool sends, void* data, size_t bytes, np_request* request);
  np_status finish(np_request* requests, size_t count);
  np_status look(np_request* request);
  // Hands over what was started and not yet launched, as one group: NCCL deadlocks where two ranks each have a send
  // that must end before their receive begins. all: receives that nobody has asked for, too.
  np_status launch(bool all);
  // Until the stream is empty.
  np_status settle();
  np_status checked(ncclResult_t result, const char* where);
  [[nodiscard]] np_status usable() const;

  const np_context* context;
  netpipe::nccl::Library nccl;
  np_cuda cuda{};
  np_cuda_device device{};
  CUstream stream = nullptr;
  ncclComm_t comm = nullptr;
  ncclUniqueId id{};
  std::vector<np_request*> waiting;      // started and not launched
  std::vector<char> needed;              // by rank, for choose
  std::uint64_t launched = 0, over = 0;  // launches
  std::uint64_t groups = 0;
  np_status status = NP_OK;

 private:
  void choose(bool all);
  np_status hand_over(np_request* requests, size_t count);
  np_status poll_once(bool& empty);
  np_status gave_up(np_status why);
};

namespace netpipe::nccl {

extern const np_messages kMessages;
extern const np_collectives kCollectives;

}  // namespace netpipe::nccl
