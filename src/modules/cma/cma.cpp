// SPDX-License-Identifier: Apache-2.0
// cma: the kernel copies a message from one process into another, once (process_vm_readv and process_vm_writev, "cross
// memory attach"). This is what MPI libraries do for large messages between processes of a host. Ranks tell each other
// through shared memory where a message is and when it was copied (cma_segment.h); no byte of it goes that way.
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cma_endpoint.h"
#include "cma_one_sided.h"
#include "cma_options.h"

namespace netpipe::cma {
namespace {

using namespace netpipe::fd_io;

// kernel.yama.ptrace_scope: who may reach the memory of others of the same user. -1: this kernel has no such limit.
int ptrace_scope() {
  int scope = -1;
  std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> scope;
  return scope;
}

const char* const kRemedy =
    "set kernel.yama.ptrace_scope to 1 or 0 (sysctl), or give the container CAP_SYS_PTRACE or another seccomp profile";

np_status probe(char* message, size_t message_bytes) {
  uint64_t from = kMagic, to = 0;
  const int error = copy(Way::read, ::getpid(), &to, reinterpret_cast<uint64_t>(&from), sizeof to);
  const int scope = ptrace_scope();
  if (error == 0 && to == kMagic && (scope < 2 || (scope == 2 && ::geteuid() == 0))) return NP_OK;
  if (error != 0) {
    std::snprintf(message, message_bytes, "process_vm_readv: %s; %s", std::strerror(error),
                  error == ENOSYS ? "this kernel was built without CONFIG_CROSS_MEMORY_ATTACH" : kRemedy);
  } else {
    std::snprintf(message, message_bytes,
                  "kernel.yama.ptrace_scope is %d, so processes may not reach each other's memory; %s", scope, kRemedy);
  }
  return NP_UNAVAILABLE;
}

np_status open(const np_context* context, np_endpoint** endpoint) {
  try {
    auto made = std::make_unique<np_endpoint>(context);
    if (const np_status s = made->meeting.open(context, SOCK_STREAM); s != NP_OK) return s;
    *endpoint = made.release();
    return NP_OK;
  } catch (const std::exception&) {
    return fail(context, NP_NO_MEMORY, "cma: no memory for an endpoint");
  }
}

// A descriptor to another process, or from it.
np_status hand_over(const np_context* context, int socket, int fd) {
  char byte = 'm';
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr call{};
  call.msg_iov = &part;
  call.msg_iovlen = 1;
  call.msg_control = control;
  call.msg_controllen = sizeof control;
  cmsghdr* const head = CMSG_FIRSTHDR(&call);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(head), &fd, sizeof fd);
  if (::sendmsg(socket, &call, MSG_NOSIGNAL) == 1) return NP_OK;
  return fail(context, NP_FAILED, "cma: cannot hand over shared memory: %s", std::strerror(errno));
}

np_status take_over(const np_context* context, int socket, int64_t deadline_ns, Fd& fd) {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr call{};
  call.msg_iov = &part;
  call.msg_iovlen = 1;
  call.msg_control = control;
  call.msg_controllen = sizeof control;
  for (;;) {
    pollfd wanted = {socket, POLLIN, 0};
    const np_status s = poll_slice(context, &wanted, 1, deadline_ns, "cma: waiting for the shared memory of rank 0", 0);
    if (s != NP_OK) return s;
    if (wanted.revents == 0) continue;
    const ssize_t got = ::recvmsg(socket, &call, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    const cmsghdr* const head = got == 1 ? CMSG_FIRSTHDR(&call) : nullptr;
    if (head == nullptr || head->cmsg_type != SCM_RIGHTS) {
      return fail(context, NP_PEER_LOST, "cma: rank 0 has gone, or handed over no memory; its own error says why");
    }
    int taken = -1;
    std::memcpy(&taken, CMSG_DATA(head), sizeof taken);
    fd = Fd(taken);
    return NP_OK;
  }
}

// Collective: all ranks have come to this step.
np_status meet(np_endpoint& e, uint64_t step, int64_t deadline_ns) {
  const np_context* context = e.context;
  e.segment.member(context->rank).steps.store(step, std::memory_order_release);
  for (const Link& with : e.links) {
    if (with.peer < 0) continue;
    while (with.member->steps.load(std::memory_order_acquire) < step) {
      pollfd ended{with.fd.get(), POLLRDHUP, 0};
      ::poll(&ended, 1, 1);
      if (*context->abort != 0) return fail(context, NP_ABORTED, "cma: connecting to rank %d was given up", with.peer);
      if (ended.revents != 0 && with.member->steps.load(std::memory_order_acquire) < step) {
        return fail(context, NP_PEER_LOST, "cma: rank %d has gone; its own error says why", with.peer);
      }
      if (now_ns() > deadline_ns) {
        return fail(context, NP_FAILED, "cma: rank %d did not connect within %.1f s", with.peer,
                    static_cast<double>(context->timeout_ns) * 1e-9);
      }
    }
  }
  return NP_OK;
}

np_status bind_links(np_endpoint& e, std::vector<Fd>& joined) {
  const np_context* context = e.context;
  for (int peer = 0; peer < context->nranks; ++peer) {
    if (peer == context->rank) continue;
    Link& with = e.link(peer);
    with.fd = std::move(joined[static_cast<size_t>(peer)]);
    ucred who{};
    socklen_t bytes = sizeof who;
    if (getsockopt(with.fd.get(), SOL_SOCKET, SO_PEERCRED, &who, &bytes) != 0 || who.pid <= 0) {
      return fail(context, NP_UNAVAILABLE,
                  "cma: the kernel does not say which process rank %d is; are the ranks in "
                  "different process namespaces?",
                  peer);
    }
    with.peer = peer;
    with.pid = who.pid;
  }
  return NP_OK;
}

// Whether the kernel lets this process reach the memory of all others.
np_status try_all(np_endpoint& e) {
  for (const Link& with : e.links) {
    if (with.peer < 0) continue;
    uint64_t word = 0;
    const int error = copy(Way::read, with.pid, &word, with.member->probe_address, sizeof word);
    if (error != 0 || word != kMagic) {
      return fail(e.context, NP_UNAVAILABLE,
                  "cma: the kernel does not let rank %d read the memory of rank %d (process "
                  "%d): %s; %s",
                  e.context->rank, with.peer, with.pid,
                  error != 0 ? std::strerror(error) : "it found something else there", kRemedy);
    }
  }
  return NP_OK;
}

np_status join(np_endpoint& e, const void* const* addresses, const size_t* bytes) {
  const np_context* context = e.context;
  const int64_t deadline_ns = now_ns() + context->timeout_ns;
  std::vector<Fd> joined;
  if (const np_status s = e.meeting.connect(addresses, bytes, joined); s != NP_OK) return s;
  if (const np_status s = bind_links(e, joined); s != NP_OK) return s;
#ifdef PR_SET_PTRACER
  // Under Yama's scope 1 only a process that was named may: of two ranks the other, of more rank 0 and what it forked.
  const pid_t named =
      context->nranks == 2 ? e.link(1 - context->rank).pid : (context->rank == 0 ? ::getpid() : e.link(0).pid);
  prctl(PR_SET_PTRACER, named, 0, 0, 0);
#endif
  Fd memory;
  if (context->rank != 0) {
    if (const np_status s = take_over(context, e.link(0).fd.get(), deadline_ns, memory); s != NP_OK) return s;
  }
  if (!e.segment.map(static_cast<uint32_t>(context->nranks), memory)) {
    return fail(context, NP_NO_MEMORY, "cma: shared memory: %s", std::strerror(errno));
  }
  for (Link& with : e.links) {
    if (with.peer < 0) continue;
    with.member = &e.segment.member(with.peer);
    with.out = &e.segment.lane(context->rank, with.peer);
    with.in = &e.segment.lane(with.peer, context->rank);
    if (context->rank != 0) continue;
    if (const np_status s = hand_over(context, with.fd.get(), memory.get()); s != NP_OK) return s;
  }
  Member& own = e.segment.member(context->rank);
  own.probe_address = reinterpret_cast<uint64_t>(&e.probe);
  e.waiter.bind(context, static_cast<Wait>(context->options[kWait].number), context->options[kSpin].number * 1000,
                &own);
  if (const np_status s = meet(e, 1, deadline_ns); s != NP_OK) return s;
  if (const np_status s = try_all(e); s != NP_OK) return s;
  return meet(e, 2, deadline_ns);
}

np_status connect(np_endpoint* e, const void* const* addresses, const size_t* bytes) {
  try {
    return join(*e, addresses, bytes);
  } catch (const std::exception&) {
    return fail(e->context, NP_NO_MEMORY, "cma: no memory for connections");
  }
}

void describe(np_endpoint* e, np_emit emit, void* to) {
  const np_value* options = e->context->options;
  describe_waiting(options[kWait], options[kSpin], e->context->oversubscribed != 0, emit, to);
  np_emit_text(emit, to, "direction", options[kDirection].text);
  np_emit_text(emit, to, "messages_by", e->way == Way::read ? "process_vm_readv" : "process_vm_writev");
  const int scope = ptrace_scope();
  np_emit_text(emit, to, "ptrace_scope", scope < 0 ? "none" : std::to_string(scope).c_str());
}

enum Counted { kCopies, kSleeps, kWakes, kCounted };
constexpr np_counter kCounters[kCounted] = {
    {"copies", "1", "calls in which the kernel copied between processes", NP_COUNTS_UP},
    {"sleeps", "1", "waits that ended in sleep", NP_COUNTS_UP},
    {"wakes", "1", "times that this rank woke another one", NP_COUNTS_UP},
};
void read_counters(np_endpoint* e, int64_t* values) {
  values[kCopies] = static_cast<int64_t>(e->copies);
  values[kSleeps] = static_cast<int64_t>(e->waiter.sleeps());
  values[kWakes] = static_cast<int64_t>(e->waiter.wakes());
}

np_status send(np_endpoint* e, int peer, const void* data, size_t bytes) { return e->send(peer, data, bytes); }
np_status recv(np_endpoint* e, int peer, void* data, size_t bytes) { return e->recv(peer, data, bytes); }
np_status start_all(np_endpoint* e, int peer, bool sends, char* data, size_t stride, size_t bytes, np_request* requests,
                    size_t count) {
  np_status status = NP_OK;
  for (size_t i = 0; i < count && status == NP_OK; ++i) {
    status = e->start(peer, sends, data + i * stride, bytes, &requests[i]);
  }
  return status;
}
np_status isend(np_endpoint* e, int peer, const void* data, size_t stride, size_t bytes, np_request* requests,
                size_t count) {
  return start_all(e, peer, true, const_cast<char*>(static_cast<const char*>(data)), stride, bytes, requests, count);
}
np_status irecv(np_endpoint* e, int peer, void* data, size_t stride, size_t bytes, np_request* requests, size_t count) {
  return start_all(e, peer, false, static_cast<char*>(data), stride, bytes, requests, count);
}
constexpr np_messages kMessages = {
    .size = sizeof(np_messages), .send = send, .recv = recv, .isend = isend, .irecv = irecv};

np_status wait(np_endpoint* e, np_request* requests, size_t count) {
  np_status status = NP_OK;
  for (size_t i = 0; i < count && status == NP_OK; ++i) status = e->finish(&requests[i]);
  return status;
}

}  // namespace
}  // namespace netpipe::cma

extern "C" __attribute__((visibility("default"))) const np_module* netpipe_module(void) {
  using namespace netpipe::cma;  // NOLINT(google-build-using-namespace): its table
  static const np_module module = {
      .magic = NP_MAGIC,
      .abi = NP_ABI,
      .size = sizeof(np_module),
      .name = "cma",
      .summary = "one copy by the kernel between processes of one host",
      .version = netpipe::fd_io::kernel_version(),
      .below = "memcpy",
      .adds = "copy by the kernel",
      .options = kTable,
      .noptions = kOptions,
      .option_bytes = sizeof(np_option),
      .counters = kCounters,
      .ncounters = kCounted,
      .counter_bytes = sizeof(np_counter),
      .process_model = NP_FORKED,
      .min_ranks = 2,
      .max_ranks = INT32_MAX,
      .messages = &kMessages,
      .one_sided = &kOneSided,
      .probe = probe,
      .open = open,
      .close = [](np_endpoint* e) { delete e; },
      .address = [](np_endpoint* e, void* data, size_t* bytes) { return e->meeting.address(data, bytes); },
      .connect = connect,
      .limits =
          [](np_endpoint*, np_limits* limits) {
            limits->empty = 1;
            return NP_OK;
          },
      .wait = wait,
      .test = [](np_endpoint* e, np_request* request) { return e->look(request); },
      .barrier = [](np_endpoint* e) { return e->barrier(); },
      .describe = describe,
      .read_counters = read_counters,
  };
  return &module;
}
