// SPDX-License-Identifier: Apache-2.0
// Rails: the local addresses that the streams of a message are dealt out to (channel bonding, as MP_Lite did it above
// the sockets).
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <string>
#include <vector>

#include "kit/streams/fd_path.h"
#include "netpipe/module.h"

struct np_endpoint;

namespace netpipe::tcp {

struct Rail {
  sockaddr_storage at{};
  socklen_t at_bytes = 0;
  std::string host;    // "10.0.0.1"
  std::string device;  // that has the address
  bool bound = false;  // to the device, so that no byte takes another one
};

// Those of this rank, by the option: one that is not bound where none are named.
np_status own_rails(const np_context* context, std::vector<Rail>& rails);

// How many streams there are over so many rails.
np_status streams_over(const np_context* context, size_t rails, int& streams);

// "rail 2 (10.1.0.1 on eth1)"
std::string rail_name(const std::vector<Rail>& rails, size_t index);

// Before the socket connects or listens.
np_status bind_to_device(const np_context* context, const std::vector<Rail>& rails, size_t index, int fd);

// Refuses a rail whose other end is on this host: Linux would carry its bytes over loopback.
np_status leaves_the_host(const np_context* context, const std::vector<Rail>& rails, size_t index, int peer,
                          const sockaddr_storage& there, socklen_t there_bytes);

// Which rail it is that lanes stand still on, for the sentences of a Wire.
class RailNames final : public fd_io::LaneNames {
 public:
  explicit RailNames(const np_endpoint& endpoint) : endpoint_(endpoint) {}
  [[nodiscard]] std::string stand_still(int peer, uint64_t lanes) const override;

 private:
  const np_endpoint& endpoint_;
};

}  // namespace netpipe::tcp
