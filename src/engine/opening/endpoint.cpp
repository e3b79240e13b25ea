// SPDX-License-Identifier: Apache-2.0
#include "engine/opening/endpoint.h"

#include <algorithm>
#include <utility>

#include "base/host_name.h"
#include "catalog/probing.h"
#include "engine/opening/facts.h"
#include "engine/processes/pinning.h"
#include "engine/watchdog.h"
#include "machine/files.h"
#include "patterns/kit/pattern.h"
#include "record/json.h"

namespace netpipe {
namespace {

void bytes_of(Json& json, const char* name, const std::optional<Footprint>& grown, std::int64_t Footprint::* which) {
  grown ? json.field(name, (*grown).*which) : json.field_null(name);
}

// met: what had been spent when all ranks had met in a barrier.
void add_cost_fields(Json& json, const Cost& cost, const std::optional<Cost>& met, bool known) {
  const auto grown = [known](const Cost& of) { return known ? of.memory : std::nullopt; };
  bytes_of(json, "resident_bytes", grown(cost), &Footprint::resident_bytes);
  bytes_of(json, "private_bytes", grown(cost), &Footprint::private_bytes);
  bytes_of(json, "pinned_bytes", grown(cost), &Footprint::pinned_bytes);
  known ? json.field("open_s", static_cast<double>(cost.ns) * 1e-9) : json.field_null("open_s");
  bytes_of(json, "barrier_resident_bytes", met ? grown(*met) : std::nullopt, &Footprint::resident_bytes);
}

Exit exit_of(np_status status) {
  switch (status) {
    case NP_USAGE: return Exit::usage;
    case NP_UNAVAILABLE:
    case NP_UNSUPPORTED: return Exit::unavailable;
    default: return Exit::failed;
  }
}

const char* meaning(np_status status) {
  switch (status) {
    case NP_PEER_LOST: return "the other side has gone";
    case NP_ABORTED: return "it was stopped";
    case NP_NO_MEMORY: return "there is not enough memory";
    case NP_UNSUPPORTED: return "it has no such operation with these options";
    case NP_LOST:
      return "a message did not arrive, and the module does not declare that it may lose any (np_limits.lossy)";
    default: return "it failed";
  }
}

}  // namespace

Endpoint::Endpoint(EndpointSetting setting) : set_(std::move(setting)), module_(*set_.variant->module) {
  context_.size = sizeof context_;
  context_.rank = set_.rank;
  context_.nranks = set_.nranks;
  context_.options = set_.variant->values.data();
  context_.max_bytes = set_.max_bytes;
  context_.abort = Watchdog::abort_flag();
  context_.message = message_.data();
  context_.message_bytes = message_.size();
  context_.local_address = set_.local_address.c_str();
  context_.job = set_.job.c_str();
  context_.timeout_ns = set_.timeout_ns;
  context_.oversubscribed = set_.oversubscribed ? 1 : 0;
  context_.threads = context_.rails = 1;
  context_.rail_addresses = &context_.local_address;
  context_.host_rank = static_cast<std::uint32_t>(set_.host_rank);
}

Endpoint::~Endpoint() {
  for (np_region& region : attached_) module_.withdraw(handle_, &region);
  for (np_region& region : exposed_) module_.withdraw(handle_, &region);
  pool_.reset();  // its memory may be the module's
  if (handle_ != nullptr) module_.close(handle_);
}

const char* Endpoint::detail(np_status status) const { return message_[0] != '\0' ? message_.data() : meaning(status); }

Failure Endpoint::fault(const char* step, np_status status) const {
  return {exit_of(status), std::string("module ") + module_.name + ", " + step + ": " + detail(status)};
}

Result<std::unique_ptr<Endpoint>> Endpoint::open(EndpointSetting setting) {
  std::unique_ptr<Endpoint> endpoint(new Endpoint(std::move(setting)));
  const Layer& module = endpoint->module_;
  if (const std::string reason = probe_reason(module); !reason.empty()) {
    return unavailable(std::string("module ") + module.name + " cannot be used here: " + reason);
  }
  if (const np_status status = module.open(&endpoint->context_, &endpoint->handle_); status != NP_OK) {
    endpoint->handle_ = nullptr;
    return endpoint->fault("opening", status);
  }
  return endpoint;
}

Result<std::string> Endpoint::address() {
  if (module_.address == nullptr) return std::string();
  constexpr std::size_t most_bytes = 4096;
  std::string address(most_bytes, '\0');
  std::size_t bytes = address.size();
  if (const np_status status = module_.address(handle_, address.data(), &bytes); status != NP_OK) {
    return fault("its address", status);
  }
  address.resize(std::min(bytes, address.size()));
  return address;
}

Outcome Endpoint::bootstrap() {
  bootstrap_.size = sizeof bootstrap_;
  if (const np_status status = module_.bootstrap(handle_, &bootstrap_); status != NP_OK) {
    return fault("its ranks", status);
  }
  context_.rank = bootstrap_.rank;
  context_.nranks = bootstrap_.nranks;
  return ok();
}

void Endpoint::place(std::vector<int> member_of_rank, std::vector<bool> far) {
  member_of_rank_ = std::move(member_of_rank);
  far_ = std::move(far);
}

Outcome Endpoint::connect(const std::vector<std::string>& addresses) {
  if (module_.connect == nullptr || nranks() == 1) return ok();
  std::vector<const void*> data;
  std::vector<std::size_t> bytes;
  for (const std::string& address : addresses) {
    data.push_back(address.data());
    bytes.push_back(address.size());
  }
  clear_message();
  const Meter meter(set_.ranks_in_process);
  const np_status status = module_.connect(handle_, data.data(), bytes.data());
  cost_ += meter.spent();
  if (status != NP_OK) return fault("connecting", status);
  return ok();
}

Outcome Endpoint::ask_limits() {
  clear_message();
  if (const np_status status = limits_of(module_, handle_, limits_); status != NP_OK) {
    return fault("its limits", status);
  }
  if (!possible_alignment(limits_.alignment)) {
    return failed(std::string("module ") + module_.name + " wants messages at multiples of " +
                  std::to_string(limits_.alignment) + " bytes, which is not a power of two up to 2 MiB");
  }
  if (!module_.has_memory_at(limits_.outgoing_memory) || !module_.has_memory_at(limits_.incoming_memory)) {
    return failed(std::string("module ") + module_.name + " wants its messages in memory " +
                  std::to_string(std::max(limits_.outgoing_memory, limits_.incoming_memory)) +
                  " of its list, which has " + std::to_string(module_.memory_kinds.size()));
  }
  return ok();
}

Outcome Endpoint::make_buffers(const PoolNeed& need, int ranks_sharing, std::shared_ptr<BufferPool>& common) {
  clear_message();
  const PageChoice& pages = set_.variant->pages;
  const bool shares = module_.own_memory() == nullptr && need.alignment == line_bytes && !pages.chosen();
  if (shares && common) {
    pool_ = common;
    return ok();
  }
  auto pool = BufferPool::make(module_, handle_, need, ranks_sharing, limits_, pages);
  if (!pool) {
    Failure failure = pool.failure();
    if (message_[0] != '\0') failure.sentence += std::string(" (") + message_.data() + ")";
    return failure;
  }
  pool_ = std::move(*pool);
  if (shares) common = pool_;
  return ok();
}

Result<std::string> Endpoint::expose() {
  clear_message();
  for (char* base : {pool_->incoming_base(), pool_->outgoing_base()}) {
    np_region region{};
    const auto half = static_cast<std::size_t>(pool_->bytes() / 2);
    const np_status status = module_.expose(handle_, base, half, &region);
    if (status == NP_UNSUPPORTED) {
      unreachable_ = detail(status);
      return std::string();
    }
    if (status != NP_OK) return fault("opening memory to puts and gets", status);
    exposed_.push_back(region);
  }
  return keys_text(exposed_);
}

Outcome Endpoint::attach(const std::vector<std::string>& keys) {
  clear_message();
  const auto peer = static_cast<std::size_t>(mirrored(rank(), nranks()));
  std::vector<np_region> of_peer;
  for (std::size_t other = 0; other < member_of_rank_.size(); ++other) {
    const std::string who = "rank " + std::to_string(other);
    const std::string& text = keys[static_cast<std::size_t>(member_of_rank_[other])];
    const std::vector<np_region> regions = parse_keys(text);
    if (text.empty() && unreachable_.empty()) unreachable_ = who + " cannot expose its memory to puts and gets";
    if (text.empty()) continue;
    if (regions.size() != 2) return failed(who + " sent malformed keys of its memory");
    // A peer's places lie where this rank's own do. Cold ones fill more than the caches, whose sizes may differ.
    if (regions[0].bytes != pool_->bytes() / 2 && unreachable_.empty()) {
      unreachable_ = who + " has a different amount of message memory than rank " + std::to_string(rank()) +
                     ": cold buffers need hosts with caches of the same size";
    }
    if (other == peer) of_peer = regions;
  }
  if (!unreachable_.empty()) return ok();
  for (np_region& region : of_peer) {
    const np_status status = module_.attach(handle_, static_cast<int>(peer), &region);
    if (status != NP_OK) return fault("attaching to the memory of a peer", status);
    attached_.push_back(region);
  }
  return ok();
}

// In round r the ranks i and j with i + j = r (modulo the number of ranks) are a pair, so all are busy and no circle of
// ranks waits for each other.
Outcome Endpoint::reach_all() {
  if (nranks() == 1) return ok();
  char* const out = pool_->token_out();
  char* const in = pool_->token_in();
  clear_message();
  np_status status = NP_OK;
  if (module_.barrier != nullptr) {
    const Meter barrier(set_.ranks_in_process);
    status = module_.barrier(handle_);
    cost_ += barrier.spent();
    if (status != NP_OK) return fault("a barrier of all ranks", status);
    barrier_cost_ = cost_;
  }
  const Meter meter(set_.ranks_in_process);
  if (module_.prepare != nullptr) {
    const np_visit visit{sizeof visit, 0, 1, {out, 1, 1, 0}, {in, 1, 1, 0}, NP_USES_MESSAGES, NP_VISIT_GREETING};
    status = module_.prepare(handle_, &visit);
  }
  // A library with a launcher is asked in its own plain way: the variant's messages (one-sided ones, say) may need all
  // ranks at once.
  const auto send = [&](int peer) {
    if (bootstrap_.send != nullptr) return bootstrap_.send(bootstrap_.state, peer, out, 1);
    return module_.send != nullptr ? module_.send(handle_, peer, out, 1) : NP_OK;
  };
  const auto recv = [&](int peer) {
    if (bootstrap_.recv != nullptr) return bootstrap_.recv(bootstrap_.state, peer, in, 1);
    return module_.recv != nullptr ? module_.recv(handle_, peer, in, 1) : NP_OK;
  };
  for (int round = 0; round < nranks() && status == NP_OK; ++round) {
    const int peer = (round - rank() + nranks()) % nranks();
    if (peer == rank()) continue;
    const bool first = rank() < peer;
    if (first) status = send(peer);
    if (status == NP_OK) status = recv(peer);
    if (status == NP_OK && !first) status = send(peer);
  }
  if (status == NP_OK && module_.barrier != nullptr) status = module_.barrier(handle_);
  cost_ += meter.spent();
  if (status != NP_OK) return fault("reaching its peers", status);
  return ok();
}

RankFacts Endpoint::describe(int cpu, bool with_cost) const {
  const LayerFacts facts = facts_of(module_, handle_);
  Json json;
  json.open('{').field("rank", rank()).field("host", host_name());
  cpu >= 0 ? json.field("cpu", cpu) : json.field_null("cpu");
  // Of ranks that share a process no processor is their own.
  with_cost ? json.field("processors", cpu_list_text(usable_cpus())) : json.field_null("processors");
  json.field_raw("settings", facts.settings);
  add_cost_fields(json, cost_, barrier_cost_, with_cost);
  const PagesFound pages = pool_ ? pool_->pages() : PagesFound{};
  pages.huge_bytes ? json.field("huge_bytes", *pages.huge_bytes) : json.field_null("huge_bytes");
  pages.node ? json.field("memory_node", *pages.node) : json.field_null("memory_node");
  json.close('}');
  return {.limits = limits_, .below = facts.below, .settings = json.take()};
}

std::string Endpoint::counters() const { return counters_of(module_, handle_); }

}  // namespace netpipe
