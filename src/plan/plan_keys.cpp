// SPDX-License-Identifier: Apache-2.0
#include "plan/plan_keys.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "patterns/kit/slots.h"
#include "record/json.h"

namespace netpipe {
namespace {

using Field = PlanKey::Field;

constexpr std::array<std::string_view, 9> type_names = {"text",  "integer", "real",   "percent",   "size",
                                                        "sizes", "choice",  "yes_no", "processors"};

const std::vector<std::string>& pinnings() {
  static const std::vector<std::string> words = [] {
    std::vector<std::string> all = {"auto", "none"};
    all.insert(all.end(), nearness_names.begin(), nearness_names.end());
    return all;
  }();
  return words;
}

const std::vector<PlanKey>& table() {
  static const std::vector<PlanKey> keys = {
      {.name = "record",
       .metavar = "FILE",
       .help = "The run file that records are appended to, or - for none",
       .field = [](Plan& p) -> Field { return &p.record; }},
      {.name = "launch",
       .metavar = "N",
       .type = PlanType::integer,
       .least = 0,
       .most = 1'000'000,
       .help = "The number of this launch within its run",
       .agreed = true,
       .field = [](Plan& p) -> Field { return &p.launch; }},
      {.name = "launches",
       .metavar = "N",
       .type = PlanType::integer,
       .least = 1,
       .most = 1'000'000,
       .help = "How many launches share the budget of each curve",
       .agreed = true,
       .field = [](Plan& p) -> Field { return &p.launches; }},
      {.name = "variant",
       .metavar = "VARIANT",
       .help = "A module with its settings: MODULE[:OPTION=VALUE,...]",
       .agreed = true,
       .field = [](Plan& p) -> Field { return &p.variants; }},
      {.name = "pattern",
       .option = "pattern",
       .metavar = "PATTERN",
       .help = "A pattern with its settings, such as window:in_flight=64; all runs every pattern, and none only opens "
               "the variants",
       .agreed = true,
       .if_absent = "pingpong",
       .field = [](Plan& p) -> Field { return &p.patterns; }},
      {.name = "module-file",
       .option = "module",
       .metavar = "FILE",
       .help = "A module outside the installation",
       .field = [](Plan& p) -> Field { return &p.module_files; }},
      {.name = "schedule",
       .option = "schedule",
       .metavar = "KIND",
       .type = PlanType::choice,
       .choices = {"classic", "powers", "list", "adaptive"},
       .help = "How message sizes are chosen: classic (as NetPIPE does), powers (of two), list (those of --sizes), or "
               "adaptive (powers of two, and more sizes where the curve bends or steps)",
       .agreed = true,
       .field = [](Plan& p) -> Field { return &p.schedule.kind; }},
      {.name = "sizes",
       .option = "sizes",
       .metavar = "SIZES",
       .type = PlanType::sizes,
       .unit = "bytes",
       .help = "Measure these message sizes and no others: 8,1k,1M. k and M count in 1024, kB and MB in 1000",
       .agreed = true,
       .field = [](Plan& p) -> Field { return &p.schedule.list; }},
      {.name = "wanted",
       .metavar = "VARIANT PATTERN SIZES",
       .help = "What an earlier launch of the run measured of a curve, as SIZE or SIZE=MEDIAN/ERROR/VISITS in ns: "
               "schedule adaptive begins with these sizes and looks for steps in all launches; a curve that this plan "
               "does not have is ignored",
       .field = [](Plan& p) -> Field { return &p.wanted; }},
      {.name = "start",
       .option = "start",
       .metavar = "SIZE",
       .type = PlanType::size,
       .least = 0,
       .unit = "bytes",
       .help = "The smallest message; 0 for layers that have empty ones",
       .field = [](Plan& p) -> Field { return &p.schedule.start_bytes; }},
      {.name = "end-size",
       .option = "end",
       .metavar = "SIZE",
       .type = PlanType::size,
       .least = 1,
       .unit = "bytes",
       .help = "The largest message",
       .field = [](Plan& p) -> Field { return &p.schedule.end_bytes; }},
      {.name = "perturbation",
       .option = "perturbation",
       .metavar = "BYTES",
       .type = PlanType::size,
       .least = 0,
       .unit = "bytes",
       .help = "Also measure this many bytes below and above each size of schedule classic; 0 for neither",
       .field = [](Plan& p) -> Field { return &p.schedule.perturbation_bytes; }},
      {.name = "buffers",
       .option = "buffers",
       .metavar = "POLICY",
       .type = PlanType::choice,
       .choices = split(buffer_choices, '|'),
       .help = buffers_help,
       .agreed = true,
       .field = [](Plan& p) -> Field { return &p.buffers.kind; }},
      {.name = "send-offset",
       .option = "send-offset",
       .metavar = "BYTES",
       .type = PlanType::size,
       .least = 0,
       .most = most_offset_bytes,
       .unit = "bytes",
       .help = "Where messages start, counted from a page boundary",
       .agreed = true,
       .field = [](Plan& p) -> Field { return &p.buffers.send_offset_bytes; }},
      {.name = "recv-offset",
       .option = "recv-offset",
       .metavar = "BYTES",
       .type = PlanType::size,
       .least = 0,
       .most = most_offset_bytes,
       .unit = "bytes",
       .help = "Where messages land, counted from a page boundary",
       .agreed = true,
       .field = [](Plan& p) -> Field { return &p.buffers.recv_offset_bytes; }},
      {.name = "target",
       .option = "target",
       .metavar = "WIDTH",
       .type = PlanType::percent,
       .least = 1e-5,
       .most = 1,
       .help = "A point is done when the half width of its 95 % interval is below this share of its median",
       .agreed = true,
       .field = [](Plan& p) -> Field { return &p.target; }},
      {.name = "budget",
       .option = "budget",
       .metavar = "SECONDS",
       .type = PlanType::real,
       .least = 0.01,
       .most = 86400,
       .unit = "s",
       .help = "Time for one curve, over all launches; slow sizes may exceed it, because each is visited at least once",
       .agreed = true,
       .field = [](Plan& p) -> Field { return &p.budget_s; }},
      {.name = "timeout",
       .option = "timeout",
       .metavar = "SECONDS",
       .type = PlanType::real,
       .least = 0.1,
       .most = 3600,
       .unit = "s",
       .help = "The longest time that any wait may take",
       .agreed = true,
       .field = [](Plan& p) -> Field { return &p.timeout_s; }},
      {.name = "verify",
       .option = "verify",
       .type = PlanType::yes_no,
       .help = "Check every byte that arrives, outside the timed region",
       .agreed = true,
       .field = [](Plan& p) -> Field { return &p.verify; }},
      {.name = "seed",
       .option = "seed",
       .metavar = "NUMBER",
       .type = PlanType::integer,
       .least = 0,
       .help = "Seed for the random order of sizes, and for the bytes of verified messages",
       .agreed = true,
       .field = [](Plan& p) -> Field { return &p.seed; }},
      {.name = "ranks",
       .option = "ranks",
       .metavar = "N",
       .type = PlanType::integer,
       .least = 1,
       .most = most_ranks,
       .help = "Processes of each variant; a layer that stays in one process has one",
       .agreed = true,
       .field = [](Plan& p) -> Field { return &p.ranks; }},
      {.name = "pin",
       .option = "pin",
       .metavar = "CPUS",
       .type = PlanType::processors,
       .choices = pinnings(),
       .help = "Processors, one for each rank: 0,1. auto chooses them, none leaves them to the kernel; smt, cache, "
               "socket and sockets choose two that share a core, a last-level cache, a socket, or nothing",
       .field = [](Plan& p) -> Field { return &p.pin; }},
      {.name = "paced",
       .type = PlanType::yes_no,
       .help = "Wait for a line go after each event pass",
       .field = [](Plan& p) -> Field { return &p.paced; }},
      {.name = "joining",
       .metavar = "SECONDS",
       .type = PlanType::real,
       .least = 0.1,
       .most = 3600,
       .unit = "s",
       .help = "How long the launcher of a library may take to start its processes",
       .field = [](Plan& p) -> Field { return &p.joining_s; }},
      {.name = "hosts",
       .metavar = "A,B",
       .help = "The hosts on which all ranks are started, those of netpipe's own layers by ssh or srun",
       .field = [](Plan& p) -> Field { return &p.hosts; }},
      {.name = "bind",
       .option = "bind",
       .metavar = "ADDRESS",
       .help = "Address of this host, to which the other processes connect; with --hosts it is found automatically",
       .field = [](Plan& p) -> Field { return &p.bind; }},
      {.name = "host",
       .option = "host",
       .metavar = "HOST",
       .help = "The host where netpipe serve runs; without it both ranks run here",
       .field = [](Plan& p) -> Field { return &p.host; }},
      {.name = "port",
       .option = "port",
       .metavar = "PORT",
       .type = PlanType::integer,
       .least = 1,
       .most = 65535,
       .help = "The port of netpipe serve",
       .field = [](Plan& p) -> Field { return &p.port; }},
      {.name = "token-file",
       .option = "token-file",
       .metavar = "FILE",
       .help = "The file with the token that netpipe serve asks for",
       .field = [](Plan& p) -> Field { return &p.token_file; }},
  };
  return keys;
}

std::string number_text(double value) {
  Json json;
  json.value(value);
  return json.take();
}

// As a percentage where that reads back as the same number.
std::string percent_text(double value) {
  const std::string text = number_text(value * 100) + "%";
  const Result<double> back = parse_real(text);
  return back && *back == value ? text : number_text(value);
}

Outcome in_range(const PlanKey& key, double value, std::string_view text) {
  if (value >= key.least.value_or(value) && value <= key.most.value_or(value)) return ok();
  const auto show = [&](double bound) {
    if (key.type == PlanType::size) return size_text(static_cast<std::uint64_t>(bound));
    if (key.type == PlanType::integer) return std::to_string(static_cast<std::int64_t>(bound));
    return number_text(bound);
  };
  const double least = key.least.value_or(value);
  if (!key.most) return usage(std::string(text) + " is below " + show(least));
  return usage(std::string(text) + " is outside " + show(least) + " to " + show(*key.most));
}

Result<std::vector<std::uint64_t>> parse_sizes(std::string_view text) {
  std::vector<std::uint64_t> sizes;
  for (const std::string& one : split(text, ',')) {
    const Result<std::uint64_t> size = parse_size(one);
    if (!size) return size.failure();
    sizes.push_back(*size);
  }
  return sizes;
}

Result<double> parse_number(const PlanKey& key, std::string_view text, std::uint64_t& whole) {
  if (key.type == PlanType::real || key.type == PlanType::percent) return parse_real(text);
  if (key.type == PlanType::size) {
    const Result<std::uint64_t> size = parse_size(text);
    if (!size) return size.failure();
    whole = *size;
    return static_cast<double>(whole);
  }
  const Result<std::int64_t> integer = parse_integer(text);
  if (!integer) return integer.failure();
  whole = static_cast<std::uint64_t>(*integer);
  return static_cast<double>(*integer);
}

Result<std::size_t> parse_choice(const PlanKey& key, std::string_view text) {
  const auto at = std::find(key.choices.begin(), key.choices.end(), text);
  if (at == key.choices.end()) {
    return usage("'" + std::string(text) + "' is not one of its choices" + did_you_mean(text, key.choices));
  }
  return static_cast<std::size_t>(at - key.choices.begin());
}

}  // namespace

std::span<const PlanKey> plan_keys() { return table(); }

Result<Pinning> parse_pinning(std::string_view text) {
  Pinning pin;
  if (text == "auto") return pin;
  if (text == "none") {
    pin.kind = Pinning::Kind::none;
    return pin;
  }
  const auto near = std::find(nearness_names.begin(), nearness_names.end(), text);
  if (near != nearness_names.end()) {
    pin.kind = Pinning::Kind::nearness;
    pin.nearness = static_cast<Nearness>(near - nearness_names.begin());
    return pin;
  }
  pin.kind = Pinning::Kind::list;
  for (const std::string& one : split(text, ',')) {
    const Result<std::int64_t> cpu = parse_integer(one);
    if (!cpu || *cpu < 0 || *cpu > 65535) {
      std::string words;
      for (const std::string& word : pinnings()) words += word + ", ";
      return usage("'" + std::string(text) + "' names no processors; write " + words +
                   "or one processor number for each rank, such as 0,1");
    }
    pin.cpus.push_back(static_cast<int>(*cpu));
  }
  return pin;
}

std::string_view type_name(PlanType type) { return type_names.at(static_cast<std::size_t>(type)); }

bool repeatable(const PlanKey& key) {
  Plan plan;
  return std::holds_alternative<std::vector<std::string>*>(key.field(plan));
}

Outcome set_value(const PlanKey& key, Plan& plan, std::string_view text) {
  const Field field = key.field(plan);
  switch (key.type) {
    case PlanType::text:
      if (auto* const* many = std::get_if<std::vector<std::string>*>(&field)) {
        (*many)->emplace_back(text);
      } else {
        *std::get<std::string*>(field) = std::string(text);
      }
      return ok();
    case PlanType::integer:
    case PlanType::size:
    case PlanType::real:
    case PlanType::percent: {
      std::uint64_t whole = 0;
      const Result<double> number = parse_number(key, text, whole);
      if (!number) return number.failure();
      if (Outcome fits = in_range(key, *number, text); !fits) return fits;
      if (auto* const* real = std::get_if<double*>(&field)) **real = *number;
      if (auto* const* small = std::get_if<int*>(&field)) **small = static_cast<int>(whole);
      if (auto* const* large = std::get_if<std::uint64_t*>(&field)) **large = whole;
      return ok();
    }
    case PlanType::sizes: {
      Result<std::vector<std::uint64_t>> sizes = parse_sizes(text);
      if (!sizes) return sizes.failure();
      *std::get<std::vector<std::uint64_t>*>(field) = std::move(*sizes);
      return ok();
    }
    case PlanType::choice: {
      const Result<std::size_t> index = parse_choice(key, text);
      if (!index) return index.failure();
      if (auto* const* kind = std::get_if<Buffers*>(&field)) **kind = static_cast<Buffers>(*index);
      if (auto* const* kind = std::get_if<Schedule::Kind*>(&field)) **kind = static_cast<Schedule::Kind>(*index);
      return ok();
    }
    case PlanType::yes_no: {
      const Result<bool> yes = parse_yes_no(text);
      if (!yes) return yes.failure();
      *std::get<bool*>(field) = *yes;
      return ok();
    }
    case PlanType::processors: {
      Result<Pinning> pin = parse_pinning(text);
      if (!pin) return pin.failure();
      *std::get<Pinning*>(field) = std::move(*pin);
      return ok();
    }
  }
  return ok();
}

std::vector<std::string> values_of(const PlanKey& key, const Plan& plan) {
  struct Text {
    const PlanKey& key;
    using Values = std::vector<std::string>;
    Values operator()(const std::string* text) const { return text->empty() ? Values{} : Values{*text}; }
    Values operator()(const std::vector<std::string>* many) const { return *many; }
    Values operator()(const double* real) const {
      return {key.type == PlanType::percent ? percent_text(*real) : number_text(*real)};
    }
    Values operator()(const bool* yes) const { return {*yes ? "yes" : "no"}; }
    Values operator()(const int* number) const { return {std::to_string(*number)}; }
    Values operator()(const std::uint64_t* number) const {
      return {key.type == PlanType::size ? size_text(*number) : std::to_string(*number)};
    }
    Values operator()(const std::vector<std::uint64_t>* sizes) const {
      std::string text;
      for (const std::uint64_t size : *sizes) text += (text.empty() ? "" : ",") + std::to_string(size);
      return text.empty() ? Values{} : Values{text};
    }
    Values operator()(const Schedule::Kind* kind) const { return {key.choices[static_cast<std::size_t>(*kind)]}; }
    Values operator()(const Buffers* kind) const { return {key.choices[static_cast<std::size_t>(*kind)]}; }
    Values operator()(const Pinning* pin) const { return {pin_text(*pin)}; }
  };
  Plan copy = plan;  // a field is found in a plan that may be written to
  return std::visit(Text{key}, key.field(copy));
}

std::optional<std::string> default_of(const PlanKey& key) {
  if (key.if_absent != nullptr) return key.if_absent;
  const std::vector<std::string> values = values_of(key, Plan{});
  return values.empty() ? std::nullopt : std::optional(values.front());
}

}  // namespace netpipe
