// SPDX-License-Identifier: Apache-2.0
#include "udp_clerk.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>
#include <utility>

#include "kit/own_descriptors.h"
#include "udp_datagram.h"

namespace netpipe::udp {

using namespace netpipe::fd_io;

np_status Clerk::start(const np_context* context, int socket, uint64_t token, std::vector<Asker> askers,
                       Asker everybody) {
  socket_ = socket;
  token_ = token;
  askers_ = std::move(askers);
  everybody_ = everybody;
  stop_ = Fd(::eventfd(0, EFD_CLOEXEC));
  if (!stop_) return fail(context, NP_FAILED, "udp: eventfd: %s", std::strerror(errno));
  // Signals are the rank's: one of them must interrupt its system call.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  np_status status = NP_OK;
  try {
    thread_ = std::thread([this] { live(); });
  } catch (const std::system_error& error) {
    status = fail(context, NP_FAILED, "udp: cannot start a thread: %s", error.what());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return status;
}

void Clerk::stop() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  while (::write(stop_.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
  thread_.join();
}

void Clerk::keep_descriptors() const {
  std::vector<unsigned> keep = {static_cast<unsigned>(socket_), static_cast<unsigned>(stop_.get())};
  for (const Asker& asker : askers_) {
    if (asker.fd >= 0) keep.push_back(static_cast<unsigned>(asker.fd));
  }
  if (everybody_.fd >= 0) keep.push_back(static_cast<unsigned>(everybody_.fd));
  keep_own_descriptors(std::move(keep));
}

void Clerk::live() {
  keep_descriptors();
  for (;;) {
    pollfd wanted[2] = {{socket_, POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    if (::poll(wanted, 2, -1) < 0 && errno != EINTR) return;
    if (wanted[1].revents != 0) return;
    serve();
  }
}

// Whom a question comes from; null: it is none of another rank.
const Asker* Clerk::asker_of(const Header& said) const {
  if (said.message >= askers_.size() || askers_[said.message].fd < 0) return nullptr;
  if (said.index == kQuestion) return &askers_[said.message];
  return said.index == kCastQuestion && everybody_.fd >= 0 ? &everybody_ : nullptr;
}

void Clerk::serve() {
  constexpr int kMost = 64;  // of a flood, at once
  for (int i = 0; i < kMost; ++i) {
    Header asked;
    const ssize_t got = ::recv(socket_, &asked, sizeof asked, MSG_DONTWAIT | MSG_TRUNC);
    if (got < 0) {
      if (errno == EINTR || errno == ECONNREFUSED) continue;
      return;
    }
    const Header said = in_order(asked);
    const Asker* const known = got == sizeof asked && said.token == token_ ? asker_of(said) : nullptr;
    if (known == nullptr) {
      strangers_.fetch_add(1, std::memory_order_relaxed);
      continue;
    }
    const Asker& asker = *known;
    const Answer answer{
        header_of(asker.token, asker.departed->messages.load(std::memory_order_acquire), kAnswer, said.stamp),
        htole32(asker.payload), htole32(said.message)};
    // Where there is no room for it, it is asked again.
    (void)::sendto(asker.fd, &answer, sizeof answer, MSG_DONTWAIT | MSG_NOSIGNAL,
                   static_cast<const sockaddr*>(asker.to), asker.to_bytes);
    answered_.fetch_add(1, std::memory_order_relaxed);
  }
}

}  // namespace netpipe::udp
