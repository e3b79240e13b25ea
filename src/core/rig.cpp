// SPDX-License-Identifier: Apache-2.0
#include "core/rig.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "core/json.h"
#include "core/text.h"
#include "core/verify.h"
#include "core/watchdog.h"

namespace netpipe {
namespace {

// What describe says of a variant: its settings, and apart from them the layer below.
struct Described {
  Json settings;
  std::string below;
};

void add_field(void* to, const char* name, const char* value) { static_cast<Json*>(to)->field(name, value); }

void add_described(void* to, const char* name, const char* value) {
  auto& described = *static_cast<Described*>(to);
  if (std::string_view(name) == "below") {
    described.below = value;
  } else {
    described.settings.field(name, value);
  }
}

// getrusage would count what the process was before it became this program.
std::uint64_t most_resident_bytes() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (!line.starts_with("VmHWM:")) continue;
    const std::vector<std::string> words = split(trim(std::string_view(line).substr(6)), ' ');
    const Result<std::int64_t> kib = parse_integer(words[0]);
    return kib ? static_cast<std::uint64_t>(*kib) * 1024 : 0;
  }
  return 0;
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

Result<Opening> open_job(Group& group, const Plan& plan, const std::string& module, Placement& placement) {
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
  Result<Placement> placed = place_ranks(*texts, module);
  if (!placed) return placed.failure();
  placement = std::move(*placed);
  const Result<std::vector<std::string>> facts = agree(true);
  if (!facts) return facts.failure();
  return opening_of(*facts, placement.by_rank);
}

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

Failure Rig::fault(const np_module& module, const char* step, np_status status) const {
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
  const np_module& module = *variant.module;
  auto one = std::make_unique<Opened>();
  one->module = &module;
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
    np_bootstrap bootstrap{};
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
    auto pool = BufferPool::make(*one.module, one.endpoint, set_.resolved->buffers, set_.resolved->sizes.back(),
                                 set_.plan->verify, set_.arena != nullptr ? one.context.nranks : 1);
    if (!pool) {
      Failure failure = pool.failure();
      if (message_[0] != '\0') failure.sentence += std::string(" (") + message_.data() + ")";
      return failure;
    }
    one.pool = std::move(*pool);
    if (one.module->alloc == nullptr) common_pool_ = one.pool;
  }
  std::uint64_t bytes = common_pool_ ? common_pool_->bytes() : 0;
  for (const auto& each : opened_) bytes += each && each->pool && each->pool != common_pool_ ? each->pool->bytes() : 0;
  most_buffer_bytes_ = std::max(most_buffer_bytes_, bytes);
  if (one.context.nranks == 1 && !launched(*one.module) && one.module->put != nullptr) {
    const auto half = static_cast<std::size_t>(one.pool->bytes() / 2);
    np_status status = one.module->expose(one.endpoint, one.pool->incoming_base(), half, &one.landing);
    if (status != NP_OK) return fault(*one.module, "opening memory to puts", status);
    one.exposed = true;
    status = one.module->attach(one.endpoint, 0, &one.landing);
    if (status != NP_OK) return fault(*one.module, "attaching to memory", status);
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
  const Result<int> cpu = set_.settle(local, locals);
  if (!cpu) return cpu.failure();
  set_.cpu = *cpu;
  return ok();
}

std::string Rig::describe_here(std::uint32_t index) const {
  const Opened& one = *opened_[index];
  Described described;
  described.settings.open('{');
  if (one.module->describe != nullptr) one.module->describe(one.endpoint, add_described, &described);
  described.settings.close('}');
  Json json;
  json.open('{').field("rank", one.context.rank).field("host", host_name());
  if (set_.cpu >= 0) {
    json.field("cpu", set_.cpu);
  } else {
    json.field_null("cpu");
  }
  json.field_raw("settings", described.settings.take()).close('}');
  return facts_text(one.limits, described.below, json.take());
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

Result<Opening> Rig::open(std::uint32_t index) {
  Group& group = *set_.group;
  const np_module& module = *set_.resolved->variants[index].module;
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
  const auto connected = [&](const std::vector<std::string>& addresses) -> Result<std::string> {
    if (Outcome done = job ? settle_here(index, addresses) : connect_here(index, addresses); !done) {
      return done.failure();
    }
    if (Outcome done = ready_here(index); !done) return done.failure();
    return describe_here(index);
  };
  const Result<std::vector<std::string>> addresses = agree(guarded([&] { return open_here(index); }), false);
  if (!addresses) {
    opened_[index].reset();
    return addresses.failure();
  }
  const Result<std::vector<std::string>> facts = agree(guarded([&] { return connected(*addresses); }), true);
  if (!facts) {
    opened_[index].reset();
    return facts.failure();
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
  const Pattern& pattern = *set_.resolved->modes[command.pattern].pattern;
  const int rank = stage.rank;
  const std::uint64_t sent = rounds * pattern.departures(stage);
  const std::uint64_t received = rounds * pattern.arrivals(stage);
  const bool verify = set_.plan->verify && one.limits.delivers != 0;
  const std::uint32_t many = verify ? UINT32_MAX : 1;
  // A process alone copies between two places, and verification must still know what was sent.
  const bool one_buffer = pattern.one_buffer && stage.nranks > 1 && !verify && !set_.plan->buffers.cold;
  stage.outgoing = one_buffer ? one.pool->returning(command.size_bytes) : one.pool->outgoing(command.size_bytes, many);
  stage.incoming = one.pool->incoming(command.size_bytes, std::max(many, pattern.in_flight(stage)));
  if (verify) {
    stage.outgoing.rewind();
    stage.incoming.rewind();
    const int sender = pattern.sender(rank, stage.nranks);
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
  const int sender = pattern.sender(stage.rank, stage.nranks);
  const std::uint64_t received = rounds * pattern.arrivals(stage);
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
  const Mode& mode = set_.resolved->modes[command.pattern];
  const Pattern& pattern = *mode.pattern;
  const int nranks = one.context.nranks;
  const Part part = mode.part(one.context.rank, nranks, command.size_bytes);
  const std::uint64_t rounds = all_rounds(pattern, part, command.samples, command.rounds);
  const bool together = launched(*one.module) || nranks > 1;
  requests_.resize(std::max<std::size_t>(requests_.size(), pattern.requests(part, command.rounds)));
  Stage stage{part,
              *one.module,
              one.endpoint,
              {},
              {},
              one.exposed ? &one.landing : nullptr,
              requests_.data(),
              one.pool->token_out(),
              one.pool->token_in()};
  stamps_.resize(readings(pattern, command.samples));
  message_[0] = '\0';

  Watchdog::arm(
      command.deadline_ns, together ? set_.group : nullptr,
      error_line(command, "the module did not return within " + std::to_string(command.deadline_ns / 1'000'000) +
                              " ms, nor after it was told to give up; the process was ended"),
      set_.record_fd);
  prepare(command, one, stage, rounds);
  np_status status = NP_OK;
  if (one.module->prepare != nullptr) {
    const np_visit visit{sizeof visit, 0, command.size_bytes, stage.outgoing.places(), stage.incoming.places()};
    status = one.module->prepare(one.endpoint, &visit);
  }
  if (status == NP_OK && pattern.resets && one.module->reset != nullptr) status = one.module->reset(one.endpoint);
  // Also after a failure, or a peer would take the report of it for the sign that it waits for.
  if (together && !set_.group->barrier() && status == NP_OK) status = NP_ABORTED;
  if (status == NP_OK) status = pattern.run(stage, command.samples, command.rounds, stamps_.data());
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
  yard_memory_.resize(yardstick_memory_bytes);  // at the first one: the ranks of a job never take any
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
      const Pattern& pattern = *set_.resolved->modes[command.pattern].pattern;
      if (report.status == NP_OK && takes_part(command.variant) &&
          pattern.clock_rank(opened_[command.variant]->context.nranks) == opened_[command.variant]->context.rank) {
        if (Outcome sent = group.send(0, stamps_.data(), stamps_.size() * sizeof(std::int64_t)); !sent) return sent;
      }
    }
  }
}

}  // namespace netpipe
