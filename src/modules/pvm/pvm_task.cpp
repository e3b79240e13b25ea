// SPDX-License-Identifier: Apache-2.0
#include "pvm/pvm_task.h"

#include <pthread.h>
#include <pvm3.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>

#include "kit/own_descriptors.h"
#include "kit/streams/fd_io.h"

// libpvm writes what goes wrong to stderr by these functions, and there is no setting against it. Found here first,
// they keep the words for the sentence of the error.
namespace {
char kept_words[160];
}
#define KEPT extern "C" __attribute__((visibility("default")))
KEPT int vpvmlogprintf(const char* format, va_list arguments) {
  const int written = std::vsnprintf(kept_words, sizeof kept_words, format, arguments);
  kept_words[std::strcspn(kept_words, "\n")] = '\0';
  return written;
}
KEPT int pvmlogprintf(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int written = vpvmlogprintf(format, arguments);
  va_end(arguments);
  return written;
}
KEPT int pvmlogerror(const char* text) { return pvmlogprintf("%s", text); }
KEPT int pvmlogperror(const char* text) { return pvmlogprintf("%s: %s", text, std::strerror(errno)); }

namespace netpipe::pvm {

using fd_io::Fd;
using fd_io::kAbortSliceMs;
using fd_io::now_ns;

namespace {

using fd_io::fail;

constexpr int kNobodysTag = 1;    // no endpoint has it: a look for it only moves what is there
constexpr char kUnnamed[] = "?";  // what a daemon calls the first one before that has told it the hosts

// How many daemons netpipe has started for the run: one on each host (python/netpipe/libraries/daemons/pvm).
int daemons_of_run() {
  int count = 1;
  const char* const given = std::getenv("NETPIPE_PVM_DAEMONS");
  if (given != nullptr) std::from_chars(given, given + std::strlen(given), count);
  return count;
}

// The variables that only tasks have which a pvmd has spawned, and the address of the daemon.
np_status find_daemon(const np_context* context, std::string& address) {
  const char* const given = std::getenv("PVMSOCK");
  if (given == nullptr || *given == '\0') {
    return fail(context, NP_UNAVAILABLE,
                "no PVM daemon was started for this run; start it with 'netpipe run pvm', which starts a private one");
  }
  if (geteuid() == 0 && std::getenv("PVM_ALLOW_ROOT") == nullptr) {
    return fail(context, NP_UNAVAILABLE, "PVM refuses root; set PVM_ALLOW_ROOT=1, or do not run as root");
  }
  address = given;
  return NP_OK;
}

// libpvm itself would try for four seconds.
np_status knock(const np_context* context, const std::string& address) {
  sockaddr_un place{};
  place.sun_family = AF_UNIX;
  if (address.front() != '/') return NP_OK;  // an Internet address, of a daemon that was built so
  if (address.size() >= sizeof place.sun_path) {
    return fail(context, NP_UNAVAILABLE, "the address of the PVM daemon, %s, is too long for a socket",
                address.c_str());
  }
  std::memcpy(place.sun_path, address.c_str(), address.size() + 1);
  const Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail(context, NP_FAILED, "socket: %s", std::strerror(errno));
  // select() takes no others, and libpvm ends the process over them.
  if (fd.get() + context->nranks >= FD_SETSIZE) {
    return fail(
        context, NP_UNAVAILABLE,
        "libpvm waits with select(), which takes descriptors below %d, and %d are open already; measure pvm with "
        "fewer ranks or fewer variants",
        FD_SETSIZE, fd.get());
  }
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&place), sizeof place) != 0) {
    return fail(context, NP_UNAVAILABLE, "no PVM daemon answers at %s: %s; did it die?", address.c_str(),
                std::strerror(errno));
  }
  return NP_OK;
}

}  // namespace

const char* library_words() { return kept_words; }
void forget_library_words() { kept_words[0] = '\0'; }

const char* meaning(int code) {
  switch (code) {
    case PvmSysErr: return "the PVM daemon has gone";
    case PvmNoMem: return "libpvm has no memory left";
    case PvmNoData: return "the message is shorter than expected";
    case PvmBadMsg: return "the message cannot be decoded";
    case PvmBadParam: return "libpvm takes no such parameter";
    case PvmNotImpl: return "this libpvm cannot do it";
    default: return "libpvm failed";
  }
}

Task& Task::of_process() {
  static Task task;
  return task;
}

np_status Task::enrol(const np_context* context) {
  if (broken_) {
    return fail(
        context, NP_FAILED,
        "the PVM daemon of this run has gone, or a transfer was given up and the connection to it with that; measure "
        "again to start another");
  }
  if (endpoints_ == 0) {
    std::string address;
    if (const np_status status = find_daemon(context, address); status != NP_OK) return status;
    if (const np_status status = knock(context, address); status != NP_OK) return status;
    pvm_setopt(PvmAutoErr, 0);  // before libpvm has anything to print
    forget_library_words();
    const int tid = pvm_mytid();
    if (tid < 0) {
      return fail(context, NP_FAILED, "cannot enrol with the PVM daemon at %s: %s (%s)", address.c_str(), meaning(tid),
                  library_words());
    }
    tid_ = tid;
    np_status status = watch_again(context);
    if (status == NP_OK) status = know_daemons(context);
    if (status != NP_OK) {
      part();
      return status;
    }
  }
  ++endpoints_;
  return NP_OK;
}

void Task::keep_watch(const volatile int* abort) {
  watching_ = true;
  watched_ = sockets();
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the thread that measures
  const auto look = [this, abort, own = std::vector<unsigned>(watched_.begin(), watched_.end())] {
    fd_io::keep_own_descriptors(own);
    std::unique_lock<std::mutex> lock(mutex_);
    while (!change_.wait_for(lock, std::chrono::milliseconds(kAbortSliceMs), [this] { return !watching_; })) {
      if (*abort == 0 || !waiting_.load(std::memory_order_relaxed)) continue;
      for (const int fd : watched_) ::shutdown(fd, SHUT_RDWR);
    }
  };
  try {
    watch_ = std::thread(look);
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// The thread has descriptors of its own: another one for other sockets.
np_status Task::watch_again(const np_context* context) {
  end_watch();
  try {
    keep_watch(context->abort);
    return NP_OK;
  } catch (const std::system_error& error) {
    return fail(context, NP_FAILED, "cannot start a thread: %s", error.what());
  }
}

void Task::end_watch() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    watching_ = false;
  }
  change_.notify_one();
  if (watch_.joinable()) watch_.join();
}

// A daemon learns of the others after it has begun to take tasks, and throws away what is for a host that it does not
// know yet (pvmd, loclinpkt). So no rank says where it is before its own daemon knows all.
np_status Task::know_daemons(const np_context* context) {
  const int wanted = daemons_of_run();
  if (wanted < 2) return NP_OK;
  // Half of the time, so that the sentence comes from here and not from the watchdog.
  for (const int64_t deadline_ns = now_ns() + context->timeout_ns / 2;;) {
    int count = 0;
    int architectures = 0;
    pvmhostinfo* hosts = nullptr;
    waits(true);
    const int done = pvm_config(&count, &architectures, &hosts);
    waits(false);
    if (*context->abort != 0) return fail(context, NP_ABORTED, "waiting for the PVM daemons of all hosts was given up");
    if (done < 0) {
      return fail(context, NP_FAILED, "cannot ask the PVM daemon for the hosts: %s (%s)", meaning(done),
                  library_words());
    }
    daemons_.clear();
    for (int i = 0; i < count; ++i) daemons_[hosts[i].hi_tid] = hosts[i].hi_name;
    const bool named =
        std::all_of(daemons_.begin(), daemons_.end(), [](const auto& one) { return one.second != kUnnamed; });
    if (named && count >= wanted) return NP_OK;
    if (now_ns() > deadline_ns) {
      return fail(context, NP_FAILED,
                  "the PVM daemon of this host knows %d of %d hosts; install the same version of PVM on all of them",
                  named ? count : 1, wanted);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void Task::leave() {
  if (--endpoints_ == 0) part();
}

// pvm_exit asks the daemon and waits for its answer, however long that takes. One whose tasks are gone needs no
// question.
void Task::part() {
  end_watch();
  for (const int fd : sockets()) ::shutdown(fd, SHUT_RDWR);
  pvm_exit();
  direct_.clear();
  daemons_.clear();
  tid_ = -1;
}

std::vector<int> Task::sockets() {
  int* fds = nullptr;
  const int count = pvm_getfds(&fds);
  return count > 0 ? std::vector<int>(fds, fds + count) : std::vector<int>();
}

int Task::socket_to(int tid) {
  const auto found = direct_.find(tid);
  if (found != direct_.end()) return found->second;
  const std::vector<int> all = sockets();
  return all.empty() ? -1 : all.front();
}

bool Task::is_far(int tid) const { return pvm_tidtohost(tid) != pvm_tidtohost(tid_); }

std::string Task::daemon_of(int tid) const {
  const auto found = daemons_.find(pvm_tidtohost(tid));
  return found != daemons_.end() ? found->second : "";
}

np_status Task::greet(const np_context* context, const Peer& peer) {
  int done = pvm_initsend(PvmDataRaw);
  waits(true);
  if (done >= 0) done = pvm_send(peer.tid, peer.tag);
  waits(false);
  if (done >= 0) return NP_OK;
  if (*context->abort != 0)
    return fail(context, NP_ABORTED, "making a direct route to rank %d was given up", peer.rank);
  return fail(context, NP_FAILED, "making a direct route to rank %d: %s (%s)", peer.rank, meaning(done),
              library_words());
}

np_status Task::meet(const np_context* context, const Peer& peer, int mine) {
  for (;;) {
    timeval slice{0, kAbortSliceMs * 1000};
    const int got = pvm_trecv(peer.tid, mine, &slice);
    if (got > 0) return NP_OK;
    if (got < 0) {
      return fail(context, NP_FAILED, "making a direct route to rank %d: %s (%s)", peer.rank, meaning(got),
                  library_words());
    }
    if (*context->abort != 0)
      return fail(context, NP_ABORTED, "making a direct route to rank %d was given up", peer.rank);
  }
}

np_status Task::route_directly(const np_context* context, const std::vector<Peer>& peers, int mine) {
  pvm_setopt(PvmRoute, PvmRouteDirect);
  std::vector<Peer> fresh;
  for (const Peer& peer : peers) {
    if (!direct_.contains(peer.tid)) fresh.push_back(peer);
  }
  if (fresh.empty()) return NP_OK;
  // The first message between two tasks makes the route: a rank sends to all above it, and answers those below it.
  np_status status = NP_OK;
  const auto each = [&](bool above, const auto& act) {
    for (const Peer& peer : fresh) {
      if (status == NP_OK && (peer.rank > context->rank) == above) status = act(peer);
    }
  };
  each(true, [&](const Peer& peer) { return greet(context, peer); });
  each(false, [&](const Peer& peer) {
    const np_status met = meet(context, peer, mine);
    return met == NP_OK ? greet(context, peer) : met;
  });
  each(true, [&](const Peer& peer) { return meet(context, peer, mine); });
  if (status != NP_OK) return status;
  for (const Peer& peer : fresh) direct_[peer.tid] = -1;
  const std::vector<int> all = sockets();
  if (all.size() != direct_.size() + 1) {
    return fail(context, NP_FAILED,
                "PVM made %zu direct routes of %zu and sends the rest through its daemon; measure route=daemon instead",
                all.empty() ? 0 : all.size() - 1, direct_.size());
  }
  size_t next = 1;
  for (auto& [tid, fd] : direct_) fd = all[next++];  // both are in the order of tids
  return watch_again(context);
}

np_status Task::route_by_daemon(const np_context* context, const std::vector<Peer>& peers) {
  pvm_setopt(PvmRoute, PvmDontRoute);
  size_t dropped = 0;
  for (const Peer& peer : peers) {
    const auto found = direct_.find(peer.tid);
    if (found == direct_.end()) continue;
    ::shutdown(found->second, SHUT_RDWR);
    direct_.erase(found);
    ++dropped;
  }
  const size_t had = dropped;
  // libpvm reads the end of each, and forgets it.
  for (const int64_t deadline_ns = now_ns() + context->timeout_ns; dropped > 0;) {
    if (const int got = pvm_nrecv(-1, kNobodysTag); got < 0) {
      return fail(context, NP_FAILED, "leaving a direct route: %s (%s)", meaning(got), library_words());
    }
    if (sockets().size() == direct_.size() + 1) dropped = 0;
    if (*context->abort != 0) return fail(context, NP_ABORTED, "leaving a direct route was given up");
    if (now_ns() > deadline_ns) return fail(context, NP_FAILED, "libpvm does not leave its direct routes");
  }
  return had == 0 ? NP_OK : watch_again(context);
}

}  // namespace netpipe::pvm
