// SPDX-License-Identifier: Apache-2.0
#include "link/reception.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "base/clock.h"
#include "base/port.h"
#include "link/rendezvous.h"
#include "link/secret.h"

namespace netpipe {

std::vector<Caller> Reception::attend(int listener, int other, int wait_ms) {
  std::vector<pollfd> waits{{listener, POLLIN, 0}, {other, POLLIN, 0}};
  for (const Place& place : places_) waits.push_back({place.fd.get(), POLLIN, 0});
  std::vector<Caller> accepted;
  if (::poll(waits.data(), waits.size(), wait_ms) < 0) return accepted;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    Place& place = places_[i];
    if (waits[i + 2].revents != 0) hear(place, accepted);
    place.talk->tick(now_ns());
    if (place.talk->ended()) place.fd.reset();
  }
  std::erase_if(places_, [](const Place& place) { return !place.fd; });
  if (waits[0].revents != 0) welcome(listener);
  return accepted;
}

// Of too many the oldest goes: those who are expected need milliseconds.
void Reception::welcome(int listener) {
  for (std::size_t i = 0; i < strangers; ++i) {
    Descriptor fd(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    const Result<Nonce> nonce = fresh_nonce();
    if (!fd || !nonce) return;
    tune_stream(fd.get());
    if (places_.size() == most_) places_.erase(places_.begin());
    places_.push_back(
        {std::move(fd), std::make_unique<ServerHandshake>(Terms{token_}, *nonce, now_ns() + patience_ns)});
  }
}

void Reception::hear(Place& place, std::vector<Caller>& accepted) {
  std::array<std::byte, 4096> buffer;
  const ssize_t got = ::recv(place.fd.get(), buffer.data(), buffer.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  if (got <= 0) return place.fd.reset();
  ServerHandshake& talk = *place.talk;
  talk.feed(std::span(buffer).first(static_cast<std::size_t>(got)), now_ns());
  Caller caller;
  if (talk.state() == ServerHandshake::State::complete) {
    caller.plan_text = talk.plan_text();
    caller.keys = talk.keys();
    talk.accept("conductor");
  }
  // About a kilobyte at most: a socket that has no room for it is not one of ours.
  const std::string output = talk.take_output();
  const ssize_t sent = ::send(place.fd.get(), output.data(), output.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(output.size())) return place.fd.reset();
  if (talk.state() != ServerHandshake::State::accepted) return;
  set_blocking(place.fd.get(), true);
  caller.fd = std::move(place.fd);
  accepted.push_back(std::move(caller));
}

}  // namespace netpipe
