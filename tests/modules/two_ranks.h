// SPDX-License-Identifier: Apache-2.0
// Drives a module as the core does: two forked processes, each with the module loaded from the directory
// NETPIPE_MODULES. Every pair of ranks has a deadline; what does not end by then is killed and fails.
#pragma once

#include <dlfcn.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "layer/layer.h"
#include "netpipe/module.h"

namespace two_ranks {

using Bytes = std::vector<unsigned char>;
using Texts = std::map<std::string, std::string>;

constexpr int kDeadlineMs = 30'000;
constexpr size_t kMiB = 1024 * 1024;

// As long as the process, each module once.
inline const netpipe::Layer* load(const std::string& name) {
  static std::mutex one_at_a_time;
  static std::map<std::string, std::unique_ptr<const netpipe::Layer>> layers;
  const std::lock_guard guard(one_at_a_time);
  std::unique_ptr<const netpipe::Layer>& kept = layers[name];
  if (kept) return kept.get();
  const char* directory = std::getenv("NETPIPE_MODULES");
  if (directory == nullptr) throw std::runtime_error("NETPIPE_MODULES must name the directory of the modules");
  void* library = dlopen((std::string(directory) + "/" + name + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  using Entry = const np_module* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, NP_ENTRY));
  if (entry == nullptr) throw std::runtime_error(dlerror());
  netpipe::Result<std::unique_ptr<netpipe::Layer>> layer = netpipe::Layer::of(entry(), name);
  if (!layer) throw std::runtime_error(layer.failure().sentence);
  kept = std::move(*layer);
  return kept.get();
}

inline volatile int abort_flag = 0;

// One rank: a module with its options resolved, as the core would do it, and at most one endpoint.
class Rank {
 public:
  Rank(const std::string& variant, int rank, int control, const std::string& local_address = "127.0.0.1")
      : local_address_(local_address), control_(control) {
    const size_t colon = variant.find(':');
    module = load(variant.substr(0, colon));
    Texts given;
    std::string_view rest =
        colon == std::string::npos ? std::string_view() : std::string_view(variant).substr(colon + 1);
    while (!rest.empty()) {
      const std::string_view one = rest.substr(0, rest.find(','));
      const size_t equals = one.find('=');
      given[std::string(one.substr(0, equals))] = one.substr(equals + 1);
      rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    }
    for (uint32_t i = 0; i < module->noptions; ++i) {
      const np_option& option = module->options[i];
      texts_.push_back(given.count(option.name) != 0 ? given[option.name] : option.default_value);
    }
    for (uint32_t i = 0; i < module->noptions; ++i)
      values_.push_back({number(module->options[i], texts_[i]), texts_[i].c_str()});
    context.size = sizeof context;
    context.rank = rank;
    context.nranks = 2;
    context.options = values_.data();
    context.max_bytes = 8 * kMiB;
    context.abort = &abort_flag;
    context.message = message.data();
    context.message_bytes = message.size();
    context.local_address = local_address_.c_str();
    context.job = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";
    context.timeout_ns = 10'000'000'000;
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  ~Rank() { close(); }

  void close() {
    if (endpoint != nullptr) module->close(endpoint);
    endpoint = nullptr;
  }

  np_status open() { return module->open(&context, &endpoint); }

  np_status connect() {
    std::array<Bytes, 2> all;
    Bytes& mine = all[static_cast<size_t>(context.rank)];
    mine.resize(512);
    size_t bytes = mine.size();
    if (const np_status status = module->address(endpoint, mine.data(), &bytes); status != NP_OK) return status;
    mine.resize(bytes);
    Bytes& theirs = all[static_cast<size_t>(1 - context.rank)];
    theirs = exchange(mine);
    const void* addresses[2] = {all[0].data(), all[1].data()};
    const size_t sizes[2] = {all[0].size(), all[1].size()};
    return module->connect(endpoint, addresses, sizes);
  }

  // A word with the other rank that does not go through the module.
  Bytes exchange(const Bytes& mine) const {
    const uint64_t bytes = mine.size();
    if (write(control_, &bytes, sizeof bytes) != sizeof bytes) return {};
    if (write(control_, mine.data(), mine.size()) != static_cast<ssize_t>(mine.size())) return {};
    uint64_t coming = 0;
    if (::recv(control_, &coming, sizeof coming, MSG_WAITALL) != sizeof coming || coming > 4096) return {};
    Bytes theirs(coming);
    if (coming > 0 && ::recv(control_, theirs.data(), coming, MSG_WAITALL) != static_cast<ssize_t>(coming)) return {};
    return theirs;
  }
  void meet() const { exchange({1}); }

  np_status send(const void* data, size_t bytes) { return module->send(endpoint, 1 - context.rank, data, bytes); }
  np_status recv(void* data, size_t bytes) { return module->recv(endpoint, 1 - context.rank, data, bytes); }
  np_status isend(const Bytes& data, np_request& r) {
    return module->isend(endpoint, 1 - context.rank, data.data(), 0, data.size(), &r, 1);
  }
  np_status irecv(Bytes& data, np_request& r) {
    return module->irecv(endpoint, 1 - context.rank, data.data(), 0, data.size(), &r, 1);
  }
  np_status wait(np_request& r) { return module->wait(endpoint, &r, 1); }

  Texts settings() const {
    Texts all;
    module->describe(
        endpoint,
        [](void* to, const np_fact* fact) {
          std::string& text = (*static_cast<Texts*>(to))[fact->name];
          if (fact->kind == NP_FACT_TEXT) text = fact->text;
          if (fact->kind == NP_FACT_INTEGER) text = std::to_string(fact->integer);
          if (fact->kind == NP_FACT_REAL) text = std::to_string(fact->real);
          if (fact->kind == NP_FACT_BOOL) text = fact->integer != 0 ? "yes" : "no";
        },
        &all);
    return all;
  }
  // Those that cannot be read now are left out.
  Texts counted() const {
    std::vector<int64_t> values(module->ncounters, INT64_MIN);
    module->read_counters(endpoint, values.data());
    Texts all;
    for (uint32_t i = 0; i < module->ncounters; ++i) {
      if (values[i] != INT64_MIN) all[module->counters[i].name] = std::to_string(values[i]);
    }
    return all;
  }
  [[nodiscard]] std::string said() const { return message.data(); }

  const netpipe::Layer* module = nullptr;
  np_endpoint* endpoint = nullptr;
  np_context context{};
  std::array<char, 512> message{};

 private:
  static int64_t number(const np_option& option, const std::string& text) {
    if (option.type == NP_BOOL) return text == "yes" ? 1 : 0;
    if (option.type == NP_TEXT) return 0;
    if (option.type == NP_CHOICE) {
      int64_t place = 0;
      std::string_view left = option.choices;
      while (left.substr(0, left.find('|')) != text) {
        if (left.find('|') == std::string_view::npos)
          throw std::runtime_error(text + " is no choice of " + option.name);
        left.remove_prefix(left.find('|') + 1);
        ++place;
      }
      return place;
    }
    size_t used = 0;
    int64_t value = std::stoll(text, &used);
    if (used < text.size()) value <<= text[used] == 'k' ? 10 : 20;
    if (value < option.min || value > option.max)
      throw std::runtime_error(text + " is out of range for " + option.name);
    return value;
  }

  std::string local_address_;
  int control_;
  std::vector<std::string> texts_;
  std::vector<np_value> values_;
};

// What a rank has to say: "" when all is well.
using Body = std::function<std::string(Rank&)>;

struct Outcome {
  std::array<std::string, 2> said;
  [[nodiscard]] std::string both() const {
    return said[0].empty() && said[1].empty() ? "" : "0: " + said[0] + "; 1: " + said[1];
  }
};

// Forks both ranks and waits for them. A rank that is killed says "killed", one that does not end "deadline".
inline Outcome run_ranks(const std::function<std::string(int rank, int control)>& rank_body) {
  int control[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) != 0) return {{"socketpair", ""}};
  std::array<int, 2> results{};
  std::array<pid_t, 2> children{};
  for (int rank = 0; rank < 2; ++rank) {
    int result[2];
    if (pipe(result) != 0) return {{"pipe", ""}};
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      std::signal(SIGPIPE, SIG_IGN);  // as the core does
      ::close(control[1 - rank]);
      ::close(result[0]);
      if (rank == 1) ::close(results[0]);
      std::string text;
      try {
        text = rank_body(rank, control[rank]);
      } catch (const std::exception& error) {
        text = error.what();
      }
      text += '\n';
      const bool told = write(result[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
      _exit(told ? 0 : 1);
    }
    ::close(result[1]);
    results[static_cast<size_t>(rank)] = result[0];
    children[static_cast<size_t>(rank)] = child;
  }
  ::close(control[0]);
  ::close(control[1]);
  Outcome outcome;
  for (size_t rank = 0; rank < 2; ++rank) {
    std::string& text = outcome.said[rank];
    for (;;) {
      pollfd ready = {results[rank], POLLIN, 0};
      if (poll(&ready, 1, kDeadlineMs) <= 0) {
        text = "deadline\n";
        kill(children[0], SIGKILL);
        kill(children[1], SIGKILL);
        break;
      }
      char room[512];
      const ssize_t got = read(results[rank], room, sizeof room);
      if (got <= 0) break;
      text.append(room, static_cast<size_t>(got));
    }
    if (text.empty()) text = "killed\n";
    text.pop_back();
    ::close(results[rank]);
  }
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  return outcome;
}

inline std::string failed(const Rank& rank, const char* what, np_status status) {
  return std::string(what) + " gave " + std::to_string(status) + ": " + rank.said();
}

inline Outcome run_connected(const std::string& variant, const Body& body,
                             const std::string& local_address = "127.0.0.1") {
  return run_ranks([&](int number, int control) -> std::string {
    Rank rank(variant, number, control, local_address);
    if (const np_status s = rank.open(); s != NP_OK) return failed(rank, "open", s);
    if (const np_status s = rank.connect(); s != NP_OK) return failed(rank, "connect", s);
    return body(rank);
  });
}

// Bytes that say where they belong, so that one that is lost, doubled or moved shows.
inline Bytes pattern(size_t bytes, uint64_t salt) {
  Bytes made(bytes);
  uint64_t state = salt * 0x9e3779b97f4a7c15U + 1;
  for (size_t i = 0; i < bytes; i += sizeof state) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    std::memcpy(made.data() + i, &state, bytes - i < sizeof state ? bytes - i : sizeof state);
  }
  return made;
}

inline std::string expect_same(const Bytes& got, const Bytes& wanted, const std::string& what) {
  // Tests are not optimized, and all their megabytes byte by byte take most of their time.
  if (wanted.empty() || std::memcmp(got.data(), wanted.data(), wanted.size()) == 0) return "";
  const auto wrong = std::mismatch(wanted.begin(), wanted.end(), got.begin()).first;
  const auto place = std::to_string(wrong - wanted.begin());
  return what + ": byte " + place + " of " + std::to_string(wanted.size()) + " is wrong";
}

inline std::string bounce(Rank& rank, const std::vector<size_t>& sizes) {
  uint64_t salt = 1;
  for (const size_t bytes : sizes) {
    const Bytes there = pattern(bytes, ++salt), back = pattern(bytes, ++salt);
    Bytes got(bytes);
    const bool first = rank.context.rank == 0;
    if (first) {
      if (const np_status s = rank.send(there.data(), bytes); s != NP_OK) return failed(rank, "send", s);
    }
    if (const np_status s = rank.recv(got.data(), bytes); s != NP_OK) return failed(rank, "recv", s);
    if (!first) {
      if (const np_status s = rank.send(back.data(), bytes); s != NP_OK) return failed(rank, "send", s);
    }
    if (std::string wrong = expect_same(got, first ? back : there, "message of " + std::to_string(bytes));
        !wrong.empty())
      return wrong;
  }
  return "";
}

// One message of more than 2 GiB from rank 0 to rank 1. The same 64 MiB stand at many addresses in a row, so that
// little memory is needed.
inline std::string move_more_than_two_gib(Rank& rank) {
  constexpr size_t kWindow = 64 * kMiB, kWindows = 33, kBytes = kWindow * 32 + 4099;
  const int memory = memfd_create("window", MFD_CLOEXEC);
  if (memory < 0 || ftruncate(memory, kWindow) != 0) return "no memory";
  char* base = static_cast<char*>(
      mmap(nullptr, kWindow * kWindows, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  for (size_t i = 0; i < kWindows; ++i) {
    if (mmap(base + i * kWindow, kWindow, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, 0) == MAP_FAILED)
      return "no mapping";
  }
  const Bytes head = pattern(4099, 7);
  if (rank.context.rank == 0) {
    std::memcpy(base, head.data(), head.size());
    if (const np_status s = rank.send(base, kBytes); s != NP_OK) return failed(rank, "send", s);
  } else {
    if (const np_status s = rank.recv(base, kBytes); s != NP_OK) return failed(rank, "recv", s);
    const Bytes tail(base + kWindow * 32, base + kBytes);  // the last piece came from the head of the sender's window
    if (std::string wrong = expect_same(tail, head, "tail"); !wrong.empty()) return wrong;
  }
  return bounce(rank, {1000});
}

// Awaits a status and a sentence that has these words.
inline std::string expect(const Rank& rank, np_status got, np_status wanted, const char* words) {
  if (got == wanted && rank.said().find(words) != std::string::npos) return "";
  return "status " + std::to_string(got) + " instead of " + std::to_string(wanted) + ", sentence '" + rank.said() +
         "' instead of '" + words + "'";
}

inline bool has_ipv6() { return std::ifstream("/proc/net/if_inet6").peek() != std::ifstream::traits_type::eof(); }

// Rank 1 connects, and rank 0 never does: rank 1 must end in a sentence that has these words. rank: open.
inline std::string wait_for_nobody(Rank& rank, const char* words) {
  Bytes mine(512);
  size_t bytes = mine.size();
  if (const np_status s = rank.module->address(rank.endpoint, mine.data(), &bytes); s != NP_OK)
    return failed(rank, "address", s);
  mine.resize(bytes);
  const Bytes theirs = rank.exchange(mine);
  std::string wrong;
  if (rank.context.rank == 1) {
    const void* addresses[2] = {theirs.data(), mine.data()};
    const size_t sizes[2] = {theirs.size(), mine.size()};
    wrong = expect(rank, rank.module->connect(rank.endpoint, addresses, sizes), NP_FAILED, words);
  }
  rank.meet();
  return wrong;
}

// A variant as the name of a test.
inline std::string test_name(const std::string& variant) {
  std::string name = variant;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

}  // namespace two_ranks
