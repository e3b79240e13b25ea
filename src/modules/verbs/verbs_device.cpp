// SPDX-License-Identifier: Apache-2.0
#include "verbs_device.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

namespace netpipe::verbs {
namespace {

constexpr const char* kHowToGetOne = "for soft-RoCE over any network device: rdma link add rxe0 type rxe netdev eth0";

// The devices of this host; they are listed as long as this lives.
class Devices {
 public:
  Devices() : all_(ibv_get_device_list(&count_)) {}
  ~Devices() {
    if (all_ != nullptr) ibv_free_device_list(all_);
  }
  Devices(const Devices&) = delete;
  Devices& operator=(const Devices&) = delete;
  [[nodiscard]] ibv_device** begin() const { return all_; }
  [[nodiscard]] ibv_device** end() const { return all_ + (all_ == nullptr ? 0 : count_); }
  [[nodiscard]] bool empty() const { return begin() == end(); }
  [[nodiscard]] std::string names() const {
    std::string text;
    for (ibv_device* one : *this) text += (text.empty() ? "" : ", ") + std::string(ibv_get_device_name(one));
    return text;
  }

 private:
  int count_ = 0;
  ibv_device** all_;
};

// An address as GIDs have it; IPv4 is mapped.
std::optional<ibv_gid> gid_of_address(const char* text) {
  ibv_gid gid{};
  if (inet_pton(AF_INET6, text, gid.raw) == 1) return gid;
  gid.raw[10] = gid.raw[11] = 0xff;
  if (inet_pton(AF_INET, text, gid.raw + 12) == 1) return gid;
  return std::nullopt;
}

std::string text_of(const ibv_gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, gid.raw, text, sizeof text);
  return text;
}

const char* type_of(uint32_t type) {
  return type == IBV_GID_TYPE_ROCE_V2 ? "RoCE v2" : type == IBV_GID_TYPE_ROCE_V1 ? "RoCE v1" : "InfiniBand";
}

const char* state_of(ibv_port_state state) {
  return state == IBV_PORT_DOWN   ? "down"
         : state == IBV_PORT_INIT ? "initialized, and no subnet manager has brought it up"
                                  : ibv_port_state_str(state);
}

// A device that was opened to be looked at.
struct Candidate {
  Held<ibv_context, ibv_close_device> device;
  ibv_device_attr attributes{};
  uint8_t port_number = 0;
  ibv_port_attr port{};
  std::vector<ibv_gid_entry> gids;
};

bool has_link(const ibv_port_attr& port) { return port.state == IBV_PORT_ACTIVE; }

void read_gids(Candidate& one) {
  for (int i = 0; i < one.port.gid_tbl_len; ++i) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(one.device.get(), one.port_number, static_cast<uint32_t>(i), &entry, 0) == 0) {
      one.gids.push_back(entry);
    }
  }
}

// The GID of this address, or nullptr.
const ibv_gid_entry* gid_with(const Candidate& one, const ibv_gid& wanted) {
  const ibv_gid_entry* found = nullptr;
  for (const ibv_gid_entry& entry : one.gids) {
    const bool same = std::memcmp(entry.gid.raw, wanted.raw, sizeof wanted.raw) == 0;
    if (same && (found == nullptr || entry.gid_type == IBV_GID_TYPE_ROCE_V2)) found = &entry;
  }
  return found;
}

// A GID that anybody can reach: of RoCE v2, and there of IPv4 rather than of the link alone.
const ibv_gid_entry* usual_gid(const Candidate& one) {
  const auto worth = [](const ibv_gid_entry& entry) {
    const bool mapped = entry.gid.raw[10] == 0xff && entry.gid.raw[11] == 0xff && entry.gid.global.subnet_prefix == 0;
    return (entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? 2 : 0) + (mapped ? 1 : 0);
  };
  const auto best = std::max_element(one.gids.begin(), one.gids.end(),
                                     [&](const auto& a, const auto& b) { return worth(a) < worth(b); });
  return best == one.gids.end() ? nullptr : &*best;
}

np_status cannot_open(const np_context* context, const char* name, int error) {
  const bool forbidden = error == EPERM || error == EACCES;
  return fail(context, NP_UNAVAILABLE, "verbs: device %s cannot be opened: %s%s", name, std::strerror(error),
              forbidden ? "; may this user read and write /dev/infiniband? (netpipe serve lets a module open no files: "
                          "measure with --hosts)"
                        : "");
}

// Opens it and takes the port that was asked for, or the first with a link, or the first.
np_status look_at(const np_context* context, ibv_device* device, Candidate& one) {
  const char* const name = ibv_get_device_name(device);
  one.device.reset(ibv_open_device(device));
  if (!one.device) return cannot_open(context, name, errno);
  if (const int error = ibv_query_device(one.device.get(), &one.attributes); error != 0) {
    return cannot_open(context, name, error);
  }
  const int64_t asked = context->options[kPort].number;
  if (asked > one.attributes.phys_port_cnt) {
    return fail(context, NP_UNAVAILABLE, "verbs: port=%lld: device %s has %d port%s", static_cast<long long>(asked),
                name, one.attributes.phys_port_cnt, one.attributes.phys_port_cnt == 1 ? "" : "s");
  }
  const int first = asked > 0 ? static_cast<int>(asked) : 1;
  const int last = asked > 0 ? first : one.attributes.phys_port_cnt;
  for (int number = first; number <= last; ++number) {
    ibv_port_attr port{};
    if (ibv_query_port(one.device.get(), static_cast<uint8_t>(number), &port) != 0) continue;
    if (one.port_number != 0 && (has_link(one.port) || !has_link(port))) continue;
    one.port_number = static_cast<uint8_t>(number);
    one.port = port;
  }
  if (one.port_number == 0) return fail(context, NP_UNAVAILABLE, "verbs: device %s has no port", name);
  read_gids(one);
  return NP_OK;
}

np_status take_gid(np_endpoint& endpoint, const Candidate& one) {
  const np_context* context = endpoint.context;
  const char* const name = ibv_get_device_name(one.device->device);
  const int64_t asked = context->options[kGid].number;
  const bool ethernet = one.port.link_layer == IBV_LINK_LAYER_ETHERNET;
  if (asked < 0 && !ethernet && (one.port.flags & IBV_QPF_GRH_REQUIRED) == 0) return NP_OK;
  const ibv_gid_entry* entry = nullptr;
  if (asked >= 0) {
    const auto at = std::find_if(one.gids.begin(), one.gids.end(),
                                 [&](const ibv_gid_entry& each) { return each.gid_index == asked; });
    entry = at == one.gids.end() ? nullptr : &*at;
  } else {
    const std::optional<ibv_gid> own = gid_of_address(context->local_address);
    if (own) entry = gid_with(one, *own);
    if (entry == nullptr) entry = usual_gid(one);
  }
  if (entry == nullptr) {
    std::string there;
    for (const ibv_gid_entry& each : one.gids) {
      there += (there.empty() ? "" : ", ") + std::to_string(each.gid_index) + " (" + text_of(each.gid) + ", " +
               type_of(each.gid_type) + ")";
    }
    return fail(context, NP_UNAVAILABLE, "verbs: gid=%lld: port %d of device %s has %s%s",
                static_cast<long long>(asked), one.port_number, name, there.empty() ? "no GID" : "GIDs ",
                there.c_str());
  }
  endpoint.gid_index = static_cast<int>(entry->gid_index);
  endpoint.gid = entry->gid;
  endpoint.gid_text = text_of(entry->gid);
  endpoint.gid_type = type_of(entry->gid_type);
  return NP_OK;
}

np_status take_device(np_endpoint& endpoint, Candidate& one) {
  const char* const name = ibv_get_device_name(one.device->device);
  if (!has_link(one.port)) {
    return fail(
        endpoint.context, NP_UNAVAILABLE,
        "verbs: port %d of device %s has no link (it is %s); connect it, or name another with device= and port=",
        one.port_number, name, state_of(one.port.state));
  }
  if (const np_status s = take_gid(endpoint, one); s != NP_OK) return s;
  endpoint.attributes = one.attributes;
  endpoint.port = one.port;
  endpoint.port_number = one.port_number;
  endpoint.device = std::move(one.device);
  return NP_OK;
}

// The device with the rank's address, or the first with a link, or the first.
np_status search(np_endpoint& endpoint, const Devices& devices, Candidate& best) {
  const std::optional<ibv_gid> own = gid_of_address(endpoint.context->local_address);
  const auto worth = [&](const Candidate& one) {
    return (has_link(one.port) ? 1 : 0) + (own && gid_with(one, *own) != nullptr ? 2 : 0);
  };
  np_status status = NP_OK;
  for (ibv_device* device : devices) {
    Candidate one;
    const np_status s = look_at(endpoint.context, device, one);
    if (s != NP_OK) {
      status = s;
    } else if (!best.device || worth(one) > worth(best)) {
      best = std::move(one);
    }
  }
  return best.device ? NP_OK : status;
}

}  // namespace

np_status probe(char* message, size_t message_bytes) {
  if (!Devices().empty()) return NP_OK;
  std::snprintf(message, message_bytes, "there is no RDMA device; %s", kHowToGetOne);
  return NP_UNAVAILABLE;
}

const char* link_layer(const ibv_port_attr& port) {
  return port.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand";
}

np_status choose_device(np_endpoint& endpoint) {
  const np_context* context = endpoint.context;
  const char* const asked = context->options[kDevice].text;
  const Devices devices;
  if (devices.empty()) {
    return fail(context, NP_UNAVAILABLE, "verbs: there is no RDMA device; %s", kHowToGetOne);
  }
  Candidate chosen;
  if (*asked == '\0') {
    if (const np_status s = search(endpoint, devices, chosen); s != NP_OK) return s;
    return take_device(endpoint, chosen);
  }
  const auto* const device = std::find_if(devices.begin(), devices.end(), [&](ibv_device* one) {
    return std::strcmp(ibv_get_device_name(one), asked) == 0;
  });
  if (device == devices.end()) {
    return fail(context, NP_UNAVAILABLE, "verbs: device=%s is not here; there are: %s", asked, devices.names().c_str());
  }
  if (const np_status s = look_at(context, *device, chosen); s != NP_OK) return s;
  return take_device(endpoint, chosen);
}

}  // namespace netpipe::verbs
