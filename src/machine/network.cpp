// SPDX-License-Identifier: Apache-2.0
// Network interfaces, what they and the kernel do to packets, socket limits and RDMA devices. No address of any kind is
// read: a run file is meant to be shown to others.
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "machine/facts.h"
#include "machine/qdisc.h"

namespace netpipe {
namespace {

// Asks a driver through the ethtool ioctl; any socket will do to carry it.
class Ethtool {
 public:
  explicit Ethtool(bool live) : fd_(live ? socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1) {}
  ~Ethtool() {
    if (fd_ >= 0) close(fd_);
  }
  Ethtool(const Ethtool&) = delete;
  Ethtool& operator=(const Ethtool&) = delete;

  // request.cmd says what is asked; false where there is no such driver or it cannot say.
  template <typename Request>
  bool ask(const std::string& interface, Request& request) const {
    if (fd_ < 0 || interface.size() >= IFNAMSIZ) return false;
    ifreq carrier{};
    std::memcpy(carrier.ifr_name, interface.data(), interface.size());
    carrier.ifr_data = reinterpret_cast<char*>(&request);
    return ioctl(fd_, SIOCETHTOOL, &carrier) == 0;
  }

  [[nodiscard]] std::optional<std::uint32_t> value(const std::string& interface, std::uint32_t command) const {
    ethtool_value request{};
    request.cmd = command;
    return ask(interface, request) ? std::optional(request.data) : std::nullopt;
  }

 private:
  int fd_;
};

void write_offloads(const Ethtool& ethtool, const std::string& name, Json& json) {
  struct Offload {
    const char* name;
    std::uint32_t command;
    std::uint32_t mask;
  };
  static constexpr std::array<Offload, 7> offloads{{{"tso", ETHTOOL_GTSO, ~0U},
                                                    {"gso", ETHTOOL_GGSO, ~0U},
                                                    {"gro", ETHTOOL_GGRO, ~0U},
                                                    {"lro", ETHTOOL_GFLAGS, ETH_FLAG_LRO},
                                                    {"rx_checksum", ETHTOOL_GRXCSUM, ~0U},
                                                    {"tx_checksum", ETHTOOL_GTXCSUM, ~0U},
                                                    {"scatter_gather", ETHTOOL_GSG, ~0U}}};
  json.key("offloads").open('{');
  for (const Offload& offload : offloads) {
    const auto bits = ethtool.value(name, offload.command);
    json.field(offload.name, bits ? std::optional((*bits & offload.mask) != 0) : std::nullopt);
  }
  json.close('}');
}

void write_interrupts(const Ethtool& ethtool, const std::string& name, Json& json) {
  ethtool_coalesce coalesce{};
  coalesce.cmd = ETHTOOL_GCOALESCE;
  if (ethtool.ask(name, coalesce)) {
    json.key("coalescing").open('{').field("rx_us", coalesce.rx_coalesce_usecs);
    json.field("rx_frames", coalesce.rx_max_coalesced_frames).field("tx_us", coalesce.tx_coalesce_usecs);
    json.field("tx_frames", coalesce.tx_max_coalesced_frames);
    json.field("adaptive_rx", coalesce.use_adaptive_rx_coalesce != 0);
    json.field("adaptive_tx", coalesce.use_adaptive_tx_coalesce != 0).close('}');
  } else {
    json.field_null("coalescing");
  }
  ethtool_ringparam ring{};
  ring.cmd = ETHTOOL_GRINGPARAM;
  if (ethtool.ask(name, ring)) {
    json.key("ring").open('{').field("rx", ring.rx_pending).field("rx_max", ring.rx_max_pending);
    json.field("tx", ring.tx_pending).field("tx_max", ring.tx_max_pending).close('}');
  } else {
    json.field_null("ring");
  }
}

void write_qdisc(const Qdiscs& qdiscs, const std::string& name, Json& json) {
  const auto found = qdiscs.find(static_cast<int>(if_nametoindex(name.c_str())));
  if (found == qdiscs.end()) {
    json.field_null("qdisc");
    return;
  }
  const Qdisc& qdisc = found->second;
  json.key("qdisc").open('{').field("kind", qdisc.kind).field("bits_per_s", qdisc.bits_per_s);
  json.field("burst_bytes", qdisc.burst_bytes).close('}');
}

// systemd names adapters without a place on a bus after their hardware address: "enx0123456789ab". The address stays
// here.
std::string public_name(const std::string& name) {
  const bool carries_address =
      name.size() == 15 && name[2] == 'x' && (name.starts_with("en") || name.starts_with("wl"));
  return carries_address ? name.substr(0, 3) + "*" : name;
}

void write_interface(const Files& files, const Ethtool& ethtool, const Qdiscs& qdiscs, const std::string& name,
                     Json& json) {
  const std::string directory = "/sys/class/net/" + name;
  ethtool_drvinfo driver_info{};
  driver_info.cmd = ETHTOOL_GDRVINFO;
  auto driver = files.link_name(directory + "/device/driver");
  std::optional<std::string> firmware;
  if (ethtool.ask(name, driver_info)) {
    const auto text = [](const char* field, std::size_t room) { return std::string(field, strnlen(field, room)); };
    if (!driver) driver = text(driver_info.driver, sizeof driver_info.driver);
    firmware = text(driver_info.fw_version, sizeof driver_info.fw_version);
    if (firmware->empty() || firmware == "N/A") firmware.reset();
  }
  const auto within = [&](const char* file, std::int64_t least, std::int64_t most) -> std::optional<std::int64_t> {
    const std::int64_t value = files.number(directory + file).value_or(-1);
    return value >= least && value <= most ? std::optional(value) : std::nullopt;
  };
  // Mbit/s; -1 or 0xffffffff where the driver does not know, an error where the link is down.
  const auto megabits = within("/speed", 1, 0xfffffffe);
  const auto node = within("/device/numa_node", 0, 65535);  // -1: no node is nearer than another
  const std::vector<std::string> queues = files.names(directory + "/queues");
  const auto count = [&](const char* prefix) {
    return std::count_if(queues.begin(), queues.end(),
                         [&](const std::string& queue) { return queue.starts_with(prefix); });
  };
  json.open('{').field("name", public_name(name)).field("driver", driver).field("firmware", firmware);
  json.field("physical", files.exists(directory + "/device")).field("state", files.line(directory + "/operstate"));
  json.field("mtu_bytes", files.number(directory + "/mtu"))
      .field("bits_per_s", megabits ? std::optional(*megabits * 1'000'000) : std::nullopt);
  json.field("duplex", files.line(directory + "/duplex")).field("node", node);
  json.field("tx_queue_packets", files.number(directory + "/tx_queue_len"));
  json.field("rx_queues", count("rx-")).field("tx_queues", count("tx-"));
  json.field("gro_flush_timeout_ns", files.number(directory + "/gro_flush_timeout"));
  json.field("defer_hard_irqs", files.number(directory + "/napi_defer_hard_irqs"));
  json.field("threaded_napi", files.number(directory + "/threaded"));
  write_qdisc(qdiscs, name, json);
  write_offloads(ethtool, name, json);
  write_interrupts(ethtool, name, json);
  json.close('}');
}

void gather_interfaces(const Files& files, Facts& facts) {
  // A host of containers has hundreds of virtual interfaces, and each question costs microseconds: loopback and what
  // has hardware behind it first, then the others, and the record says how many were left out.
  constexpr std::size_t most = 24;
  std::vector<std::string> names = files.names("/sys/class/net");
  std::erase_if(names, [&](const std::string& name) { return !files.exists("/sys/class/net/" + name + "/mtu"); });
  const auto rank = [&](const std::string& name) {
    return name == "lo" ? 0 : files.exists("/sys/class/net/" + name + "/device") ? 1 : 2;
  };
  std::stable_sort(names.begin(), names.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  const std::size_t left_out = names.size() > most ? names.size() - most : 0;
  names.resize(names.size() - left_out);

  const Ethtool ethtool(files.live());
  const Qdiscs qdiscs = files.live() ? root_qdiscs() : Qdiscs();
  Json json;
  json.open('[');
  for (const std::string& name : names) write_interface(files, ethtool, qdiscs, name, json);
  json.close(']');
  facts.set("network.interfaces", Facts::Raw{json.take()});
  facts.set("network.interfaces_left_out", static_cast<std::int64_t>(left_out));
  // Presence of ::1 only: whether IPv6 can be measured on this host.
  const auto addresses = files.read("/proc/net/if_inet6");
  facts.set("network.ipv6_loopback",
            addresses ? std::optional(addresses->find("00000000000000000000000000000001 ") != std::string::npos)
                      : std::nullopt);
}

void gather_rdma(const Files& files, Facts& facts) {
  const std::string base = "/sys/class/infiniband";
  const std::vector<std::string> devices = files.names(base);
  Json json;
  json.open('[');
  for (const std::string& device : devices) {
    const std::string directory = base + "/" + device;
    json.open('{').field("name", device).field("model", files.line(directory + "/hca_type"));
    json.field("firmware", files.line(directory + "/fw_ver"));
    json.field("node", files.number(directory + "/device/numa_node")).key("ports").open('[');
    for (const std::string& port : files.names(directory + "/ports")) {
      const std::string path = directory + "/ports/" + port;
      json.open('{').field("port", port).field("link", files.line(path + "/link_layer"));
      json.field("state", files.line(path + "/state")).field("rate", files.line(path + "/rate")).close('}');
    }
    json.close(']').close('}');
  }
  json.close(']');
  facts.set("network.rdma_devices", Facts::Raw{json.take()});
  facts.set("network.rdma_device_count", static_cast<std::int64_t>(devices.size()));
}

}  // namespace

void gather_network(const Files& files, Facts& facts) {
  gather_interfaces(files, facts);
  gather_rdma(files, facts);

  struct Setting {
    const char* name;
    const char* file;
  };
  static constexpr std::array<Setting, 19> numbers{{
      {"core.rmem_default_bytes", "core/rmem_default"},
      {"core.rmem_max_bytes", "core/rmem_max"},
      {"core.wmem_default_bytes", "core/wmem_default"},
      {"core.wmem_max_bytes", "core/wmem_max"},
      {"core.busy_poll_us", "core/busy_poll"},
      {"core.busy_read_us", "core/busy_read"},
      {"core.netdev_budget", "core/netdev_budget"},
      {"core.netdev_max_backlog", "core/netdev_max_backlog"},
      {"core.somaxconn", "core/somaxconn"},
      {"tcp.timestamps", "ipv4/tcp_timestamps"},
      {"tcp.sack", "ipv4/tcp_sack"},
      {"tcp.window_scaling", "ipv4/tcp_window_scaling"},
      {"tcp.autocorking", "ipv4/tcp_autocorking"},
      {"tcp.moderate_rcvbuf", "ipv4/tcp_moderate_rcvbuf"},
      {"tcp.adv_win_scale", "ipv4/tcp_adv_win_scale"},
      {"tcp.slow_start_after_idle", "ipv4/tcp_slow_start_after_idle"},
      {"tcp.no_metrics_save", "ipv4/tcp_no_metrics_save"},
      {"tcp.low_latency", "ipv4/tcp_low_latency"},
      {"tcp.limit_output_bytes", "ipv4/tcp_limit_output_bytes"},
  }};
  const std::string base = "/proc/sys/net/";
  for (const Setting& setting : numbers)
    facts.set("network." + std::string(setting.name), files.number(base + setting.file));
  facts.set("network.core.default_qdisc", files.line(base + "core/default_qdisc"));
  facts.set("network.tcp.congestion_control", files.line(base + "ipv4/tcp_congestion_control"));
  facts.set("network.tcp.congestion_controls", files.words(base + "ipv4/tcp_available_congestion_control"));
  facts.set("network.tcp.rmem_bytes", files.numbers(base + "ipv4/tcp_rmem"));  // smallest, default, largest
  facts.set("network.tcp.wmem_bytes", files.numbers(base + "ipv4/tcp_wmem"));
}

}  // namespace netpipe
