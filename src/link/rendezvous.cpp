// SPDX-License-Identifier: Apache-2.0
#include "link/rendezvous.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/host_name.h"
#include "link/handshake.h"
#include "link/secret.h"

namespace netpipe {
namespace {

constexpr std::int64_t slice_ms = 50;  // how often a wait looks at the abort flag
constexpr int call_again_ms = 50;      // after a server has closed the connection without a word
constexpr int keepalive_s = 1;
constexpr int keepalive_probes = 3;
constexpr unsigned user_timeout_ms = 4000;  // how long sent data may stay unacknowledged
constexpr int backlog = 512;  // a queue that overflows costs an honest client a second, until its system knocks again

bool raised(const volatile int* abort) { return abort != nullptr && *abort != 0; }

// Looks again and again at the flag while a wait goes on.
struct Patience {
  std::int64_t deadline_ns;
  const volatile int* abort;

  [[nodiscard]] bool over() const { return raised(abort) || now_ns() >= deadline_ns; }
  [[nodiscard]] int slice() const {
    return static_cast<int>(std::clamp<std::int64_t>((deadline_ns - now_ns()) / 1'000'000 + 1, 0, slice_ms));
  }
  // True when the descriptor is ready or broken, false when the patience is over.
  [[nodiscard]] bool wait(int fd, short events) const {
    while (!over()) {
      pollfd one{fd, events, 0};
      if (::poll(&one, 1, slice()) > 0) return true;
    }
    return false;
  }
  // How a wait ended that did not end well.
  [[nodiscard]] Failure end(std::string sentence) const {
    if (raised(abort)) return {Exit::interrupted, "interrupted while calling the server"};
    return unavailable(std::move(sentence));
  }
};

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

struct Lookup {
  int error = 0;
  Addresses found{nullptr, &::freeaddrinfo};
};

Lookup look_up(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* list = nullptr;
  Lookup done;
  done.error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (done.error == 0) done.found.reset(list);
  return done;
}

// getaddrinfo cannot be told when to stop, and a name server that is away costs it tens of seconds: so it runs in a
// thread of its own that is left behind when nobody waits for it any more. A numeric address needs neither.
Result<Addresses> resolve(const CallOptions& options, const Patience& patience) {
  Lookup numeric = look_up(options.host, options.port, AI_NUMERICHOST);
  if (numeric.error == 0) return std::move(numeric.found);
  std::packaged_task<Lookup()> work([host = options.host, port = options.port] { return look_up(host, port, 0); });
  std::future<Lookup> answer = work.get_future();
  try {
    std::thread(std::move(work)).detach();
  } catch (const std::system_error& error) {
    return unavailable("no thread can be had to resolve the name of host " + options.host + " (" + error.what() +
                       "); give its address instead");
  }
  while (answer.wait_for(std::chrono::milliseconds(patience.slice())) != std::future_status::ready) {
    if (patience.over())
      return patience.end("the name of host " + options.host + " was not resolved in time; give its address instead");
  }
  Lookup done = answer.get();
  if (done.error == 0) return std::move(done.found);
  return unavailable("host " + options.host + " is unknown (" + ::gai_strerror(done.error) +
                     "); check its name, or give its address");
}

std::string connect_sentence(const std::string& where, int error, const std::string& remedy) {
  const std::string end = where + " (" + std::strerror(error) + ")";
  if (error == ECONNREFUSED) {
    return "no server listens at " + end + "; " + remedy;
  }
  if (error == ETIMEDOUT) {
    return "nothing answers at " + end + "; is a firewall in between, or the host down?";
  }
  return "there is no route to " + end;
}

// One address. The error is an errno; ETIMEDOUT when the patience was over.
Result<Descriptor> connect_to(const addrinfo& address, const Patience& patience, int& error) {
  Descriptor fd(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  error = errno;
  if (!fd) return unavailable(std::strerror(error));
  if (::connect(fd.get(), address.ai_addr, address.ai_addrlen) == 0) return fd;
  error = errno;
  if (error == EINPROGRESS) {
    if (!patience.wait(fd.get(), POLLOUT)) {
      error = ETIMEDOUT;
    } else {
      socklen_t length = sizeof error;
      if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
      if (error == 0) return fd;
    }
  }
  return unavailable(std::strerror(error));
}

// The first address that answers. Each may use an equal part of the time that is left, so that one that swallows every
// packet does not keep the others from being tried.
Result<Descriptor> connect_any(const CallOptions& options, const addrinfo* list, const Patience& patience) {
  std::int64_t left = 0;
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) ++left;
  int error = 0;
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next, --left) {
    const Patience share{now_ns() + (patience.deadline_ns - now_ns()) / left, patience.abort};
    Result<Descriptor> fd = connect_to(*one, share, error);
    if (fd) return fd;
    if (patience.over()) break;
  }
  return patience.end(connect_sentence(endpoint_text(options.host, options.port), error, options.remedy));
}

// All of it, or why not.
std::optional<Failure> send_all(int fd, std::string_view bytes, const Patience& patience, const std::string& where) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!patience.wait(fd, POLLOUT)) return patience.end(where + " stopped listening in the middle of the handshake");
    } else if (errno != EINTR) {
      return unavailable("the connection to " + where + " broke in the middle of the handshake (" +
                         std::strerror(errno) + ")");
    }
  }
  return std::nullopt;
}

// Until the handshake has ended, well or not; or what broke on the way.
std::optional<Failure> converse(int fd, ClientHandshake& handshake, const Patience& patience,
                                const std::string& where) {
  std::array<std::byte, 4096> buffer;
  for (;;) {
    if (std::optional<Failure> broken = send_all(fd, handshake.take_output(), patience, where)) return broken;
    if (handshake.ended()) return std::nullopt;
    if (!patience.wait(fd, POLLIN)) {
      return patience.end(where +
                          " took the connection and then said nothing; is it a netpipe server, and is it alive?");
    }
    // Never more than the handshake wants: what follows it is the measurement's.
    const ssize_t got = ::recv(fd, buffer.data(), std::min(buffer.size(), handshake.wants()), MSG_DONTWAIT);
    if (got > 0) {
      handshake.feed(std::span(buffer).first(static_cast<std::size_t>(got)));
    } else if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
      return unavailable(
          where +
          " closed the connection in the middle of the handshake; is it a netpipe server? If so, its own "
          "output says why");
    }
  }
}

// The end of a handshake.
Result<Link> agreed(Descriptor fd, const ClientHandshake& handshake, const std::string& where) {
  if (handshake.state() == ClientHandshake::State::failed) {
    return Failure{handshake.failure().exit, where + ": " + handshake.failure().sentence};
  }
  sockaddr_storage local{};
  sockaddr_storage peer{};
  socklen_t local_bytes = sizeof local;
  socklen_t peer_bytes = sizeof peer;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&local), &local_bytes) != 0 ||
      ::getpeername(fd.get(), reinterpret_cast<sockaddr*>(&peer), &peer_bytes) != 0) {
    return unavailable(where + " closed the connection right after the handshake");
  }
  set_blocking(fd.get(), true);
  return Link{fd.release(),        handshake.keys(),  handshake.job(), handshake.server_host(),
              address_text(local), address_text(peer)};
}

}  // namespace

Result<Link> call(const CallOptions& options) {
  const std::string where = endpoint_text(options.host, options.port);
  const Patience patience{options.deadline_ns, options.abort};
  if (options.plan_text.empty() || options.plan_text.size() > max_plan_bytes) {
    return usage("the plan has " + std::to_string(options.plan_text.size()) + " bytes and a server takes 1 to " +
                 std::to_string(max_plan_bytes) + "; measure fewer variants or sizes at a time");
  }
  if (const Outcome fits = check_host_name(options.host); !fits) return fits.failure();
  const Result<Addresses> addresses = resolve(options, patience);
  if (!addresses) return addresses.failure();
  for (;;) {
    const Result<Nonce> nonce = fresh_nonce();
    if (!nonce) return nonce.failure();
    Result<Descriptor> fd = connect_any(options, addresses->get(), patience);
    if (!fd) return fd.failure();
    tune_stream(fd->get());
    ClientHandshake handshake({options.token}, *nonce, options.plan_text);
    const std::optional<Failure> broken = converse(fd->get(), handshake, patience, where);
    if (!broken) return agreed(std::move(*fd), handshake, where);
    // A server sends callers away without a word when too many call from one address, or at once: the next call may
    // get through. One that has answered the proof does not do that.
    ::poll(nullptr, 0, call_again_ms);
    if (handshake.state() == ClientHandshake::State::verdict || patience.over()) return patience.end(broken->sentence);
  }
}

Result<Listener> listen_at(const std::string& address, std::uint16_t port) {
  if (const Outcome fits = check_host_name(address); !fits) return fits.failure();
  // No name server is asked about 999.1.1.1.
  const bool numeric = address.find_first_not_of("0123456789.") == std::string::npos;
  const Lookup local = look_up(address, port, AI_PASSIVE | (numeric ? AI_NUMERICHOST : 0));
  if (local.error != 0) {
    return usage("'" + address + "' is not an address to listen on (" + ::gai_strerror(local.error) +
                 "); give a numeric address of this host, or 0.0.0.0 for all of them");
  }
  const addrinfo* const list = local.found.get();
  Descriptor fd(::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return unavailable("this host gives no socket for " + address + ": " + std::strerror(errno));
  const int yes = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes,
               sizeof yes);  // connections of a server before us may still be dying
  if (::bind(fd.get(), list->ai_addr, list->ai_addrlen) != 0 || ::listen(fd.get(), backlog) != 0) {
    const int error = errno;
    if (error == EADDRINUSE) {
      return unavailable("port " + std::to_string(port) + " on " + address +
                         " is taken by another process; choose another with --port, or 0 for any free one");
    }
    if (error == EADDRNOTAVAIL)
      return usage(address + " is not an address of this host; `ip address` lists its addresses");
    return unavailable("port " + std::to_string(port) + " on " + address + " cannot be used: " + std::strerror(error));
  }
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
    return unavailable("the port that was given cannot be read back: " + std::string(std::strerror(errno)));
  }
  return Listener{std::move(fd), address_text(bound), port_of(bound)};
}

std::string address_text(const sockaddr_storage& address) {
  sockaddr_storage plain = address;
  socklen_t length = sizeof(sockaddr_in);
  if (address.ss_family == AF_INET6) {
    length = sizeof(sockaddr_in6);
    sockaddr_in6 six{};
    std::memcpy(&six, &address, sizeof six);
    if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
      sockaddr_in four{};
      four.sin_family = AF_INET;
      std::memcpy(&four.sin_addr, six.sin6_addr.s6_addr + 12, 4);
      std::memcpy(&plain, &four, sizeof four);
      length = sizeof four;
    }
  }
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&plain), length, text.data(), text.size(), nullptr, 0,
                    NI_NUMERICHOST) != 0) {
    return "?";
  }
  return text.data();
}

std::uint16_t port_of(const sockaddr_storage& address) {
  sockaddr_in four{};  // both families have the port at the same place
  std::memcpy(&four, &address, sizeof four);
  return ntohs(four.sin_port);
}

std::string endpoint_text(const std::string& host, std::uint16_t port) {
  const std::string shown = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return shown + ":" + std::to_string(port);
}

void tune_stream(int fd) {
  const int yes = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &keepalive_s, sizeof keepalive_s);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &keepalive_s, sizeof keepalive_s);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &keepalive_probes, sizeof keepalive_probes);
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms, sizeof user_timeout_ms);
}

void set_blocking(int fd, bool blocking) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags >= 0) ::fcntl(fd, F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

}  // namespace netpipe
