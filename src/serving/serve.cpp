// SPDX-License-Identifier: Apache-2.0
#include "serving/serve.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "base/complain.h"
#include "base/host_name.h"
#include "base/text.h"
#include "link/secret.h"
#include "record/json.h"
#include "serving/confine.h"

namespace netpipe {
namespace {

// The values of the options.
struct ServeArguments {
  std::string bind = "127.0.0.1";
  std::uint16_t port = default_port;
  std::string token_file;
  Bounds bounds;
  bool once = false;
  bool check = false;  // only whether it could serve
  bool help = false;
};

constexpr double longest_seconds = 7 * 24 * 3600.0;  // more than a week is a typing error

Outcome read_port(const std::string& text, ServeArguments& into) {
  const Result<std::int64_t> port = parse_integer(text);
  if (!port || *port < 0 || *port > std::numeric_limits<std::uint16_t>::max()) {
    return usage("'" + text + "' is not a port; ports are 1 to 65535, and 0 takes any that is free");
  }
  into.port = static_cast<std::uint16_t>(*port);
  return ok();
}

Outcome read_bytes(const std::string& text, std::uint64_t& into) {
  const Result<std::uint64_t> bytes = parse_size(text);
  if (!bytes) return bytes.failure();
  if (*bytes == 0) return usage("0 bytes would let nobody measure; give at least 1");
  into = *bytes;
  return ok();
}

Outcome read_max_seconds(const std::string& text, ServeArguments& into) {
  const Result<double> seconds = parse_real(text);
  if (!seconds) return seconds.failure();
  if (*seconds <= 0 || *seconds > longest_seconds)
    return usage("'" + text + "' is not a number of seconds above 0, at most a week");
  into.bounds.max_seconds = *seconds;
  return ok();
}

Outcome raise(bool& flag) {
  flag = true;
  return ok();
}

using Defaults = const ServeArguments&;

struct ServeOption {
  std::string_view name;
  std::string_view value;               // its name in the help; "": the option takes no value
  std::string (*preset)(Defaults now);  // its default as text; nullptr: it has none
  std::string_view help;
  Outcome (*read)(const std::string& text, ServeArguments& into);
};

// The one list of the options; the parser, both helps and `netpipe serve` follow it.
constexpr std::array<ServeOption, 9> serve_options = {{
    {"--bind", "ADDRESS", [](Defaults now) { return now.bind; },
     "The address to listen on; only this host reaches the default; 0.0.0.0 for every IPv4 address",
     [](const std::string& text, ServeArguments& into) {
       into.bind = text;
       return check_host_name(text);
     }},
    {"--port", "PORT", [](Defaults now) { return std::to_string(now.port); },
     "The port to listen on; 0 for any that is free", read_port},
    {"--token-file", "FILE", [](Defaults) { return std::string("NETPIPE_TOKEN in the environment"); },
     "The file with the token that clients must know, 16 characters or more",
     [](const std::string& text, ServeArguments& into) {
       into.token_file = text;
       return text.empty() ? Outcome(usage("the name of a file is missing")) : ok();
     }},
    {"--max-size", "SIZE", [](Defaults now) { return size_text(now.bounds.max_message_bytes); },
     "The largest message that a client may measure",
     [](const std::string& text, ServeArguments& into) { return read_bytes(text, into.bounds.max_message_bytes); }},
    {"--max-memory", "SIZE", [](Defaults now) { return size_text(now.bounds.max_memory_bytes); },
     "The memory that a measurement may take",
     [](const std::string& text, ServeArguments& into) { return read_bytes(text, into.bounds.max_memory_bytes); }},
    {"--max-seconds", "SECONDS",
     [](Defaults now) { return std::to_string(static_cast<std::int64_t>(now.bounds.max_seconds)); },
     "The time that a measurement may take", read_max_seconds},
    {"--once", "", nullptr, "Exit after one measurement, with its exit code",
     [](const std::string&, ServeArguments& into) { return raise(into.once); }},
    {"--check", "", nullptr, "Print where it would listen, and exit",
     [](const std::string&, ServeArguments& into) { return raise(into.check); }},
    {"--help", "", nullptr, "Print this text",
     [](const std::string&, ServeArguments& into) { return raise(into.help); }},
}};

// A line for people. If nobody reads it, the line is lost and the server goes on.
void say(const std::string& sentence) {
  const std::string line = "netpipe serve: " + sentence + "\n";
  pollfd one{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&one, 1, 0) <= 0) return;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

bool print(const std::string& text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
}

// Exit::usage with a sentence where one is wrong.
Result<ServeArguments> parse_serve(std::span<const std::string> arguments) {
  ServeArguments into;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::size_t equals = arguments[i].find('=');
    const std::string name = arguments[i].substr(0, equals);
    const auto* const option = std::find_if(serve_options.begin(), serve_options.end(),
                                            [&](const ServeOption& one) { return one.name == name; });
    if (option == serve_options.end()) {
      std::vector<std::string> names;
      for (const ServeOption& one : serve_options) names.emplace_back(one.name);
      return usage("serve has no option '" + name + "'" + did_you_mean(name, names));
    }
    const bool attached = equals != std::string::npos;
    const bool wanted = !option->value.empty();
    if (attached && !wanted) return usage(name + " takes no value");
    if (wanted && !attached && i + 1 == arguments.size())
      return usage(name + " needs a value: " + name + " " + std::string(option->value));
    const std::string text = attached ? arguments[i].substr(equals + 1) : wanted ? arguments[++i] : "";
    if (const Outcome read = option->read(text, into); !read) return usage(name + ": " + read.failure().sentence);
  }
  return into;
}

std::string serve_help() {
  std::string text =
      "netpipe-worker serve: the far side of a measurement between two hosts. It listens until it is stopped, and\n"
      "serves only clients that know its token, one at a time.\n\n";
  for (const ServeOptionText& one : serve_option_texts()) {
    std::string left = "  --" + one.name + (one.metavar.empty() ? "" : " ") + one.metavar;
    left.resize(std::max<std::size_t>(left.size() + 2, 24), ' ');
    text += left + one.help + (one.preset.empty() ? "" : "  [" + one.preset + "]") + "\n";
  }
  return text;
}

/// Whether a file is a pipe, as the shell's <(command) is: reading it would take the token from the server.
bool is_read_once(const std::string& file) {
  struct stat facts{};
  return ::stat(file.c_str(), &facts) == 0 && S_ISFIFO(facts.st_mode);
}

}  // namespace

std::vector<ServeOptionText> serve_option_texts() {
  std::vector<ServeOptionText> texts;
  const ServeArguments defaults;
  for (const ServeOption& one : serve_options) {
    texts.push_back({.name = std::string(one.name.substr(2)),
                     .metavar = std::string(one.value),
                     .preset = one.preset != nullptr ? one.preset(defaults) : "",
                     .help = std::string(one.help)});
  }
  return texts;
}

int serve_main(std::span<const std::string> arguments, MeasureFor measure) {
  const Result<ServeArguments> given = parse_serve(arguments);
  if (!given) return complain(given.failure());
  if (given->help) return print(serve_help()) ? 0 : static_cast<int>(Exit::failed);
  if (given->check && !given->token_file.empty() && !is_read_once(given->token_file)) {
    if (const Result<std::string> token = read_token(given->token_file); !token) return complain(token.failure());
  }
  if (Outcome room = room_for_descriptors(descriptors_to_serve, "a server needs"); !room)
    return complain(room.failure());
  Result<Listener> listener = listen_at(given->bind, given->port);
  if (!listener) return complain(listener.failure());
  Json event;
  event.open('{').field("event", "listening").field("host", listener->host).field("port", listener->port).close('}');
  const std::string listening = event.take() + "\n";
  if (given->check) return print(listening) ? 0 : static_cast<int>(Exit::failed);
  const Result<std::string> token = read_token(given->token_file);
  if (!token) return complain(token.failure());

  ServeOptions options;
  options.token = *token;
  options.bounds = given->bounds;
  options.once = given->once;
  options.measure = std::move(measure);
  options.log = say;
  options.ready = [&] { return print(listening); };
  if (const Outcome can = can_confine(); !can) say(can.failure().sentence);
  const Result<int> code = serve(std::move(*listener), options);
  return code ? *code : complain(code.failure());
}

}  // namespace netpipe
