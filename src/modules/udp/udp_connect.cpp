// SPDX-License-Identifier: Apache-2.0
#include "udp_connect.h"

#include <poll.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "udp_datagram.h"
#include "udp_options.h"
#include "udp_socket.h"

namespace netpipe::udp {

using namespace netpipe::fd_io;

namespace {

// An address: these, and behind them two bytes for each rank, the port where messages from it are expected. In the
// place of the rank itself is that of its clerk.
struct Told {
  Blob blob;
  uint8_t cast_port[2] = {};   // that this rank casts to and from; 0: it cannot
  uint8_t cast_error[2] = {};  // why: errno
  uint8_t token[8] = {};
  uint8_t cast_token[8] = {};
};
static_assert(sizeof(Told) == 40);

uint16_t read_number(const uint8_t* at) { return static_cast<uint16_t>(at[0] | at[1] << 8); }
void write_number(uint8_t* at, uint16_t number) {
  at[0] = static_cast<uint8_t>(number);
  at[1] = static_cast<uint8_t>(number >> 8);
}

constexpr int64_t kEthernet = 1472;

uint32_t payload_for(const np_context* context, const Place& own, int64_t mtu) {
  const int64_t asked = context->options[kPayload].number;
  if (asked != 0) return static_cast<uint32_t>(asked);
  const int64_t fits = mtu > 0 ? mtu - ip_headers(own) : kEthernet;
  const int64_t most = context->options[kGso].number != 0 ? kEthernet : kMostPayload;  // something to cut
  return static_cast<uint32_t>(std::clamp<int64_t>(fits, kLeastPayload, most));
}

// Datagrams of one call. The segments of one call are one IP packet until they are cut.
uint32_t batch_for(const np_context* context, uint32_t payload) {
  constexpr uint32_t kMostBytes = 256 << 10;
  const np_value* options = context->options;
  const auto asked = static_cast<uint32_t>(options[kBatch].number);
  const bool gso = options[kGso].number != 0;
  if (asked == 0 && options[kRate].number != 0 && !gso) return 1;
  const uint32_t most = (gso ? static_cast<uint32_t>(kMostPayload) : kMostBytes) / payload;
  return std::clamp<uint32_t>(std::min(asked == 0 ? uint32_t{kMostBatch} : asked, most), 1, kMostBatch);
}

// What cannot be in force with these settings on this path.
np_status check_settings(const np_context* context, const Place& own, uint32_t payload, int64_t mtu) {
  if (context->options[kGso].number == 0) return NP_OK;
  if (mtu > 0 && payload + ip_headers(own) > mtu) {
    return fail(context, NP_USAGE,
                "udp: gso=yes: datagrams of payload=%u do not fit the path's MTU of %lld bytes, and what is cut for "
                "the path is not cut again; give payload=%lld or less",
                payload, static_cast<long long>(mtu), static_cast<long long>(mtu - ip_headers(own)));
  }
  return NP_OK;
}

np_status no_answer(const np_endpoint& endpoint, int peer, const Call& call, np_status status, const char* how_long) {
  return fail(endpoint.context, status,
              "udp: no answer from rank %d at %s %s; is it alive, or does a firewall drop UDP%s in between?", peer,
              text_of(endpoint.desks[static_cast<size_t>(peer)].at).c_str(), how_long,
              call.group ? ", or a switch what goes to the group," : "");
}

// Waits for the answer of one rank to this question of this one. Late: NP_PENDING.
np_status await_answer(np_endpoint& endpoint, int peer, const Call& call, int64_t until_ns, Greeting& greeting) {
  const np_context* context = endpoint.context;
  for (;;) {
    if (*context->abort != 0) return no_answer(endpoint, peer, call, NP_ABORTED, "so far");
    const int64_t left = until_ns - now_ns();
    if (left <= 0) return NP_PENDING;
    pollfd wanted = {call.fd, POLLIN, 0};
    ::poll(&wanted, 1, static_cast<int>(std::min<int64_t>(left / 1'000'000 + 1, kAbortSliceMs)));
    std::vector<char> room(size_t{1} << 16);
    sockaddr_storage name{};
    socklen_t name_bytes = sizeof name;
    const ssize_t got =
        ::recvfrom(call.fd, room.data(), room.size(), MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&name), &name_bytes);
    if (got < static_cast<ssize_t>(sizeof(Header)) || !call.from.same(name)) continue;
    room.resize(static_cast<size_t>(got));
    Answer answer;
    std::memcpy(&answer, room.data(), std::min(room.size(), sizeof answer));
    const Header said = in_order(answer.header);
    if (said.token != call.token) continue;
    if (said.index <= kMostIndex && call.early != nullptr) call.early->push_back(std::move(room));
    if (said.index != kAnswer || got != sizeof answer) continue;
    if (le32toh(answer.asker) != static_cast<uint32_t>(context->rank)) continue;
    const int64_t took = now_ns() - static_cast<int64_t>(said.stamp);
    if (took < 0 || took > context->timeout_ns) continue;
    greeting.payload = le32toh(answer.payload);
    if (greeting.payload < kLeastPayload || greeting.payload > kMostPayload) {
      return fail(context, NP_FAILED, "udp: rank %d sends datagrams of %u bytes, which cannot be", peer,
                  greeting.payload);
    }
    greeting.rtt_ns = took;
    return NP_OK;
  }
}

np_status read_addresses(np_endpoint& endpoint, const void* const* addresses, const size_t* bytes) {
  const np_context* context = endpoint.context;
  const auto nranks = static_cast<size_t>(context->nranks), rank = static_cast<size_t>(context->rank);
  endpoint.desks.resize(nranks);
  for (size_t p = 0; p < nranks; ++p) {
    Told told;
    Place place;
    if (bytes[p] != sizeof told + 2 * nranks) {
      return fail(context, NP_FAILED, "udp: the address of rank %zu is malformed", p);
    }
    std::memcpy(&told, addresses[p], sizeof told);
    if (!read_blob(told.blob, endpoint.own, place)) {
      return fail(context, NP_FAILED, "udp: the address of rank %zu is none of this rank's IP version", p);
    }
    const auto port_of = [&](size_t which) {
      return read_number(static_cast<const uint8_t*>(addresses[p]) + sizeof told + 2 * which);
    };
    Desk& desk = endpoint.desks[p];
    desk.fd = endpoint.desk.get();
    desk.at = place;
    desk.at.set_port(port_of(p));
    std::memcpy(&desk.token, told.token, sizeof desk.token);
    if (p == rank) continue;
    Casts::Source& source = endpoint.casts.sources[p];
    source.port = read_number(told.cast_port);
    source.error = read_number(told.cast_error);
    std::memcpy(&source.token, told.cast_token, sizeof source.token);
    Way& way = endpoint.links[p].way;
    way.to = way.from = place;
    if (endpoint.group.bytes != 0) way.to = endpoint.group;
    way.to.set_port(port_of(rank));
    way.from.set_port(port_of(rank));
  }
  return NP_OK;
}

// The way to one rank, and what leaves on it.
np_status make_way(np_endpoint& endpoint, int peer) {
  const np_context* context = endpoint.context;
  np_endpoint::Link& link = endpoint.links[static_cast<size_t>(peer)];
  Way way = way_of(context, peer, link.fd);
  way.to = link.way.to;
  way.from = link.way.from;
  link.way = way;
  if (way.connected && ::connect(way.fd, way.to.name(), way.to.bytes) != 0) {
    return fail(context, NP_FAILED, "udp: connecting to rank %d at %s: %s", peer, text_of(way.to).c_str(),
                std::strerror(errno));
  }
  link.mtu = path_mtu(endpoint.own, way.from);
  return make_outbox(endpoint, link.way, endpoint.desks[static_cast<size_t>(peer)].token, link.mtu, link.out);
}

std::vector<Asker> askers_of(const np_endpoint& endpoint) {
  std::vector<Asker> askers(endpoint.links.size());
  for (size_t p = 0; p < askers.size(); ++p) {
    const np_endpoint::Link& link = endpoint.links[p];
    if (!link.out) continue;
    askers[p] = {link.fd.get(),
                 link.way.connected ? nullptr : &link.way.to.at,
                 link.way.connected ? 0 : link.way.to.bytes,
                 endpoint.desks[p].token,
                 link.out->payload(),
                 &link.out->departed()};
  }
  return askers;
}

}  // namespace

np_status greet(np_endpoint& endpoint, int peer, const Call& call, int64_t deadline_ns, Greeting& greeting) {
  constexpr int64_t kFirstPause = 5'000'000, kLongestPause = 100'000'000;
  constexpr int kAnswers = 4;  // the first one wakes a thread that has just begun
  const np_context* context = endpoint.context;
  const Desk& desk = endpoint.desks[static_cast<size_t>(peer)];
  int error = 0, answers = 0;
  int64_t pause = kFirstPause;
  for (int64_t now = now_ns(); now < deadline_ns; now = now_ns(), pause = std::min(2 * pause, kLongestPause)) {
    const Header question =
        header_of(desk.token, static_cast<uint32_t>(context->rank), call.question, static_cast<uint64_t>(now));
    if (::sendto(endpoint.desk.get(), &question, sizeof question, MSG_DONTWAIT | MSG_NOSIGNAL, desk.at.name(),
                 desk.at.bytes) < 0) {
      error = errno;
    }
    Greeting one;
    const np_status s = await_answer(endpoint, peer, call, std::min(now + pause, deadline_ns), one);
    if (s == NP_PENDING) continue;
    if (s != NP_OK) return s;
    if (answers > 0) one.rtt_ns = std::min(one.rtt_ns, greeting.rtt_ns);
    greeting = one;
    if (++answers == kAnswers) return NP_OK;
  }
  const std::string refused = error == 0 ? "" : std::string(" (sending: ") + std::strerror(error) + ")";
  return no_answer(endpoint, peer, call, call.silent, ("in time" + refused).c_str());
}

Way way_of(const np_context* context, int peer, const Fd& fd) {
  const np_value* options = context->options;
  Way way;
  way.context = context;
  way.peer = peer;
  way.fd = fd.get();
  way.connected = options[kConnected].number != 0;
  way.wait = static_cast<Wait>(options[kWait].number);
  way.spin_ns = options[kSpin].number * 1000;
  way.gso = options[kGso].number != 0;
  way.gro = options[kGro].number != 0;
  return way;
}

np_status make_outbox(const np_endpoint& endpoint, Way& way, uint64_t token, int64_t mtu,
                      std::unique_ptr<Outbox>& out) {
  const np_context* context = endpoint.context;
  const uint32_t payload = payload_for(context, endpoint.own, mtu);
  if (const np_status s = check_settings(context, endpoint.own, payload, mtu); s != NP_OK) return s;
  way.batch = batch_for(context, payload);
  const double rate = static_cast<double>(context->options[kRate].number) * 1e6 / 8;
  out = std::make_unique<Outbox>(way, token, payload, rate);
  return way.gso ? out->try_segments() : NP_OK;
}

std::unique_ptr<Inbox> make_inbox(np_endpoint& endpoint, Way way, const Call& call, const Greeting& greeting) {
  const np_context* context = endpoint.context;
  Inbox::Setting setting;
  setting.token = call.token;
  setting.payload = greeting.payload;
  setting.max_bytes = context->max_bytes;
  setting.reorder = static_cast<uint32_t>(context->options[kReorder].number);
  setting.rtt_ns = greeting.rtt_ns;
  setting.desk = endpoint.desks[static_cast<size_t>(way.peer)];
  setting.question = call.question;
  setting.clerk = &endpoint.clerk;
  if (call.early != nullptr) setting.early = std::move(*call.early);
  way.fd = call.fd;
  way.batch = std::max(batch_for(context, setting.payload), uint32_t{1});
  return std::make_unique<Inbox>(way, setting);
}

np_status open_sockets(np_endpoint& endpoint) {
  const np_context* context = endpoint.context;
  if (const np_status s = own_address(context, endpoint.own); s != NP_OK) return s;
  if (const np_status s = group_address(context, endpoint.own, endpoint.group); s != NP_OK) return s;
  if (getrandom(&endpoint.token, sizeof endpoint.token, 0) != sizeof endpoint.token) {
    return fail(context, NP_FAILED, "udp: getrandom: %s", std::strerror(errno));
  }
  for (int peer = 0; peer < context->nranks; ++peer) {
    const int64_t index = int64_t{context->rank} * context->nranks + peer;
    const bool own = peer == context->rank;
    np_endpoint::Link& link = endpoint.links[static_cast<size_t>(peer)];
    Place& at = own ? endpoint.desk_at : link.own;
    at = endpoint.own;
    if (const np_status s = make_socket(context, at, index, own, own ? endpoint.desk : link.fd); s != NP_OK) return s;
    if (own || endpoint.group.bytes == 0) continue;
    if (const np_status s = send_to_group(context, link.fd, endpoint.own, endpoint.group); s != NP_OK) return s;
    const uint16_t port = at.port();
    at = endpoint.group;
    at.set_port(port);
    if (const np_status s = listen_in_group(context, at, endpoint.own, link.group_fd); s != NP_OK) return s;
  }
  return open_casts(endpoint);
}

np_status write_address(np_endpoint& endpoint, void* data, size_t* bytes) {
  const size_t ranks = endpoint.links.size();
  const size_t whole = sizeof(Told) + 2 * ranks;
  if (*bytes < whole) {
    return fail(endpoint.context, NP_FAILED, "udp: no room for an address of %zu bytes: too many ranks", whole);
  }
  Told told;
  told.blob = blob_of(endpoint.own);
  std::memcpy(told.token, &endpoint.token, sizeof told.token);
  std::memcpy(told.cast_token, &endpoint.casts.token, sizeof told.cast_token);
  if (endpoint.casts.fd) write_number(told.cast_port, endpoint.casts.group.port());
  write_number(told.cast_error, static_cast<uint16_t>(endpoint.casts.error));
  std::memcpy(data, &told, sizeof told);
  auto* ports = static_cast<uint8_t*>(data) + sizeof told;
  for (size_t p = 0; p < ranks; ++p) {
    const bool own = static_cast<int>(p) == endpoint.context->rank;
    write_number(ports + 2 * p, (own ? endpoint.desk_at : endpoint.links[p].own).port());
  }
  *bytes = whole;
  return NP_OK;
}

np_status connect_all(np_endpoint& endpoint, const void* const* addresses, const size_t* bytes) {
  const np_context* context = endpoint.context;
  const int64_t deadline_ns = now_ns() + context->timeout_ns;
  if (const np_status s = read_addresses(endpoint, addresses, bytes); s != NP_OK) return s;
  for (int peer = 0; peer < context->nranks; ++peer) {
    if (peer == context->rank) continue;
    if (const np_status s = make_way(endpoint, peer); s != NP_OK) return s;
  }
  if (const np_status s = connect_casts(endpoint); s != NP_OK) return s;
  const np_status started =
      endpoint.clerk.start(context, endpoint.desk.get(), endpoint.token, askers_of(endpoint), cast_asker(endpoint));
  if (started != NP_OK) return started;
  for (int peer = 0; peer < context->nranks; ++peer) {
    if (peer == context->rank) continue;
    np_endpoint::Link& link = endpoint.links[static_cast<size_t>(peer)];
    const Call call{.fd = link.incoming().get(),
                    .from = link.way.from,
                    .token = endpoint.token,
                    .group = endpoint.group.bytes != 0,
                    .early = &link.early};
    Greeting greeting;
    if (const np_status s = greet(endpoint, peer, call, deadline_ns, greeting); s != NP_OK) return s;
    link.rtt_ns = greeting.rtt_ns;
    link.in = make_inbox(endpoint, link.way, call, greeting);
  }
  return NP_OK;
}

}  // namespace netpipe::udp
