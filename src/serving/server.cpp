// SPDX-License-Identifier: Apache-2.0
#include "serving/server.h"

#include <poll.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/host_name.h"
#include "link/handshake.h"
#include "link/secret.h"
#include "serving/callers.h"

namespace netpipe {
namespace {

constexpr int max_accepts = 16;  // at a time: those whom a flood drives out of their places were heard before
constexpr std::int64_t breather_ns = 100'000'000;  // when the system has no descriptor left
constexpr std::uint32_t most_notes = 5;            // in a second
// A client that measures several times in a row calls again while the process of its last measurement is still ending;
// so the server looks twice before it says that it is busy.
constexpr std::int64_t second_look_ns = 500'000'000;
constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

// A place for one that has connected. All places exist from the start: nothing is allocated for a stranger.
struct Place {
  Descriptor fd;
  sockaddr_storage peer{};
  Origin origin{};
  std::optional<ServerHandshake> handshake;  // there when it is taken; talk() is the way to it
  // When a client whose plan is here is told that the server is busy; 0: not waiting for that.
  std::int64_t refuse_ns = 0;

  [[nodiscard]] bool taken() const { return static_cast<bool>(fd); }
  // NOLINTBEGIN(bugprone-unchecked-optional-access)
  [[nodiscard]] ServerHandshake& talk() { return *handshake; }
  [[nodiscard]] const ServerHandshake& talk() const { return *handshake; }
  // NOLINTEND(bugprone-unchecked-optional-access)
  [[nodiscard]] std::string who() const { return endpoint_text(address_text(peer), port_of(peer)); }
  void leave() {
    handshake.reset();
    fd.reset();
    refuse_ns = 0;
  }
};

struct Running {
  Child child;
  std::string who, plan_hash;
};

std::string seconds_text(double seconds) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1f s", seconds);
  return text.data();
}

std::string ending_text(const Ending& ending) {
  if (!ending.measured) return "refused: " + ending.sentence;
  if (!ending.sentence.empty()) return ending.sentence;
  if (ending.exit == static_cast<int>(Exit::done)) return "done";
  if (ending.exit == static_cast<int>(Exit::interrupted)) return "interrupted";
  return "ended with exit code " + std::to_string(ending.exit);
}

class Server {
 public:
  Server(Listener listener, const ServeOptions& options)
      : listener_(std::move(listener)), options_(options), places_(max_pending) {}
  ~Server() {
    if (!masked_) return;
    // A reader of our lines that went away has left its signal behind, which would now end this process.
    sigset_t pipe;
    ::sigemptyset(&pipe);
    ::sigaddset(&pipe, SIGPIPE);
    const timespec at_once{};
    ::sigtimedwait(&pipe, nullptr, &at_once);
    ::sigprocmask(SIG_SETMASK, &mask_, nullptr);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  Outcome prepare();
  int run();

 private:
  void wait();
  std::optional<int> take_signals();
  std::optional<int> watch_child();
  void welcome();
  Place& free_place();
  void hear(Place& place);
  void step(Place& place);
  void measure(Place& place);
  Ending measure_here(Place& place, int words_fd);
  [[nodiscard]] Failure busy(const Running& running) const;
  void report(const Running& running, const Ending& ending) const;
  void note(const std::string& line);

  Listener listener_;
  const ServeOptions& options_;
  std::vector<Place> places_;
  std::optional<Running> running_;
  Descriptor signals_;
  sigset_t mask_{};
  bool masked_ = false;
  std::array<pollfd, 2 + max_pending> polled_{};
  std::int64_t now_ns_ = 0;
  std::int64_t accept_ns_ = 0;  // no accept before
  Callers callers_;
  Second notes_;
  std::uint64_t unsaid_ = 0;  // notes that were not written
};

Outcome Server::prepare() {
  sigset_t ours;
  ::sigemptyset(&ours);
  for (const int one : {SIGINT, SIGTERM, SIGCHLD}) ::sigaddset(&ours, one);
  sigset_t blocked = ours;
  ::sigaddset(&blocked, SIGPIPE);  // whoever reads our lines may go away
  std::signal(SIGCHLD, SIG_DFL);   // were it ignored, there would be no exit code to reap
  masked_ = ::sigprocmask(SIG_BLOCK, &blocked, &mask_) == 0;
  signals_.reset(::signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!masked_ || !signals_) return failed(std::string("the server cannot watch for signals: ") + std::strerror(errno));
  return ok();
}

int Server::run() {
  for (;;) {
    wait();
    if (const std::optional<int> code = take_signals()) return *code;
    if (const std::optional<int> code = watch_child()) return *code;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (polled_[2 + i].revents != 0) hear(places_[i]);
      if (places_[i].taken()) step(places_[i]);
    }
    if (polled_[1].revents != 0) welcome();
  }
}

// Until something happens, or the next deadline.
void Server::wait() {
  std::int64_t next = never;
  now_ns_ = now_ns();
  polled_[0] = {signals_.get(), POLLIN, 0};
  const bool accepting = now_ns_ >= accept_ns_;
  polled_[1] = {accepting ? listener_.socket.get() : -1, POLLIN, 0};
  if (!accepting) next = accept_ns_;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const Place& place = places_[i];
    polled_[2 + i] = {place.fd.get(), POLLIN, 0};
    if (!place.taken()) continue;
    next = std::min(next, place.talk().deadline_ns());
    if (place.refuse_ns != 0) next = std::min(next, place.refuse_ns);
  }
  if (running_) next = std::min(next, running_->child.next_ns());
  const std::int64_t left_ms =
      next == never ? -1 : std::clamp<std::int64_t>((next - now_ns_) / 1'000'000 + 1, 0, 3'600'000);
  if (::poll(polled_.data(), polled_.size(), static_cast<int>(left_ms)) < 0) {
    for (pollfd& one : polled_) one.revents = 0;
    // Somebody has taken descriptors from this process (prlimit): without the pause this would be a loop without one.
    if (errno != EINTR) ::poll(nullptr, 0, static_cast<int>(breather_ns / 1'000'000));
  }
  now_ns_ = now_ns();
}

std::optional<int> Server::take_signals() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo == SIGCHLD) continue;  // watch_child looks each time
    if (running_) {
      running_->child.stop();
      Ending ending;
      ending.sentence = "ended with the server";
      report(*running_, ending);
      running_.reset();
    }
    return static_cast<int>(info.ssi_signo == SIGINT ? Exit::interrupted : Exit::done);
  }
  return std::nullopt;
}

std::optional<int> Server::watch_child() {
  if (!running_) return std::nullopt;
  running_->child.tick(now_ns_);
  const std::optional<Ending> ending = running_->child.reap();
  if (!ending) return std::nullopt;
  report(*running_, *ending);
  running_.reset();
  if (options_.once && ending->measured) return ending->exit;
  return std::nullopt;
}

void Server::welcome() {
  for (int i = 0; i < max_accepts; ++i) {
    sockaddr_storage peer{};
    socklen_t length = sizeof peer;
    Descriptor fd(
        ::accept4(listener_.socket.get(), reinterpret_cast<sockaddr*>(&peer), &length, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd) {
      // Without a descriptor the connection stays in the queue and poll would return at once, for ever.
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) accept_ns_ = now_ns_ + breather_ns;
      if (errno == EINTR || errno == ECONNABORTED) continue;
      return;
    }
    const Origin origin = origin_of(peer);
    if (!callers_.may_call(origin, now_ns_)) {
      note(address_text(peer) + ": sent away, it calls too often");
      continue;
    }
    const Result<Nonce> nonce = fresh_nonce();
    if (!nonce) return note(nonce.failure().sentence);
    Place& place = free_place();
    place.fd = std::move(fd);
    place.peer = peer;
    place.origin = origin;
    place.handshake.emplace(Terms{options_.token}, *nonce, now_ns_ + options_.handshake_ns);
  }
}

// When all are taken, one of those that have not proved the token must go: of the address that has most of them, the
// oldest. So nobody keeps others out by opening connections, whatever is said on them.
Place& Server::free_place() {
  const auto free = std::find_if(places_.begin(), places_.end(), [](const Place& place) { return !place.taken(); });
  if (free != places_.end()) return *free;
  const auto rank = [this](const Place& place) {
    const auto held =
        std::count_if(places_.begin(), places_.end(), [&](const Place& other) { return other.origin == place.origin; });
    const bool proved = place.talk().state() >= ServerHandshake::State::plan;
    return std::tuple{proved, -held, place.talk().deadline_ns()};
  };
  Place& place = *std::min_element(places_.begin(), places_.end(),
                                   [&](const Place& a, const Place& b) { return rank(a) < rank(b); });
  note(place.who() + ": dropped for a newer one, too many have connected and not proved the token");
  place.leave();
  return place;
}

void Server::hear(Place& place) {
  if (!place.taken()) return;
  std::array<std::byte, 4096> buffer;
  const ssize_t got = ::recv(place.fd.get(), buffer.data(), buffer.size(), 0);
  if (got > 0) {
    place.talk().feed(std::span(buffer).first(static_cast<std::size_t>(got)), now_ns_);
  } else if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
    note(place.who() + ": hung up before the end of its handshake");
    place.leave();
  }
}

// Whatever the handshake waits for from this side.
void Server::step(Place& place) {
  ServerHandshake& handshake = place.talk();
  using State = ServerHandshake::State;
  handshake.tick(now_ns_);
  if (handshake.state() == State::complete) {
    if (!running_) return measure(place);
    if (place.refuse_ns == 0) place.refuse_ns = now_ns_ + second_look_ns;
    if (now_ns_ >= place.refuse_ns) handshake.refuse(busy(*running_));
  }
  // An answer is about a kilobyte at most, and the sides take turns, so the socket has room for it; a peer for which it
  // has none is not one of ours.
  const std::string output = handshake.take_output();
  const bool sent = output.empty() || ::send(place.fd.get(), output.data(), output.size(), MSG_NOSIGNAL) ==
                                          static_cast<ssize_t>(output.size());
  if (handshake.ended()) {
    note(place.who() + ": " + (handshake.state() == State::refused ? "refused: " : "dropped: ") + handshake.reason());
    place.leave();
  } else if (!sent) {
    note(place.who() + ": dropped: it does not take what it is sent");
    place.leave();
  }
}

void Server::measure(Place& place) {
  Result<Child> child = Child::start([&](int words_fd) { return measure_here(place, words_fd); }, options_.bounds,
                                     options_.grace_ns, mask_);
  if (child) {
    running_ = Running{std::move(*child), place.who(), place.talk().plan_hash()};
  } else {
    note(place.who() + ": refused: " + turn_away(place.fd, child.failure()).sentence);
  }
  place.leave();
}

// In the child.
Ending Server::measure_here(Place& place, int words_fd) {
  listener_.socket.reset();
  signals_.reset();
  for (Place& other : places_) {
    if (&other != &place) other.leave();
  }
  set_blocking(place.fd.get(), true);
  tune_stream(place.fd.get());
  sockaddr_storage local{};
  socklen_t length = sizeof local;
  if (::getsockname(place.fd.get(), reinterpret_cast<sockaddr*>(&local), &length) != 0) return {};
  ServerHandshake& handshake = place.talk();
  Admission admission;
  admission.plan_text = handshake.plan_text();
  admission.peer_host = address_text(place.peer);
  admission.local_address = address_text(local);
  admission.job = handshake.job();
  admission.keys = handshake.keys();
  admission.bounds = options_.bounds;
  handshake.accept(host_name());
  admission.accept = handshake.take_output();
  return options_.measure(std::move(place.fd), words_fd, admission);
}

Failure Server::busy(const Running& running) const {
  return unavailable("the server is busy with another measurement, which has been running for " +
                     seconds_text(running.child.seconds(now_ns_)) + "; try again later");
}

void Server::report(const Running& running, const Ending& ending) const {
  options_.log(printable(running.who + ": plan " + running.plan_hash.substr(0, 12) + ": " + ending_text(ending) + ", " +
                         seconds_text(running.child.seconds(now_ns_))));
}

// About those that were not given a process. Strangers must not be able to fill somebody's disk with our lines.
void Server::note(const std::string& line) {
  if (!notes_.one_more(now_ns_, most_notes)) {
    ++unsaid_;
    return;
  }
  const std::string more =
      unsaid_ == 0 ? "" : " (before it " + std::to_string(unsaid_) + " others that are not listed)";
  unsaid_ = 0;
  options_.log(printable(line + more));
}

}  // namespace

Result<int> serve(Listener listener, const ServeOptions& options) {
  Server server(std::move(listener), options);
  if (const Outcome prepared = server.prepare(); !prepared) return prepared.failure();
  if (options.ready && !options.ready())
    return failed("standard output is closed, so nobody can learn where this server listens");
  return server.run();
}

}  // namespace netpipe
