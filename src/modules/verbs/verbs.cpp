// SPDX-License-Identifier: Apache-2.0
// verbs: messages, remote memory access and atomics over the queue pairs of InfiniBand, RoCE and iWARP devices. The
// table of the module, what it opens, and what it reports.
#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <string_view>

#include "verbs_cells.h"
#include "verbs_connect.h"
#include "verbs_control.h"
#include "verbs_datagrams.h"
#include "verbs_device.h"
#include "verbs_endpoint.h"
#include "verbs_messages.h"
#include "verbs_options.h"
#include "verbs_progress.h"
#include "verbs_queues.h"
#include "verbs_reach.h"

namespace netpipe::verbs {

void take_cell(np_endpoint& endpoint, Queue& queue, const ibv_wc& completion) {
  Peer& peer = peer_of(endpoint, queue.peer);
  if (peer.control.queue == &queue) {
    take_control(endpoint, peer, completion);
  } else {
    take_datagram(endpoint, queue, completion);
  }
}

namespace {

constexpr np_counter kCounters[] = {
    {"empty_polls", "1", "looks that found nothing", NP_COUNTS_UP},
    {"sleeps_after_spin", "1", "sleeps after polling for spin_us in vain", NP_COUNTS_UP},
    {"registrations", "1", "pieces of memory that were registered", NP_COUNTS_UP},
    {"messages_lost", "1", "messages of qp=uc or ud that this rank waited for and that did not come", NP_COUNTS_UP},
    {"late_datagrams", "1", "messages of qp=uc or ud that came after they were counted as lost", NP_COUNTS_UP},
    {"strangers", "1", "datagrams that belong to no rank of this measurement", NP_COUNTS_UP},
    {"held_back", "1", "RDMA writes of qp=uc that waited until the receiver had a free cell for them", NP_COUNTS_UP},
};

void read_counters(np_endpoint* endpoint, int64_t* values) {
  const Counts& counts = endpoint->counts;
  const uint64_t all[] = {counts.empty_polls, counts.sleeps,    counts.registrations, counts.lost,
                          counts.late,        counts.strangers, counts.held_back};
  std::transform(std::begin(all), std::end(all), values, [](uint64_t one) { return static_cast<int64_t>(one); });
}

Settings settings_of(const np_value* options) {
  Settings set;
  set.type = static_cast<QpType>(options[kQp].number);
  set.op = static_cast<Op>(options[kOp].number);
  set.wait = static_cast<Wait>(options[kWait].number);
  set.spin_ns = options[kSpin].number * 1000;
  set.patience_ns = options[kPatience].number * 1000;
  set.each = options[kRegister].number == kEach;
  set.qps = static_cast<uint64_t>(options[kQps].number);
  set.signal = static_cast<uint64_t>(options[kSignal].number);
  set.list = static_cast<uint64_t>(options[kList].number);
  set.ahead = static_cast<uint64_t>(options[kAhead].number);
  set.eager = static_cast<uint64_t>(options[kEager].number);
  return set;
}

np_status choose_mtu(np_endpoint& endpoint) {
  const np_context* context = endpoint.context;
  const auto asked = static_cast<int>(context->options[kMtu].number);  // 0: auto, 1: IBV_MTU_256
  if (asked > endpoint.port.active_mtu) {
    return fail(context, NP_USAGE, "verbs: mtu=%s: port %d of device %s carries %d bytes in a packet",
                context->options[kMtu].text, endpoint.port_number, ibv_get_device_name(endpoint.device->device),
                mtu_bytes(endpoint.port.active_mtu));
  }
  endpoint.set.device_mtu = asked > 0 ? asked : endpoint.port.active_mtu;
  return NP_OK;
}

// The file of the library has its version behind ".so.".
const char* version() {
  static const std::string text = [] {
    Dl_info found{};
    char path[PATH_MAX] = "";
    if (dladdr(reinterpret_cast<const void*>(&ibv_get_device_list), &found) == 0 || found.dli_fname == nullptr ||
        realpath(found.dli_fname, path) == nullptr) {
      return std::string("libibverbs 1");
    }
    const std::string_view name = path;
    const size_t at = name.find(".so.");
    return "libibverbs " + std::string(at == std::string_view::npos ? "1" : name.substr(at + 4));
  }();
  return text.c_str();
}

void close(np_endpoint* endpoint) {
  // The queue is not destroyed before its events have been acknowledged.
  if (endpoint->unacknowledged > 0) ibv_ack_cq_events(endpoint->completions.get(), endpoint->unacknowledged);
  delete endpoint;
}

np_status open_all(np_endpoint& endpoint) {
  if (const np_status s = choose_device(endpoint); s != NP_OK) return s;
  if (const np_status s = choose_mtu(endpoint); s != NP_OK) return s;
  if (const np_status s = open_queues(endpoint); s != NP_OK) return s;
  return open_control(endpoint);
}

np_status open(const np_context* context, np_endpoint** endpoint) {
  std::unique_ptr<np_endpoint> made(new (std::nothrow) np_endpoint(context));
  if (!made) return fail(context, NP_NO_MEMORY, "verbs: no memory for an endpoint");
  made->set = settings_of(context->options);
  made->peers.resize(static_cast<size_t>(context->nranks));
  if (!fd_io::make_proof(peer_of(*made, context->rank).proof)) {
    return fail(context, NP_FAILED, "verbs: getrandom: %s", std::strerror(errno));
  }
  const np_status status = open_all(*made);
  if (status == NP_OK) *endpoint = made.release();
  return status;
}

// With op=write the word that tells of a message travels with it: of qp=uc at a multiple of its size.
uint64_t most_inline(const Settings& set) {
  const auto room = static_cast<uint64_t>(std::max<int64_t>(set.inline_most, 0));
  if (set.op != kWrite) return room;
  const uint64_t beside_word = room - std::min(room, sizeof(uint64_t));
  return set.type == kUc ? beside_word / sizeof(uint64_t) * sizeof(uint64_t) : beside_word;
}

np_status limits(np_endpoint* endpoint, np_limits* limits) {
  const bool lossy = endpoint->set.type != kRc;
  limits->empty = 1;
  limits->max_message_bytes = lossy ? most_datagram(*endpoint) : endpoint->port.max_msg_sz;
  limits->max_inline_bytes = std::min(most_inline(endpoint->set), limits->max_message_bytes);
  if (!lossy) return NP_OK;
  limits->lossy = 1;
  // Messages of one unreliable connection arrive in order or not at all; those of several do so each by itself.
  limits->unordered = endpoint->set.type == kUd || endpoint->set.qps > 1 ? 1 : 0;
  return NP_OK;
}

void describe_device(const np_endpoint& e, np_emit emit, void* to) {
  np_emit_text(emit, to, "device", ibv_get_device_name(e.device->device));
  np_emit_text(emit, to, "firmware", e.attributes.fw_ver);
  np_emit_integer(emit, to, "port", e.port_number, "");
  np_emit_text(emit, to, "link_layer", link_layer(e.port));
  np_emit_integer(emit, to, "port_mtu", mtu_bytes(e.port.active_mtu), "bytes");
  np_emit_integer(emit, to, "max_message", e.port.max_msg_sz, "bytes");
  np_emit_bool(emit, to, "atomics", e.attributes.atomic_cap != IBV_ATOMIC_NONE ? 1 : 0);
  if (e.gid_index < 0) {
    np_emit_integer(emit, to, "lid", e.port.lid, "");
    return;
  }
  np_emit_integer(emit, to, "gid", e.gid_index, "");
  np_emit_text(emit, to, "gid_address", e.gid_text.c_str());
  np_emit_text(emit, to, "gid_type", e.gid_type.c_str());
}

void describe(np_endpoint* endpoint, np_emit emit, void* to) {
  np_endpoint& e = *endpoint;
  const np_value* options = e.context->options;
  describe_device(e, emit, to);
  np_emit_text(emit, to, "qp", options[kQp].text);
  np_emit_text(emit, to, "op", options[kOp].text);
  np_emit_text(emit, to, "register", options[kRegister].text);
  np_emit_integer(emit, to, "qps", static_cast<int64_t>(e.set.qps), "");
  np_emit_integer(emit, to, "inline_bytes", std::max<int64_t>(e.set.inline_most, 0), "bytes");
  np_emit_integer(emit, to, "signal", static_cast<int64_t>(e.set.signal), "");
  np_emit_integer(emit, to, "list", static_cast<int64_t>(e.set.list), "");
  const bool ahead = e.set.type == kRc && e.set.op == kSend;
  np_emit_integer(emit, to, "ahead", ahead ? static_cast<int64_t>(e.set.ahead) : 0, "");
  if (e.set.type == kRc && e.set.op == kWrite)
    np_emit_integer(emit, to, "eager", static_cast<int64_t>(e.set.eager), "bytes");
  if (writes_cells(e)) np_emit_integer(emit, to, "cells", static_cast<int64_t>(e.cells_per_queue), "messages");
  if (e.set.type != kRc) np_emit_integer(emit, to, "patience_us", e.set.patience_ns / 1000, "us");
  ibv_qp_attr there{};
  if (read_back(e, there) == NP_OK) {
    np_emit_integer(emit, to, "mtu", mtu_bytes(e.set.type == kUd ? e.set.device_mtu : there.path_mtu), "bytes");
    np_emit_integer(emit, to, "send_queue", there.cap.max_send_wr, "");
    np_emit_integer(emit, to, "receive_queue", there.cap.max_recv_wr, "");
  }
  describe_waiting(options[kWait], options[kSpin], e.context->oversubscribed != 0, emit, to);
}

}  // namespace
}  // namespace netpipe::verbs

extern "C" __attribute__((visibility("default"))) const np_module* netpipe_module(void) {
  using namespace netpipe::verbs;  // NOLINT(google-build-using-namespace): its table
  static const np_module module = {
      .magic = NP_MAGIC,
      .abi = NP_ABI,
      .size = sizeof(np_module),
      .name = "verbs",
      .summary = "InfiniBand verbs: queue pairs, RDMA and atomics of InfiniBand, RoCE and iWARP devices",
      .version = version(),
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
      .prepare = prepare,
  };
  return &module;
}
