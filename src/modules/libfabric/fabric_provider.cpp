// SPDX-License-Identifier: Apache-2.0
#include "fabric_provider.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

namespace netpipe::fabric {
namespace {

constexpr fi_ep_type kTypes[] = {FI_EP_RDM, FI_EP_MSG, FI_EP_DGRAM};

// How memory has to be registered: everything that fabric_memory.cpp and fabric_reach.cpp do. A provider that needs
// more is not offered then.
constexpr int kMemoryModes = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;

struct Hints {
  uint64_t caps = 0;
  const char* provider = nullptr;
  const char* domain = nullptr;
  bool settings = true;  // obey completion=, complete= and the order of messages
  bool here = true;      // bound to the address of this rank
  uint64_t op_flags = 0;
};

Info ip_hints(const np_context* context, Info hints) {
  std::string given = context->local_address != nullptr ? context->local_address : "";
  if (given.starts_with("::ffff:") && given.find('.') != std::string::npos) given.erase(0, 7);
  addrinfo asked{}, *found = nullptr;
  asked.ai_flags = AI_NUMERICHOST;
  asked.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(given.c_str(), nullptr, &asked, &found) != 0) return nullptr;
  // fi_freeinfo frees it.
  hints->src_addr = std::malloc(found->ai_addrlen);
  if (hints->src_addr != nullptr) {
    std::memcpy(hints->src_addr, found->ai_addr, found->ai_addrlen);
    hints->src_addrlen = found->ai_addrlen;
    hints->addr_format = found->ai_family == AF_INET ? FI_SOCKADDR_IN : FI_SOCKADDR_IN6;
  }
  freeaddrinfo(found);
  return hints;
}

Info hints_for(const np_endpoint& endpoint, const Hints& wanted) {
  Info hints(fi_allocinfo());
  if (!hints) return nullptr;
  const np_value* options = endpoint.context->options;
  hints->caps = wanted.caps;
  hints->mode = FI_CONTEXT;
  hints->ep_attr->type = kTypes[endpoint.type];
  hints->domain_attr->mr_mode = kMemoryModes;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  if (wanted.provider != nullptr) hints->fabric_attr->prov_name = strdup(wanted.provider);
  if (wanted.domain != nullptr) hints->domain_attr->name = strdup(wanted.domain);
  if (wanted.settings) {
    if (endpoint.type != kDgram) hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
    // A receive is complete when so many were counted as were posted up to it.
    if (endpoint.counting) hints->rx_attr->comp_order = FI_ORDER_STRICT;
    const auto complete = options[kComplete].number;
    hints->tx_attr->op_flags = complete == kTransmit   ? FI_TRANSMIT_COMPLETE
                               : complete == kDelivery ? FI_DELIVERY_COMPLETE
                                                       : 0;
  }
  hints->tx_attr->op_flags |= wanted.op_flags;
  return wanted.here ? ip_hints(endpoint.context, std::move(hints)) : std::move(hints);
}

Info ask(const np_endpoint& endpoint, const Hints& wanted) {
  const Info hints = hints_for(endpoint, wanted);
  if (!hints) return nullptr;
  fi_info* found = nullptr;
  return fi_getinfo(kInterface, nullptr, nullptr, 0, hints.get(), &found) == 0 ? Info(found) : nullptr;
}

const char* name_of(const fi_info& info) {
  return info.fabric_attr != nullptr && info.fabric_attr->prov_name != nullptr ? info.fabric_attr->prov_name : "";
}

// The first whose name is this one exactly ("": the first of all): libfabric takes `tcp` for `tcp;ofi_rxm` too.
Info first_of(const Info& list, const std::string& name) {
  for (const fi_info* at = list.get(); at != nullptr; at = at->next) {
    if (name.empty() || name == name_of(*at)) return Info(fi_dupinfo(at));
  }
  return nullptr;
}

// "tcp;ofi_rxm, shm", in the order of libfabric.
std::string names_of(const Info& list) {
  std::vector<std::string> names;
  for (const fi_info* at = list.get(); at != nullptr; at = at->next) {
    if (std::find(names.begin(), names.end(), name_of(*at)) == names.end()) names.emplace_back(name_of(*at));
  }
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text.empty() ? "none" : text;
}

// Without an address of this rank in the end: of providers that have other addresses (shm) or none.
Info find(const np_endpoint& endpoint, Hints wanted, const std::string& name) {
  wanted.provider = name.empty() ? nullptr : name.c_str();
  wanted.here = true;
  Info found = first_of(ask(endpoint, wanted), name);
  if (found || name.empty()) return found;
  wanted.here = false;
  found = first_of(ask(endpoint, wanted), name);
  // One that has such addresses and cannot be bound to this one would be reached at another.
  const bool ip = found && (found->addr_format == FI_SOCKADDR_IN || found->addr_format == FI_SOCKADDR_IN6);
  return ip ? nullptr : std::move(found);
}

np_status refuse(const np_endpoint& endpoint, const std::string& name) {
  const np_context* context = endpoint.context;
  const np_value* options = context->options;
  const Hints any{.settings = false, .here = false};
  const std::string offered = names_of(ask(endpoint, any));
  if (!name.empty() && !find(endpoint, any, name)) {
    return fail(context, NP_UNAVAILABLE,
                "libfabric: provider=%s is not offered for ep=%s here; what is offered: %s (quote the ';' in a shell)",
                name.c_str(), options[kEp].text, offered.c_str());
  }
  return fail(
      context, NP_UNAVAILABLE,
      "libfabric: %s%s with ep=%s cannot have api=%s, completion=%s and complete=%s at address %s; leave one of "
      "them at its default, or choose another of the providers for this ep: %s",
      name.empty() ? "no provider" : "provider=", name.c_str(), options[kEp].text, options[kApi].text,
      options[kCompletion].text, options[kComplete].text, context->local_address, offered.c_str());
}

// More of what was found, if it has that: the same provider in the same domain.
bool add(np_endpoint& endpoint, uint64_t caps, uint64_t op_flags = 0) {
  const Hints wanted{
      .caps = caps,
      .provider = name_of(*endpoint.info),
      .domain = endpoint.info->domain_attr->name,
      .here = endpoint.info->addr_format == FI_SOCKADDR_IN || endpoint.info->addr_format == FI_SOCKADDR_IN6,
      .op_flags = op_flags};
  Info more = first_of(ask(endpoint, wanted), endpoint.name);
  if (!more) return false;
  if (op_flags == 0) endpoint.info = std::move(more);
  return true;
}

}  // namespace

np_status choose_provider(np_endpoint& endpoint) {
  const np_context* context = endpoint.context;
  const std::string name = context->options[kProvider].text;
  const auto api = context->options[kApi].number;
  endpoint.tagged = api == kTagged || (api == kAuto && endpoint.type == kRdm);
  // Untagged messages of several peers are told apart by their sender alone.
  endpoint.directed = !endpoint.tagged && endpoint.type == kRdm && context->nranks > 2;
  const uint64_t caps = endpoint.tagged ? FI_TAGGED : endpoint.directed ? FI_MSG | FI_DIRECTED_RECV : FI_MSG;
  endpoint.info = find(endpoint, {.caps = caps}, name);
  if (!endpoint.info) return refuse(endpoint, name);
  endpoint.name = name_of(*endpoint.info);
  // Seen with 1.17.0: it counts through a null pointer.
  if (endpoint.counting && endpoint.name == "net" && FI_MINOR(fi_version()) <= 17 && FI_MAJOR(fi_version()) == 1) {
    return fail(context, NP_UNAVAILABLE,
                "libfabric: provider=net of libfabric 1.17 crashes with completion=counter; choose completion=queue");
  }
  if (endpoint.type == kDgram) return NP_OK;
  endpoint.atomics = add(endpoint, caps | FI_RMA | FI_ATOMIC);
  endpoint.reaches = endpoint.atomics || add(endpoint, caps | FI_RMA);
  endpoint.confirms = endpoint.name == "shm";
  endpoint.delivers = endpoint.reaches && add(endpoint, caps | FI_RMA, FI_DELIVERY_COMPLETE);
  return NP_OK;
}

std::string address_text(const fi_info& info, const void* address, size_t bytes) {
  char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "";
  switch (info.addr_format) {
    case FI_SOCKADDR_IN:
    case FI_SOCKADDR_IN6:
      getnameinfo(static_cast<const sockaddr*>(address), static_cast<socklen_t>(bytes), host, sizeof host, port,
                  sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
      return std::string(host) + " port " + port;
    case FI_ADDR_STR: return {static_cast<const char*>(address), strnlen(static_cast<const char*>(address), bytes)};
    default: return "an address of " + std::to_string(bytes) + " bytes";
  }
}

}  // namespace netpipe::fabric
