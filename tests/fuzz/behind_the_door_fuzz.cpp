// SPDX-License-Identifier: Apache-2.0
// Whoever knows the token says whatever it likes: as a client to a serving rank (commands, plans), and as a server to a
// client (reports, facts). Nothing crashes, reads or writes beyond what the plan has, or allocates without bound; what
// is refused is refused with a sentence. To be built with -fsanitize=address,undefined too:
//
//     behind_the_door_fuzz [inputs, 1000000 unless given] [seed, 1 unless given]
//
// Ranks and conductor run in this process, over groups whose other end is a text in memory, and over a module that is
// part of this program, moves nothing and looks at what it is called with.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "engine/command_check.h"
#include "engine/engine.h"
#include "engine/processes/forked.h"
#include "engine/watchdog.h"
#include "fuzz.h"
#include "link/group.h"
#include "plan/plan.h"
#include "record/foreign_json.h"
#include "sampling/sampler.h"
#include "serving/measuring.h"
#include "worker/results/records.h"
#include "worker/results/samples.h"
#include "worker/workers/workers.h"

namespace {

using namespace netpipe;        // NOLINT(google-build-using-namespace): a program of one file
using namespace netpipe::fuzz;  // NOLINT(google-build-using-namespace): the same

constexpr std::size_t most_allocated = std::size_t{16} << 20;  // by one input

constexpr std::array<std::uint64_t, 4> sizes = {1, 8, 100, 4096};

// How far the inputs came, to see that they test what they are meant to.
struct Reached {
  std::uint64_t opened = 0, visited = 0, refused = 0, plans = 0, reports = 0, bad_reports = 0, points = 0,
                rewritten = 0;
} reached;  // NOLINT: a tally of the whole program

// ------------------------------------------------------------------------------------------------------ the module

struct Calls {
  int left = 0;  // of this visit: then the module says that it was stopped
  std::uint64_t made = 0;
  std::uint8_t noise = 0;  // what the peer "sends"
} calls;                   // NOLINT: a module has no other place for what a test wants of it

np_status call(const void* data, std::size_t bytes) {
  ++calls.made;
  const bool planned = std::find(sizes.begin(), sizes.end(), bytes) != sizes.end();
  require(planned || bytes <= token_bytes, "a message was moved of a size that the plan does not have");
  // Both ends of it are memory that is there: the sanitizer looks.
  volatile const char* const at = static_cast<const char*>(data);
  if (bytes > 0) (void)(at[0] + at[bytes - 1]);
  return --calls.left < 0 ? NP_ABORTED : NP_OK;
}

np_status send(np_endpoint*, int, const void* data, std::size_t bytes) { return call(data, bytes); }
np_status recv(np_endpoint*, int, void* data, std::size_t bytes) {
  if (calls.noise % 4 == 0) std::memset(data, calls.noise, bytes);
  return call(data, bytes);
}
np_status start(np_endpoint*, int, const void* base, std::size_t stride, std::size_t bytes, np_request* requests,
                std::size_t count) {
  np_status status = NP_OK;
  for (std::size_t i = 0; i < count && status == NP_OK; ++i) {
    requests[i] = {};
    status = call(static_cast<const char*>(base) + i * stride, bytes);
  }
  return status;
}
np_status isend(np_endpoint* e, int peer, const void* base, std::size_t stride, std::size_t bytes, np_request* requests,
                std::size_t count) {
  return start(e, peer, base, stride, bytes, requests, count);
}
np_status irecv(np_endpoint* e, int peer, void* base, std::size_t stride, std::size_t bytes, np_request* requests,
                std::size_t count) {
  return start(e, peer, base, stride, bytes, requests, count);
}
np_status wait(np_endpoint*, np_request*, std::size_t) { return NP_OK; }
np_status test(np_endpoint*, np_request*) { return NP_OK; }

int nothing = 0;  // NOLINT: what an endpoint is
np_status open(const np_context*, np_endpoint** endpoint) {
  *endpoint = reinterpret_cast<np_endpoint*>(&nothing);
  return NP_OK;
}
void close(np_endpoint*) {}
np_status address(np_endpoint*, void*, std::size_t* bytes) {
  *bytes = 0;
  return NP_OK;
}
np_status connect(np_endpoint*, const void* const*, const std::size_t*) { return NP_OK; }
void read_counters(np_endpoint*, std::int64_t* values) { values[0] = values[1] = 7; }

constexpr np_messages messages = {
    .size = sizeof(np_messages), .send = send, .recv = recv, .isend = isend, .irecv = irecv};
constexpr std::array<np_counter, 2> counters = {
    {{"sent", "1", "messages", NP_COUNTS_UP}, {"speed", "1/s", "the last one", NP_GAUGE}}};
constexpr np_module module = {.magic = NP_MAGIC,
                              .abi = NP_ABI,
                              .size = sizeof(np_module),
                              .name = "hollow",
                              .summary = "moves nothing between two ranks",
                              .version = "1",
                              .option_bytes = sizeof(np_option),
                              .counters = counters.data(),
                              .ncounters = counters.size(),
                              .counter_bytes = sizeof(np_counter),
                              .min_ranks = 2,
                              .max_ranks = 2,
                              .crosses_hosts = 1,
                              .messages = &messages,
                              .open = open,
                              .close = close,
                              .address = address,
                              .connect = connect,
                              .wait = wait,
                              .test = test,
                              .read_counters = read_counters};

// ---------------------------------------------------------------------------------------------------- the other end

// A group of two whose other member has said all that it will ever say.
class Script final : public Group {
 public:
  explicit Script(int rank) : rank_(rank) {}
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return 2; }
  Outcome send(int, const void*, std::size_t) override { return ok(); }
  Outcome recv(int, void* data, std::size_t bytes) override {
    if (said_.size() - at_ < bytes) return failed("the other end has gone");
    if (bytes > 0) std::memcpy(data, said_.data() + at_, bytes);
    at_ += bytes;
    return ok();
  }
  bool arrives(int, int) override { return true; }
  [[nodiscard]] bool gone(int) const noexcept override { return false; }

  void say(std::string said) {
    said_ = std::move(said);
    at_ = 0;
  }

 private:
  int rank_;
  std::string said_;
  std::size_t at_ = 0;
};

template <typename T>
void append(std::string& text, const T& plain) {
  text.append(reinterpret_cast<const char*>(&plain), sizeof plain);
}
void append_text(std::string& text, std::string_view one) {
  append(text, static_cast<std::uint32_t>(one.size()));
  text += one;
}

class OneOfMany final : public RankProcess {  // costs nothing to open: nobody reads /proc for it
 public:
  explicit OneOfMany(const ForkedProcess::Setting& setting) : forked_(setting) {}
  [[nodiscard]] Identity identity(const Variant& v) const override { return forked_.identity(v); }
  [[nodiscard]] int members(const Variant& v, int whole) const override { return forked_.members(v, whole); }
  Result<std::string> address(Endpoint& e) override { return forked_.address(e); }
  Outcome connect(Endpoint& e, const std::vector<std::string>& all) override { return forked_.connect(e, all); }
  [[nodiscard]] int cpu() const override { return -1; }
  np_status after_visit(Endpoint&) override { return NP_OK; }
  [[nodiscard]] int in_process() const override { return 2; }
  [[nodiscard]] std::string last_words(const StuckIn&, const std::string&) const override { return {}; }
  [[nodiscard]] int last_words_fd() const override { return -1; }

 private:
  ForkedProcess forked_;
};

// ------------------------------------------------------------------------------------------------------------ inputs

struct Planned {
  Registry registry;
  Plan plan;
  Resolved resolved;
  std::string canonical;
};

Planned planned(bool verify) {
  Result<Registry> registry = Registry::of(&module, "hollow.so", "");
  if (!registry) std::fprintf(stderr, "%s\n", registry.failure().sentence.c_str());
  require(static_cast<bool>(registry), "the module was refused");
  const std::string text = std::string("netpipe-plan 1\nvariant hollow\n") +
                           "pattern pingpong\npattern stream\npattern bidirectional\npattern burst\npattern window\n"
                           "pattern overhead\npattern incast\npattern outcast\npattern cast:by=sends\npattern put\n"
                           "schedule list\nsizes 1,8,100,4k\ntimeout 2\nbudget 1\nverify " +
                           (verify ? "yes" : "no") + "\nend\n";
  Result<Plan> plan = parse_plan(text);
  require(static_cast<bool>(plan), "the plan was refused");
  Result<Resolved> resolved = resolve(*plan, *registry);
  if (!resolved) std::fprintf(stderr, "%s\n", resolved.failure().sentence.c_str());
  require(static_cast<bool>(resolved), "the plan was not resolved");
  Planned all{std::move(*registry), std::move(*plan), std::move(*resolved), {}};
  all.canonical = canonical_text(all.plan, all.resolved);
  return all;
}

// -------------------------------------------------------------------------------------------------------- commands

Command random_command(Random& random, const Planned& p) {
  Command c;
  c.verb = static_cast<Verb>(random.one_in(20) ? random.number() : 1 + random.below(6));
  if (random.one_in(2)) c.verb = Verb::visit;
  if (c.verb == Verb::yardstick && !random.one_in(1000)) c.verb = Verb::visit;  // it copies megabytes
  c.variant = 0;
  c.pattern = static_cast<std::uint32_t>(random.below(p.resolved.patterns.size()));
  c.size_bytes = random.any(sizes);
  c.samples = 1 + random.below(20);
  c.rounds = 1 + random.below(20);
  c.visit = random.number();
  c.deadline_ns = 1 + static_cast<std::int64_t>(random.below(2'000'000'000));
  // One of the fields, mostly none of them, is anything.
  switch (random.below(12)) {
    case 0: c.variant = static_cast<std::uint32_t>(random.number()); break;
    case 1: c.pattern = static_cast<std::uint32_t>(random.number()); break;
    case 2: c.size_bytes = random.number(); break;
    case 3: c.samples = random.number(); break;
    case 4: c.rounds = random.number(); break;
    case 5: c.deadline_ns = static_cast<std::int64_t>(random.number()); break;
    case 6: {
      std::array<char, sizeof c> bytes{};
      std::memcpy(bytes.data(), &c, sizeof c);
      for (int i = 0; i < 3; ++i) bytes[random.below(bytes.size())] = static_cast<char>(random.number());
      std::memcpy(&c, bytes.data(), sizeof c);
      break;
    }
    default: break;
  }
  return c;
}

// What a client says after a command for it to be carried out, and sometimes something else.
void answer(std::string& said, const Command& c, Random& random) {
  const std::size_t before = said.size();
  if (c.verb == Verb::open) {
    append_text(said, "+");
    append_text(said, "+");
    append_text(said, random.one_in(10) ? "-4 rank 0 failed" : "+");
  }
  if (c.verb == Verb::visit) said += '\0';
  if (said.size() > before && random.one_in(20))
    said[before + random.below(said.size() - before)] ^= static_cast<char>(1 << random.below(8));
}

// A rank that follows, for many conversations.
class Follower {
 public:
  explicit Follower(const Planned& p)
      : planned_(p),
        script_(1),
        process_({.plan = &p.plan, .rank = 1, .cpu = -1, .one_host = false}),
        engine_(setting()) {
    Command open{.verb = Verb::open};
    std::string said;
    append(said, open);
    for (int i = 0; i < 3; ++i) append_text(said, "+");
    script_.say(std::move(said));
    require(!engine_.follow_commands(), "a rank outlived its client");
  }

  void one(Random& random) {
    allocated_bytes = 0;
    std::string said;
    for (std::uint64_t i = 0; i < 1 + random.below(3); ++i) {
      const Command c = random_command(random, planned_);
      append(said, c);
      answer(said, c, random);
    }
    calls = {.left = 100, .made = 0, .noise = static_cast<std::uint8_t>(random.number())};
    script_.say(std::move(said));
    const Outcome followed = engine_.follow_commands();
    if (calls.made > 0) ++reached.visited;
    if (!followed) {
      const std::string& why = followed.failure().sentence;
      require(!why.empty() && followed.failure().exit == Exit::failed, "a refusal without a sentence, or another code");
      if (why.find("a command that the plan does not have") != std::string::npos) ++reached.refused;
    }
    require(allocated_bytes <= most_allocated, "a command made a rank allocate more than its limit");
  }

 private:
  RankSetting setting() {
    RankSetting setting;
    setting.group = &script_;
    setting.process = &process_;
    setting.plan = &planned_.plan;
    setting.resolved = &planned_.resolved;
    setting.job = "job";
    setting.local_address = "127.0.0.1";
    return setting;
  }

  const Planned& planned_;
  Script script_;
  OneOfMany process_;
  Engine engine_;
};

// ----------------------------------------------------------------------------------------------------------- plans

std::string mutated(std::string text, Random& random) {
  for (std::uint64_t i = 0; i < 1 + random.below(4); ++i) {
    const std::size_t at = random.below(text.size() + 1);
    switch (random.below(6)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(random.number());
        break;
      case 1: text.insert(at, std::to_string(random.number())); break;
      case 2: text.erase(at, random.below(20)); break;
      case 3: text.insert(at, text.substr(random.below(text.size() + 1), random.below(60))); break;
      case 4: text.resize(at); break;
      default: {  // a number becomes another
        const std::size_t digit = text.find_first_of("0123456789", at);
        if (digit == std::string::npos) break;
        const std::size_t end = text.find_first_not_of("0123456789", digit);
        text.replace(digit, end == std::string::npos ? end : end - digit, std::to_string(random.number()));
      }
    }
    if (text.empty()) text = "x";
  }
  return text;
}

void one_plan(const Planned& p, Random& random) {
  const std::string text = random.one_in(50) ? p.canonical : mutated(p.canonical, random);
  const Result<RemotePlan> fine = check_remote_plan(text, Bounds{}, p.registry);
  require(!fine || text.starts_with("netpipe-plan 1\n"), "an invalid plan was accepted");
  require(fine || !fine.failure().sentence.empty(), "a plan was refused without a sentence");
  require(text != p.canonical || static_cast<bool>(fine), "an honest plan was refused");
  ++reached.plans;
}

// ---------------------------------------------------------------------------------------------------------- reports

// What a server says after a visit, and what a client makes of it.
class Conductor {
 public:
  explicit Conductor(const Planned& p) : planned_(p), script_(0) { begin(p); }

  void one(Random& random) {
    std::optional<Visit> visit = sampler_->next();
    if (!visit || random.one_in(500)) {
      sampler_->interrupt();
      write_done();
      begin(planned_);
      visit = sampler_->next();
      if (!visit) return;
    }
    allocated_bytes = 0;
    const Curve& curve = sampler_->curves()[visit->curve];
    const ChosenPattern& chosen = planned_.resolved.patterns[curve.setting.pattern];
    Command c{.verb = Verb::visit, .pattern = curve.setting.pattern};
    c.size_bytes = curve.points[visit->point].size_bytes;
    c.samples = visit->samples;
    c.rounds = visit->rounds;
    c.deadline_ns = 1'000'000'000;
    script_.say(report(random, chosen, c));
    Report own;
    Gathered gathered;
    const Visited visited{chosen, *planned_.resolved.variants[0].module};
    const Result<Report> joined = collect(script_, c, visited, {0, 1}, &own, gathered);
    if (!joined) {
      require(!joined.failure().sentence.empty(), "a report was refused without a sentence");
      ++reached.bad_reports;
    } else {
      require(std::memchr(joined->sentence, 0, sizeof joined->sentence) != nullptr, "a sentence has no end");
      for (const char one : std::string_view(joined->sentence)) require(one >= ' ' || one < 0, "a control character");
      ++reached.reports;
      if (joined->status == NP_OK) use(*visit, chosen, c, gathered, random);
    }
    require(allocated_bytes <= most_allocated, "a report made a client allocate more than its limit");
  }

 private:
  void begin(const Planned& p) {
    std::vector<CurveSetting> curves;
    for (std::uint32_t m = 0; m < p.resolved.patterns.size(); ++m) {
      const ChosenPattern& chosen = p.resolved.patterns[m];
      if (!skip_reason(chosen, p.resolved.variants[0]).empty()) continue;
      CurveSetting curve;
      curve.pattern = m;
      curve.operations_per_round = chosen.pattern->operations(chosen.part(0, 2, 8));
      curve.single_rounds = chosen.pattern->single_rounds;
      curve.sizes.assign(sizes.begin(), sizes.end());
      for (const std::uint64_t size : sizes) {
        curve.most_rounds_of_sample.push_back(chosen.pattern->most_rounds(chosen.part(0, 2, size)));
      }
      curves.push_back(std::move(curve));
    }
    sampler_.emplace(SamplerSetting{.budget_s = 0.01}, std::move(curves));
  }

  std::string report(Random& random, const ChosenPattern& chosen, const Command& c) {
    Report r;
    r.counters = counters.size();
    r.losses = random.one_in(3) ? static_cast<std::uint32_t>(c.samples) : 0;
    if (random.one_in(8)) r.status = static_cast<std::int32_t>(random.below(11));
    if (random.one_in(8)) std::memset(r.sentence, static_cast<int>(random.below(256)), sizeof r.sentence);
    if (random.one_in(30)) r.counters = static_cast<std::uint32_t>(random.number());
    if (random.one_in(30)) r.losses = static_cast<std::uint32_t>(random.number());
    if (random.one_in(30)) r.cause = static_cast<std::uint32_t>(random.number());
    if (random.one_in(30)) r.verified_bytes = random.number();
    std::string said;
    append(said, r);
    const bool wild = random.one_in(4);  // else such that the sampler goes on
    const std::uint64_t numbers = notes_of(*chosen.pattern, chosen.part(1, 2, c.size_bytes), c.samples, c.rounds) +
                                  counters.size() + r.losses % 4096;
    std::int64_t clock = 1'000'000;
    for (std::uint64_t i = 0; i < numbers; ++i) {
      clock += static_cast<std::int64_t>(random.below(100'000));
      const auto any = static_cast<std::int64_t>(random.number());
      append(said, wild && random.one_in(4) ? (random.one_in(2) ? any : any >> 8) : clock);
    }
    if (random.one_in(40)) said.resize(random.below(said.size()));
    return said;
  }

  void use(const Visit& visit, const ChosenPattern& chosen, const Command& c, Gathered& gathered, Random& random) {
    // The notes of this side are honest: a clock that goes on.
    std::int64_t clock = 5'000'000;
    for (std::int64_t& note : gathered.notes[0]) note = clock += 1 + static_cast<std::int64_t>(random.below(100'000));
    gathered.counters[0] = {1, 1};
    const Samples samples = take_samples(chosen,
                                         {.nranks = 2,
                                          .size_bytes = c.size_bytes,
                                          .samples = c.samples,
                                          .rounds = c.rounds,
                                          .calibrating = visit.pass < 0},
                                         gathered);
    const std::size_t dropped = sampler_->report(visit, samples.ns, 1e-5, 0, 0, samples.beside, samples.span_ns);
    const CurveName name{0, planned_.resolved.variants.data(), &chosen};
    const std::string sample = sample_record(name, {.size_bytes = c.size_bytes, .dropped = dropped}, samples);
    require(sample.find('\n') == std::string::npos && rewritten_object(sample) == sample,
            "a sample is not a line of JSON");
    write_done();
  }

  void write_done() {
    for (const auto& [of, p] : sampler_->take_done()) {
      const std::span<const Block> blocks = sampler_->blocks_of(of, p);
      if (blocks.empty()) continue;
      const Curve& done = sampler_->curves()[of];
      Opening opening;
      opening.nranks = 2;
      const CurveName done_name{0, planned_.resolved.variants.data(),
                                &planned_.resolved.patterns[done.setting.pattern]};
      const std::string point = point_record(done_name, done.setting, opening, done.points[p], blocks);
      require(rewritten_object(point) == point, "a point is not a line of JSON");
      ++reached.points;
    }
  }

  const Planned& planned_;
  Script script_;
  std::optional<Sampler> sampler_;
};

// ------------------------------------------------------------------------------------------------------------ facts

// What a server says of its host and its endpoint.
void one_text(Random& random) {
  static const std::string honest =
      R"({"rank":1,"host":"node7","cpu":null,"settings":{"nodelay":"yes","why":"a\"b\\\u0007\ud83d\ude00"},)"
      R"("list":[1,-2.5e3,true,[]],"open_s":0.25})";
  const std::string text = random.one_in(30) ? honest : mutated(honest, random);
  if (const std::optional<std::string> anew = rewritten_object(text)) {
    ++reached.rewritten;
    for (const char one : *anew) require(static_cast<unsigned char>(one) >= ' ' && one != 0x7f, "a control character");
    require(rewritten_object(*anew) == *anew, "what was written anew changes when it is read again");
  }
  (void)opening_of({"", mutated("4096 1 0 0 64\nunix\n" + text, random)}, {1});
  (void)parse_keys(mutated(std::string(60, 'k'), random));
}

}  // namespace

int main(int argc, char** argv) {
  const auto [inputs, seed] = Arguments(argc, argv);
  Random random(seed);
  const std::int64_t begin = now_ns();
  require(static_cast<bool>(Watchdog::install(false)), "no watchdog");
  const std::array<Planned, 2> plans = {planned(false), planned(true)};
  std::array<std::unique_ptr<Follower>, 2> followers;
  std::array<Conductor, 2> conductors = {Conductor(plans[0]), Conductor(plans[1])};
  for (std::uint64_t i = 0; i < inputs; ++i) {
    const std::size_t which = random.below(2);
    const std::uint64_t kind = random.below(20);
    if (kind < 12) {
      if (!followers[which] || random.one_in(5000)) {
        followers[which].reset();
        followers[which] = std::make_unique<Follower>(plans[which]);
        ++reached.opened;
      }
      followers[which]->one(random);
    } else if (kind < 17) {
      conductors[which].one(random);
    } else if (kind < 19) {
      one_text(random);
    } else {
      one_plan(plans[which], random);
    }
  }
  std::printf(
      "%llu inputs in %.1f s; opened %llu, visited %llu, refused %llu; plans %llu; reports %llu, refused %llu, points "
      "%llu; texts written anew %llu\n",
      shown(inputs), static_cast<double>(now_ns() - begin) * 1e-9, shown(reached.opened), shown(reached.visited),
      shown(reached.refused), shown(reached.plans), shown(reached.reports), shown(reached.bad_reports),
      shown(reached.points), shown(reached.rewritten));
  const bool deep = reached.visited > 0 && reached.refused > 0 && reached.plans > 0 && reached.reports > 0 &&
                    reached.bad_reports > 0 && reached.points > 0 && reached.rewritten > 0;
  return verdict(inputs >= 10'000, deep);
}
