// SPDX-License-Identifier: Apache-2.0
// How ranks of udp come to know each other, and that datagrams get through in both directions.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "udp_endpoint.h"

namespace netpipe::udp {

// A rank that is asked, and by whose answer it is known that messages get through.
struct Call {
  int fd = -1;                                      // where answers arrive, as messages do
  Place from;                                       // where they come from
  uint32_t question = kQuestion;                    // what is asked at its clerk
  uint64_t token = 0;                               // that answers and messages carry
  bool group = false;                               // they go to a group
  np_status silent = NP_FAILED;                     // what it means if none comes
  std::vector<std::vector<char>>* early = nullptr;  // takes messages that came meanwhile
};
struct Greeting {
  int64_t rtt_ns = 0;    // the shortest round trip of a question
  uint32_t payload = 0;  // of the largest datagram that the rank sends
};
np_status greet(np_endpoint& endpoint, int peer, const Call& call, int64_t deadline_ns, Greeting& greeting);

// The way that these settings want, without addresses.
Way way_of(const np_context* context, int peer, const fd_io::Fd& fd);
// What leaves on it. mtu: of the path.
np_status make_outbox(const np_endpoint& endpoint, Way& way, uint64_t token, int64_t mtu, std::unique_ptr<Outbox>& out);
// What comes on it from a rank that was greeted.
std::unique_ptr<Inbox> make_inbox(np_endpoint& endpoint, Way way, const Call& call, const Greeting& greeting);

np_status open_sockets(np_endpoint& endpoint);
np_status write_address(np_endpoint& endpoint, void* data, size_t* bytes);
// Collective. A rank is done when each of the others has answered a question: then questions get there and answers
// come back, on the way that messages take.
np_status connect_all(np_endpoint& endpoint, const void* const* addresses, const size_t* bytes);

}  // namespace netpipe::udp
