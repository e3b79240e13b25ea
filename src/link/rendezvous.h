// SPDX-License-Identifier: Apache-2.0
// How a host calls another, and where it can be called: the sockets around the handshake. The server's loop is in
// server.h.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "base/descriptor.h"
#include "base/port.h"
#include "base/result.h"
#include "link/seal.h"

namespace netpipe {

struct CallOptions {
  std::string host;  // a name, or a numeric address
  std::uint16_t port = default_port;
  std::string token;
  std::string plan_text;
  std::int64_t deadline_ns = 0;         // on the clock of now_ns(): when to give up
  const volatile int* abort = nullptr;  // not 0: give up within 100 ms
  // What to do where nobody listens.
  std::string remedy = "start netpipe serve there, with --bind an address that this host can reach";
};

// An agreed connection: what is written to fd from here on is the measurement's own, sealed with these keys.
struct Link {
  int fd = -1;  // blocking, no delay, keepalive; owned by whoever takes the link
  FrameKeys keys;
  std::string job;            // 32 hexadecimal digits, the same on both sides and known to nobody else
  std::string server_host;    // what the server calls itself
  std::string local_address;  // numeric, of this end of the connection: what a module may bind to
  std::string peer_address;   // numeric, of the server
};

// Finds the host, connects to the first of its addresses that answers, and agrees with the server there. Exit::usage:
// the token is wrong; Exit::unavailable: nobody there, busy, another version; otherwise what the server's refusal says;
// Exit::interrupted: abort was raised.
Result<Link> call(const CallOptions& options);

struct Listener {
  Descriptor socket;  // does not block
  std::string host;   // numeric, as bound
  std::uint16_t port = 0;
};

// address: numeric, or a name of this host. port 0: any that is free. Exit::usage: no such address here;
// Exit::unavailable: taken.
Result<Listener> listen_at(const std::string& address, std::uint16_t port);

// ---- what the server's loop shares with call

// "192.0.2.1" and "fe80::1%eth0"; an IPv4 address that an IPv6 socket wraps (RFC 4291, 2.5.5.2) is unwrapped.
std::string address_text(const sockaddr_storage& address);
std::uint16_t port_of(const sockaddr_storage& address);
// "192.0.2.1:5002", "[::1]:5002".
std::string endpoint_text(const std::string& host, std::uint16_t port);
// Control messages are small and wait for answers: no delay. A peer whose host has died is noticed within about 4 s.
void tune_stream(int fd);
void set_blocking(int fd, bool blocking);

}  // namespace netpipe
