// SPDX-License-Identifier: Apache-2.0
// The first packet number of each pair and the Q_Key are random, so a stranger cannot send into them but by guessing.
#include "verbs_queues.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "verbs_control.h"
#include "verbs_datagrams.h"
#include "verbs_device.h"
#include "verbs_memory.h"
#include "verbs_progress.h"

namespace netpipe::verbs {
namespace {

constexpr uint32_t kDepth = 512, kLeastDepth = 64;          // of each send and receive queue
constexpr int64_t kUsualInline = 220;                       // as ib_write_lat
constexpr uint8_t kAckTimeout = 14, kFirstAckTimeout = 18;  // 4.096 us x 2^n: 67 ms, and 1.1 s until all are connected
constexpr uint8_t kRetries = 7, kForever = 7, kShortPause = 1;
constexpr uint32_t kMostReads = 16;  // outstanding ones

uint32_t random_number(uint32_t mask) {
  uint32_t number = 0;
  return getrandom(&number, sizeof number, 0) == sizeof number ? number & mask : 0;
}

ibv_qp_type pair_type(QpType type) { return type == kRc ? IBV_QPT_RC : type == kUc ? IBV_QPT_UC : IBV_QPT_UD; }

bool is_control(const np_endpoint& endpoint, const Queue& queue) {
  return endpoint.peers[static_cast<size_t>(queue.peer)].control.queue == &queue;
}

QpType type_of(const np_endpoint& endpoint, const Queue& queue) {
  return is_control(endpoint, queue) ? kRc : endpoint.set.type;
}

// ---------------------------------------------------------------------------------------------- making

ibv_qp* try_pair(np_endpoint& endpoint, QpType type, uint32_t inline_bytes, ibv_qp_init_attr& wanted) {
  wanted = ibv_qp_init_attr{};
  wanted.send_cq = wanted.recv_cq = endpoint.completions.get();
  wanted.cap.max_send_wr = endpoint.set.send_depth;
  wanted.cap.max_recv_wr = endpoint.set.receive_depth;
  wanted.cap.max_send_sge = 2;
  wanted.cap.max_recv_sge = 1;
  wanted.cap.max_inline_data = inline_bytes;
  wanted.qp_type = pair_type(type);
  return ibv_create_qp(endpoint.domain.get(), &wanted);
}

// The largest that the device takes.
uint32_t most_inline(np_endpoint& endpoint, QpType type) {
  uint32_t taken = 0, refused = kMostInline + 1;
  while (taken + 1 < refused) {
    const uint32_t middle = (taken + refused) / 2;
    ibv_qp_init_attr wanted{};
    const Held<ibv_qp, ibv_destroy_qp> pair(try_pair(endpoint, type, middle, wanted));
    (pair ? taken : refused) = middle;
  }
  return taken;
}

np_status no_pair(np_endpoint& endpoint) {
  const int error = errno;
  const np_context* context = endpoint.context;
  const int64_t asked = context->options[kInline].number;
  if (asked > 0) {
    const uint32_t most = most_inline(endpoint, endpoint.set.type);
    if (asked > most) {
      return fail(context, NP_USAGE, "verbs: inline=%lld: device %s inlines at most %u bytes",
                  static_cast<long long>(asked), ibv_get_device_name(endpoint.device->device), most);
    }
  }
  const np_status status = error == ENOMEM ? NP_NO_MEMORY : NP_FAILED;
  return fail(context, status, "verbs: device %s gives no queue pair (ibv_create_qp: %s)%s",
              ibv_get_device_name(endpoint.device->device), std::strerror(error),
              error == ENOMEM ? "; is the limit of locked memory (ulimit -l) too low, or qps too high?" : "");
}

np_status make_pair(np_endpoint& endpoint, Queue& queue, QpType type) {
  const int64_t asked = endpoint.context->options[kInline].number;
  ibv_qp_init_attr made{};
  ibv_qp* pair = nullptr;
  for (const int64_t bytes : {asked >= 0 ? asked : kUsualInline, int64_t{60}, int64_t{0}}) {
    pair = try_pair(endpoint, type, static_cast<uint32_t>(bytes), made);
    if (pair != nullptr || asked >= 0) break;
  }
  if (pair == nullptr) return no_pair(endpoint);
  queue.pair.reset(pair);
  const auto granted = static_cast<int64_t>(made.cap.max_inline_data);
  const int64_t wanted = asked >= 0 ? asked : std::min(granted, kUsualInline);
  if (asked > granted) {
    return fail(endpoint.context, NP_USAGE, "verbs: inline=%lld: device %s inlines at most %lld bytes",
                static_cast<long long>(asked), ibv_get_device_name(endpoint.device->device),
                static_cast<long long>(granted));
  }
  // Even the empty message is inlined only if any is.
  endpoint.set.inline_most = wanted == 0 ? -1 : wanted;
  queue.first_number = random_number(0xffffff);
  ibv_qp_attr first{};
  first.qp_state = IBV_QPS_INIT;
  first.port_num = endpoint.port_number;
  int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  if (type == kUd) {
    first.qkey = peer_of(endpoint, endpoint.context->rank).key;
    mask |= IBV_QP_QKEY;
  } else {
    const int reads = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    first.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | (type == kRc ? static_cast<unsigned>(reads) : 0U);
    mask |= IBV_QP_ACCESS_FLAGS;
  }
  const int error = ibv_modify_qp(pair, &first, mask);
  return error == 0 ? NP_OK : failed(endpoint, "ibv_modify_qp to INIT", error);
}

// How deep the queues can be, so that the completion queue has room for everything that can complete.
np_status choose_depths(np_endpoint& endpoint, uint64_t pairs) {
  const ibv_device_attr& most = endpoint.attributes;
  uint32_t depth = kDepth;
  while (depth > kLeastDepth &&
         (depth > static_cast<uint32_t>(most.max_qp_wr) || 2 * depth * pairs > static_cast<uint64_t>(most.max_cqe))) {
    depth /= 2;
  }
  const uint64_t signal = endpoint.set.signal;
  if (pairs > static_cast<uint64_t>(most.max_qp) || 2 * depth * pairs > static_cast<uint64_t>(most.max_cqe) ||
      2 * signal > depth || pairs >> kIndexBits != 0) {
    return fail(
        endpoint.context, NP_USAGE,
        "verbs: %llu queue pairs of this rank with signal=%llu are more than device %s carries (%d queue pairs, "
        "%d completions in a queue); ask for fewer",
        static_cast<unsigned long long>(pairs), static_cast<unsigned long long>(signal),
        ibv_get_device_name(endpoint.device->device), most.max_qp, most.max_cqe);
  }
  endpoint.set.send_depth = endpoint.set.receive_depth = depth;
  return NP_OK;
}

np_status open_completions(np_endpoint& endpoint, uint64_t pairs) {
  endpoint.domain.reset(ibv_alloc_pd(endpoint.device.get()));
  if (!endpoint.domain) return failed(endpoint, "ibv_alloc_pd", errno);
  if (endpoint.set.wait != Wait::poll) {
    endpoint.channel.reset(ibv_create_comp_channel(endpoint.device.get()));
    if (!endpoint.channel) return failed(endpoint, "ibv_create_comp_channel", errno);
  }
  const auto entries = static_cast<int>(2 * endpoint.set.send_depth * pairs);
  endpoint.completions.reset(ibv_create_cq(endpoint.device.get(), entries, nullptr, endpoint.channel.get(), 0));
  return endpoint.completions ? NP_OK : failed(endpoint, "ibv_create_cq", errno);
}

// One piece of memory for everything that is this module's own, registered once.
np_status make_room(np_endpoint& endpoint) {
  const size_t n = endpoint.peers.size(), control = kControlCells * kControlBytes;
  const auto lines = [](size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; };
  const bool flags = endpoint.set.type == kRc && endpoint.set.op == kWrite;
  const size_t flag_bytes = flags ? lines(static_cast<size_t>(endpoint.set.eager) + 8) : 0;
  const size_t words = n * kFlagCells * 2 * sizeof(uint64_t);
  plan_datagrams(endpoint);
  const size_t all = 2 * n * control + n * kFlagCells * flag_bytes + words + n * kLine +
                     endpoint.cell_count * endpoint.cell_bytes + 2 * kLine;
  endpoint.room = std::make_unique<char[]>(all + kLine);
  char* at = endpoint.room.get();
  at += (kLine - reinterpret_cast<uintptr_t>(at) % kLine) % kLine;
  for (Peer& peer : endpoint.peers) {
    peer.control.in = at;
    peer.control.out = at + control;
    at += 2 * control;
  }
  const auto part = [&at](size_t bytes) {
    char* const begin = at;
    at += bytes;
    return begin;
  };
  endpoint.flags = part(n * kFlagCells * flag_bytes);
  endpoint.credit = reinterpret_cast<volatile uint64_t*>(part(n * kLine));
  endpoint.flag_words = reinterpret_cast<uint64_t*>(part(words));
  endpoint.fetched = reinterpret_cast<uint64_t*>(part(kLine));
  endpoint.cells = part(endpoint.cell_count * endpoint.cell_bytes);
  endpoint.flag_bytes = flag_bytes;
  return register_memory(endpoint, endpoint.room.get(), all + kLine, kRemote | IBV_ACCESS_REMOTE_ATOMIC,
                         endpoint.room_memory);
}

// Whether a rank has a queue pair to itself. RDMA writes go to places that a peer has announced, and only a reliable
// connection carries the patterns that need every message.
bool reaches_itself(const Settings& set) { return set.type == kRc && set.op == kSend; }

// Its far end is the queue pair itself.
void close_loop(np_endpoint& endpoint, Queue& queue) {
  Peer& own = peer_of(endpoint, queue.peer);
  own.gid = endpoint.gid;
  own.lid = endpoint.port.lid;
  own.queues.push_back(&queue);
  queue.far_pair = queue.pair->qp_num;
  queue.far_first = queue.first_number;
}

np_status make_queues(np_endpoint& endpoint) {
  const np_context* context = endpoint.context;
  const bool shared = endpoint.set.type == kUd;
  Queue* of_all = nullptr;
  const auto add = [&](int rank, QpType type) {
    Queue& queue = endpoint.queues.emplace_back();
    queue.index = endpoint.queues.size() - 1;
    queue.peer = rank;
    return make_pair(endpoint, queue, type);
  };
  for (int rank = 0; rank < context->nranks; ++rank) {
    if (rank == context->rank) continue;
    Peer& peer = peer_of(endpoint, rank);
    if (const np_status s = add(rank, kRc); s != NP_OK) return s;
    peer.control.queue = &endpoint.queues.back();
    for (uint64_t i = 0; i < pairs_of_peer(endpoint.set); ++i) {
      if (!shared || of_all == nullptr) {
        if (const np_status s = add(rank, endpoint.set.type); s != NP_OK) return s;
        of_all = &endpoint.queues.back();
      }
      peer.queues.push_back(shared ? of_all : &endpoint.queues.back());
    }
  }
  if (!reaches_itself(endpoint.set)) return NP_OK;
  const np_status status = add(context->rank, kRc);
  if (status == NP_OK) close_loop(endpoint, endpoint.queues.back());
  return status;
}

}  // namespace

np_status open_queues(np_endpoint& endpoint) {
  const auto peers = static_cast<uint64_t>(endpoint.context->nranks - 1);
  const uint64_t to_peers = endpoint.set.type == kUd ? peers + 1 : peers * (1 + endpoint.set.qps);
  const uint64_t pairs = to_peers + (reaches_itself(endpoint.set) ? 1 : 0);
  if (const np_status s = choose_depths(endpoint, pairs); s != NP_OK) return s;
  if (const np_status s = open_completions(endpoint, pairs); s != NP_OK) return s;
  peer_of(endpoint, endpoint.context->rank).key = random_number(0x7fffffff);
  endpoint.queues.reserve(pairs);  // they are pointed to
  if (const np_status s = make_queues(endpoint); s != NP_OK) return s;
  return make_room(endpoint);
}

ibv_ah_attr way_to(const np_endpoint& endpoint, const Peer& peer) {
  ibv_ah_attr way{};
  way.port_num = endpoint.port_number;
  way.dlid = peer.lid;
  if (endpoint.gid_index >= 0) {
    way.is_global = 1;
    way.grh.dgid = peer.gid;
    way.grh.sgid_index = static_cast<uint8_t>(endpoint.gid_index);
    way.grh.hop_limit = 64;
  }
  return way;
}

np_status no_way(np_endpoint& endpoint, const char* what, int error) {
  return fail(endpoint.context, NP_FAILED, "verbs: %s to a peer: %s; is there a route between the GIDs of both ranks?",
              what, std::strerror(error));
}

// From INIT to ready to receive, and to send.
np_status bring_up(np_endpoint& endpoint, Queue& queue) {
  const QpType type = type_of(endpoint, queue);
  ibv_qp_attr a{};
  int mask = IBV_QP_STATE;
  a.qp_state = IBV_QPS_RTR;
  if (type != kUd) {
    a.path_mtu = static_cast<ibv_mtu>(endpoint.set.device_mtu);
    a.dest_qp_num = queue.far_pair;
    a.rq_psn = queue.far_first;
    a.ah_attr = way_to(endpoint, peer_of(endpoint, queue.peer));
    mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  }
  const auto reads = [](int most) { return static_cast<uint8_t>(std::clamp<int>(most, 1, kMostReads)); };
  if (type == kRc) {
    a.max_dest_rd_atomic = reads(endpoint.attributes.max_qp_rd_atom);
    a.min_rnr_timer = kShortPause;
    mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  }
  int error = ibv_modify_qp(queue.pair.get(), &a, mask);
  if (error != 0) return no_way(endpoint, "ibv_modify_qp to RTR", error);
  a = ibv_qp_attr{};
  a.qp_state = IBV_QPS_RTS;
  a.sq_psn = queue.first_number;
  mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  if (type == kRc) {
    a.timeout = is_control(endpoint, queue) ? kFirstAckTimeout : kAckTimeout;
    a.retry_cnt = kRetries;
    a.rnr_retry = kForever;
    a.max_rd_atomic = reads(endpoint.attributes.max_qp_init_rd_atom);
    mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  }
  error = ibv_modify_qp(queue.pair.get(), &a, mask);
  return error == 0 ? NP_OK : failed(endpoint, "ibv_modify_qp to RTS", error);
}

np_status renew(np_endpoint& endpoint, Queue& queue) {
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_RESET;
  int error = ibv_modify_qp(queue.pair.get(), &a, IBV_QP_STATE);
  if (error != 0) return failed(endpoint, "ibv_modify_qp to RESET", error);
  a = ibv_qp_attr{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = endpoint.port_number;
  a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  error = ibv_modify_qp(queue.pair.get(), &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  if (error != 0) return failed(endpoint, "ibv_modify_qp to INIT", error);
  queue.sent = queue.completed = queue.unsignalled = queue.posted = queue.arrived = 0;
  return bring_up(endpoint, queue);
}

np_status read_back(np_endpoint& endpoint, ibv_qp_attr& attributes) {
  const Queue* queue = nullptr;
  for (const Peer& peer : endpoint.peers) {
    if (queue == nullptr && !peer.queues.empty()) queue = peer.queues.front();
  }
  if (queue == nullptr) return fail(endpoint.context, NP_FAILED, "verbs: no queue pair was made that could be asked");
  ibv_qp_init_attr made{};
  const int mask = IBV_QP_STATE | IBV_QP_CAP | (endpoint.set.type == kUd ? 0 : IBV_QP_PATH_MTU);
  const int error = ibv_query_qp(queue->pair.get(), &attributes, mask, &made);
  if (error == 0) attributes.cap = made.cap;
  return error == 0 ? NP_OK : failed(endpoint, "ibv_query_qp", error);
}

}  // namespace netpipe::verbs
