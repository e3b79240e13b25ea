// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "grpc_link.h"
#include "grpc_options.h"
#include "grpc_socket.h"
#include "grpc_tls.h"
#include "kit/services/queued.h"
#include "kit/services/service_meeting.h"

namespace netpipe::grpc {

// Between these, the library is there.
struct Started {
  explicit Started(const Library& given) : lib(given) { lib.grpc_init(); }
  Started(const Started&) = delete;
  Started& operator=(const Started&) = delete;
  ~Started() { lib.grpc_shutdown(); }
  const Library& lib;
};

// Where lower ranks come in, with the call that is asked for next.
struct Server {
  grpc_server* server = nullptr;
  Tag asked, over;
  bool asking = false, closing = false, closed = false;
  grpc_call* call = nullptr;
  grpc_call_details details{};
  grpc_metadata_array metadata{};
};

}  // namespace netpipe::grpc

struct np_endpoint {
  using Channel = netpipe::queued::Channel<netpipe::grpc::Socket>;

  np_endpoint(const np_context* given, const netpipe::grpc::Library& library);
  np_endpoint(const np_endpoint&) = delete;
  np_endpoint& operator=(const np_endpoint&) = delete;
  ~np_endpoint();

  [[nodiscard]] int64_t option(netpipe::grpc::Option which) const { return context->options[which].number; }
  [[nodiscard]] bool unary() const { return option(netpipe::grpc::kApi) != 0; }
  [[nodiscard]] bool over_tcp() const { return option(netpipe::grpc::kTransport) == 0; }
  [[nodiscard]] bool secured() const { return option(netpipe::grpc::kSecurity) != 0; }
  Channel& to(int peer) {
    return *channels[static_cast<size_t>(peer)];  // NOLINT(bugprone-unchecked-optional-access): of another rank
  }

  const np_context* context;
  netpipe::grpc::Started started;
  netpipe::grpc::Loop loop;
  netpipe::queued::Traffic<netpipe::grpc::Socket> traffic;
  std::vector<std::unique_ptr<netpipe::grpc::Link>> links;  // by rank
  std::vector<std::optional<Channel>> channels;             // "
  std::vector<netpipe::queued::Place> places;               // "
  std::vector<std::string> tokens;                          // " : what who calls it says
  std::vector<std::string> certificates;                    // " : PEM, of those who listen; "": none
  netpipe::grpc::Certificate own_certificate;
  std::string own_rank;
  std::vector<grpc_channel*> connections;
  netpipe::grpc::Server server;
};

namespace netpipe::grpc {

// Makes the server, and tells the others where.
np_status listen(np_endpoint& endpoint);
// Asks for the next call to the server, of whomever, unless it was asked for already.
void ask(np_endpoint& endpoint);
// Collective: joins all ranks.
np_status join(np_endpoint& endpoint);
// Ends all calls; nothing is outstanding afterwards.
void part(np_endpoint& endpoint);

}  // namespace netpipe::grpc
