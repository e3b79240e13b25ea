// SPDX-License-Identifier: Apache-2.0
#include "catalog/description.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <optional>

#include "base/text.h"
#include "catalog/contract.h"

namespace netpipe {
namespace {

constexpr std::string_view first_line = "netpipe-module 1";
constexpr std::size_t option_fields = 11;
constexpr std::size_t older_option_fields = 9;  // without applies_to and unsupported, which may be empty
constexpr std::size_t counter_fields = 4;
constexpr std::size_t measure_fields = 5;

constexpr std::array<std::string_view, 3> process_models = {"forked", "launched", "daemons"};
constexpr std::array<std::string_view, 6> groups = {"messages", "one_sided", "collectives",
                                                    "requests", "cast",      "strided"};  // NP_USES_..., bit by bit

std::string one_line(const char* text) {
  std::string line = text != nullptr ? text : "";
  for (char& c : line) {
    if (c == '\n' || c == '\t' || c == '\r') c = ' ';
  }
  return line;
}

std::string group_names(std::uint32_t bits) {
  std::string names;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if ((bits & (1U << i)) != 0) names.append(names.empty() ? "" : "|").append(groups[i]);
  }
  return names;
}

std::optional<std::uint32_t> group_bits(std::string_view names) {
  std::uint32_t bits = 0;
  if (names.empty()) return bits;
  for (const std::string& name : split(names, '|')) {
    const auto at = std::find(groups.begin(), groups.end(), name);
    if (at == groups.end()) return std::nullopt;
    bits |= 1U << (at - groups.begin());
  }
  return bits;
}

std::string tabbed(const char* key, const std::vector<std::string>& fields) {
  std::string line = key;
  for (const std::string& field : fields) line += "\t" + field;
  return line + "\n";
}

}  // namespace

std::string describe_layer(const Layer& layer, const std::string& file, const std::string& name) {
  std::string text = std::string(first_line) + "\n";
  const auto line = [&](const char* key, const std::string& value) { text += std::string(key) + " " + value + "\n"; };
  line("abi", std::to_string(NP_ABI));
  line("name", name.empty() ? layer.name : name);
  line("file", file);
  line("summary", one_line(layer.summary));
  line("version", one_line(layer.version));
  if (layer.below != nullptr) line("below", one_line(layer.below));
  if (layer.adds != nullptr) line("adds", one_line(layer.adds));
  line("process-model", std::string(process_models[layer.process_model]));
  line("ranks", std::to_string(layer.min_ranks) + " " + std::to_string(layer.max_ranks));
  line("threads", std::to_string(layer.max_threads));
  line("crosses-hosts", layer.crosses_hosts != 0 ? "yes" : "no");
  line("idle", layer.idle != 0 ? "yes" : "no");
  line("to-itself", layer.to_itself != 0 ? "yes" : "no");
  std::string all;
  for (const std::string_view operation : operations(layer)) all.append(all.empty() ? "" : " ").append(operation);
  line("operations", all);
  for (std::uint32_t i = 0; i < layer.ncounters; ++i) {
    const np_counter& c = layer.counters[i];
    text += tabbed("counter", {c.name, one_line(c.unit), c.kind == NP_GAUGE ? "gauge" : "up", one_line(c.help)});
  }
  for (std::uint32_t i = 0; i < layer.nmeasures; ++i) {
    const np_measure& m = layer.measures[i];
    text += tabbed("measure", {m.name, one_line(m.unit), layer.counters[m.sum].name, layer.counters[m.count].name,
                               one_line(m.help)});
  }
  for (std::uint32_t i = 0; i < layer.noptions; ++i) {
    const np_option& o = layer.options[i];
    text += tabbed("option", {o.name, std::string(type_name(o.type)), one_line(o.default_value), std::to_string(o.min),
                              std::to_string(o.max), one_line(o.choices), one_line(o.unit),
                              std::string(tunable_word(tunable_of(o))), one_line(o.help), group_names(o.applies_to),
                              one_line(o.unsupported)});
  }
  return text;
}

const char* DescribedModule::keep(std::string_view text) { return texts_.emplace_back(text).c_str(); }

Outcome DescribedModule::take_option(std::vector<std::string> fields) {
  if (fields.size() < older_option_fields || fields.size() > option_fields) {
    return usage("an option has " + std::to_string(fields.size()) + " fields instead of " +
                 std::to_string(option_fields));
  }
  fields.resize(option_fields);  // empty fields at the end of a line are as good as none
  np_option option{};
  option.name = keep(fields[0]);
  const std::optional<np_type> type = type_named(fields[1]);
  if (!type) return usage("'" + fields[1] + "' is not a type of option");
  option.type = *type;
  option.default_value = keep(fields[2]);
  const Result<std::int64_t> min = parse_integer(fields[3]);
  const Result<std::int64_t> max = parse_integer(fields[4]);
  if (!min || !max) return usage("the range of option '" + fields[0] + "' is not a pair of numbers");
  option.min = *min;
  option.max = *max;
  option.choices = fields[5].empty() ? nullptr : keep(fields[5]);
  option.unit = keep(fields[6]);
  const std::optional<np_tunable> tunable = tunable_named(fields[7]);
  if (!tunable) {
    return usage("option '" + fields[0] + "' is tunable '" + fields[7] +
                 "'; the words are no, yes, waiting and calling");
  }
  option.tunable = *tunable;
  option.help = keep(fields[8]);
  const std::optional<std::uint32_t> bits = group_bits(fields[9]);
  if (!bits) return usage("option '" + fields[0] + "' applies to '" + fields[9] + "', which is not a group");
  option.applies_to = *bits;
  option.unsupported = fields[10].empty() ? nullptr : keep(fields[10]);
  options_.push_back(option);
  return ok();
}

Outcome DescribedModule::take_counter(const std::vector<std::string>& fields) {
  if (fields.size() != counter_fields) {
    return usage("a counter has " + std::to_string(fields.size()) + " fields instead of " +
                 std::to_string(counter_fields));
  }
  const std::uint32_t kind = fields[2] == "gauge" ? NP_GAUGE : NP_COUNTS_UP;
  counters_.push_back({keep(fields[0]), keep(fields[1]), keep(fields[3]), kind});
  return ok();
}

Outcome DescribedModule::take_measure(const std::vector<std::string>& fields) {
  if (fields.size() != measure_fields) {
    return usage("a measure has " + std::to_string(fields.size()) + " fields instead of " +
                 std::to_string(measure_fields));
  }
  const auto place_of = [&](const std::string& name) {  // of none: one behind the last
    const auto at =
        std::find_if(counters_.begin(), counters_.end(), [&](const np_counter& one) { return name == one.name; });
    return static_cast<std::uint32_t>(at - counters_.begin());
  };
  measures_.push_back({keep(fields[0]), keep(fields[1]), keep(fields[4]), place_of(fields[2]), place_of(fields[3])});
  return ok();
}

Outcome DescribedModule::take_ranks(std::string_view value) {
  const std::vector<std::string> ends = split(value, ' ');
  const Result<std::int64_t> least = parse_integer(ends[0]);
  const Result<std::int64_t> most = parse_integer(ends.back());
  if (ends.size() != 2 || !least || !most || *least < 1 || *most > INT32_MAX) return usage("ranks are two numbers");
  layer_.min_ranks = static_cast<std::int32_t>(*least);
  layer_.max_ranks = static_cast<std::int32_t>(*most);
  return ok();
}

Outcome DescribedModule::take(std::string_view key, std::string_view value) {
  if (key == "abi" && value != std::to_string(NP_ABI)) {
    return usage("the module was built for module ABI " + std::string(value) + ", this netpipe has " +
                 std::to_string(NP_ABI));
  }
  if (key == "name") layer_.name = keep(value);
  if (key == "file") file_ = value;
  if (key == "summary") layer_.summary = keep(value);
  if (key == "version") layer_.version = keep(value);
  if (key == "below") layer_.below = keep(value);
  if (key == "adds") layer_.adds = keep(value);
  if (key == "crosses-hosts") layer_.crosses_hosts = value == "yes" ? 1 : 0;
  if (key == "idle") layer_.idle = value == "yes" ? 1 : 0;
  if (key == "to-itself") layer_.to_itself = value == "yes" ? 1 : 0;
  if (key == "ranks") return take_ranks(value);
  if (key == "process-model") {
    const auto at = std::find(process_models.begin(), process_models.end(), value);
    if (at == process_models.end()) return usage("'" + std::string(value) + "' is not a process model");
    layer_.process_model = static_cast<std::uint32_t>(at - process_models.begin());
  }
  if (key == "threads") {
    const Result<std::int64_t> most = parse_integer(value);
    if (!most || *most < 0 || *most > INT32_MAX) return usage("threads is not a number");
    layer_.max_threads = static_cast<std::uint32_t>(*most);
  }
  if (key == "operations") {
    for (const std::string& operation : split(value, ' ')) {
      if (!mark_operation(layer_, operation)) return usage("there is no operation '" + operation + "'");
      // Descriptions without a process model are from before there was more than this one.
      if (operation == "bootstrap") layer_.process_model = NP_LAUNCHED;
    }
  }
  return ok();
}

Result<std::unique_ptr<DescribedModule>> DescribedModule::parse(std::string_view text, const std::string& path) {
  std::unique_ptr<DescribedModule> module(new DescribedModule);
  int number = 0;
  const auto refuse = [&](const std::string& why) {
    return usage("module description " + path + ", line " + std::to_string(number) + ": " + why +
                 "; add the module again (netpipe modules add)");
  };
  for (const std::string& line : split(text, '\n')) {
    ++number;
    if (number == 1 && line != first_line) return refuse("it does not begin with '" + std::string(first_line) + "'");
    if (number == 1 || line.empty()) continue;
    Outcome taken = ok();
    const bool in_fields =
        line.starts_with("option\t") || line.starts_with("counter\t") || line.starts_with("measure\t");
    if (in_fields) {
      const std::vector<std::string> fields = split(std::string_view(line).substr(line.find('\t') + 1), '\t');
      taken = line[0] == 'o'   ? module->take_option(fields)
              : line[0] == 'c' ? module->take_counter(fields)
                               : module->take_measure(fields);
    } else {
      const auto blank = line.find(' ');
      const std::string_view value =
          blank == std::string::npos ? std::string_view{} : trim(std::string_view(line).substr(blank));
      taken = module->take(line.substr(0, blank), value);
    }
    if (!taken) return refuse(taken.failure().sentence);
  }
  if (module->file_.empty()) return refuse("it names no file");
  Layer& layer = module->layer_;
  layer.keep_options(std::move(module->options_));
  layer.keep_counters(std::move(module->counters_));
  layer.keep_measures(std::move(module->measures_));
  if (const std::string fault = layer_fault(layer); !fault.empty()) {
    return usage("module " + path + " is refused: " + fault);
  }
  layer.probe = nullptr;  // whether it works shows where it runs
  return module;
}

Result<std::unique_ptr<DescribedModule>> DescribedModule::read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return unavailable("module description " + path + " cannot be read");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  return parse(text, path);
}

}  // namespace netpipe
