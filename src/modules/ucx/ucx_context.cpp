// SPDX-License-Identifier: Apache-2.0
// UCX takes any setting at first, and says with a warning, when a context or a worker is made, what it knew nothing to
// do with. A warning about a setting of ours is an error here.
#include "ucx_context.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <set>
#include <string_view>

#include "ucx_text.h"

namespace netpipe::ucx {
namespace {

bool is_shared_memory(std::string_view transport) {
  return transport == "posix" || transport == "sysv" || transport == "cma" || transport == "knem" ||
         transport == "xpmem";
}
bool is_network(std::string_view transport) {
  static constexpr std::string_view kPrefixes[] = {"tcp", "rc", "ud", "dc", "ugni", "gga", "srd"};
  return std::ranges::any_of(kPrefixes, [&](std::string_view p) { return transport.starts_with(p); });
}

// ---------------------------------------------------------------------------------------------- what was asked for

std::string with_commas(const char* joined) {
  std::string text = joined;
  std::ranges::replace(text, '+', ',');
  return text;
}

// In the user's spelling: "rndv=65536".
std::string spelt(const np_endpoint* e, Option option) {
  return std::string(kTable[option].name) + "=" + e->text(option);
}

np_status read_options(np_endpoint* e) {
  const auto add = [&](const char* name, std::string value, Option option) {
    e->settings.push_back({name, std::move(value), option, name});
  };
  const auto size = [&](const char* name, Option option) {
    if (e->option(option) != 0) add(name, std::to_string(e->option(option)), option);
  };
  if (*e->text(kTls) != '\0') add("TLS", with_commas(e->text(kTls)), kTls);
  if (*e->text(kDevices) != '\0') add("NET_DEVICES", with_commas(e->text(kDevices)), kDevices);
  size("RNDV_THRESH", kRndv);
  size("ZCOPY_THRESH", kZcopy);
  size("TCP_SNDBUF", kSndbuf);
  size("TCP_RCVBUF", kRcvbuf);
  if (e->option(kProtocols) != 0) add("PROTO_ENABLE", e->option(kProtocols) == 2 ? "y" : "n", kProtocols);
  for (const std::string& one : words(e->text(kSet), '+')) {
    const size_t equals = one.find('=');
    std::string name = one.substr(0, equals);
    if (name.starts_with("UCX_")) name.erase(0, 4);
    const auto same = std::ranges::find(e->settings, name, &Setting::name);
    if (equals == std::string::npos || name.empty()) {
      return fail(e->context, NP_USAGE, "ucx: %s: write NAME=VALUE, several joined by +, as in set=MAX_RNDV_RAILS=1",
                  spelt(e, kSet).c_str());
    }
    if (name == "PROTO_INFO" || name.starts_with("LOG_")) {
      return fail(e->context, NP_USAGE, "ucx: %s: a module prints nothing; the record has the protocols",
                  spelt(e, kSet).c_str());
    }
    if (same != e->settings.end()) {
      return fail(e->context, NP_USAGE, "ucx: %s sets %s, which %s does too; leave one of them out",
                  spelt(e, kSet).c_str(), name.c_str(), spelt(e, same->option).c_str());
    }
    add(name.c_str(), one.substr(equals + 1), kSet);
  }
  return NP_OK;
}

// ---------------------------------------------------------------------------------------------- a context

class Config {
 public:
  Config() : status(ucp_config_read(nullptr, nullptr, &config_)) {}
  ~Config() {
    if (config_ != nullptr) ucp_config_release(config_);
  }
  Config(const Config&) = delete;
  Config& operator=(const Config&) = delete;
  [[nodiscard]] ucp_config_t* get() const { return config_; }

 private:
  ucp_config_t* config_ = nullptr;

 public:
  const ucs_status_t status;
};

void close_library(np_endpoint* e) {
  if (e->worker != nullptr) ucp_worker_destroy(e->worker);
  if (e->library != nullptr) ucp_cleanup(e->library);
  e->worker = nullptr;
  e->library = nullptr;
}

// The setting that UCX complains of. It names values as "NAME=value", transports and devices by themselves.
const Setting* complained_of(const np_endpoint* e, const std::string& said) {
  for (const Setting& one : e->settings) {
    if (said.find(one.name + "=") != std::string::npos) return &one;
    if (one.name == "TLS" && said.find("transport '") != std::string::npos) return &one;
    if (one.name == "NET_DEVICES" && said.find("device '") != std::string::npos) return &one;
  }
  return nullptr;
}

// `netpipe serve` opens no file for a stranger, so UCX does not see the devices there.
std::string with_hint(const std::string& said) {
  if (said.empty()) return "nothing";
  if (said.find("Operation not permitted") == std::string::npos) return said;
  return "(netpipe serve lets a module open no files: use --hosts instead) " + said;
}

np_status refuse(const np_endpoint* e, const Setting& one, const std::string& said) {
  const bool unknown = said.find("invalid configuration") != std::string::npos;
  const std::string what = unknown ? "UCX " + std::string(ucp_get_version_string()) + " takes no setting " + one.given +
                                         " from a program for the transports in use; ucx_info -cf lists what there "
                                         "is, and the environment has UCX_" +
                                         one.given + " for all variants"
                                   : "UCX says: " + with_hint(said);
  return fail(e->context, unknown ? NP_USAGE : NP_UNAVAILABLE, "ucx: %s: %s", spelt(e, one.option).c_str(),
              what.c_str());
}

np_status make_context(np_endpoint* e) {
  const Config config;
  if (config.status != UCS_OK) return e->failed(config.status, "ucp_config_read", -1);
  for (const Setting& one : e->settings) {
    const ucs_status_t status = ucp_config_modify(config.get(), one.name.c_str(), one.value.c_str());
    if (status == UCS_OK) continue;
    const std::string said = Log::take();
    return fail(e->context, NP_USAGE, "ucx: %s: UCX says: %s", spelt(e, one.option).c_str(),
                said.empty() ? ucs_status_string(status) : said.c_str());
  }
  // It would print what the record has. Versions that do not know it say so in vain: it is no setting of ours.
  if (std::getenv("UCX_PROTO_INFO") != nullptr) ucp_config_modify(config.get(), "PROTO_INFO", "n");
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_STREAM | UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_AMO64;
  if (e->mode != Wait::poll) params.features |= UCP_FEATURE_WAKEUP;
  params.estimated_num_eps = static_cast<size_t>(e->context->nranks);
  const ucs_status_t status = ucp_init(&params, config.get(), &e->library);
  const std::string said = Log::take();
  if (const Setting* one = complained_of(e, said); one != nullptr) return refuse(e, *one, said);
  if (status == UCS_OK) return NP_OK;
  return fail(e->context, NP_UNAVAILABLE, "ucx: no context: %s; UCX says: %s", ucs_status_string(status),
              with_hint(said).c_str());
}

// Whether it is one of UCP itself: those of transports are taken unseen, and any value of them.
bool is_of_ucp(const char* name) {
  const Config config;
  const bool refuses =
      config.status == UCS_OK && ucp_config_modify(config.get(), name, "no such value") == UCS_ERR_INVALID_PARAM;
  Log::take();
  return refuses;
}

// Up to UCX 1.13 a setting of a transport has no prefix there: SNDBUF and not TCP_SNDBUF. Where UCP has one of that
// name (SEG_SIZE), that of the transport is out of reach.
bool take_prefix_off(Setting& setting) {
  for (const char* prefix : {"TCP_", "POSIX_", "SYSV_", "CMA_", "SELF_", "MM_"}) {
    if (!setting.name.starts_with(prefix)) continue;
    const std::string rest = setting.name.substr(std::strlen(prefix));
    if (is_of_ucp(rest.c_str())) return false;
    setting.name = rest;
    return true;
  }
  return false;
}

// NP_PENDING: settings were spelt in another way; try again.
np_status make_worker(np_endpoint* e) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  const ucs_status_t status = ucp_worker_create(e->library, &params, &e->worker);
  const std::string said = Log::take();
  if (status != UCS_OK) {
    return fail(e->context, NP_UNAVAILABLE, "ucx: no worker: %s; UCX says: %s", ucs_status_string(status),
                with_hint(said).c_str());
  }
  bool again = false;
  for (Setting& one : e->settings) {
    if (said.find(one.name + "=") == std::string::npos) continue;
    if (!take_prefix_off(one)) return refuse(e, one, said);
    again = true;
  }
  return again ? NP_PENDING : NP_OK;
}

np_status make(np_endpoint* e) {
  np_status status = NP_PENDING;
  while (status == NP_PENDING) {
    close_library(e);
    status = make_context(e);
    if (status == NP_OK) status = make_worker(e);
  }
  return status;
}

// ---------------------------------------------------------------------------------------------- devices

bool same_address(const sockaddr* one, const char* text) {
  char own[INET6_ADDRSTRLEN] = "";
  if (one == nullptr) return false;
  if (one->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(one)->sin_addr, own, sizeof own);
  } else if (one->sa_family == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(one)->sin6_addr, own, sizeof own);
  }
  return std::strcmp(own, text) == 0;
}

std::string interface_of(const char* address) {
  ifaddrs* all = nullptr;
  std::string name;
  if (getifaddrs(&all) != 0) return name;
  for (const ifaddrs* one = all; one != nullptr && name.empty(); one = one->ifa_next) {
    if (same_address(one->ifa_addr, address)) name = one->ifa_name;
  }
  freeifaddrs(all);
  return name;
}

// Without a word from the user TCP goes over the interface of the rank's address and over no other one. "": as it is.
std::string devices_to_use(const np_endpoint* e) {
  const char* const given = std::getenv("UCX_NET_DEVICES");
  if (*e->text(kDevices) != '\0' || (given != nullptr && *given != '\0')) return "";
  const auto by_set = std::ranges::find(e->settings, "NET_DEVICES", &Setting::name);
  if (by_set != e->settings.end()) return "";
  const std::string own = interface_of(e->context->local_address);
  std::set<std::string> used;
  bool others = false, here = false;
  for (const Resource& one : e->resources) {
    if (!is_network(one.transport)) continue;
    const bool tcp = one.transport == "tcp";
    here |= tcp && one.device == own;
    others |= tcp && one.device != own;
    if (!tcp || one.device == own) used.insert(one.device);
  }
  if (!here || !others) return "";
  std::string list;
  for (const std::string& one : used) list += (list.empty() ? "" : ",") + one;
  return list;
}

void read_resources(np_endpoint* e) {
  e->resources.clear();
  for (const std::string& line : lines(said_by([&](FILE* to) { ucp_context_print_info(e->library, to); }))) {
    const std::vector<std::string> all = words(line, ' ');
    const size_t slash = all.empty() ? std::string::npos : all.back().find('/');
    if (all.size() < 3 || all[1] != "resource" || slash == std::string::npos) continue;
    e->resources.push_back({all.back().substr(0, slash), all.back().substr(slash + 1)});
  }
}

// Whether a protocol whose name has one of these words is used from this size on. UCX may print 1024 as 1K, and begins
// by one earlier where the smallest protocol would be left with nothing.
bool begins_at(const std::string& protocols, std::initializer_list<const char*> names, int64_t bytes) {
  for (const std::string& step : words(protocols, ',')) {
    const size_t from = step.find(" from ");
    const auto has = [&](const char* name) { return step.find(name) < from; };
    if (from == std::string::npos || std::ranges::none_of(names, has)) continue;
    const size_t number = step.find_first_of("0123456789", from);  // " from " itself may be of a protocol's name
    char* end = nullptr;
    int64_t at = std::strtoll(step.c_str() + number, &end, 10);
    if (*end == 'K') at <<= 10;
    if (*end == 'M') at <<= 20;
    if (*end == 'G') at <<= 30;
    if (at == bytes || (bytes == 1 && at == 0)) return true;
  }
  return false;
}

// "tcp" of TCP_SNDBUF; "" of a setting that is no transport's.
std::string transport_of(const Setting& one) {
  for (const char* transport : {"tcp", "posix", "sysv", "cma", "self"}) {
    std::string prefix = std::string(transport) + "_";
    std::ranges::transform(prefix, prefix.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    if (one.given.starts_with(prefix)) return transport;
  }
  return "";
}

}  // namespace

const char* layer_of(const std::string& transport) {
  if (transport == "tcp") return "tcp";
  if (is_shared_memory(transport)) return "shm";
  return is_network(transport) ? "verbs" : "";
}

np_status open_library(np_endpoint* e) {
  if (const np_status s = read_options(e); s != NP_OK) return s;
  if (const np_status s = make(e); s != NP_OK) return s;
  read_resources(e);
  if (const std::string list = devices_to_use(e); !list.empty()) {
    e->settings.push_back({"NET_DEVICES", list, kDevices, "NET_DEVICES"});
    if (const np_status s = make(e); s != NP_OK) return s;
    read_resources(e);
  }
  return NP_OK;
}

np_status check_in_force(const np_endpoint* e, const std::vector<std::string>& used, const std::string& protocols) {
  for (const Setting& one : e->settings) {
    const std::string transport = transport_of(one);
    if (transport.empty() || std::ranges::find(used, transport) != used.end()) continue;
    return fail(e->context, NP_USAGE, "ucx: %s: the ranks are not joined by %s; take tls=%s, or leave %s out",
                spelt(e, one.option).c_str(), transport.c_str(), transport.c_str(), kTable[one.option].name);
  }
  if (protocols.empty()) return NP_OK;  // this version does not say
  const bool rendezvous = e->option(kRndv) == 0 || begins_at(protocols, {"rndv", "rendezvous"}, e->option(kRndv)) ||
                          static_cast<uint64_t>(e->option(kRndv)) > e->context->max_bytes;
  const bool zero_copy = e->option(kZcopy) == 0 || begins_at(protocols, {"zcopy", "zero-copy"}, e->option(kZcopy));
  if (rendezvous && zero_copy) return NP_OK;
  return fail(e->context, NP_USAGE, "ucx: %s has no effect: over these transports UCX's protocols are %s; leave it out",
              spelt(e, rendezvous ? kZcopy : kRndv).c_str(), protocols.c_str());
}

}  // namespace netpipe::ucx
