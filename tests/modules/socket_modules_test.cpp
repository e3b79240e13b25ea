// SPDX-License-Identifier: Apache-2.0
// pipe, unix and tcp, driven as the core drives them: two forked processes, each with the module loaded from the directory
// NETPIPE_MODULES. Every pair of ranks has a deadline; what does not end by then is killed and fails.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "netpipe/module.h"

namespace {

using Bytes = std::vector<unsigned char>;
using Texts = std::map<std::string, std::string>;

constexpr int kDeadlineMs = 30'000;
constexpr size_t kMiB = 1024 * 1024;

const np_module* load(const std::string& name) {
  const char* directory = std::getenv("NETPIPE_MODULES");
  if (directory == nullptr) throw std::runtime_error("NETPIPE_MODULES must name the directory of the modules");
  void* library = dlopen((std::string(directory) + "/" + name + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  using Entry = const np_module* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(library, NP_ENTRY));
  if (entry == nullptr) throw std::runtime_error(dlerror());
  return entry();
}

volatile int abort_flag = 0;

// One rank: a module with its options resolved, as the core would do it, and at most one endpoint.
class Rank {
 public:
  Rank(const std::string& variant, int rank, int control, const std::string& local_address = "127.0.0.1")
      : local_address_(local_address), control_(control) {
    const size_t colon = variant.find(':');
    module = load(variant.substr(0, colon));
    Texts given;
    std::string_view rest = colon == std::string::npos ? std::string_view() : std::string_view(variant).substr(colon + 1);
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
    for (uint32_t i = 0; i < module->noptions; ++i) values_.push_back({number(module->options[i], texts_[i]), texts_[i].c_str()});
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
    return module->isend(endpoint, 1 - context.rank, data.data(), data.size(), &r);
  }
  np_status irecv(Bytes& data, np_request& r) {
    return module->irecv(endpoint, 1 - context.rank, data.data(), data.size(), &r);
  }
  np_status wait(np_request& r) { return module->wait(endpoint, &r); }

  Texts facts(void (*source)(np_endpoint*, np_emit, void*)) const {
    Texts all;
    source(endpoint, [](void* to, const char* name, const char* value) { (*static_cast<Texts*>(to))[name] = value; }, &all);
    return all;
  }
  Texts settings() const { return facts(module->describe); }
  [[nodiscard]] std::string said() const { return message.data(); }

  const np_module* module = nullptr;
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
        if (left.find('|') == std::string_view::npos) throw std::runtime_error(text + " is no choice of " + option.name);
        left.remove_prefix(left.find('|') + 1);
        ++place;
      }
      return place;
    }
    size_t used = 0;
    int64_t value = std::stoll(text, &used);
    if (used < text.size()) value <<= text[used] == 'k' ? 10 : 20;
    if (value < option.min || value > option.max) throw std::runtime_error(text + " is out of range for " + option.name);
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
  [[nodiscard]] std::string both() const { return said[0].empty() && said[1].empty() ? "" : "0: " + said[0] + "; 1: " + said[1]; }
};

// Forks both ranks and waits for them. A rank that is killed says "killed", one that does not end "deadline".
Outcome run_ranks(const std::function<std::string(int rank, int control)>& rank_body) {
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

std::string failed(const Rank& rank, const char* what, np_status status) {
  return std::string(what) + " gave " + std::to_string(status) + ": " + rank.said();
}

Outcome run_connected(const std::string& variant, const Body& body, const std::string& local_address = "127.0.0.1") {
  return run_ranks([&](int number, int control) -> std::string {
    Rank rank(variant, number, control, local_address);
    if (const np_status s = rank.open(); s != NP_OK) return failed(rank, "open", s);
    if (const np_status s = rank.connect(); s != NP_OK) return failed(rank, "connect", s);
    return body(rank);
  });
}

// Bytes that say where they belong, so that one that is lost, doubled or moved shows.
Bytes pattern(size_t bytes, uint64_t salt) {
  Bytes made(bytes);
  uint64_t state = salt * 0x9e3779b97f4a7c15U + 1;
  for (size_t i = 0; i < bytes; ++i) {
    if (i % 8 == 0) state = state * 6364136223846793005U + 1442695040888963407U;
    made[i] = static_cast<unsigned char>(state >> (8 * (i % 8)));
  }
  return made;
}

std::string expect_same(const Bytes& got, const Bytes& wanted, const std::string& what) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (got[i] != wanted[i]) return what + ": byte " + std::to_string(i) + " of " + std::to_string(wanted.size()) + " is wrong";
  }
  return "";
}

std::string bounce(Rank& rank, const std::vector<size_t>& sizes) {
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
    if (std::string wrong = expect_same(got, first ? back : there, "message of " + std::to_string(bytes)); !wrong.empty()) return wrong;
  }
  return "";
}

// Awaits a status and a sentence that has these words.
std::string expect(const Rank& rank, np_status got, np_status wanted, const char* words) {
  if (got == wanted && rank.said().find(words) != std::string::npos) return "";
  return "status " + std::to_string(got) + " instead of " + std::to_string(wanted) + ", sentence '" + rank.said() + "' instead of '" + words + "'";
}

const char* const kVariants[] = {
    "pipe", "pipe:wait=poll", "pipe:wait=hybrid,spin_us=20", "pipe:capacity=4k", "pipe:capacity=1M,wait=poll",
    "unix", "unix:wait=poll", "unix:wait=hybrid,spin_us=0", "unix:sndbuf=8k",
    "unix:type=seqpacket", "unix:type=seqpacket,wait=poll", "unix:type=seqpacket,packet=1000", "unix:type=seqpacket,wait=hybrid",
    "tcp", "tcp:wait=poll", "tcp:wait=hybrid,spin_us=20", "tcp:sndbuf=16k,rcvbuf=16k", "tcp:quickack=yes", "tcp:nodelay=no",
    "tcp:mss=1000", "tcp:reopen=no", "tcp:ip=6",
    "tcp:streams=2", "tcp:streams=3,wait=poll", "tcp:streams=7,stripe=1000", "tcp:streams=5,stripe=4097,wait=hybrid",
};

class EveryVariant : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Sockets, EveryVariant, testing::ValuesIn(kVariants), [](const auto& info) {
  std::string name = info.param;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
});

TEST_P(EveryVariant, BouncesEveryByteOfEverySize) {
  const std::vector<size_t> sizes = {1, 2, 3, 7, 8, 9, 63, 64, 65, 1000, 1023, 1025, 4095, 4096, 4097, 65535, 65536, 65537, 131072, 208000, 262147, kMiB - 1, kMiB, kMiB + 1, 8 * kMiB - 3, 8 * kMiB, 1};
  EXPECT_EQ("", run_connected(GetParam(), [&](Rank& rank) { return bounce(rank, sizes); }).both());
}

TEST_P(EveryVariant, BothDirectionsAtOnceWithFullBuffers) {
  const auto body = [](Rank& rank) -> std::string {
    for (uint64_t round = 0; round < 4; ++round) {
      const size_t bytes = 8 * kMiB - 5 * round;
      const auto me = static_cast<uint64_t>(rank.context.rank);
      const Bytes out = pattern(bytes, 2 * round + me), wanted = pattern(bytes, 2 * round + 1 - me);
      Bytes got(bytes);
      np_request in_flight, coming;
      if (round % 2 == 0) {
        if (const np_status s = rank.irecv(got, coming); s != NP_OK) return failed(rank, "irecv", s);
        if (const np_status s = rank.isend(out, in_flight); s != NP_OK) return failed(rank, "isend", s);
        if (const np_status s = rank.wait(in_flight); s != NP_OK) return failed(rank, "wait", s);
      } else {  // a blocking send has to empty the other's full buffer as well
        if (const np_status s = rank.irecv(got, coming); s != NP_OK) return failed(rank, "irecv", s);
        if (const np_status s = rank.send(out.data(), bytes); s != NP_OK) return failed(rank, "send", s);
      }
      if (const np_status s = rank.wait(coming); s != NP_OK) return failed(rank, "wait", s);
      if (std::string wrong = expect_same(got, wanted, "round " + std::to_string(round)); !wrong.empty()) return wrong;
    }
    return bounce(rank, {1, 100'000});  // and the endpoint is as before
  };
  EXPECT_EQ("", run_connected(GetParam(), body).both());
}

TEST_P(EveryVariant, ManyRequestsInFlightCompleteInOrder) {
  const auto body = [](Rank& rank) -> std::string {
    const size_t sizes[] = {1, 70'000, 3, 200'001, 64, 1, 300'000, 9, 65'536, 131'072, 17, 5000};
    constexpr size_t kCount = std::size(sizes);
    const auto me = static_cast<uint64_t>(rank.context.rank);
    std::array<Bytes, kCount> out, got;
    std::array<np_request, kCount> leaving{}, coming{};
    for (size_t i = 0; i < kCount; ++i) {
      out[i] = pattern(sizes[i], 100 * me + i);
      got[i].resize(sizes[i]);
      if (const np_status s = rank.irecv(got[i], coming[i]); s != NP_OK) return failed(rank, "irecv", s);
      if (const np_status s = rank.isend(out[i], leaving[i]); s != NP_OK) return failed(rank, "isend", s);
    }
    for (size_t i = 0; i < kCount; ++i) {  // rank 0 asks again and again, rank 1 waits, for the last one first
      np_request& last = coming[kCount - 1 - i];
      np_status s = NP_PENDING;
      while (me == 0 && s == NP_PENDING) s = rank.module->test(rank.endpoint, &last);
      if (me == 1) s = rank.wait(last);
      if (s != NP_OK) return failed(rank, "completing", s);
    }
    for (np_request& request : leaving) {
      if (const np_status s = rank.wait(request); s != NP_OK) return failed(rank, "wait", s);
    }
    for (size_t i = 0; i < kCount; ++i) {
      if (std::string wrong = expect_same(got[i], pattern(sizes[i], 100 * (1 - me) + i), "request " + std::to_string(i)); !wrong.empty()) return wrong;
    }
    return "";
  };
  EXPECT_EQ("", run_connected(GetParam(), body).both());
}

// A receive that is posted early may not hold up one that is waited for: what it waits for is sent only afterwards.
TEST_P(EveryVariant, WaitingForOneRequestDoesNotWaitForTheNext) {
  const auto body = [](Rank& rank) -> std::string {
    Bytes first(3000), second(3000);
    np_request a, b;
    if (rank.context.rank == 0) {
      if (const np_status s = rank.irecv(first, a); s != NP_OK) return failed(rank, "irecv", s);
      if (const np_status s = rank.irecv(second, b); s != NP_OK) return failed(rank, "irecv", s);
      if (const np_status s = rank.wait(a); s != NP_OK) return failed(rank, "wait", s);
      if (const np_status s = rank.send(first.data(), 1); s != NP_OK) return failed(rank, "send", s);
      if (const np_status s = rank.wait(b); s != NP_OK) return failed(rank, "wait", s);
      return expect_same(second, pattern(3000, 2), "second");
    }
    if (const np_status s = rank.send(pattern(3000, 1).data(), 3000); s != NP_OK) return failed(rank, "send", s);
    if (const np_status s = rank.recv(first.data(), 1); s != NP_OK) return failed(rank, "recv", s);
    if (const np_status s = rank.send(pattern(3000, 2).data(), 3000); s != NP_OK) return failed(rank, "send", s);
    return "";
  };
  EXPECT_EQ("", run_connected(GetParam(), body).both());
}

TEST_P(EveryVariant, AKilledPeerEndsEveryCall) {
  for (const bool sending : {false, true}) {
    const auto body = [sending](Rank& rank) -> std::string {
      if (std::string wrong = bounce(rank, {1, 70'000}); !wrong.empty()) return wrong;
      if (rank.context.rank == 1) raise(SIGKILL);
      Bytes room(kMiB);
      np_status status = NP_OK;
      for (int i = 0; i < 1000 && status == NP_OK; ++i) {
        status = sending ? rank.send(room.data(), room.size()) : rank.recv(room.data(), room.size());
      }
      if (std::string wrong = expect(rank, status, NP_PEER_LOST, "rank 1 has gone"); !wrong.empty()) return wrong;
      np_request request;
      return expect(rank, rank.isend(room, request), NP_PEER_LOST, "rank 1 has gone");
    };
    const Outcome outcome = run_connected(GetParam(), body);
    EXPECT_EQ("", outcome.said[0]);
    EXPECT_EQ("killed", outcome.said[1]);
  }
}

TEST_P(EveryVariant, AbortEndsEveryWait) {
  for (const int call : {0, 1, 2}) {
    const auto body = [call](Rank& rank) -> std::string {
      struct sigaction action {};  // as the core's watchdog: no SA_RESTART once the flag is up, and again and again
      action.sa_handler = [](int) { abort_flag = 1; };
      sigaction(SIGALRM, &action, nullptr);
      if (rank.context.rank == 0) {
        const itimerval every = {{0, 50'000}, {0, 50'000}};
        setitimer(ITIMER_REAL, &every, nullptr);
        Bytes room(64 * kMiB), other(64 * kMiB);  // more than the buffers on the way hold
        np_request out, in;
        np_status status = NP_OK;
        if (call == 0) status = rank.recv(room.data(), room.size());
        if (call == 1) status = rank.send(room.data(), room.size());
        if (call == 2) {
          status = rank.irecv(room, in);
          if (status == NP_OK) status = rank.isend(other, out);
          if (status == NP_OK) status = rank.wait(out);
        }
        const itimerval never{};
        setitimer(ITIMER_REAL, &never, nullptr);
        rank.meet();
        return expect(rank, status, NP_ABORTED, "gave up");
      }
      rank.meet();  // the other rank neither sends nor receives
      return "";
    };
    EXPECT_EQ("", run_connected(GetParam(), body).both()) << "call " << call;
  }
}

TEST_P(EveryVariant, AnEmptyMessageIsRefusedWithASentence) {
  const auto body = [](Rank& rank) {
    char byte = 0;
    return expect(rank, rank.send(&byte, 0), NP_UNSUPPORTED, "empty") + expect(rank, rank.recv(&byte, 0), NP_UNSUPPORTED, "empty") + bounce(rank, {1});
  };
  EXPECT_EQ("", run_connected(GetParam(), body).both());
}

class EveryModule : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Sockets, EveryModule, testing::Values("pipe", "unix", "unix:type=seqpacket", "tcp"), [](const auto& info) {
  std::string name = info.param;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
});

TEST_P(EveryModule, EndpointsThatAreOpenAtOnceDoNotMix) {
  const auto body = [](int number, int control) -> std::string {
    Rank first(GetParam(), number, control), second(GetParam(), number, control);
    for (Rank* rank : {&first, &second}) {
      if (const np_status s = rank->open(); s != NP_OK) return failed(*rank, "open", s);
    }
    for (Rank* rank : {&second, &first}) {
      if (const np_status s = rank->connect(); s != NP_OK) return failed(*rank, "connect", s);
    }
    const bool sends = number == 0;
    const Bytes one = pattern(5000, 1), two = pattern(5000, 2);
    Bytes got(5000);
    if (sends) {
      if (const np_status s = first.send(one.data(), one.size()); s != NP_OK) return failed(first, "send", s);
      if (const np_status s = second.send(two.data(), two.size()); s != NP_OK) return failed(second, "send", s);
      return "";
    }
    if (const np_status s = second.recv(got.data(), got.size()); s != NP_OK) return failed(second, "recv", s);
    if (std::string wrong = expect_same(got, two, "second endpoint"); !wrong.empty()) return wrong;
    if (const np_status s = first.recv(got.data(), got.size()); s != NP_OK) return failed(first, "recv", s);
    return expect_same(got, one, "first endpoint");
  };
  EXPECT_EQ("", run_ranks(body).both());
}

TEST_P(EveryModule, APeerThatNeverComesEndsInASentence) {
  const auto body = [](int number, int control) -> std::string {
    Rank rank(GetParam(), number, control);
    rank.context.timeout_ns = 300'000'000;
    if (const np_status s = rank.open(); s != NP_OK) return failed(rank, "open", s);
    Bytes mine(512);
    size_t bytes = mine.size();
    if (const np_status s = rank.module->address(rank.endpoint, mine.data(), &bytes); s != NP_OK) return failed(rank, "address", s);
    mine.resize(bytes);
    const Bytes theirs = rank.exchange(mine);
    std::string wrong;
    if (number == 1) {
      const void* addresses[2] = {theirs.data(), mine.data()};
      const size_t sizes[2] = {theirs.size(), mine.size()};
      wrong = expect(rank, rank.module->connect(rank.endpoint, addresses, sizes), NP_FAILED, "is rank 0 alive");
    }
    rank.meet();
    return wrong;
  };
  EXPECT_EQ("", run_ranks(body).both());
}

// The kernel moves at most 2 GiB - 4 KiB in one call (read(2)). The same 64 MiB stand at many addresses in a row.
TEST_P(EveryModule, AMessageOfMoreThanTwoGibArrivesWhole) {
  const auto body = [](Rank& rank) -> std::string {
    constexpr size_t kWindow = 64 * kMiB, kWindows = 33, kBytes = kWindow * 32 + 4099;
    const int memory = memfd_create("window", MFD_CLOEXEC);
    if (memory < 0 || ftruncate(memory, kWindow) != 0) return "no memory";
    char* base = static_cast<char*>(mmap(nullptr, kWindow * kWindows, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    for (size_t i = 0; i < kWindows; ++i) {
      if (mmap(base + i * kWindow, kWindow, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, 0) == MAP_FAILED) return "no mapping";
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
  };
  EXPECT_EQ("", run_connected(GetParam(), body).both());
}

TEST_P(EveryModule, DescribesHowItWaitsAndCountsInNumbers) {
  const auto body = [](Rank& rank) -> std::string {
    if (rank.settings()["wait"] != "block") return "it does not say that it blocks";
    const Texts counted = rank.facts(rank.module->counters);
    for (const auto& [name, value] : counted) {
      if (value.find_first_not_of("0123456789") != std::string::npos) return name + " is " + value;
    }
    return counted.empty() ? "it counts nothing" : "";
  };
  EXPECT_EQ("", run_connected(GetParam(), body).both());
}

}  // namespace
