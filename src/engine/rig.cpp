// SPDX-License-Identifier: Apache-2.0
#include "engine/rig.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>

#include "base/text.h"
#include "engine/facts.h"
#include "engine/verify.h"
#include "engine/watchdog.h"
#include "record/json.h"

namespace netpipe {
namespace {

// What it cost to open a variant, as fields; nothing is known where the ranks are one process.
void add_cost(Json& json, const Cost& cost, bool known) {
  const bool memory = known && cost.memory;
  const auto bytes = [&](const char* name, std::int64_t value) {
    memory ? json.field(name, value) : json.field_null(name);
  };
  const Footprint grown = cost.memory.value_or(Footprint{});
  bytes("resident_bytes", grown.resident_bytes);
  bytes("private_bytes", grown.private_bytes);
  bytes("pinned_bytes", grown.pinned_bytes);
  known ? json.field("open_s", static_cast<double>(cost.ns) * 1e-9) : json.field_null("open_s");
}

// One rank's part of an Opening as a text: its limits, the layer below, its settings, a line each.
std::string facts_text(const np_limits& limits, const std::string& below, const std::string& settings) {
  return std::to_string(limits.max_message_bytes) + " " + std::to_string(limits.delivers) + " " +
         std::to_string(limits.idle) + "\n" + below + "\n" + settings;
}

// by_rank: whose text is rank r's.
Opening opening_of(const std::vector<std::string>& texts, const std::vector<int>& by_rank) {
  Opening opening;
  opening.nranks = static_cast<int>(by_rank.size());
  for (const int member : by_rank) {
    const std::string& text = texts[static_cast<std::size_t>(member)];
    const auto first = text.find('\n');
    const auto second = text.find('\n', first + 1);
    if (opening.settings.empty()) {
      const std::vector<std::string> numbers = split(text.substr(0, first), ' ');
      const auto number = [&](std::size_t i) {
        const Result<std::int64_t> value = parse_integer(i < numbers.size() ? numbers[i] : "0");
        return value ? *value : 0;
      };
      opening.limits.max_message_bytes = static_cast<std::uint64_t>(number(0));
      opening.limits.delivers = static_cast<std::uint32_t>(number(1));
      opening.limits.idle = static_cast<std::uint32_t>(number(2));
      opening.below = text.substr(first + 1, second - first - 1);
    }
    opening.settings.push_back(text.substr(second + 1));
  }
  return opening;
}

Exit exit_of(np_status status) {
  switch (status) {
    case NP_USAGE: return Exit::usage;
    case NP_UNAVAILABLE:
    case NP_UNSUPPORTED: return Exit::unavailable;
    default: return Exit::failed;
  }
}

// Does a mode of this plan reach into the memory of another rank of this module?
bool one_sided(const Resolved& resolved, const Layer& module) {
  return module.expose != nullptr && std::any_of(resolved.modes.begin(), resolved.modes.end(),
                                                 [](const Mode& mode) { return mode.pattern->reach != NP_REACH_NONE; });
}

// What a peer has to know of a region that was exposed: where it is, and its key.
void append_key(std::string& text, const np_region& region) {
  const std::uint64_t base = reinterpret_cast<std::uintptr_t>(region.base);
  const std::uint32_t key_bytes = std::min<std::uint32_t>(region.key_bytes, NP_KEY_BYTES);
  text.append(reinterpret_cast<const char*>(&base), sizeof base);
  text.append(reinterpret_cast<const char*>(&region.bytes), sizeof region.bytes);
  text.append(reinterpret_cast<const char*>(&key_bytes), sizeof key_bytes);
  text.append(reinterpret_cast<const char*>(region.key), key_bytes);
}

// The regions of which a peer's text tells; none where it is no such text.
std::vector<np_region> regions_in(std::string_view text) {
  std::vector<np_region> regions;
  const auto take = [&text](void* to, std::size_t bytes) {
    if (text.size() < bytes) return false;
    std::memcpy(to, text.data(), bytes);
    text.remove_prefix(bytes);
    return true;
  };
  while (!text.empty()) {
    np_region region{};
    std::uint64_t base = 0;
    const bool whole = take(&base, sizeof base) && take(&region.bytes, sizeof region.bytes) &&
                       take(&region.key_bytes, sizeof region.key_bytes) && region.key_bytes <= NP_KEY_BYTES &&
                       take(region.key, region.key_bytes);
    if (!whole) return {};
    region.base = reinterpret_cast<void*>(base);  // NOLINT(performance-no-int-to-ptr): of another process
    regions.push_back(region);
  }
  return regions;
}

const char* meaning(np_status status) {
  switch (status) {
    case NP_PEER_LOST: return "the other side has gone";
    case NP_ABORTED: return "it was stopped";
    case NP_NO_MEMORY: return "there is not enough memory";
    case NP_UNSUPPORTED: return "it has no operation for this, with these options";
    default: return "it failed";
  }
}

}  // namespace

Result<Placement> place_ranks(const std::vector<std::string>& texts, const std::string& module) {
  const std::size_t members = texts.size() - 1;
  Placement placement;
  placement.by_rank.assign(members, -1);
  placement.hosts.assign(members, "");
  for (std::size_t member = 1; member < texts.size(); ++member) {
    const std::vector<std::string> words = split(texts[member], ' ');
    const Result<std::int64_t> rank = parse_integer(words[0]);
    const Result<std::int64_t> size = parse_integer(words.size() > 2 ? words[1] : "");
    if (!rank || !size) return failed("a process of " + module + " did not say which rank it is");
    if (*size == 1 && members > 1) {
      return usage("each of the " + std::to_string(members) + " processes of " + module +
                   " believes that it is alone: the launcher that started them belongs to another library; see "
                   "netpipe modules for the one that was added with it");
    }
    const auto place = static_cast<std::size_t>(*rank);
    if (*rank < 0 || place >= members || static_cast<std::size_t>(*size) != members || placement.by_rank[place] >= 0) {
      return failed("the " + std::to_string(members) + " processes of " + module +
                    " do not fit together: one is rank " + std::to_string(*rank) + " of " + std::to_string(*size));
    }
    placement.by_rank[place] = static_cast<int>(member);
    placement.hosts[place] = words[2];
  }
  return placement;
}

Result<Opening> open_job(Group& group, const Plan& plan, const Resolved& resolved, const Layer& module,
                         Placement& placement) {
  // The job's own watchdogs end before this one.
  const auto deadline = static_cast<std::int64_t>(plan.timeout_s * 1e9) + 2 * Watchdog::grace_ns;
  const auto agree = [&](bool for_root) {
    Watchdog::arm(deadline, nullptr, {}, -1);
    Result<std::vector<std::string>> all = for_root ? group.agree_for_root(std::string()) : group.agree(std::string());
    Watchdog::disarm();
    return all;
  };
  const Result<std::vector<std::string>> texts = agree(false);
  if (!texts) return texts.failure();
  Result<Placement> placed = place_ranks(*texts, module.name);
  if (!placed) return placed.failure();
  placement = std::move(*placed);
  Result<std::vector<std::string>> facts = agree(true);
  if (!facts) return facts.failure();
  if (one_sided(resolved, module)) {
    if (const auto keys = agree(false); !keys) return keys.failure();
    facts = agree(true);
    if (!facts) return facts.failure();
  }
  return opening_of(*facts, placement.by_rank);
}

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

// One variant on this rank.
struct Rig::Opened {
  const Layer* module = nullptr;
  np_context context{};
  std::string job;
  np_endpoint* endpoint = nullptr;
  np_limits limits{};
  np_bootstrap bootstrap{};  // of a library with a launcher
  Cost cost;                 // of opening it
  std::shared_ptr<BufferPool> pool;
  std::vector<int> members;      // by rank: whom of the group it is
  std::vector<bool> far;         // by rank: its clock is not that of rank 0
  std::vector<np_region> own;    // exposed: the incoming half and the outgoing half
  std::vector<np_region> peers;  // the same of the mirrored rank
  std::string unreachable;       // why there are none

  Opened() = default;
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  ~Opened() {
    for (np_region& region : peers) module->withdraw(endpoint, &region);
    for (np_region& region : own) module->withdraw(endpoint, &region);
    pool.reset();
    if (endpoint != nullptr) module->close(endpoint);
  }
};

Rig::Rig(RigSetting setting) : set_(std::move(setting)), opened_(set_.resolved->variants.size()) {}

Rig::~Rig() = default;

int Rig::ranks(std::uint32_t variant) const {
  return ranks_of(*set_.resolved->variants[variant].module, set_.plan->ranks);
}

bool Rig::takes_part(std::uint32_t variant) const {
  return launched(*set_.resolved->variants[variant].module) || set_.group->rank() < ranks(variant);
}

MemoryUse Rig::memory() const {
  return {most_resident_bytes() / static_cast<std::uint64_t>(set_.ranks_here), most_buffer_bytes_};
}

Failure Rig::fault(const Layer& module, const char* step, np_status status) const {
  const std::string detail = message_[0] != '\0' ? message_.data() : meaning(status);
  return {exit_of(status), std::string("module ") + module.name + ", " + step + ": " + detail};
}

std::string Rig::error_line(const Command& command, const std::string& sentence) const {
  const auto& one = opened_[command.variant];
  if (set_.settle) {  // to the launcher of this job, which the conductor quotes
    const std::string who = one && one->context.rank >= 0 ? "rank " + std::to_string(one->context.rank) : "a process";
    return "netpipe-worker: " + who +
           (command.size_bytes != 0 ? ", " + std::to_string(command.size_bytes) + " bytes" : "") + ": " + sentence +
           "\n";
  }
  Json json;
  json.open('{').field("type", "error").field("launch", set_.plan->launch);
  json.field("variant", set_.resolved->variants[command.variant].name);
  if (command.verb == Verb::visit) {
    json.field("pattern", set_.resolved->modes[command.pattern].name).field("size_bytes", command.size_bytes);
  } else {
    json.field_null("pattern").field_null("size_bytes");
  }
  json.field("rank", one ? one->context.rank : set_.group->rank()).field("host", host_name());
  json.field("code", static_cast<int>(Exit::failed));
  json.field("message", sentence).close('}');
  return json.take() + "\n";
}

Result<std::string> Rig::open_here(std::uint32_t index) {
  const Variant& variant = set_.resolved->variants[index];
  const Layer& module = *variant.module;
  auto one = std::make_unique<Opened>();
  one->module = &module;
  if (launched(module)) one->cost = set_.loading;
  const Meter meter(set_.ranks_here);
  one->job = set_.job + "-" + std::to_string(index);
  np_context& c = one->context;
  c.size = sizeof c;
  c.rank = launched(module) ? -1 : set_.group->rank();  // the library says which
  c.nranks = launched(module) ? 0 : ranks(index);
  c.options = variant.values.data();
  c.max_bytes = set_.resolved->sizes.back();
  c.abort = Watchdog::abort_flag();
  c.message = message_.data();
  c.message_bytes = message_.size();
  c.local_address = set_.local_address.c_str();
  c.job = one->job.c_str();
  c.timeout_ns = static_cast<std::int64_t>(set_.plan->timeout_s * 1e9);
  c.oversubscribed = set_.oversubscribed ? 1 : 0;
  c.threads = c.rails = 1;
  c.rail_addresses = &c.local_address;
  message_[0] = '\0';
  if (const std::string reason = probe_reason(module); !reason.empty()) {
    return unavailable(std::string("module ") + module.name + " cannot be used here: " + reason);
  }
  if (const np_status status = module.open(&c, &one->endpoint); status != NP_OK) {
    one->endpoint = nullptr;
    return fault(module, "opening", status);
  }
  std::string address;
  if (launched(module)) {
    np_bootstrap& bootstrap = one->bootstrap;
    bootstrap.size = sizeof bootstrap;
    if (const np_status status = module.bootstrap(one->endpoint, &bootstrap); status != NP_OK) {
      return fault(module, "its ranks", status);
    }
    c.rank = bootstrap.rank;
    c.nranks = bootstrap.nranks;
    address = std::to_string(c.rank) + " " + std::to_string(c.nranks) + " " + host_name();
  } else if (module.address != nullptr) {
    address.resize(4096);
    std::size_t bytes = address.size();
    if (const np_status status = module.address(one->endpoint, address.data(), &bytes); status != NP_OK) {
      return fault(module, "its address", status);
    }
    address.resize(std::min(bytes, address.size()));
  }
  for (int rank = 0; rank < c.nranks; ++rank) {
    if (launched(module)) break;  // the library says who is where: settle_here
    one->members.push_back(rank);
    one->far.push_back(rank > 0 && set_.arena == nullptr);
  }
  one->cost += meter.spent();
  opened_[index] = std::move(one);
  return address;
}

Outcome Rig::connect_here(std::uint32_t index, const std::vector<std::string>& addresses) {
  Opened& one = *opened_[index];
  if (one.module->connect == nullptr || one.context.nranks == 1) return ok();
  std::vector<const void*> data;
  std::vector<std::size_t> bytes;
  for (const std::string& address : addresses) {
    data.push_back(address.data());
    bytes.push_back(address.size());
  }
  message_[0] = '\0';
  const Meter meter(set_.ranks_here);
  const np_status status = one.module->connect(one.endpoint, data.data(), bytes.data());
  one.cost += meter.spent();
  if (status != NP_OK) return fault(*one.module, "connecting", status);
  return ok();
}

// Every rank exchanges a byte with every other: many libraries make a connection, and the memory for it, only then.
// In round r the ranks i and j with i + j = r (modulo the number of ranks) are a pair, so all are busy and nobody waits
// in a circle.
Outcome Rig::reach_all_here(std::uint32_t index) {
  Opened& one = *opened_[index];
  const Layer& m = *one.module;
  const int nranks = one.context.nranks;
  if (nranks == 1) return ok();
  char* const out = one.pool->token_out();
  char* const in = one.pool->token_in();
  message_[0] = '\0';
  const Meter meter(set_.ranks_here);
  np_status status = NP_OK;
  if (m.prepare != nullptr) {
    const np_visit visit{sizeof visit, 0, 1, {out, 1, 1, 0}, {in, 1, 1, 0}, NP_USES_MESSAGES, 0};
    status = m.prepare(one.endpoint, &visit);
  }
  // A library with a launcher is asked in its own plain way: what the variant's messages are (one-sided, say) may need
  // all ranks at once.
  const np_bootstrap& plain = one.bootstrap;
  const auto send = [&](int peer) {
    if (plain.send != nullptr) return plain.send(plain.state, peer, out, 1);
    return m.send != nullptr ? m.send(one.endpoint, peer, out, 1) : NP_OK;
  };
  const auto recv = [&](int peer) {
    if (plain.recv != nullptr) return plain.recv(plain.state, peer, in, 1);
    return m.recv != nullptr ? m.recv(one.endpoint, peer, in, 1) : NP_OK;
  };
  for (int round = 0; round < nranks && status == NP_OK; ++round) {
    const int peer = (round - one.context.rank + nranks) % nranks;
    if (peer == one.context.rank) continue;
    const bool first = one.context.rank < peer;
    if (first) status = send(peer);
    if (status == NP_OK) status = recv(peer);
    if (status == NP_OK && !first) status = send(peer);
  }
  if (status == NP_OK && m.barrier != nullptr) status = m.barrier(one.endpoint);
  one.cost += meter.spent();
  if (status != NP_OK) return fault(m, "reaching its peers", status);
  return ok();
}

Outcome Rig::ready_here(std::uint32_t index) {
  Opened& one = *opened_[index];
  message_[0] = '\0';
  if (const np_status status = limits_of(*one.module, one.endpoint, one.limits); status != NP_OK) {
    return fault(*one.module, "its limits", status);
  }
  if (one.module->own_memory() == nullptr && common_pool_) {
    one.pool = common_pool_;
  } else {
    auto pool = BufferPool::make(*one.module, one.endpoint, set_.resolved->pool,
                                 set_.arena != nullptr ? one.context.nranks : 1);
    if (!pool) {
      Failure failure = pool.failure();
      if (message_[0] != '\0') failure.sentence += std::string(" (") + message_.data() + ")";
      return failure;
    }
    one.pool = std::move(*pool);
    if (one.module->own_memory() == nullptr) common_pool_ = one.pool;
  }
  std::uint64_t bytes = common_pool_ ? common_pool_->bytes() : 0;
  for (const auto& each : opened_) bytes += each && each->pool && each->pool != common_pool_ ? each->pool->bytes() : 0;
  most_buffer_bytes_ = std::max(most_buffer_bytes_, bytes);
  return ok();
}

// Both halves of the pool, for peers: their keys; nothing where that cannot be, on this rank.
Result<std::string> Rig::expose_here(std::uint32_t index) {
  Opened& one = *opened_[index];
  message_[0] = '\0';
  std::string keys;
  for (char* base : {one.pool->incoming_base(), one.pool->outgoing_base()}) {
    np_region region{};
    const auto half = static_cast<std::size_t>(one.pool->bytes() / 2);
    const np_status status = one.module->expose(one.endpoint, base, half, &region);
    if (status == NP_UNSUPPORTED) {
      one.unreachable = message_[0] != '\0' ? message_.data() : meaning(status);
      return std::string();
    }
    if (status != NP_OK) return fault(*one.module, "opening memory to puts and gets", status);
    one.own.push_back(region);
    append_key(keys, region);
  }
  return keys;
}

// keys: of each member of the group, what it exposed. All ranks read the same, and come to the same.
Outcome Rig::attach_here(std::uint32_t index, const std::vector<std::string>& keys) {
  Opened& one = *opened_[index];
  message_[0] = '\0';
  const auto peer = static_cast<std::size_t>(mirrored(one.context.rank, one.context.nranks));
  std::vector<np_region> of_peer;
  for (std::size_t rank = 0; rank < one.members.size(); ++rank) {
    const std::string& text = keys[static_cast<std::size_t>(one.members[rank])];
    const std::vector<np_region> regions = regions_in(text);
    if (text.empty() && one.unreachable.empty()) {
      one.unreachable = "rank " + std::to_string(rank) + " cannot open its memory to puts and gets";
    }
    if (text.empty()) continue;
    if (regions.size() != 2) return failed("rank " + std::to_string(rank) + " sent keys of another form");
    // A peer's places are found where the own ones are. Cold ones fill more than the caches, which may differ.
    if (regions[0].bytes != one.pool->bytes() / 2 && one.unreachable.empty()) {
      one.unreachable = "rank " + std::to_string(rank) + " has another amount of message memory than rank " +
                        std::to_string(one.context.rank) + ": with cold buffers their hosts need caches of one size";
    }
    if (rank == peer) of_peer = regions;
  }
  if (!one.unreachable.empty()) return ok();
  for (np_region& region : of_peer) {
    const np_status status = one.module->attach(one.endpoint, static_cast<int>(peer), &region);
    if (status != NP_OK) return fault(*one.module, "attaching to the memory of a peer", status);
    one.peers.push_back(region);
  }
  return ok();
}

Outcome Rig::settle_here(std::uint32_t index, const std::vector<std::string>& texts) {
  const Opened& one = *opened_[index];
  const Result<Placement> placement = place_ranks(texts, one.module->name);
  if (!placement) return placement.failure();
  int local = 0;
  int locals = 0;
  for (std::size_t rank = 0; rank < placement->hosts.size(); ++rank) {
    if (placement->hosts[rank] != host_name()) continue;
    ++locals;
    if (static_cast<int>(rank) < one.context.rank) ++local;
  }
  opened_[index]->members = placement->by_rank;
  for (const std::string& host : placement->hosts) opened_[index]->far.push_back(host != placement->hosts[0]);
  const Result<int> cpu = set_.settle(local, locals);
  if (!cpu) return cpu.failure();
  set_.cpu = *cpu;
  return ok();
}

std::string Rig::describe_here(std::uint32_t index) const {
  const Opened& one = *opened_[index];
  const Facts facts = facts_of(*one.module, one.endpoint);
  Json json;
  json.open('{').field("rank", one.context.rank).field("host", host_name());
  if (set_.cpu >= 0) {
    json.field("cpu", set_.cpu);
  } else {
    json.field_null("cpu");
  }
  json.field_raw("settings", facts.settings);
  add_cost(json, one.cost, set_.ranks_here == 1);
  json.close('}');
  return facts_text(one.limits, facts.below, json.take());
}

std::string Rig::counters_here(std::uint32_t index) const {
  const auto& one = opened_[index];
  return one ? counters_of(*one->module, one->endpoint) : std::string();
}

Result<Opening> Rig::open(std::uint32_t index) {
  Group& group = *set_.group;
  const Layer& module = *set_.resolved->variants[index].module;
  const bool job = launched(module);
  const bool alone = !job && ranks(index) == 1;
  const Command command{.verb = Verb::open, .variant = index};
  const auto deadline = static_cast<std::int64_t>(set_.plan->timeout_s * 1e9);
  const auto agree = [&](const Result<std::string>& mine, bool for_root) -> Result<std::vector<std::string>> {
    if (alone) {
      if (mine) return std::vector<std::string>{*mine};
      return Failure{mine.failure().exit, "rank 0: " + mine.failure().sentence};
    }
    Watchdog::arm(deadline + 2 * Watchdog::grace_ns, nullptr, {}, -1);  // the peer's own watchdog ends before
    Result<std::vector<std::string>> all = for_root ? group.agree_for_root(mine) : group.agree(mine);
    Watchdog::disarm();
    return all;
  };
  // What a step of a module came to, with the deadline over it.
  const auto guarded = [&](const auto& step) -> Result<std::string> {
    Watchdog::arm(deadline, nullptr, error_line(command, "the module did not come back from opening or connecting"),
                  set_.record_fd);
    Result<std::string> result = step();
    Watchdog::disarm();
    return result;
  };
  const bool reaches = one_sided(*set_.resolved, module) || (alone && module.put != nullptr);
  const auto connected = [&](const std::vector<std::string>& addresses) -> Result<std::string> {
    if (Outcome done = job ? settle_here(index, addresses) : connect_here(index, addresses); !done) {
      return done.failure();
    }
    if (Outcome done = ready_here(index); !done) return done.failure();
    if (set_.resolved->modes.empty()) {  // opening is all that is measured
      if (Outcome done = reach_all_here(index); !done) return done.failure();
    }
    return reaches ? std::string() : describe_here(index);
  };
  const auto attached = [&](const std::vector<std::string>& keys) -> Result<std::string> {
    if (Outcome done = attach_here(index, keys); !done) return done.failure();
    return describe_here(index);
  };
  const auto give_up = [&](const Result<std::vector<std::string>>& result) {
    close(index);
    return result.failure();
  };
  const Result<std::vector<std::string>> addresses = agree(guarded([&] { return open_here(index); }), false);
  if (!addresses) return give_up(addresses);
  Result<std::vector<std::string>> facts = agree(guarded([&] { return connected(*addresses); }), true);
  if (!facts) return give_up(facts);
  if (reaches) {
    const Result<std::vector<std::string>> keys = agree(guarded([&] { return expose_here(index); }), false);
    if (!keys) return give_up(keys);
    facts = agree(guarded([&] { return attached(*keys); }), true);
    if (!facts) return give_up(facts);
  }
  std::vector<int> by_rank;
  for (int member = job ? 1 : 0; member < static_cast<int>(facts->size()); ++member) by_rank.push_back(member);
  return opening_of(*facts, by_rank);
}

// A library may wait for its peers here, and they may have gone.
void Rig::close(std::uint32_t index) {
  Watchdog::arm(static_cast<std::int64_t>(set_.plan->timeout_s * 1e9), nullptr, {}, -1);
  opened_[index].reset();
  Watchdog::disarm();
}

Result<std::vector<std::string>> Rig::counters(std::uint32_t index) {
  if (!launched(*set_.resolved->variants[index].module) && ranks(index) == 1) {
    return std::vector<std::string>{counters_here(index)};
  }
  return set_.group->gather_text(counters_here(index));
}

void Rig::prepare(const Command& command, Opened& one, Stage& stage, std::uint64_t rounds) const {
  const Mode& mode = set_.resolved->modes[command.pattern];
  const Pattern& pattern = *mode.pattern;
  const BufferPolicy& policy = mode.buffers;
  const int rank = stage.rank;
  const std::uint64_t sent = rounds * pattern.departures(stage);
  const std::uint64_t received = rounds * pattern.arrivals(stage);
  const std::uint64_t bytes = pattern.place_bytes(stage);
  const bool verify = set_.plan->verify && one.limits.delivers != 0;
  const std::uint32_t many = verify ? UINT32_MAX : 1;
  // A process alone copies between two places, and verification must still know what was sent.
  const bool one_buffer = pattern.one_buffer && stage.nranks > 1 && !verify && !policy.spreads();
  stage.outgoing = one_buffer ? one.pool->returning(policy, bytes) : one.pool->outgoing(policy, bytes, many);
  stage.incoming = one.pool->incoming(policy, bytes, std::max(many, pattern.in_flight(stage)));
  if (verify) {
    stage.outgoing.rewind();
    stage.incoming.rewind();
    if (pattern.fill != nullptr) {
      const std::uint64_t seed = message_seed(set_.plan->seed, command.visit, 0, 0);
      const std::uint64_t places = std::min<std::uint64_t>(stage.outgoing.count(), stage.incoming.count());
      for (std::uint64_t i = 0; i < std::min(rounds, places); ++i) {
        pattern.fill(stage, seed, i, stage.outgoing.at(i), stage.incoming.at(i));
      }
    } else {
      for (std::uint64_t i = 0; i < std::min<std::uint64_t>(sent, stage.outgoing.count()); ++i) {
        netpipe::fill(stage.outgoing.at(i), bytes, message_seed(set_.plan->seed, command.visit, rank, i));
      }
      for (std::uint64_t i = 0; i < std::min<std::uint64_t>(received, stage.incoming.count()); ++i) {
        spoil(stage.incoming.at(i), bytes, seed_of(command, pattern, stage, i));
      }
    }
    // The guard behind the message must still be so afterwards.
    const std::uint64_t landed = pattern.fill != nullptr ? rounds : received;
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(landed, stage.incoming.count()); ++i) {
      std::memset(stage.incoming.at(i) + bytes, guard_byte, guard_bytes);
    }
  } else if (policy.reuse_percent < 100) {
    stage.outgoing.reuse(static_cast<std::uint32_t>(policy.reuse_percent));
    stage.incoming.reuse(static_cast<std::uint32_t>(policy.reuse_percent));
  }
  if (policy.cold) {
    BufferPool::evict(stage.outgoing, bytes, sent);
    BufferPool::evict(stage.incoming, bytes, received);
  }
}

std::uint64_t Rig::seed_of(const Command& command, const Pattern& pattern, const Part& part, std::uint64_t i) const {
  const Origin origin = pattern.origin(part, i);
  return message_seed(set_.plan->seed, command.visit, origin.rank, origin.message);
}

Report Rig::check(const Command& command, const Pattern& pattern, const Stage& stage, std::uint64_t rounds) const {
  Report report;
  const std::uint64_t bytes = pattern.place_bytes(stage);
  const auto wrong = [&](std::uint64_t i, const std::string& what) {
    report.status = verification_failed;
    std::snprintf(report.sentence, sizeof report.sentence, "verification failed on rank %d: %s %llu %s", stage.rank,
                  pattern.check != nullptr ? "operation" : "message", static_cast<unsigned long long>(i) + 1,
                  what.c_str());
    return report;
  };
  const bool own = pattern.check != nullptr;
  const std::uint64_t arrived = own ? rounds : rounds * pattern.arrivals(stage);
  const std::uint64_t visit_seed = message_seed(set_.plan->seed, command.visit, 0, 0);
  for (std::uint64_t i = 0; i < arrived; ++i) {
    const char* place = stage.incoming.at(i);
    if (own) {
      if (const std::string what = pattern.check(stage, visit_seed, i, place); !what.empty()) return wrong(i, what);
    } else if (const auto at = first_difference(place, bytes, seed_of(command, pattern, stage, i))) {
      return wrong(i, "of " + std::to_string(arrived) + " from rank " + std::to_string(pattern.origin(stage, i).rank) +
                          " differs from what was sent, first at byte " + std::to_string(*at));
    }
    const bool beyond = std::any_of(place + bytes, place + bytes + guard_bytes, [](char c) { return c != guard_byte; });
    if (beyond) return wrong(i, "is right but was written beyond its end, at byte " + std::to_string(bytes));
    report.verified_bytes += own ? stage.size_bytes : bytes;
  }
  return report;
}

// How far this rank's clock is from rank 0's, from the fastest of some round trips between the two (Cristian,
// Probabilistic clock synchronization, 1989): the truth is at most half of that away. Ranks of one host read one clock.
np_status Rig::synchronise(Opened& one, Stage& stage) {
  constexpr int round_trips = 40;
  struct Answer {
    std::int64_t offset_ns, error_ns;
  };
  static_assert(sizeof(Answer) <= token_bytes);
  const Layer& m = *one.module;
  stage.clock_offset_ns = stage.clock_error_ns = 0;
  if (std::none_of(one.far.begin(), one.far.end(), [](bool far) { return far; })) return NP_OK;
  if (m.send == nullptr) {
    std::snprintf(message_.data(), message_.size(),
                  "the clocks of its hosts cannot be compared: it has no send and recv");
    return NP_UNSUPPORTED;
  }
  const auto exchange = [&](int peer, bool first, std::size_t out, std::size_t in) {
    np_status status = NP_OK;
    if (first) status = m.send(one.endpoint, peer, stage.token_out, out);
    if (status == NP_OK) status = m.recv(one.endpoint, peer, stage.token_in, in);
    return status;
  };
  np_status status = NP_OK;
  for (int rank = 1; rank < stage.nranks && stage.rank == 0 && status == NP_OK; ++rank) {
    if (!one.far[static_cast<std::size_t>(rank)]) continue;
    Answer best{0, INT64_MAX};
    for (int i = 0; i < round_trips && status == NP_OK; ++i) {
      const std::int64_t before = now_ns();
      status = exchange(rank, true, 1, sizeof(std::int64_t));
      const std::int64_t after = now_ns();
      std::int64_t there = 0;
      std::memcpy(&there, stage.token_in, sizeof there);
      if ((after - before + 1) / 2 < best.error_ns) best = {(before + after) / 2 - there, (after - before + 1) / 2};
    }
    std::memcpy(stage.token_out, &best, sizeof best);
    if (status == NP_OK) status = m.send(one.endpoint, rank, stage.token_out, sizeof best);
  }
  if (one.far[static_cast<std::size_t>(stage.rank)]) {
    for (int i = 0; i < round_trips && status == NP_OK; ++i) {
      status = m.recv(one.endpoint, 0, stage.token_in, 1);
      const std::int64_t here = now_ns();
      std::memcpy(stage.token_out, &here, sizeof here);
      if (status == NP_OK) status = m.send(one.endpoint, 0, stage.token_out, sizeof here);
    }
    if (status == NP_OK) status = m.recv(one.endpoint, 0, stage.token_in, sizeof(Answer));
    Answer answer{};
    std::memcpy(&answer, stage.token_in, sizeof answer);
    stage.clock_offset_ns = answer.offset_ns;
    stage.clock_error_ns = answer.error_ns;
  }
  return status;
}

Report Rig::visit(const Command& command) {
  Report report;
  if (!takes_part(command.variant)) return report;
  Opened& one = *opened_[command.variant];
  const Mode& mode = set_.resolved->modes[command.pattern];
  const Pattern& pattern = *mode.pattern;
  const int nranks = one.context.nranks;
  const Part part = mode.part(one.context.rank, nranks, command.size_bytes);
  const std::uint64_t rounds = all_rounds(pattern, part, command.samples, command.rounds);
  const bool together = launched(*one.module) || nranks > 1;
  requests_.resize(std::max<std::size_t>(requests_.size(), pattern.requests(part, command.rounds)));
  Stage stage{part, *one.module, one.endpoint};
  if (!one.peers.empty()) {
    stage.far_in = &one.peers[0];
    stage.far_out = &one.peers[1];
  }
  stage.near_in = one.pool->incoming_base();
  stage.near_out = one.pool->outgoing_base();
  stage.requests = requests_.data();
  stage.token_out = one.pool->token_out();
  stage.token_in = one.pool->token_in();
  stage.seed = message_seed(set_.plan->seed, command.visit, 0, 0);
  stage.oversubscribed = set_.oversubscribed;
  stage.message = message_;
  stage.progress = &report.progress;
  stage.abort = Watchdog::abort_flag();
  notes_.assign(notes_of(pattern, part, command.samples, command.rounds), 0);
  // Whose clock does not count reads it all the same, so that all ranks do the same.
  const std::uint64_t room =
      pattern.evaluate != nullptr ? command.samples * pattern.notes(part, command.rounds) : 2 * command.samples + 1;
  scratch_.resize(std::max<std::size_t>(scratch_.size(), room));
  message_[0] = '\0';

  Watchdog::arm(
      command.deadline_ns, together ? set_.group : nullptr,
      error_line(command, "the module did not return within " + std::to_string(command.deadline_ns / 1'000'000) +
                              " ms, nor after it was told to give up; the process was ended"),
      set_.record_fd);
  prepare(command, one, stage, rounds);
  np_status status = NP_OK;
  const bool simulated = pattern.computes && set_.ranks_here > 1;
  if (simulated || (pattern.reach != NP_REACH_NONE && one.peers.empty())) {  // so on all ranks
    status = NP_UNSUPPORTED;
    std::snprintf(message_.data(), message_.size(), "%s",
                  simulated ? "computation takes no time on a simulated machine" : one.unreachable.c_str());
  }
  if (status == NP_OK && one.module->prepare != nullptr) {
    const np_visit visit{sizeof visit,
                         static_cast<std::uint32_t>(pattern.reach),
                         command.size_bytes,
                         stage.outgoing.places(),
                         stage.incoming.places(),
                         0,
                         0};
    status = one.module->prepare(one.endpoint, &visit);
  }
  if (status == NP_OK && pattern.resets && one.module->reset != nullptr) status = one.module->reset(one.endpoint);
  // Also after a failure, or a peer would take the report of it for the sign that it waits for.
  if (together && !set_.group->barrier() && status == NP_OK) status = NP_ABORTED;
  if (status == NP_OK && pattern.synchronised) status = synchronise(one, stage);
  if (status == NP_OK) {
    status = pattern.run(stage, command.samples, command.rounds, notes_.empty() ? scratch_.data() : notes_.data());
  }
  // A library may move bytes only while it is called (buffered sends, queues that were full), and between visits this
  // process sleeps: nobody leaves before everybody has everything.
  if (status == NP_OK && launched(*one.module) && one.module->barrier != nullptr) {
    status = one.module->barrier(one.endpoint);
  }
  const Cause cause = Watchdog::disarm();

  if (status == NP_OK && set_.plan->verify && one.limits.delivers != 0) return check(command, pattern, stage, rounds);
  report.status = status;
  report.cause = static_cast<std::uint32_t>(cause);
  if (status != NP_OK) {
    const char* detail = message_[0] != '\0' ? message_.data() : meaning(status);
    if (cause == Cause::deadline) {
      std::snprintf(report.sentence, sizeof report.sentence,
                    "rank %d: module %s did not complete within %.1f s and was stopped: %s", stage.rank,
                    one.module->name, static_cast<double>(command.deadline_ns) * 1e-9, detail);
    } else {
      std::snprintf(report.sentence, sizeof report.sentence, "rank %d: module %s: %s", stage.rank, one.module->name,
                    detail);
    }
  }
  return report;
}

Yardstick Rig::yardstick() {
  Yardstick y;
  // Two ranks are enough: many at once would measure each other, and be late for the barrier.
  if (set_.group->rank() < 2) {
    yard_memory_.resize(yardstick_memory_bytes);  // at the first one: the ranks of a job never take any
    y = measure_alone(yard_memory_);
  }
  if (set_.arena != nullptr && set_.group->size() > 1) {
    // A barrier that some leave early would leave its tokens to the next one.
    Watchdog::arm(static_cast<std::int64_t>(set_.plan->timeout_s * 1e9), set_.group, {}, -1);
    if (set_.group->barrier() && set_.group->rank() < 2) {
      measure_together(*set_.arena, set_.group->rank(), Watchdog::abort_flag(), set_.oversubscribed, y);
    }
    Watchdog::disarm();
  }
  return y;
}

Outcome Rig::follow() {
  Group& group = *set_.group;
  for (;;) {
    Command command;
    if (set_.silence_ns > 0) Watchdog::arm(set_.silence_ns, nullptr, {}, -1);
    Outcome got = group.recv(0, &command, sizeof command);
    Watchdog::disarm();
    if (!got) return got;
    if (command.verb == Verb::finish) {
      const MemoryUse use = memory();
      return group.send(0, &use, sizeof use);
    }
    if (command.verb == Verb::open && takes_part(command.variant)) {
      // The failure is rank 0's to report: both came to the same outcome.
      if (const auto opened = open(command.variant); !opened) opened_[command.variant].reset();
    }
    if (command.verb == Verb::close && takes_part(command.variant)) {
      if (const auto said = counters(command.variant); !said) return said.failure();
      close(command.variant);
    }
    if (command.verb == Verb::yardstick) yardstick();
    if (command.verb == Verb::visit) {
      const Report report = visit(command);
      if (Outcome sent = group.send(0, &report, sizeof report); !sent) return sent;
      if (report.status == NP_OK && takes_part(command.variant) && !notes_.empty()) {
        if (Outcome sent = group.send(0, notes_.data(), notes_.size() * sizeof(std::int64_t)); !sent) return sent;
      }
    }
  }
}

}  // namespace netpipe
