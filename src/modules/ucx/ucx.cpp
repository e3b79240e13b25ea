// SPDX-License-Identifier: Apache-2.0
// ucx: messages, puts, gets and atomics of UCX, through UCP, the layer of it that MPI libraries stand on. One context,
// one worker, and an endpoint for each rank, itself included, made from the worker addresses that netpipe carries: UCX
// then has all transports to choose from, which it has not when it connects by a socket's address.
//
// UCX moves bytes only while it is called, in the thread that calls it. What a send left half done when the pattern
// returns is brought to its end in read_counters (settle): nobody would call UCX until the next visit.
#include <ucp/api/ucp.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <string>

#include "netpipe/module.h"
#include "ucx_context.h"
#include "ucx_endpoint.h"
#include "ucx_facts.h"
#include "ucx_log.h"
#include "ucx_memory.h"
#include "ucx_messages.h"
#include "ucx_one_sided.h"
#include "ucx_options.h"

namespace netpipe::ucx {
namespace {

constexpr int64_t kCloseNs = 200'000'000;  // how long a peer may take to say goodbye

[[gnu::constructor]] void loaded() {
  const Log quiet;  // it warns of signals that this version leaves alone
  give_signals_back();
}

np_status probe(char* message, size_t message_bytes) { return library().probe(message, message_bytes); }

void close_endpoints(np_endpoint* e) {
  const int64_t end_ns = now_ns() + kCloseNs;
  const bool by_force = static_cast<bool>(e->option(kErrors));  // UCX has it only with error handling
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  how.flags = by_force ? UCP_EP_CLOSE_FLAG_FORCE : 0;
  if (e->broken && !by_force) return;  // it would wait for what will not come; the worker ends them
  std::vector<ucs_status_ptr_t> begun;
  for (ucp_ep_h to : e->to) {
    if (to != nullptr) begun.push_back(ucp_ep_close_nbx(to, &how));
  }
  for (ucs_status_ptr_t one : begun) {
    if (one == nullptr || UCS_PTR_IS_ERR(one)) continue;
    while (ucp_request_check_status(one) == UCS_INPROGRESS && *e->context->abort == 0 && now_ns() < end_ns) {
      if (ucp_worker_progress(e->worker) == 0) sched_yield();
    }
    ucp_request_free(one);
  }
}

void close(np_endpoint* e) {
  if (e == nullptr) return;
  if (e->worker != nullptr) {
    close_endpoints(e);
    ucp_worker_destroy(e->worker);
  }
  for (const Allocation& one : e->memory) release_memory(e, one);
  if (e->library != nullptr) ucp_cleanup(e->library);
  np_cuda_close(&e->device);
  delete e;
}

void prepare_calls(np_endpoint* e) {
  e->whole.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  e->whole.flags = UCP_STREAM_RECV_FLAG_WAITALL;
  for (ucp_request_param_t* one : {&e->message, &e->whole}) {
    if (!e->on_device) continue;
    one->op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    one->memory_type = UCS_MEMORY_TYPE_CUDA;
  }
  e->atomic.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER;
  e->atomic.datatype = ucp_dt_make_contig(sizeof(uint64_t));
  e->atomic_post.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE;
  e->atomic_post.datatype = e->atomic.datatype;
}

struct Closing {
  void operator()(np_endpoint* e) const { close(e); }
};

np_status open(const np_context* context, np_endpoint** endpoint) {
  std::unique_ptr<np_endpoint, Closing> e(new (std::nothrow) np_endpoint);
  if (e == nullptr) return fail(context, NP_NO_MEMORY, "ucx: no memory for an endpoint");
  const auto ranks = static_cast<size_t>(context->nranks);
  e->context = context;
  e->api = static_cast<Api>(e->option(kApi));
  e->leaves = static_cast<Deliver>(e->option(kDeliver)) == Deliver::leave;
  e->mode = static_cast<Wait>(e->option(kWait));
  e->spin_ns = e->option(kSpin) * 1000;
  e->only_looks = e->mode == Wait::poll && context->oversubscribed == 0 && e->option(kErrors) == 0;
  e->own_tag = static_cast<uint64_t>(context->rank);
  e->on_device = static_cast<Memory>(e->option(kMemory)) == Memory::cuda;
  e->to.resize(ranks);
  e->inboxes.resize(ranks);
  prepare_calls(e.get());
  Log::take();
  np_status status = e->on_device ? open_device(e.get()) : NP_OK;
  if (status == NP_OK) status = open_library(e.get());
  if (status == NP_OK && e->on_device) status = check_memory_types(e.get());
  if (status != NP_OK) return status;
  if (const np_status s = take_active_messages(e.get()); s != NP_OK) return s;
  if (e->mode != Wait::poll) {
    const ucs_status_t has_event = ucp_worker_get_efd(e->worker, &e->event);
    if (has_event != UCS_OK) {
      return fail(context, NP_UNSUPPORTED,
                  "ucx: wait=%s: these transports have no event to sleep on (%s); take wait=poll", e->text(kWait),
                  ucs_status_string(has_event));
    }
  }
  e->sockets_before = tcp_connections();  // nobody knows the address yet
  *endpoint = e.release();
  return NP_OK;
}

np_status address(np_endpoint* e, void* data, size_t* bytes) {
  ucp_worker_attr_t attributes{};
  attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS;
  const ucs_status_t status = ucp_worker_query(e->worker, &attributes);
  if (status != UCS_OK) return e->failed(status, "ucp_worker_query", -1);
  const size_t wanted = attributes.address_length, room = *bytes;
  if (wanted <= room) std::memcpy(data, attributes.address, wanted);
  ucp_worker_release_address(e->worker, attributes.address);
  if (wanted > room) {
    return fail(
        e->context, NP_UNSUPPORTED,
        "ucx: its address has %zu bytes, and netpipe has room for %zu; take fewer devices or transports (devices, tls)",
        wanted, room);
  }
  *bytes = wanted;
  return NP_OK;
}

void on_error(void* endpoint, ucp_ep_h to, ucs_status_t status) {
  auto* const e = static_cast<np_endpoint*>(endpoint);
  e->lost = static_cast<int>(std::ranges::find(e->to, to) - e->to.begin());
  e->lost_status = status;
}

np_status join(np_endpoint* e, int peer, const void* there) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
  params.address = static_cast<const ucp_address_t*>(there);
  if (e->option(kErrors) != 0) {
    params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler = {on_error, e};
  }
  const ucs_status_t status = ucp_ep_create(e->worker, &params, &e->to[static_cast<size_t>(peer)]);
  if (status == UCS_OK) return NP_OK;
  std::string have;
  for (const Resource& one : e->resources) have += (have.empty() ? "" : ", ") + one.transport + "/" + one.device;
  const std::string said = Log::take();
  e->to[static_cast<size_t>(peer)] = nullptr;
  return fail(e->context, NP_UNAVAILABLE,
              "ucx: no way from rank %d to rank %d over %s%s (%s); UCX says: %s; take other transports (tls), such as "
              "tls=tcp",
              e->context->rank, peer, have.c_str(), e->option(kErrors) != 0 ? " with errors=peer" : "",
              ucs_status_string(status), said.empty() ? "nothing" : said.c_str());
}

// The way of this rank to itself. It comes last, because sockets and protocols were listed for peers. Where there is
// none, messages to itself are refused and say why.
void join_itself(np_endpoint* e, const void* here) {
  if (join(e, e->context->rank, here) == NP_OK) return;
  e->not_to_itself = e->context->message;
  e->context->message[0] = '\0';
}

// One byte around the ring of all ranks: newer versions choose the protocols of an operation when it is first used.
// Those of puts and gets follow when memory is attached. bytes: where it starts and where it lands.
np_status greet(np_endpoint* e, char* bytes) {
  const int nranks = e->context->nranks, rank = e->context->rank;
  np_request request;
  np_status status = kMessages.isend(e, (rank + 1) % nranks, bytes, 1, 1, &request, 1);
  if (status == NP_OK) status = kMessages.recv(e, (rank + nranks - 1) % nranks, bytes + 1, 1);
  const np_status sent = wait(e, &request, 1);
  return status == NP_OK ? sent : status;
}

// The barrier makes UCX connect what it has chosen, here and not in the first message.
np_status connect(np_endpoint* e, const void* const* addresses, const size_t*) {
  for (int peer = 0; peer < e->context->nranks; ++peer) {
    if (peer == e->context->rank) continue;
    if (const np_status s = join(e, peer, addresses[peer]); s != NP_OK) return s;
  }
  if (const np_status s = barrier(e); s != NP_OK) return s;
  if (const np_status s = with_scratch(e, [e](char* bytes) { return greet(e, bytes); }); s != NP_OK) return s;
  if (const np_status s = kOneSided.fence(e); s != NP_OK) return s;
  std::ranges::set_difference(tcp_connections(), e->sockets_before, std::back_inserter(e->sockets));
  std::vector<std::string> used;
  for (const Lane& lane : lanes_to(e, opposite(e))) used.push_back(lane.transport);
  const int next = (e->context->rank + 1) % e->context->nranks;
  if (const np_status s = check_in_force(e, used, message_protocols(e, next)); s != NP_OK) return s;
  join_itself(e, addresses[e->context->rank]);
  return NP_OK;
}

np_status limits(np_endpoint* e, np_limits* limits) {
  limits->any_memory = e->on_device ? 0 : 1;
  if (e->on_device) {
    if (limits->size < sizeof(np_limits)) {
      return fail(e->context, NP_UNSUPPORTED, "ucx: memory=cuda needs a netpipe that is not older than the module");
    }
    limits->outgoing_memory = limits->incoming_memory = kDeviceMemory;
  }
  limits->delivers = e->leaves ? 0 : 1;
  limits->empty = e->api != Api::stream ? 1 : 0;  // nothing of a stream is nothing
  return NP_OK;
}

constexpr np_counter kCounters[] = {
    {"empty_polls", "1", "calls of ucp_worker_progress that moved nothing", NP_COUNTS_UP},
    {"sleeps", "1", "times that this process slept on the worker's event descriptor", NP_COUNTS_UP},
    {"unexpected", "1", "active messages that came before their receive", NP_COUNTS_UP},
};

void read_counters(np_endpoint* e, int64_t* values) {
  settle(e);
  const uint64_t now[] = {e->empty_polls, e->sleeps, e->unexpected};
  static_assert(std::size(now) == std::size(kCounters));
  for (size_t i = 0; i < std::size(now); ++i) values[i] = static_cast<int64_t>(now[i]);
}

const char* version() {
  static const std::string text = library().text();
  return text.c_str();
}

const np_module* module_table() {
  static const np_module table = {
      .magic = NP_MAGIC,
      .abi = NP_ABI,
      .size = sizeof(np_module),
      .name = "ucx",
      .summary = "messages, puts, gets and atomics of UCX (UCP), over the transports that it has here",
      .version = version(),
      .below = "shm",
      .adds = "UCX",
      .options = kTable,
      .noptions = kOptions,
      .option_bytes = sizeof(np_option),
      .counters = kCounters,
      .ncounters = std::size(kCounters),
      .counter_bytes = sizeof(np_counter),
      .process_model = NP_FORKED,
      .min_ranks = 2,
      .max_ranks = INT32_MAX,
      .crosses_hosts = 1,
      .messages = &kMessages,
      .one_sided = &kOneSided,
      .memories = kMemories,
      .probe = probe,
      .open = open,
      .close = close,
      .address = address,
      .connect = connect,
      .limits = limits,
      .wait = wait,
      .test = test,
      .barrier = barrier,
      .describe = describe,
      .read_counters = read_counters,
      // Another endpoint of this process may have a device of its own.
      .prepare = [](np_endpoint* e, const np_visit*) { return e->on_device ? np_cuda_use(&e->device) : NP_OK; },
  };
  return &table;
}

}  // namespace
}  // namespace netpipe::ucx

extern "C" __attribute__((visibility("default"))) const np_module* netpipe_module(void) {
  return netpipe::ucx::module_table();
}
