// SPDX-License-Identifier: Apache-2.0
// netpipe-relay: the network between the virtual hosts of `netpipe lab`, where that has a delay or loses packets.
// docs/decisions/0025-lab.md says why it is a program and no queueing discipline of the kernel.
#include <sched.h>
#include <sys/prctl.h>

#include <array>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <exception>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "relay/wire.h"

namespace netpipe::relay {
namespace {

constexpr const char* help =
    "netpipe-relay --delay-ns N --bits-per-s X --loss P --seed N --state FILE PROCESS:ADDRESS...\n"
    "\n"
    "Makes the device eth0 with an Ethernet ADDRESS in the network namespace of each PROCESS, prints `ready`, and "
    "carries\n"
    "frames between them until SIGTERM. SIGUSR1 writes what became of the frames to FILE. `netpipe lab up` starts "
    "it.\n";

constexpr const char* device = "eth0";
constexpr std::int64_t longest_wait_ns = 20'000'000;  // for the rate, as long as `netpipe lab` lets tbf queue
constexpr std::size_t room_bytes = std::size_t{64} << 20;

std::atomic<bool> stop{false};
std::atomic<bool> report{false};

void on_signal(int number) { (number == SIGUSR1 ? report : stop) = true; }

struct Options {
  Network network;
  std::string state;
  std::vector<Card> cards;
};

Outcome set(Options& options, const std::string& name, const std::string& value) {
  if (name == "--state") {
    options.state = value;
    return ok();
  }
  if (name == "--loss" || name == "--bits-per-s") {
    const Result<double> number = parse_real(value);
    if (!number || *number < 0 || (name == "--loss" && *number > 1)) return usage(name + ": '" + value + "'");
    (name == "--loss" ? options.network.loss : options.network.bits_per_s) = *number;
    return ok();
  }
  const Result<std::int64_t> number = parse_integer(value);
  if (!number || *number < 0) return usage(name + ": '" + value + "'");
  if (name == "--delay-ns") {
    options.network.delay_ns = *number;
  } else if (name == "--seed") {
    options.network.seed = static_cast<std::uint64_t>(*number);
  } else {
    return usage("there is no option '" + name + "'");
  }
  return ok();
}

Result<Options> parse(const std::vector<std::string>& words) {
  Options options;
  options.network.queue_ns = longest_wait_ns;
  options.network.queue_bytes = room_bytes;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with("--")) {
      if (i + 1 == words.size()) return usage(words[i] + " needs a value");
      if (Outcome done = set(options, words[i], words[i + 1]); !done) return done.failure();
      ++i;
    } else {
      const Result<Card> card = parse_card(words[i]);
      if (!card) return card.failure();
      options.cards.push_back(*card);
    }
  }
  if (options.cards.size() < 2) return usage("a network has at least two hosts");
  if (options.state.empty()) return usage("--state is missing");
  return options;
}

// Before any thread of ranks: a frame that is due cannot wait for its turn. False: the kernel does not allow it.
bool run_before_others() {
  prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  sched_param priority{};
  priority.sched_priority = 1;
  return sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &priority) == 0;
}

struct Said {
  const Options* options;
  bool first;  // whether it runs before other processes
};

std::string quantile(const Histogram& late, double p) {
  const std::optional<double> value = late.supported_quantile(p);
  return value ? std::to_string(std::llround(*value)) : "null";
}

// Written beside and renamed: whoever reads it sees a whole one.
void write_state(const Counts& counts, void* context) {
  const auto& said = *static_cast<const Said*>(context);
  const Network& network = said.options->network;
  const Histogram& late = counts.late_ns;
  std::array<char, 128> given{};
  std::snprintf(given.data(), given.size(), "\"loss\":%.17g,\"bits_per_s\":%.17g", network.loss, network.bits_per_s);
  const std::string draft = said.options->state + ".new";
  {
    std::ofstream file(draft, std::ios::trunc);
    file << "{\"delay_ns\":" << network.delay_ns << "," << given.data() << ",\"seed\":" << network.seed
         << ",\"realtime\":" << (said.first ? "true" : "false") << ",\"read\":" << counts.read
         << ",\"delivered\":" << counts.delivered << ",\"lost\":" << counts.lost << ",\"dropped\":" << counts.dropped
         << ",\"astray\":" << counts.astray << ",\"late_median_ns\":" << quantile(late, 0.5)
         << ",\"late_p99_ns\":" << quantile(late, 0.99)
         << ",\"late_max_ns\":" << (late.total() > 0 ? std::to_string(std::llround(late.max_ns())) : "null") << "}\n";
  }
  std::rename(draft.c_str(), said.options->state.c_str());
}

Outcome carry(const Options& options) {
  std::vector<Descriptor> taps;
  for (const Card& card : options.cards) {
    Result<Descriptor> tap = make_tap(card, device);
    if (!tap) return tap.failure();
    taps.push_back(std::move(*tap));
  }
  struct sigaction action{};
  action.sa_handler = on_signal;
  for (const int number : {SIGTERM, SIGINT, SIGUSR1}) sigaction(number, &action, nullptr);
  // They arrive while it waits, and at no other time: none is missed between the look at the flags and the wait.
  sigset_t later;
  sigemptyset(&later);
  for (const int number : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&later, number);
  sigprocmask(SIG_BLOCK, &later, nullptr);
  Said said{&options, run_before_others()};
  Wire wire(options.network, options.cards, std::move(taps));
  write_state(wire.counts(), &said);
  std::puts("ready");
  std::fclose(stdout);
  Outcome done = wire.run(stop, report, write_state, &said);
  write_state(wire.counts(), &said);
  return done;
}

int main_of(const std::vector<std::string>& words) {
  if (words.empty() || words.front() == "--help" || words.front() == "-h") {
    std::fputs(help, words.empty() ? stderr : stdout);
    return words.empty() ? static_cast<int>(Exit::usage) : 0;
  }
  const Result<Options> options = parse(words);
  const Outcome done = options ? carry(*options) : Outcome(options.failure());
  if (done) return 0;
  std::fprintf(stderr, "netpipe-relay: %s\n", without_controls(done.failure().sentence).c_str());
  return static_cast<int>(done.failure().exit);
}

}  // namespace
}  // namespace netpipe::relay

int main(int argc, char** argv) {
  try {
    return netpipe::relay::main_of({argv + 1, argv + argc});
  } catch (const std::exception& error) {  // no memory left
    std::fprintf(stderr, "netpipe-relay: %s\n", error.what());
    return static_cast<int>(netpipe::Exit::failed);
  }
}
