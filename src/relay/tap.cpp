// SPDX-License-Identifier: Apache-2.0
#include "relay/tap.h"

#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <net/if_arp.h>
#include <sched.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include "base/text.h"

namespace netpipe::relay {

namespace {

constexpr int hexadecimal = 16;

Failure refused(const std::string& what) { return unavailable(what + ": " + std::strerror(errno)); }

std::optional<std::uint8_t> octet(const std::string& text) {
  if (text.size() != 2 || text.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) return std::nullopt;
  return static_cast<std::uint8_t>(std::strtoul(text.c_str(), nullptr, hexadecimal));
}

}  // namespace

Result<Card> parse_card(const std::string& text) {
  const std::vector<std::string> parts = split(text, ':');
  Card card;
  if (parts.size() != 1 + card.address.size()) return usage("'" + text + "' is not PROCESS:ADDRESS");
  const Result<std::int64_t> process = parse_integer(parts[0]);
  if (!process || *process <= 0 || *process > INT32_MAX) return usage("'" + parts[0] + "' is not a process");
  card.process = static_cast<int>(*process);
  for (std::size_t i = 0; i < card.address.size(); ++i) {
    const std::optional<std::uint8_t> value = octet(parts[i + 1]);
    if (!value) return usage("'" + text + "' has no Ethernet address");
    card.address[i] = *value;
  }
  return card;
}

Result<Descriptor> make_tap(const Card& card, const std::string& device) {
  const std::string path = "/proc/" + std::to_string(card.process) + "/ns/net";
  const Descriptor there(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!there) return refused(path);
  if (setns(there.get(), CLONE_NEWNET) != 0) return refused("the network namespace of " + path);
  Descriptor tap(open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK));
  if (!tap) return refused("/dev/net/tun");
  ifreq request{};
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  std::copy_n(device.c_str(), std::min(device.size() + 1, sizeof request.ifr_name - 1), request.ifr_name);
  if (ioctl(tap.get(), TUNSETIFF, &request) != 0) return refused("device " + device);
  ifreq addressed{};
  addressed.ifr_hwaddr.sa_family = ARPHRD_ETHER;
  std::memcpy(addressed.ifr_hwaddr.sa_data, card.address.data(), card.address.size());
  if (ioctl(tap.get(), SIOCSIFHWADDR, &addressed) != 0) return refused("the address of device " + device);
  return tap;
}

}  // namespace netpipe::relay
