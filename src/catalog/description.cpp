// SPDX-License-Identifier: Apache-2.0
#include "catalog/description.h"

#include <fstream>
#include <iterator>
#include <optional>

#include "base/text.h"
#include "catalog/contract.h"
#include "catalog/registry.h"

namespace netpipe {
namespace {

constexpr std::string_view first_line = "netpipe-module 1";
constexpr std::size_t older_fields = 9;  // of an option, up to its help
constexpr std::size_t option_fields = 11;

std::string one_line(const char* text) {
  std::string line = text;
  for (char& c : line) {
    if (c == '\n' || c == '\t' || c == '\r') c = ' ';
  }
  return line;
}

}  // namespace

std::string describe_table(const np_module& table, const std::string& file, const std::string& name) {
  std::string text = std::string(first_line) + "\n";
  const auto line = [&](const char* key, const std::string& value) { text += std::string(key) + " " + value + "\n"; };
  line("name", name.empty() ? table.name : name);
  line("file", file);
  line("summary", one_line(table.summary));
  line("version", one_line(table.version));
  if (table.below != nullptr) line("below", one_line(table.below));
  if (table.adds != nullptr) line("adds", one_line(table.adds));
  line("ranks", std::to_string(table.min_ranks) + " " + std::to_string(table.max_ranks));
  line("crosses-hosts", table.crosses_hosts != 0 ? "yes" : "no");
  std::string all;
  for (const std::string_view operation : operations(table)) all.append(all.empty() ? "" : " ").append(operation);
  line("operations", all);
  for (std::uint32_t i = 0; i < table.noptions; ++i) {
    const np_option& o = table.options[i];
    text += "option\t" + std::string(o.name) + "\t" + std::string(type_name(o.type)) + "\t" +
            one_line(o.default_value) + "\t" + std::to_string(o.min) + "\t" + std::to_string(o.max) + "\t" +
            (o.choices != nullptr ? one_line(o.choices) : "") + "\t" + one_line(o.unit) + "\t" +
            (o.tunable != 0 ? "yes" : "no") + "\t" + one_line(o.help) + "\t\t" +
            (o.unsupported != nullptr ? one_line(o.unsupported) : "") + "\n";
  }
  return text;
}

const char* DescribedModule::keep(std::string_view text) { return texts_.emplace_back(text).c_str(); }

Outcome DescribedModule::take_option(const std::vector<std::string>& fields) {
  if (fields.size() != older_fields && fields.size() != option_fields) {
    return usage("an option has " + std::to_string(fields.size()) + " fields instead of " +
                 std::to_string(option_fields));
  }
  np_option option{};
  option.name = keep(fields[0]);
  const std::optional<np_type> type = type_named(fields[1]);
  if (!type) return usage("'" + fields[1] + "' is no type of an option");
  option.type = *type;
  option.default_value = keep(fields[2]);
  const Result<std::int64_t> min = parse_integer(fields[3]);
  const Result<std::int64_t> max = parse_integer(fields[4]);
  if (!min || !max) return usage("the range of option '" + fields[0] + "' is no pair of numbers");
  option.min = *min;
  option.max = *max;
  option.choices = fields[5].empty() ? nullptr : keep(fields[5]);
  option.unit = keep(fields[6]);
  option.tunable = fields[7] == "yes" ? 1 : 0;
  option.help = keep(fields[8]);
  option.unsupported = fields.size() == option_fields && !fields[10].empty() ? keep(fields[10]) : nullptr;
  options_.push_back(option);
  return ok();
}

Outcome DescribedModule::take(std::string_view key, std::string_view value) {
  if (key == "name") table_.name = keep(value);
  if (key == "file") file_ = value;
  if (key == "summary") table_.summary = keep(value);
  if (key == "version") table_.version = keep(value);
  if (key == "below") table_.below = keep(value);
  if (key == "adds") table_.adds = keep(value);
  if (key == "crosses-hosts") table_.crosses_hosts = value == "yes" ? 1 : 0;
  if (key == "ranks") {
    const std::vector<std::string> ends = split(value, ' ');
    const Result<std::int64_t> least = parse_integer(ends[0]);
    const Result<std::int64_t> most = parse_integer(ends.back());
    if (ends.size() != 2 || !least || !most || *least < 1 || *most > INT32_MAX) return usage("ranks are two numbers");
    table_.min_ranks = static_cast<std::int32_t>(*least);
    table_.max_ranks = static_cast<std::int32_t>(*most);
  }
  if (key == "operations") {
    for (const std::string& operation : split(value, ' ')) {
      if (!mark_operation(table_, operation)) return usage("there is no operation '" + operation + "'");
    }
  }
  return ok();
}

Result<std::unique_ptr<DescribedModule>> DescribedModule::parse(std::string_view text, const std::string& path) {
  std::unique_ptr<DescribedModule> module(new DescribedModule);
  module->table_.magic = NP_MAGIC;
  module->table_.abi = NP_ABI;
  module->table_.size = sizeof(np_module);
  int number = 0;
  const auto refuse = [&](const std::string& why) {
    return usage("module description " + path + ", line " + std::to_string(number) + ": " + why +
                 "; add the module again (netpipe modules add)");
  };
  for (const std::string& line : split(text, '\n')) {
    ++number;
    if (number == 1 && line != first_line) return refuse("it begins otherwise than '" + std::string(first_line) + "'");
    if (number == 1 || line.empty()) continue;
    if (line.starts_with("option\t")) {
      std::vector<std::string> fields = split(line, '\t');
      fields.erase(fields.begin());
      if (const Outcome taken = module->take_option(fields); !taken) return refuse(taken.failure().sentence);
      continue;
    }
    const auto blank = line.find(' ');
    const std::string_view value =
        blank == std::string::npos ? std::string_view{} : trim(std::string_view(line).substr(blank));
    if (const Outcome taken = module->take(line.substr(0, blank), value); !taken) {
      return refuse(taken.failure().sentence);
    }
  }
  if (module->file_.empty()) return refuse("it names no file");
  module->table_.options = module->options_.empty() ? nullptr : module->options_.data();
  module->table_.noptions = static_cast<std::uint32_t>(module->options_.size());
  if (const Outcome fits = check_table(&module->table_, path); !fits) return fits.failure();
  module->table_.probe = nullptr;  // whether it works shows where it runs
  return module;
}

Result<std::unique_ptr<DescribedModule>> DescribedModule::read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return unavailable("module description " + path + " cannot be read");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  return parse(text, path);
}

}  // namespace netpipe
