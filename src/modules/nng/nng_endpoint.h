// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "kit/services/queued.h"
#include "kit/services/service_meeting.h"
#include "nng_options.h"
#include "nng_socket.h"

struct np_endpoint {
  using Channel = netpipe::queued::Channel<netpipe::nng::Socket>;

  explicit np_endpoint(const np_context* given);

  [[nodiscard]] int64_t option(netpipe::nng::Option which) const { return context->options[which].number; }
  [[nodiscard]] bool over_tcp() const { return option(netpipe::nng::kTransport) == 0; }
  Channel& to(int peer) {
    return *channels[static_cast<size_t>(peer)];  // NOLINT(bugprone-unchecked-optional-access): of another rank
  }

  const np_context* context;
  const netpipe::queued::Shape shape;
  const bool yields;
  netpipe::queued::Traffic<netpipe::nng::Socket> traffic;
  std::vector<netpipe::nng::Link> links;         // by rank
  std::vector<std::optional<Channel>> channels;  // "
  std::vector<netpipe::queued::Place> places;    // "
};

namespace netpipe::nng {

// Makes the sockets that listen, and tells the others where.
np_status listen(np_endpoint& endpoint);
// Collective: joins all ranks.
np_status join(np_endpoint& endpoint);

}  // namespace netpipe::nng
