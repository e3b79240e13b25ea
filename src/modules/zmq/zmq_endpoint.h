// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <zmq.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kit/services/queued.h"
#include "kit/services/service_meeting.h"
#include "zmq_options.h"
#include "zmq_socket.h"

namespace netpipe::zmq {

struct EndLibrary {
  void operator()(void* zmq) const { zmq_ctx_term(zmq); }  // all sockets are closed, and none lingers
};

}  // namespace netpipe::zmq

struct np_endpoint {
  using Channel = netpipe::queued::Channel<netpipe::zmq::Socket>;

  explicit np_endpoint(const np_context* given);

  [[nodiscard]] int64_t option(netpipe::zmq::Option which) const { return context->options[which].number; }
  [[nodiscard]] bool over_tcp() const { return option(netpipe::zmq::kTransport) == 0; }
  [[nodiscard]] size_t classes() const;
  [[nodiscard]] int hwm(size_t size_class) const;
  Channel& to(int peer) {
    return *channels[static_cast<size_t>(peer)];  // NOLINT(bugprone-unchecked-optional-access): of another rank
  }
  netpipe::zmq::Link& link(int peer, size_t size_class) { return links[netpipe::queued::slot(peer, size_class)]; }

  const np_context* context;
  const netpipe::queued::Shape shape;
  const bool yields;
  netpipe::queued::Traffic<netpipe::zmq::Socket> traffic;
  std::vector<std::optional<Channel>> channels;  // by rank; threads of the library use them until it has ended
  std::unique_ptr<void, netpipe::zmq::EndLibrary> zmq;
  netpipe::zmq::Owned doorman;  // who answers for strangers (ZAP)
  std::vector<netpipe::zmq::Link> links;
  std::vector<netpipe::queued::Place> places;       // by rank
  std::array<char, 41> public_key{}, secret_key{};  // of CURVE, Z85
};

namespace netpipe::zmq {

// Makes the sockets that listen, and tells the others where.
np_status listen(np_endpoint& endpoint);
// Collective: joins all ranks.
np_status join(np_endpoint& endpoint);

}  // namespace netpipe::zmq
