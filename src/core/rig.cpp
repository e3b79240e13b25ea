// SPDX-License-Identifier: Apache-2.0
#include "core/rig.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>

#include "core/json.h"
#include "core/text.h"
#include "core/verify.h"
#include "core/watchdog.h"

namespace netpipe {
namespace {

constexpr char succeeded = '+';
constexpr char refused = '-';  // followed by the exit code, a blank and the sentence

std::string parcel(const Result<std::string>& result) {
  if (result) return succeeded + *result;
  return refused + std::to_string(static_cast<int>(result.failure().exit)) + " " + result.failure().sentence;
}

// All ranks' parcels, opened. The first failure, with its rank, when there is one.
Result<std::vector<std::string>> unpack(std::vector<std::string> parcels) {
  for (std::size_t rank = 0; rank < parcels.size(); ++rank) {
    std::string& text = parcels[rank];
    if (text.empty() || text[0] != succeeded) {
      const auto blank = text.find(' ');
      const Result<std::int64_t> code = parse_integer(std::string_view(text).substr(text.empty() ? 0 : 1, blank - 1));
      return Failure{code ? static_cast<Exit>(*code) : Exit::failed,
                     "rank " + std::to_string(rank) + ": " +
                         (blank == std::string::npos ? "no reason given" : text.substr(blank + 1))};
    }
    text.erase(0, 1);
  }
  return parcels;
}

void add_field(void* to, const char* name, const char* value) { static_cast<Json*>(to)->field(name, value); }

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
    case NP_UNSUPPORTED: return "it does not support this";
    default: return "it failed";
  }
}

}  // namespace

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

// One variant on this rank.
struct Rig::Opened {
  const np_module* module = nullptr;
  np_context context{};
  std::string job;
  np_endpoint* endpoint = nullptr;
  np_limits limits{};
  std::shared_ptr<BufferPool> pool;
  np_region landing{};
  bool exposed = false;

  Opened() = default;
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  ~Opened() {
    if (exposed) module->withdraw(endpoint, &landing);
    pool.reset();
    if (endpoint != nullptr) module->close(endpoint);
  }
};

Rig::Rig(RigSetting setting)
    : set_(std::move(setting)), opened_(set_.resolved->variants.size()), yard_memory_(yardstick_memory_bytes) {}

Rig::~Rig() = default;

int Rig::ranks(std::uint32_t variant) const { return ranks_of(*set_.resolved->variants[variant].module); }

bool Rig::takes_part(std::uint32_t variant) const { return set_.group->rank() < ranks(variant); }

const np_limits& Rig::limits(std::uint32_t variant) const { return opened_[variant]->limits; }

MemoryUse Rig::memory() const {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return {static_cast<std::uint64_t>(usage.ru_maxrss) * 1024, most_buffer_bytes_};
}

Failure Rig::fault(const np_module& module, const char* step, np_status status) const {
  const std::string detail = message_[0] != '\0' ? message_.data() : meaning(status);
  return {exit_of(status), std::string("module ") + module.name + ", " + step + ": " + detail};
}

std::string Rig::error_line(const Command& command, const std::string& sentence) const {
  Json json;
  json.open('{').field("type", "error").field("launch", set_.plan->launch);
  json.field("variant", set_.resolved->variants[command.variant].name);
  if (command.verb == Verb::visit) {
    json.field("pattern", set_.resolved->patterns[command.pattern]->name).field("size_bytes", command.size_bytes);
  } else {
    json.field_null("pattern").field_null("size_bytes");
  }
  json.field("rank", set_.group->rank()).field("host", host_name()).field("code", static_cast<int>(Exit::failed));
  json.field("message", sentence).close('}');
  return json.take() + "\n";
}

Result<std::string> Rig::open_here(std::uint32_t index) {
  const Variant& variant = set_.resolved->variants[index];
  const np_module& module = *variant.module;
  auto one = std::make_unique<Opened>();
  one->module = &module;
  one->job = set_.job + "-" + std::to_string(index);
  np_context& c = one->context;
  c.size = sizeof c;
  c.rank = set_.group->rank();
  c.nranks = ranks(index);
  c.options = variant.values.data();
  c.max_bytes = set_.resolved->sizes.back();
  c.abort = Watchdog::abort_flag();
  c.message = message_.data();
  c.message_bytes = message_.size();
  c.local_address = set_.local_address.c_str();
  c.job = one->job.c_str();
  c.timeout_ns = static_cast<std::int64_t>(set_.plan->timeout_s * 1e9);
  c.oversubscribed = set_.oversubscribed ? 1 : 0;
  message_[0] = '\0';
  if (const std::string reason = probe_reason(module); !reason.empty()) {
    return unavailable(std::string("module ") + module.name + " cannot be used here: " + reason);
  }
  if (const np_status status = module.open(&c, &one->endpoint); status != NP_OK) {
    one->endpoint = nullptr;
    return fault(module, "opening", status);
  }
  std::string address;
  if (module.address != nullptr) {
    address.resize(4096);
    std::size_t bytes = address.size();
    if (const np_status status = module.address(one->endpoint, address.data(), &bytes); status != NP_OK) {
      return fault(module, "its address", status);
    }
    address.resize(std::min(bytes, address.size()));
  }
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
  const np_status status = one.module->connect(one.endpoint, data.data(), bytes.data());
  if (status != NP_OK) return fault(*one.module, "connecting", status);
  return ok();
}

Outcome Rig::ready_here(std::uint32_t index) {
  Opened& one = *opened_[index];
  one.limits = np_limits{0, 1, 1, 0};
  message_[0] = '\0';
  if (one.module->limits != nullptr) {
    if (const np_status status = one.module->limits(one.endpoint, &one.limits); status != NP_OK) {
      return fault(*one.module, "its limits", status);
    }
  }
  if (one.module->alloc == nullptr && common_pool_) {
    one.pool = common_pool_;
  } else {
    auto pool = BufferPool::make(*one.module, one.endpoint, set_.plan->buffers, set_.resolved->sizes.back(),
                                 set_.plan->verify, set_.arena != nullptr ? one.context.nranks : 1);
    if (!pool) return pool.failure();
    one.pool = std::move(*pool);
    if (one.module->alloc == nullptr) common_pool_ = one.pool;
  }
  std::uint64_t bytes = common_pool_ ? common_pool_->bytes() : 0;
  for (const auto& each : opened_) bytes += each && each->pool && each->pool != common_pool_ ? each->pool->bytes() : 0;
  most_buffer_bytes_ = std::max(most_buffer_bytes_, bytes);
  if (one.context.nranks == 1 && one.module->put != nullptr) {
    const auto half = static_cast<std::size_t>(one.pool->bytes() / 2);
    np_status status = one.module->expose(one.endpoint, one.pool->incoming_base(), half, &one.landing);
    if (status != NP_OK) return fault(*one.module, "opening memory to puts", status);
    one.exposed = true;
    status = one.module->attach(one.endpoint, 0, &one.landing);
    if (status != NP_OK) return fault(*one.module, "attaching to memory", status);
  }
  return ok();
}

std::string Rig::describe_here(std::uint32_t index) const {
  const Opened& one = *opened_[index];
  Json json;
  json.open('{').field("rank", set_.group->rank()).field("host", host_name());
  if (set_.cpu >= 0) {
    json.field("cpu", set_.cpu);
  } else {
    json.field_null("cpu");
  }
  json.key("settings").open('{');
  if (one.module->describe != nullptr) one.module->describe(one.endpoint, add_field, &json);
  json.close('}').close('}');
  return json.take();
}

std::string Rig::counters_here(std::uint32_t index) const {
  const auto& one = opened_[index];
  if (!one || one->module->counters == nullptr) return {};
  Json json;
  json.open('{');
  one->module->counters(one->endpoint, add_field, &json);
  json.close('}');
  return json.take();
}

Result<std::vector<std::string>> Rig::open(std::uint32_t index) {
  Group& group = *set_.group;
  const bool alone = ranks(index) == 1;
  const Command command{.verb = Verb::open, .variant = index};
  const auto deadline = static_cast<std::int64_t>(set_.plan->timeout_s * 1e9);
  const auto agree = [&](const Result<std::string>& mine) -> Result<std::vector<std::string>> {
    if (alone) return unpack({parcel(mine)});
    Watchdog::arm(deadline + 2 * Watchdog::grace_ns, nullptr, {}, -1);  // the peer's own watchdog ends before
    Result<std::vector<std::string>> all = group.exchange_text(parcel(mine));
    Watchdog::disarm();
    if (!all) return all.failure();
    return unpack(std::move(*all));
  };
  // What a step of a module came to, with the deadline over it.
  const auto guarded = [&](const auto& step) -> Result<std::string> {
    Watchdog::arm(deadline, nullptr, error_line(command, "the module did not come back from opening or connecting"),
                  set_.record_fd);
    Result<std::string> result = step();
    Watchdog::disarm();
    return result;
  };
  const auto connected = [&](const std::vector<std::string>& addresses) -> Result<std::string> {
    if (Outcome done = connect_here(index, addresses); !done) return done.failure();
    if (Outcome done = ready_here(index); !done) return done.failure();
    return describe_here(index);
  };
  const Result<std::vector<std::string>> addresses = agree(guarded([&] { return open_here(index); }));
  if (!addresses) {
    opened_[index].reset();
    return addresses.failure();
  }
  Result<std::vector<std::string>> settings = agree(guarded([&] { return connected(*addresses); }));
  if (!settings) opened_[index].reset();
  return settings;
}

void Rig::close(std::uint32_t index) { opened_[index].reset(); }

Result<std::vector<std::string>> Rig::counters(std::uint32_t index) {
  if (ranks(index) == 1) return std::vector<std::string>{counters_here(index)};
  return set_.group->gather_text(counters_here(index));
}

std::uint64_t Rig::most_rounds(std::uint32_t index, const Pattern& pattern, std::uint64_t size_bytes) const {
  const Opened& one = *opened_[index];
  if (!set_.plan->verify || one.limits.delivers == 0) return 0;
  const std::uint64_t places = BufferPool::verified_places(set_.plan->buffers, set_.resolved->sizes.back(), size_bytes);
  std::uint32_t most = 1;
  for (int rank = 0; rank < one.context.nranks; ++rank) {
    most = std::max({most, pattern.arrivals(rank, one.context.nranks), pattern.departures(rank, one.context.nranks)});
  }
  return std::max<std::uint64_t>(places / most, 1);
}

void Rig::prepare(const Command& command, Opened& one, Stage& stage, std::uint64_t rounds) const {
  const Pattern& pattern = *set_.resolved->patterns[command.pattern];
  const int rank = stage.rank;
  const std::uint64_t sent = rounds * pattern.departures(rank, stage.nranks);
  const std::uint64_t received = rounds * pattern.arrivals(rank, stage.nranks);
  const bool verify = set_.plan->verify && one.limits.delivers != 0;
  const std::uint32_t many = verify ? UINT32_MAX : 1;
  // A process alone copies between two places, and verification must still know what was sent.
  const bool one_buffer = pattern.one_buffer && stage.nranks > 1 && !verify && !set_.plan->buffers.cold;
  stage.outgoing = one_buffer ? one.pool->returning(command.size_bytes) : one.pool->outgoing(command.size_bytes, many);
  stage.incoming = one.pool->incoming(command.size_bytes, many);
  if (verify) {
    stage.outgoing.rewind();
    stage.incoming.rewind();
    const int sender = stage.nranks == 1 ? 0 : 1 - rank;
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(sent, stage.outgoing.count()); ++i) {
      fill(stage.outgoing.at(i), command.size_bytes, message_seed(set_.plan->seed, command.visit, rank, i));
    }
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(received, stage.incoming.count()); ++i) {
      const std::uint64_t seed = message_seed(set_.plan->seed, command.visit, sender, i);
      // The guard behind the message is spoiled with it and must still be so afterwards.
      spoil(stage.incoming.at(i), command.size_bytes, seed);
      std::memset(stage.incoming.at(i) + command.size_bytes, guard_byte, guard_bytes);
    }
  }
  if (set_.plan->buffers.cold) {
    BufferPool::evict(stage.outgoing, command.size_bytes, sent);
    BufferPool::evict(stage.incoming, command.size_bytes, received);
  }
}

Report Rig::check(const Command& command, const Pattern& pattern, const Stage& stage, std::uint64_t rounds) const {
  Report report;
  const int sender = stage.nranks == 1 ? 0 : 1 - stage.rank;
  const std::uint64_t received = rounds * pattern.arrivals(stage.rank, stage.nranks);
  for (std::uint64_t i = 0; i < received; ++i) {
    const char* place = stage.incoming.at(i);
    const auto wrong =
        first_difference(place, command.size_bytes, message_seed(set_.plan->seed, command.visit, sender, i));
    const bool beyond = std::any_of(place + command.size_bytes, place + command.size_bytes + guard_bytes,
                                    [](char c) { return c != guard_byte; });
    if (wrong || beyond) {
      report.status = verification_failed;
      std::snprintf(
          report.sentence, sizeof report.sentence,
          "verification failed on rank %d: message %llu of %llu from rank %d %s %llu", stage.rank,
          static_cast<unsigned long long>(i) + 1, static_cast<unsigned long long>(received), sender,
          wrong ? "differs from what was sent, first at byte" : "is right but was written beyond its end, at byte",
          static_cast<unsigned long long>(wrong.value_or(command.size_bytes)));
      return report;
    }
    report.verified_bytes += command.size_bytes;
  }
  return report;
}

Report Rig::visit(const Command& command) {
  Report report;
  if (!takes_part(command.variant)) return report;
  Opened& one = *opened_[command.variant];
  const Pattern& pattern = *set_.resolved->patterns[command.pattern];
  const int nranks = one.context.nranks;
  const std::uint64_t rounds = command.samples * command.rounds + pattern.extra_rounds;
  Stage stage{*one.module,
              one.endpoint,
              set_.group->rank(),
              nranks,
              command.size_bytes,
              {},
              {},
              one.exposed ? &one.landing : nullptr};
  stamps_.resize(command.samples + 1);
  message_[0] = '\0';

  Watchdog::arm(
      command.deadline_ns, nranks > 1 ? set_.group : nullptr,
      error_line(command, "the module did not return within " + std::to_string(command.deadline_ns / 1'000'000) +
                              " ms, nor after it was told to give up; the process was ended"),
      set_.record_fd);
  prepare(command, one, stage, rounds);
  np_status status = NP_OK;
  if (pattern.resets && one.module->reset != nullptr) status = one.module->reset(one.endpoint);
  if (status == NP_OK && nranks > 1 && !set_.group->barrier()) status = NP_ABORTED;
  if (status == NP_OK) status = pattern.run(stage, command.samples, command.rounds, stamps_.data());
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
  Yardstick y = measure_alone(yard_memory_);
  if (set_.arena != nullptr && set_.group->size() > 1) {
    Watchdog::arm(2'000'000'000, set_.group, {}, -1);
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
      const Pattern& pattern = *set_.resolved->patterns[command.pattern];
      if (report.status == NP_OK && pattern.clock_rank == group.rank()) {
        if (Outcome sent = group.send(0, stamps_.data(), stamps_.size() * sizeof(std::int64_t)); !sent) return sent;
      }
    }
  }
}

}  // namespace netpipe
