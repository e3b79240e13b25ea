// SPDX-License-Identifier: Apache-2.0
#include "fabric_open.h"

#include <sys/random.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "fabric_datagrams.h"
#include "fabric_library.h"
#include "fabric_memory.h"
#include "fabric_provider.h"
#include "fabric_reach.h"
#include "fabric_signals.h"

namespace netpipe::fabric {
namespace {

constexpr size_t kMostPieces = 64;      // of registered memory in a visit
constexpr size_t kMostSlots = 1024;     // operations in flight without a request
constexpr size_t kMostEntries = 65536;  // of a completion queue

// The objects that operations complete on. block and hybrid need a descriptor to sleep on.
np_status open_queue(np_endpoint& endpoint) {
  const fi_info& info = *endpoint.info;
  const size_t each = info.tx_attr->size + info.rx_attr->size;
  const size_t many = endpoint.type == kMsg ? endpoint.peers.size() : 1;
  fi_cq_attr wanted{};
  wanted.size = std::min(each * many, kMostEntries);
  wanted.format = FI_CQ_FORMAT_DATA;
  const bool sleeps = endpoint.wait != Wait::poll;
  wanted.wait_obj = sleeps ? FI_WAIT_FD : FI_WAIT_NONE;
  fid_cq* queue = nullptr;
  const int code = fi_cq_open(endpoint.domain.get(), &wanted, &queue, nullptr);
  endpoint.queue.reset(queue);
  if (code == 0) return NP_OK;
  if (!sleeps) return failed(endpoint, "fi_cq_open", code);
  return fail(endpoint.context, NP_USAGE,
              "libfabric: wait=%s: provider %s has no descriptor to sleep on (%s); choose wait=poll",
              endpoint.context->options[kWait].text, endpoint.name.c_str(), fi_strerror(-code));
}

np_status open_counter(np_endpoint& endpoint, Counter& counter) {
  fi_cntr_attr wanted{};
  wanted.events = FI_CNTR_EVENTS_COMP;
  wanted.wait_obj = endpoint.wait != Wait::poll ? FI_WAIT_FD : FI_WAIT_NONE;
  fid_cntr* made = nullptr;
  const int code = fi_cntr_open(endpoint.domain.get(), &wanted, &made, nullptr);
  counter.fid.reset(made);
  if (code == 0) return NP_OK;
  return fail(endpoint.context, NP_USAGE,
              "libfabric: completion=counter with wait=%s: provider %s has no such counter (%s); choose "
              "completion=queue",
              endpoint.context->options[kWait].text, endpoint.name.c_str(), fi_strerror(-code));
}

np_status open_domain(np_endpoint& endpoint) {
  fi_info* info = endpoint.info.get();
  fid_fabric* fabric = nullptr;
  int code = fi_fabric(info->fabric_attr, &fabric, nullptr);
  endpoint.fabric.reset(fabric);
  if (code != 0) return failed(endpoint, "fi_fabric", code);
  if (endpoint.type == kMsg) {
    fi_eq_attr wanted{};
    wanted.size = 2 * endpoint.peers.size() + 16;
    wanted.wait_obj = FI_WAIT_UNSPEC;
    fid_eq* events = nullptr;
    code = fi_eq_open(fabric, &wanted, &events, nullptr);
    endpoint.events.reset(events);
    if (code != 0) return failed(endpoint, "fi_eq_open", code);
  }
  fid_domain* domain = nullptr;
  code = fi_domain(fabric, info, &domain, nullptr);
  endpoint.domain.reset(domain);
  if (code != 0) return failed(endpoint, "fi_domain", code);
  if (endpoint.type == kMsg) return NP_OK;
  fi_av_attr wanted{};
  wanted.count = endpoint.peers.size();
  fid_av* addresses = nullptr;
  code = fi_av_open(domain, &wanted, &addresses, nullptr);
  endpoint.addresses.reset(addresses);
  return code == 0 ? NP_OK : failed(endpoint, "fi_av_open", code);
}

np_status open_completion(np_endpoint& endpoint) {
  if (const np_status s = open_queue(endpoint); s != NP_OK) return s;
  if (!endpoint.counting) return NP_OK;
  for (Counter* counter : {&endpoint.sends, &endpoint.receives, &endpoint.transfers}) {
    if (const np_status s = open_counter(endpoint, *counter); s != NP_OK) return s;
  }
  return NP_OK;
}

np_status bind_completion(const np_endpoint& endpoint, fid_ep* made) {
  // Counted operations leave no entries in the queue, except those that fail.
  const uint64_t selective = endpoint.counting ? FI_SELECTIVE_COMPLETION : 0;
  int code = fi_ep_bind(made, &endpoint.queue->fid, FI_TRANSMIT | FI_RECV | selective);
  if (code != 0 || !endpoint.counting) return code == 0 ? NP_OK : failed(endpoint, "fi_ep_bind", code);
  code = fi_ep_bind(made, &endpoint.sends.fid->fid, FI_SEND);
  if (code == 0) code = fi_ep_bind(made, &endpoint.receives.fid->fid, FI_RECV);
  if (code == 0 && endpoint.reaches) code = fi_ep_bind(made, &endpoint.transfers.fid->fid, FI_READ | FI_WRITE);
  return code == 0 ? NP_OK : failed(endpoint, "fi_ep_bind of a counter", code);
}

np_status inject_threshold(np_endpoint& endpoint) {
  const np_context* context = endpoint.context;
  const int64_t asked = context->options[kInject].number;
  const auto most = static_cast<int64_t>(endpoint.info->tx_attr->inject_size);
  if (asked > most) {
    return fail(context, NP_USAGE, "libfabric: inject=%lld: provider %s injects at most %lld bytes",
                static_cast<long long>(asked), endpoint.name.c_str(), static_cast<long long>(most));
  }
  // Injected messages have no completion to say that they were delivered, and not every provider counts them.
  const bool delivery = context->options[kComplete].number == kDelivery;
  // Even the empty message is injected only if any is.
  const int64_t limit = asked >= 0 ? asked : most;
  endpoint.inject_most = limit == 0 || delivery || endpoint.counting ? -1 : limit;
  return NP_OK;
}

void make_slots(np_endpoint& endpoint) {
  endpoint.slots.resize(std::clamp<size_t>(endpoint.info->tx_attr->size, 16, kMostSlots));
  for (Slot& slot : endpoint.slots) {
    slot.next = endpoint.free_slot;
    endpoint.free_slot = &slot;
  }
}

np_status open_endpoint(np_endpoint& endpoint) {
  if (const np_status s = choose_provider(endpoint); s != NP_OK) return s;
  const np_context* context = endpoint.context;
  endpoint.registers =
      (endpoint.info->domain_attr->mr_mode & FI_MR_LOCAL) != 0 || context->options[kRegister].number == kAlways;
  if (const np_status s = inject_threshold(endpoint); s != NP_OK) return s;
  if (const np_status s = open_domain(endpoint); s != NP_OK) return s;
  if (const np_status s = open_completion(endpoint); s != NP_OK) return s;
  make_slots(endpoint);
  endpoint.registered.resize(kMostPieces);
  if (endpoint.reaches) {
    if (const np_status s = open_reach(endpoint); s != NP_OK) return s;
  }
  if (endpoint.type == kMsg) return listen(endpoint);
  if (const np_status s = make_endpoint(endpoint, endpoint.info.get(), endpoint.endpoint); s != NP_OK) return s;
  if (const int code = fi_enable(endpoint.endpoint.get()); code != 0) return failed(endpoint, "fi_enable", code);
  endpoint.place.resize(1024);
  size_t bytes = endpoint.place.size();
  if (const int code = fi_getname(&endpoint.endpoint->fid, endpoint.place.data(), &bytes); code != 0) {
    return failed(endpoint, "fi_getname", code);
  }
  endpoint.place.resize(bytes);
  return endpoint.type == kDgram ? open_datagrams(endpoint) : NP_OK;
}

}  // namespace

np_status failed(const np_endpoint& endpoint, const char* what, ssize_t code) {
  const char* const reason = fi_strerror(static_cast<int>(-code));
  if (code == -FI_EPERM || code == -FI_EACCES) {
    return fail(endpoint.context, NP_UNAVAILABLE,
                "libfabric: %s of provider %s: %s; what netpipe serve measures may not do everything that a provider "
                "needs: measure with --hosts",
                what, endpoint.name.c_str(), reason);
  }
  return fail(endpoint.context, NP_FAILED, "libfabric: %s of provider %s: %s", what, endpoint.name.c_str(), reason);
}

np_status make_endpoint(np_endpoint& endpoint, fi_info* info, Held<fid_ep>& made) {
  fid_ep* ep = nullptr;
  int code = fi_endpoint(endpoint.domain.get(), info, &ep, nullptr);
  if (code != 0) return failed(endpoint, "fi_endpoint", code);
  made.reset(ep);
  if (endpoint.addresses) code = fi_ep_bind(ep, &endpoint.addresses->fid, 0);
  if (code == 0 && endpoint.events) code = fi_ep_bind(ep, &endpoint.events->fid, 0);
  return code == 0 ? bind_completion(endpoint, ep) : failed(endpoint, "fi_ep_bind", code);
}

np_status probe(char* message, size_t message_bytes) {
  const std::string why = why_missing();
  if (why.empty()) return NP_OK;
  std::snprintf(message, message_bytes, "%s", why.c_str());
  return NP_UNAVAILABLE;
}

np_status open(const np_context* context, np_endpoint** endpoint) {
  std::unique_ptr<np_endpoint> made(new (std::nothrow) np_endpoint(context));
  if (!made) return fail(context, NP_NO_MEMORY, "libfabric: no memory for an endpoint");
  const np_value* options = context->options;
  made->type = static_cast<Ep>(options[kEp].number);
  made->counting = options[kCompletion].number == kCounter;
  made->wait = static_cast<Wait>(options[kWait].number);
  made->spin_ns = options[kSpin].number * 1000;
  made->peers.resize(static_cast<size_t>(context->nranks));
  fd_io::Proof& proof = made->peers[static_cast<size_t>(context->rank)].proof;
  if (!fd_io::make_proof(proof) || getrandom(&made->next_key, sizeof made->next_key, 0) != sizeof made->next_key) {
    return fail(context, NP_FAILED, "libfabric: getrandom: %s", std::strerror(errno));
  }
  const KeptSignals kept;
  if (const std::string why = why_not_usable(); !why.empty()) {
    return fail(context, NP_UNAVAILABLE, "libfabric: %s", why.c_str());
  }
  const np_status status = open_endpoint(*made);
  if (status == NP_OK) {
    *endpoint = made.release();
  } else {
    close(made.release());
  }
  return status;
}

void close(np_endpoint* endpoint) {
  if (endpoint->info && (endpoint->info->domain_attr->mr_mode & FI_MR_ENDPOINT) != 0) {
    endpoint->registered.clear();  // what is bound to an endpoint is closed before it
    endpoint->datagram_memory.reset();
  }
  delete endpoint;
}

}  // namespace netpipe::fabric
