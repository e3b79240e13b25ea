// SPDX-License-Identifier: Apache-2.0
// netpipe-worker: see docs/reference/worker.md.
#include <link.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/complain.h"
#include "base/text.h"
#include "catalog/description.h"
#include "catalog/variant.h"
#include "engine/processes/join.h"
#include "engine/processes/pinning.h"
#include "machine/environment.h"
#include "record/json.h"
#include "serving/measuring.h"
#include "serving/serve.h"
#include "worker/checks.h"
#include "worker/listing.h"
#include "worker/run.h"
#include "worker/workers/hosted_rank.h"
#include "worker/workers/launcher_io.h"

namespace netpipe {
namespace {

constexpr const char* help =
    "netpipe-worker: what netpipe starts on the hosts that it measures\n"
    "\n"
    "  run           measure the plan on standard input\n"
    "  plan          check and resolve the plan on standard input, and measure nothing\n"
    "  list [FILE]   show modules (those of the module files too), options and patterns\n"
    "  keys          show what list knows without loading a module: the keys of a plan, exit codes\n"
    "  describe FILE [--as NAME]\n"
    "                show the table of one module as text\n"
    "  settings FILE VARIANT RANKS [PIN]\n"
    "                show the environment in which a program of the library has the variant's settings\n"
    "  place PIN RANKS\n"
    "                show the processors of a program's ranks on this host\n"
    "  join          join a job as one of its processes; ssh, srun or a library's launcher starts it\n"
    "  environment   show the facts of this host as one JSON object\n"
    "  serve         wait for another host to measure with (serve --help)\n"
    "  version       show the version\n"
    "\n"
    "docs/reference/worker.md describes the plan, the events and the exit codes.\n";

int with_plan(bool measure) {
  LauncherInput input;
  const Result<std::string> text = input.read_plan();
  if (!text) return complain(text.failure());
  const Result<Plan> plan = parse_plan(*text);
  if (!plan) return complain(plan.failure());
  if (measure) return run(*plan, input);
  const Result<Registry> registry = Registry::load(module_directories(), plan->module_files);
  if (!registry) return complain(registry.failure());
  const Result<Resolved> resolved = resolve(*plan, *registry);
  if (!resolved) return complain(resolved.failure());
  if (Outcome can = can_run_here(*plan, *resolved); !can) return complain(can.failure());
  say(resolved_plan_json(*plan, *resolved));
  return 0;
}

int list(const std::vector<std::string>& files) {
  const Result<Registry> registry = Registry::load(module_directories(), files);
  if (!registry) return complain(registry.failure());
  say(listing_json(*registry));
  return 0;
}

// The files of all that is loaded into this process, as the loader found them.
std::set<std::string> loaded_files() {
  std::set<std::string> files;
  const auto add = [](dl_phdr_info* one, std::size_t, void* to) {
    const std::string_view name = one->dlpi_name != nullptr ? one->dlpi_name : "";
    if (name.starts_with('/')) static_cast<std::set<std::string>*>(to)->emplace(name);
    return 0;
  };
  dl_iterate_phdr(add, &files);
  return files;
}

int describe(const std::vector<std::string>& arguments) {
  const bool named = arguments.size() == 3 && arguments[1] == "--as";
  if (arguments.size() != 1 && !named) return complain(usage("write: netpipe-worker describe FILE [--as NAME]"));
  std::set<std::string> others = loaded_files();
  const Result<Registry> registry = Registry::load_as(arguments[0], named ? arguments[2] : "");
  if (!registry) return complain(registry.failure());
  const LoadedModule& module = registry->modules()[0];
  std::string text = describe_layer(*module.layer, module.path, {});
  others.insert(module.path);
  for (const std::string& file : loaded_files()) {
    if (!others.contains(file)) text += "loaded " + file + "\n";
  }
  std::fputs(text.c_str(), stdout);
  return 0;
}

// Where the ranks of a program run that netpipe does not open. write: how the command is called.
Result<std::vector<int>> placed(const std::string& pin, const std::string& number, const char* write) {
  const Result<std::int64_t> ranks = parse_integer(number);
  if (!ranks || *ranks < 1 || *ranks > most_ranks) return usage(write);
  const Result<Pinning> pinning = parse_pinning(pin);
  if (!pinning) return usage("pin: " + pinning.failure().sentence);
  return place_program(*pinning, static_cast<int>(*ranks), usable_cpus());
}

int place(const std::vector<std::string>& arguments) {
  const char* write = "write: netpipe-worker place PIN RANKS";
  if (arguments.size() != 2) return complain(usage(write));
  const Result<std::vector<int>> cpus = placed(arguments[0], arguments[1], write);
  if (!cpus) return complain(cpus.failure());
  Json object;
  object.open('{').field("placement", arguments[0]).key("pin").open('[');
  for (const int cpu : *cpus) cpu < 0 ? object.null() : object.value(cpu);
  object.close(']').field("oversubscribed", ranks_share_a_cpu(*cpus)).close('}');
  say(object.text());
  return 0;
}

// The environment of a program that netpipe does not open, for one variant of the module in this file.
int settings(const std::vector<std::string>& arguments) {
  const char* write = "write: netpipe-worker settings FILE VARIANT RANKS [PIN]";
  if (arguments.size() != 3 && arguments.size() != 4) return complain(usage(write));
  const Result<std::vector<int>> cpus = placed(arguments.size() == 4 ? arguments[3] : "auto", arguments[2], write);
  if (!cpus) return complain(cpus.failure());
  const Result<Registry> registry = Registry::load_as(arguments[0], name_in(arguments[1]));
  if (!registry) return complain(registry.failure());
  const Result<Variant> variant = parse_variant(arguments[1], *registry);
  if (!variant) return complain(variant.failure());
  const Layer& module = *variant->module;
  if (module.environment == nullptr) {
    return complain(usage(std::string(module.name) + " has no programs of its own, which netpipe could start"));
  }
  std::array<char, 1024> message{};
  const int abort = 0;
  np_context context{};
  context.size = sizeof context;
  context.rank = -1;
  context.nranks = static_cast<std::int32_t>(cpus->size());
  context.options = variant->values.data();
  context.abort = &abort;
  context.message = message.data();
  context.message_bytes = message.size();
  context.oversubscribed = ranks_share_a_cpu(*cpus) ? 1 : 0;
  Json object;
  object.open('{').field("variant", variant->name).key("environment").open('{');
  const np_emit emit = [](void* to, const np_fact* fact) {
    static_cast<Json*>(to)->field(fact->name, fact->text != nullptr ? fact->text : "");
  };
  const np_status status = module.environment(&context, emit, &object);
  object.close('}').close('}');
  if (status != NP_OK) return complain({status == NP_USAGE ? Exit::usage : Exit::failed, message.data()});
  say(object.text());
  return 0;
}

int main_of(std::vector<std::string> arguments) {
  const std::vector<std::string> commands = {"run",   "plan", "list",        "keys",  "describe", "settings",
                                             "place", "join", "environment", "serve", "version"};
  const std::string command = arguments.empty() ? "" : arguments.front();
  if (command == "--help" || command == "-h" || command == "help") {
    std::fputs(help, stdout);
    return 0;
  }
  if (!arguments.empty()) arguments.erase(arguments.begin());
  if (command == "list") return list(arguments);
  if (command == "describe") return describe(arguments);
  if (command == "settings") return settings(arguments);
  if (command == "place") return place(arguments);
  if (command == "serve") return serve_main(arguments, become_serving);
  if (command == serving_command) return serving_main(arguments);
  if (!arguments.empty()) {
    return complain(usage("'" + command + "' takes no arguments" +
                          (command == "run" || command == "plan" ? "; it reads the plan from standard input" : "")));
  }
  if (command == "run") return with_plan(true);
  if (command == "plan") return with_plan(false);
  if (command == "join") {
    if (const char* rank = std::getenv(rank_variable); rank != nullptr) return hosted_rank(rank);
    LaunchedProcess process;
    const Result<Exit> joined = join(Registry::load_as, process);
    return joined ? static_cast<int>(*joined) : complain(joined.failure());
  }
  if (command == "keys") {
    say(keys_json());
    return 0;
  }
  if (command == "environment") {
    say(environment_json(sensible_cpus(2)));
    return 0;
  }
  if (command == "version" || command == "--version") {
    say(NETPIPE_VERSION);
    return 0;
  }
  return complain(usage("there is no command '" + command + "'" + did_you_mean(command, commands)));
}

}  // namespace
}  // namespace netpipe

int main(int argc, char** argv) {
  try {
    return netpipe::main_of({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    // Only the standard library throws here: there is no memory left.
    std::fprintf(stderr, "netpipe-worker: %s\n", error.what());
    return static_cast<int>(netpipe::Exit::failed);
  }
}
