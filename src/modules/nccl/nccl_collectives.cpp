// SPDX-License-Identifier: Apache-2.0
// Collective operations of nccl: its own five, and those that its documentation makes of grouped sends and receives
// (gather, scatter, alltoall).
#include <cstring>
#include <new>

#include "kit/streams/fd.h"
#include "nccl_endpoint.h"

namespace netpipe::nccl {
namespace {

using netpipe::fd_io::fail;

struct Planned {
  ncclDataType_t type;
  ncclRedOp_t op;
  std::size_t count, bytes;  // elements, and bytes, of one rank for one other
  int root;
};

bool type_of(std::uint32_t datatype, ncclDataType_t& type, std::size_t& bytes) {
  switch (datatype) {
    case NP_BYTE: type = ncclUint8, bytes = 1; return true;
    case NP_INT32: type = ncclInt32, bytes = 4; return true;
    case NP_INT64: type = ncclInt64, bytes = 8; return true;
    case NP_FLOAT: type = ncclFloat32, bytes = 4; return true;
    case NP_DOUBLE: type = ncclFloat64, bytes = 8; return true;
    default: return false;
  }
}
bool op_of(std::uint32_t reduction, ncclRedOp_t& op) {
  switch (reduction) {
    case NP_SUM: op = ncclSum; return true;
    case NP_MIN: op = ncclMin; return true;
    case NP_MAX: op = ncclMax; return true;
    case NP_PROD: op = ncclProd; return true;
    default: return false;
  }
}

const char* at(const void* base, std::size_t offset) { return static_cast<const char*>(base) + offset; }
char* at(void* base, std::size_t offset) { return static_cast<char*>(base) + offset; }

np_status bcast(np_endpoint* e, const Planned& p, const void* source, void* target) {
  // The root's target is not the contract's to write to: it is broadcast in place there.
  const void* const from = e->context->rank == p.root ? source : target;
  void* const to = e->context->rank == p.root ? const_cast<void*>(source) : target;
  return e->checked(e->nccl.broadcast(from, to, p.count, p.type, p.root, e->comm, e->stream), "ncclBroadcast");
}
np_status reduce(np_endpoint* e, const Planned& p, const void* source, void* target) {
  return e->checked(e->nccl.reduce(source, target, p.count, p.type, p.op, p.root, e->comm, e->stream), "ncclReduce");
}
np_status all_reduce(np_endpoint* e, const Planned& p, const void* source, void* target) {
  return e->checked(e->nccl.all_reduce(source, target, p.count, p.type, p.op, e->comm, e->stream), "ncclAllReduce");
}
np_status all_gather(np_endpoint* e, const Planned& p, const void* source, void* target) {
  return e->checked(e->nccl.all_gather(source, target, p.count, p.type, e->comm, e->stream), "ncclAllGather");
}
np_status reduce_scatter(np_endpoint* e, const Planned& p, const void* source, void* target) {
  return e->checked(e->nccl.reduce_scatter(source, target, p.count, p.type, p.op, e->comm, e->stream),
                    "ncclReduceScatter");
}

// to: what this rank has for each other, or nothing; from: where it wants what each has for it.
np_status each(np_endpoint* e, const Planned& p, const void* to, const void* to_root, void* from, void* from_root) {
  np_status s = e->checked(e->nccl.group_start(), "ncclGroupStart");
  for (int peer = 0; peer < e->context->nranks && s == NP_OK; ++peer) {
    const std::size_t offset = static_cast<std::size_t>(peer) * p.bytes;
    if (to != nullptr) {
      s = e->checked(e->nccl.send(at(to, offset), p.bytes, ncclUint8, peer, e->comm, e->stream), "ncclSend");
    }
    if (s == NP_OK && to_root != nullptr && peer == p.root) {
      s = e->checked(e->nccl.send(to_root, p.bytes, ncclUint8, peer, e->comm, e->stream), "ncclSend");
    }
    if (s == NP_OK && from != nullptr) {
      s = e->checked(e->nccl.recv(at(from, offset), p.bytes, ncclUint8, peer, e->comm, e->stream), "ncclRecv");
    }
    if (s == NP_OK && from_root != nullptr && peer == p.root) {
      s = e->checked(e->nccl.recv(from_root, p.bytes, ncclUint8, peer, e->comm, e->stream), "ncclRecv");
    }
  }
  return s == NP_OK ? e->checked(e->nccl.group_end(), "ncclGroupEnd") : s;
}
np_status all_to_all(np_endpoint* e, const Planned& p, const void* source, void* target) {
  return each(e, p, source, nullptr, target, nullptr);
}
np_status gather(np_endpoint* e, const Planned& p, const void* source, void* target) {
  return each(e, p, nullptr, source, e->context->rank == p.root ? target : nullptr, nullptr);
}
np_status scatter(np_endpoint* e, const Planned& p, const void* source, void* target) {
  return each(e, p, e->context->rank == p.root ? source : nullptr, nullptr, nullptr, target);
}

using Operation = np_status (*)(np_endpoint*, const Planned&, const void*, void*);

template <Operation operation>
np_status call(np_endpoint* e, void* state, const void* source, void* target, np_request* request) {
  np_status s = e->usable();
  if (s == NP_OK) s = e->launch(true);  // what was started before comes before it
  if (s != NP_OK) return s;
  ++e->launched;
  ++e->groups;
  s = operation(e, *static_cast<const Planned*>(state), source, target);
  if (s != NP_OK) return s;
  if (request == nullptr) return e->settle();
  request->word[kState] = kLaunched;
  request->word[kBatch] = e->launched;
  return NP_OK;
}

np_collective_call call_of(std::uint32_t what) {
  switch (what) {
    case NP_BCAST: return call<bcast>;
    case NP_REDUCE: return call<reduce>;
    case NP_ALLREDUCE: return call<all_reduce>;
    case NP_ALLGATHER: return call<all_gather>;
    case NP_REDUCE_SCATTER_BLOCK: return call<reduce_scatter>;
    case NP_ALLTOALL: return call<all_to_all>;
    case NP_GATHER: return call<gather>;
    case NP_SCATTER: return call<scatter>;
    default: return nullptr;
  }
}

np_status prepare(np_endpoint* e, const np_collective_plan* plan, np_prepared* prepared) {
  Planned planned{};
  std::size_t element = 0;
  const np_collective_call carries_out = call_of(plan->what);
  if (carries_out == nullptr) return fail(e->context, NP_UNSUPPORTED, "NCCL does not have this operation");
  if (plan->in_place != 0) return fail(e->context, NP_UNSUPPORTED, "nccl: operations in place are not written yet");
  if (!type_of(plan->datatype, planned.type, element) || !op_of(plan->reduction, planned.op)) {
    return fail(e->context, NP_UNSUPPORTED, "nccl: a datatype or a reduction that this module does not know");
  }
  planned.count = plan->count;
  planned.bytes = plan->count * element;
  planned.root = plan->root;
  auto* const kept = new (std::nothrow) Planned(planned);
  if (kept == nullptr) return fail(e->context, NP_NO_MEMORY, "nccl: no memory for a collective operation");
  *prepared = {carries_out, kept};
  return NP_OK;
}
void release(np_endpoint*, np_prepared* prepared) { delete static_cast<Planned*>(prepared->state); }

}  // namespace

constexpr np_collectives kCollectives = {.size = sizeof(np_collectives), .prepare = prepare, .release = release};

}  // namespace netpipe::nccl
