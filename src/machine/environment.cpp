// SPDX-License-Identifier: Apache-2.0
#include "machine/environment.h"

#include <algorithm>

#include "machine/facts.h"

namespace netpipe {
namespace {

template <typename... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};
template <typename... Ts>
Overloaded(Ts...) -> Overloaded<Ts...>;

void write_value(Json& json, const Facts::Value& value) {
  const auto list = [&json](const auto& items) {
    json.open('[');
    for (const auto& item : items) json.value(item);
    json.close(']');
  };
  std::visit(Overloaded{[&](std::monostate) { json.null(); }, [&](const Facts::Raw& raw) { json.raw(raw.json); },
                        [&](const std::vector<std::int64_t>& items) { list(items); },
                        [&](const std::vector<std::string>& items) { list(items); },
                        [&](const auto& plain) { json.value(plain); }},
             value);
}

}  // namespace

const Facts::Value* Facts::find(std::string_view name) const {
  const auto at = values_.find(name);
  return at == values_.end() ? nullptr : &at->second;
}

std::optional<double> Facts::number(std::string_view name) const {
  const Value* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (const auto* whole = std::get_if<std::int64_t>(value)) return static_cast<double>(*whole);
  if (const auto* real = std::get_if<double>(value)) return *real;
  return std::nullopt;
}

std::optional<bool> Facts::truth(std::string_view name) const {
  const Value* value = find(name);
  const auto* truth = value == nullptr ? nullptr : std::get_if<bool>(value);
  return truth == nullptr ? std::nullopt : std::optional(*truth);
}

std::optional<std::string> Facts::text(std::string_view name) const {
  const Value* value = find(name);
  const auto* text = value == nullptr ? nullptr : std::get_if<std::string>(value);
  return text == nullptr ? std::nullopt : std::optional(*text);
}

std::vector<std::string> Facts::texts(std::string_view name) const {
  const Value* value = find(name);
  const auto* texts = value == nullptr ? nullptr : std::get_if<std::vector<std::string>>(value);
  return texts == nullptr ? std::vector<std::string>{} : *texts;
}

void Facts::write(Json& json) const {
  std::vector<std::string_view> inside;  // the objects that are open now
  for (const auto& [name, value] : values_) {
    std::string_view rest = name;
    std::size_t depth = 0;
    std::vector<std::string_view> wanted;
    for (std::size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
      wanted.push_back(rest.substr(0, dot));
      rest.remove_prefix(dot + 1);
    }
    while (depth < wanted.size() && depth < inside.size() && wanted[depth] == inside[depth]) ++depth;
    for (; inside.size() > depth; inside.pop_back()) json.close('}');
    for (; inside.size() < wanted.size(); inside.push_back(wanted[inside.size()]))
      json.key(wanted[inside.size()]).open('{');
    json.key(rest);
    write_value(json, value);
  }
  for (; !inside.empty(); inside.pop_back()) json.close('}');
}

Facts host_facts(const Files& files, std::span<const int> cpus) {
  const Topology topology = read_topology(files);
  Facts facts;
  gather_cpu(files, topology, cpus, facts);
  gather_memory(files, facts);
  gather_kernel(files, facts);
  gather_clock(files, facts);
  gather_network(files, facts);
  gather_limits(files, topology, facts);
  gather_load(files, facts);
  return facts;
}

std::string environment_json(std::span<const int> cpus, const Host& host) {
  const Files files(host);
  Facts facts = host_facts(files, cpus);
  gather_software(files, facts);
  Json json;
  json.open('{');
  facts.write(json);
  json.close('}');
  return json.take();
}

}  // namespace netpipe
