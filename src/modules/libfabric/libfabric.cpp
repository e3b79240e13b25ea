// SPDX-License-Identifier: Apache-2.0
// libfabric: messages, datagrams, remote memory access and atomics over the providers of libfabric (OFI). The table of
// the module, and what it reports.
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>

#include "fabric_datagrams.h"
#include "fabric_endpoint.h"
#include "fabric_memory.h"
#include "fabric_messages.h"
#include "fabric_open.h"
#include "fabric_options.h"
#include "fabric_provider.h"
#include "fabric_reach.h"
#include "fabric_strided.h"
#include "netpipe/module.h"

// NOLINTNEXTLINE(readability-redundant-declaration): of unistd.h with _GNU_SOURCE
extern "C" char** environ;

namespace netpipe::fabric {
namespace {

constexpr np_counter kCounters[] = {
    {"empty_polls", "1", "looks that found nothing", NP_COUNTS_UP},
    {"sleeps_after_spin", "1", "sleeps after polling for spin_us in vain", NP_COUNTS_UP},
    {"no_room", "1", "calls that the provider had no room for (FI_EAGAIN) and that were repeated", NP_COUNTS_UP},
    {"messages_lost", "1", "messages of ep=dgram that this rank waited for and that did not come", NP_COUNTS_UP},
    {"late_datagrams", "1", "datagrams that came after their message was counted as lost", NP_COUNTS_UP},
    {"strangers", "1", "datagrams that belong to no rank of this measurement", NP_COUNTS_UP},
};

void read_counters(np_endpoint* endpoint, int64_t* values) {
  const Counts& counts = endpoint->counts;
  const uint64_t all[] = {counts.empty_polls, counts.sleeps, counts.retries,
                          counts.lost,        counts.late,   counts.strangers + endpoint->left.strangers()};
  std::transform(std::begin(all), std::end(all), values, [](uint64_t one) { return static_cast<int64_t>(one); });
}

const char* version() {
  static const std::string text =
      "libfabric " + std::to_string(FI_MAJOR_VERSION) + "." + std::to_string(FI_MINOR_VERSION);
  return text.c_str();
}

np_status limits(np_endpoint* endpoint, np_limits* limits) {
  const uint64_t most = endpoint->info->ep_attr->max_msg_size;
  limits->empty = 1;
  limits->max_message_bytes = most >= UINT64_MAX / 2 ? 0 : most;
  limits->max_inline_bytes = static_cast<uint64_t>(std::max<int64_t>(endpoint->inject_most, 0));
  if (endpoint->type != kDgram) return NP_OK;
  limits->lossy = 1;
  limits->unordered = (endpoint->info->tx_attr->msg_order & FI_ORDER_SAS) == 0 ? 1 : 0;  // a send after a send
  limits->max_message_bytes = datagram_bytes(*endpoint);
  limits->max_inline_bytes = datagram_inject_bytes(*endpoint);
  return NP_OK;
}

np_status prepare(np_endpoint* endpoint, const np_visit* visit) { return register_places(*endpoint, *visit); }

// The module whose layer the provider stands on; nullptr: none of netpipe's.
const char* below(std::string_view provider) {
  const std::string_view core = provider.substr(0, provider.find(';'));
  if (core == "tcp" || core == "net" || core == "sockets") return "tcp";
  if (core == "udp") return "udp";
  return core == "shm" ? "shm" : core == "verbs" ? "verbs" : "";
}

// The settings of the library that the user gave: which of them a provider obeys is not known here.
std::string environment() {
  std::string text;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    if (!std::string_view(*at).starts_with("FI_")) continue;
    if (!text.empty()) text += ' ';
    text += *at;
  }
  return text;
}

// fi_tostr: "FI_MR_VIRT_ADDR, FI_MR_HMEM", or with brackets in newer libraries.
std::string words_of(const void* value, fi_type type) {
  const char* text = fi_tostr(value, type);
  return text == nullptr || *text == '\0' ? "none" : text;
}

const char* complete_word(const np_endpoint& endpoint) {
  const uint64_t flags = endpoint.info->tx_attr->op_flags;
  return (flags & FI_DELIVERY_COMPLETE) != 0   ? "delivery"
         : (flags & FI_TRANSMIT_COMPLETE) != 0 ? "transmit"
                                               : "provider's default";
}

void describe_sizes(const np_endpoint& e, np_emit emit, void* to) {
  const fi_info& info = *e.info;
  np_emit_integer(emit, to, "inject_bytes", std::max<int64_t>(e.inject_most, 0), "bytes");
  np_emit_integer(emit, to, "inject_limit_bytes", static_cast<int64_t>(info.tx_attr->inject_size), "bytes");
  np_emit_integer(emit, to, "tx_size", static_cast<int64_t>(info.tx_attr->size), "");
  np_emit_integer(emit, to, "rx_size", static_cast<int64_t>(info.rx_attr->size), "");
  if (info.ep_attr->max_msg_size < UINT64_MAX / 2) {
    np_emit_integer(emit, to, "max_msg_size", static_cast<int64_t>(info.ep_attr->max_msg_size), "bytes");
  }
  if (e.reaches) np_emit_integer(emit, to, "rma_blocks", static_cast<int64_t>(blocks_at_once(e)), "");
  if (e.type == kDgram) np_emit_integer(emit, to, "patience_us", e.patience_ns / 1000, "us");
}

void describe(np_endpoint* endpoint, np_emit emit, void* to) {
  const np_endpoint& e = *endpoint;
  const np_value* options = e.context->options;
  const fi_info& info = *e.info;
  np_emit_text(emit, to, "below", below(e.name));
  np_emit_text(emit, to, "provider", e.name.c_str());
  np_emit_text(emit, to, "ep", options[kEp].text);
  np_emit_text(emit, to, "api", e.tagged ? "tagged" : "untagged");
  np_emit_text(emit, to, "completion", options[kCompletion].text);
  np_emit_text(emit, to, "complete", complete_word(e));
  describe_waiting(options[kWait], options[kSpin], e.context->oversubscribed != 0, emit, to);
  np_emit_text(emit, to, "fabric", info.fabric_attr->name != nullptr ? info.fabric_attr->name : "");
  np_emit_text(emit, to, "domain", info.domain_attr->name != nullptr ? info.domain_attr->name : "");
  np_emit_text(emit, to, "protocol", words_of(&info.ep_attr->protocol, FI_TYPE_PROTOCOL).c_str());
  np_emit_text(emit, to, "progress", words_of(&info.domain_attr->data_progress, FI_TYPE_PROGRESS).c_str());
  np_emit_text(emit, to, "threading", words_of(&info.domain_attr->threading, FI_TYPE_THREADING).c_str());
  const auto modes = static_cast<uint64_t>(info.domain_attr->mr_mode);
  np_emit_text(emit, to, "mr_mode", words_of(&modes, FI_TYPE_MR_MODE).c_str());
  np_emit_bool(emit, to, "registered", e.registers ? 1 : 0);
  np_emit_bool(emit, to, "rma", e.reaches && e.delivers ? 1 : 0);
  np_emit_bool(emit, to, "atomics", e.atomics && e.delivers ? 1 : 0);
  describe_sizes(e, emit, to);
  if (!e.place.empty()) {
    np_emit_text(emit, to, "address", address_text(info, e.place.data(), e.place.size()).c_str());
  }
  const std::string set = environment();
  if (!set.empty()) np_emit_text(emit, to, "environment", set.c_str());
}

}  // namespace
}  // namespace netpipe::fabric

extern "C" __attribute__((visibility("default"))) const np_module* netpipe_module(void) {
  using namespace netpipe::fabric;  // NOLINT(google-build-using-namespace): its table
  static const np_module module = {
      .magic = NP_MAGIC,
      .abi = NP_ABI,
      .size = sizeof(np_module),
      .name = "libfabric",
      .summary = "libfabric (OFI): messages, datagrams, RMA and atomics over any of its providers",
      .version = version(),
      .below = "tcp",
      .adds = "libfabric",
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
