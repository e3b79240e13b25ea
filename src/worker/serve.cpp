// SPDX-License-Identifier: Apache-2.0
#include "worker/serve.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text.h"
#include "link/secret.h"
#include "record/json.h"
#include "worker/confine.h"

namespace netpipe {
namespace {

constexpr double longest_seconds = 7 * 24 * 3600.0;  // more than a week is a typing error

Outcome read_bind(const std::string& text, ServeArguments& into) {
  into.bind = text;
  return ok();
}

Outcome read_port(const std::string& text, ServeArguments& into) {
  const Result<std::int64_t> port = parse_integer(text);
  if (!port || *port < 0 || *port > std::numeric_limits<std::uint16_t>::max()) {
    return usage("'" + text + "' is not a port; ports are 1 to 65535, and 0 takes any that is free");
  }
  into.port = static_cast<std::uint16_t>(*port);
  return ok();
}

Outcome read_token_file_name(const std::string& text, ServeArguments& into) {
  if (text.empty()) return usage("the name of a file is missing");
  into.token_file = text;
  return ok();
}

Outcome read_bytes(const std::string& text, std::uint64_t& into) {
  const Result<std::uint64_t> bytes = parse_size(text);
  if (!bytes) return bytes.failure();
  if (*bytes == 0) return usage("0 bytes would let nobody measure; give at least 1");
  into = *bytes;
  return ok();
}

Outcome read_max_size(const std::string& text, ServeArguments& into) {
  return read_bytes(text, into.bounds.max_message_bytes);
}
Outcome read_max_memory(const std::string& text, ServeArguments& into) {
  return read_bytes(text, into.bounds.max_memory_bytes);
}

Outcome read_max_seconds(const std::string& text, ServeArguments& into) {
  const Result<double> seconds = parse_real(text);
  if (!seconds) return seconds.failure();
  if (*seconds <= 0 || *seconds > longest_seconds)
    return usage("'" + text + "' is not a number of seconds above 0, at most a week");
  into.bounds.max_seconds = *seconds;
  return ok();
}

Outcome read_once(const std::string&, ServeArguments& into) {
  into.once = true;
  return ok();
}

Outcome read_help(const std::string&, ServeArguments& into) {
  into.help = true;
  return ok();
}

struct ServeOption {
  std::string_view name;
  std::string_view value;  // its name in the help; "": the option takes no value
  std::string_view help;
  Outcome (*read)(const std::string& text, ServeArguments& into);
};

// The one list of the options; the help and the parser follow it.
constexpr std::array<ServeOption, 8> serve_options = {{
    {"--bind", "ADDRESS",
     "address to listen on; default 127.0.0.1, which only this host reaches; 0.0.0.0 for all of IPv4", read_bind},
    {"--port", "PORT", "port to listen on; default 5002; 0 takes any free port", read_port},
    {"--token-file", "FILE",
     "file with the token that clients must know, 16 characters or more; default: NETPIPE_TOKEN in the environment",
     read_token_file_name},
    {"--max-size", "SIZE", "largest message that a client may measure; default 64M", read_max_size},
    {"--max-memory", "SIZE", "memory that a measurement may take; default 1G", read_max_memory},
    {"--max-seconds", "SECONDS", "time that a measurement may take; default 600", read_max_seconds},
    {"--once", "", "exit after one measurement, with its exit code", read_once},
    {"--help", "", "print this text", read_help},
}};

const ServeOption* find(std::string_view name) {
  for (const ServeOption& one : serve_options) {
    if (one.name == name) return &one;
  }
  return nullptr;
}

// A line for people. If nobody reads it, the line is lost and the server goes on.
void say(const std::string& sentence) {
  const std::string line = "netpipe serve: " + sentence + "\n";
  pollfd one{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&one, 1, 0) <= 0) return;
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

int fail(const Failure& failure) {
  say(failure.sentence);
  return static_cast<int>(failure.exit);
}

bool print(const std::string& text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
}

}  // namespace

Result<ServeArguments> parse_serve(std::span<const std::string> arguments) {
  ServeArguments into;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::size_t equals = arguments[i].find('=');
    const std::string name = arguments[i].substr(0, equals);
    const ServeOption* option = find(name);
    if (option == nullptr) {
      std::vector<std::string> names;
      for (const ServeOption& one : serve_options) names.emplace_back(one.name);
      return usage("serve has no option '" + name + "'" + did_you_mean(name, names));
    }
    const bool attached = equals != std::string::npos;
    if (option->value.empty() && attached) return usage(name + " takes no value");
    if (!option->value.empty() && !attached && i + 1 == arguments.size()) {
      return usage(name + " needs a value: " + name + " " + std::string(option->value));
    }
    std::string text;
    if (attached) {
      text = arguments[i].substr(equals + 1);
    } else if (!option->value.empty()) {
      text = arguments[++i];
    }
    if (const Outcome read = option->read(text, into); !read) return usage(name + ": " + read.failure().sentence);
  }
  return into;
}

std::string serve_help() {
  std::string text =
      "netpipe-worker serve: the far side of a measurement between two hosts. It listens until it is stopped, and\n"
      "serves only clients that know its token, one at a time.\n\n";
  for (const ServeOption& one : serve_options) {
    std::string left = "  " + std::string(one.name) + (one.value.empty() ? "" : " ") + std::string(one.value);
    left.resize(std::max<std::size_t>(left.size() + 2, 24), ' ');
    text += left + std::string(one.help) + "\n";
  }
  return text;
}

int serve_main(std::span<const std::string> arguments, Become become) {
  const Result<ServeArguments> given = parse_serve(arguments);
  if (!given) return fail(given.failure());
  if (given->help) return print(serve_help()) ? 0 : static_cast<int>(Exit::failed);
  const Result<std::string> token = read_token(given->token_file);
  if (!token) return fail(token.failure());
  Result<Listener> listener = listen_at(given->bind, given->port);
  if (!listener) return fail(listener.failure());

  ServeOptions options;
  options.token = *token;
  options.bounds = given->bounds;
  options.once = given->once;
  options.become = std::move(become);
  options.log = say;
  Json event;
  event.open('{').field("event", "listening").field("host", listener->host).field("port", listener->port).close('}');
  if (!print(event.take() + "\n"))
    return fail(failed("standard output is closed, so nobody can learn where this server listens"));
  if (const Outcome can = can_confine(); !can) say(can.failure().sentence);
  const Result<int> code = serve(std::move(*listener), options);
  return code ? *code : fail(code.failure());
}

}  // namespace netpipe
