// SPDX-License-Identifier: Apache-2.0
// What UCX has chosen.
#pragma once

#include "kit/libraries/library_version.h"
#include "netpipe/module.h"
#include "ucx_endpoint.h"

namespace netpipe::ucx {

LibraryVersion library();

void describe(np_endpoint* e, np_emit emit, void* to);

// Which transports the endpoint to this peer really has, and what each is for: after the first messages.
struct Lane {
  std::string transport, device, uses;  // "tcp", "lo", "am am_bw#0"
};
std::vector<Lane> lanes_to(const np_endpoint* e, int peer);

// The protocols of messages between this rank and the peer, in the order of sizes: "egr/short from 0, rndv from 8256".
std::string message_protocols(const np_endpoint* e, int peer);

// Descriptors of this process that are TCP connections.
std::vector<int> tcp_connections();

// The rank that patterns for pairs join with this one.
int opposite(const np_endpoint* e);

}  // namespace netpipe::ucx
