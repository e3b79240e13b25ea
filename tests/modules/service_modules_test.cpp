// SPDX-License-Identifier: Apache-2.0
// zmq, nng and grpc, which listen where strangers can see it: whoever comes before the peer and does not prove itself
// is not let in, nor is anybody once the ranks are joined. The strangers are sockets of the same library, or what
// speaks its protocol, in the process of the rank that connects.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "two_ranks.h"

namespace {

using namespace two_ranks;

bool built(const std::string& name) {
  const char* const folder = std::getenv("NETPIPE_MODULES");
  return folder != nullptr && std::ifstream(std::string(folder) + "/" + name + ".so").good();
}

void nap(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

template <typename Function>
Function find(void* library, const char* name) {
  void* const found = library != nullptr ? dlsym(library, name) : nullptr;
  if (found == nullptr) throw std::runtime_error(std::string("no ") + name);
  return reinterpret_cast<Function>(found);
}

// Where rank 1 listens to rank 0: kit/services/service_meeting.h, behind the proof and the name.
std::string door(const Bytes& address) {
  const unsigned port = address.at(48) | unsigned{address.at(49)} << 8U;
  return "tcp://127.0.0.1:" + std::to_string(port);
}

class Stranger {
 public:
  virtual ~Stranger() = default;
  virtual void knock(const std::string& where) = 0;
  virtual bool got_in() = 0;  // tries to speak and to hear
  // Whether it was told so, where the protocol says it.
  [[nodiscard]] virtual bool turned_out() const { return true; }
};

// With a password that is not the proof.
class OverZmq final : public Stranger {
 public:
  void knock(const std::string& where) override {
    library_ = dlopen("libzmq.so.5", RTLD_NOW | RTLD_LOCAL);
    void* const context = find<void* (*)()>(library_, "zmq_ctx_new")();
    socket_ = find<void* (*)(void*, int)>(library_, "zmq_socket")(context, 0);  // ZMQ_PAIR
    const auto set = find<int (*)(void*, int, const void*, size_t)>(library_, "zmq_setsockopt");
    const std::string word(64, '0');
    const int yes = 1;
    set(socket_, 45, "0", 1);                    // ZMQ_PLAIN_USERNAME
    set(socket_, 46, word.data(), word.size());  // ZMQ_PLAIN_PASSWORD
    set(socket_, 39, &yes, sizeof yes);          // ZMQ_IMMEDIATE: only to whom has let it in
    find<int (*)(void*, const char*)>(library_, "zmq_connect")(socket_, where.c_str());
  }
  bool got_in() override {
    char room[64];
    constexpr int kDontWait = 1;
    return find<int (*)(void*, const void*, size_t, int)>(library_, "zmq_send")(socket_, "spoilt", 6, kDontWait) >= 0 ||
           find<int (*)(void*, void*, size_t, int)>(library_, "zmq_recv")(socket_, room, sizeof room, kDontWait) >= 0;
  }

 private:
  void *library_ = nullptr, *socket_ = nullptr;
};

// With a first message that is not the proof.
class OverNng final : public Stranger {
 public:
  explicit OverNng(const char* opens) : opens_(opens) {}
  void knock(const std::string& where) override {
    library_ = dlopen("libnng.so.1", RTLD_NOW | RTLD_LOCAL);
    find<int (*)(Socket*)>(library_, opens_)(&socket_);
    find<int (*)(Socket, const char*, void*, int)>(library_, "nng_dial")(socket_, where.c_str(), nullptr, kDontWait);
  }
  bool got_in() override {  // what it says may be on its way to a door that is shut; what it hears is from inside
    char room[64];
    size_t bytes = sizeof room;
    find<int (*)(Socket, const void*, size_t, int)>(library_, "nng_send")(socket_, "spoilt", 6, kDontWait);
    return find<int (*)(Socket, void*, size_t*, int)>(library_, "nng_recv")(socket_, room, &bytes, kDontWait) == 0;
  }

 private:
  static constexpr int kDontWait = 2;
  struct Socket {
    uint32_t id = 0;
  };
  const char* opens_;
  void* library_ = nullptr;
  Socket socket_;
};

// With a call whose token is not the proof: HTTP/2 (RFC 9113) and its headers (RFC 7541) by hand.
class OverGrpc final : public Stranger {
 public:
  explicit OverGrpc(const char* method) : method_(method) {}
  ~OverGrpc() override { close(fd_); }
  void knock(const std::string& where) override {
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<uint16_t>(std::stoi(where.substr(where.rfind(':') + 1))));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::connect(fd_, reinterpret_cast<const sockaddr*>(&at), sizeof at);
    nap(50);
    const auto text = [](const std::string& what) { return static_cast<char>(what.size()) + what; };
    std::string headers = "\x83\x86\x04" + text(method_);             // POST, http, :path
    headers += "\x01" + text("netpipe");                              // :authority
    headers += std::string("\x0f\x10") + text("application/grpc");    // content-type
    headers += std::string(1, '\0') + text("te") + text("trailers");  // a new name, as those that follow
    headers += std::string(1, '\0') + text("netpipe-rank") + text("0");
    headers += std::string(1, '\0') + text("netpipe-token") + text(std::string(64, '0'));
    const std::string all = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(kSettings, 0, 0, "") +
                            frame(kHeaders, kEndHeaders, 1, headers) +
                            frame(kData, 0, 1, std::string("\0\0\0\0\6spoilt", 11));
    EXPECT_EQ(::send(fd_, all.data(), all.size(), MSG_NOSIGNAL), static_cast<ssize_t>(all.size()));
  }
  bool got_in() override {
    char room[4096];
    for (ssize_t got = 0; (got = ::recv(fd_, room, sizeof room, MSG_DONTWAIT)) > 0;)
      heard_.append(room, static_cast<size_t>(got));
    bool in = false;
    while (heard_.size() >= kFrameHeader) {
      const auto at = [&](size_t i) { return static_cast<unsigned char>(heard_[i]); };
      const size_t bytes = size_t{at(0)} << 16U | size_t{at(1)} << 8U | at(2);
      if (heard_.size() < kFrameHeader + bytes) break;
      // Who is let in is told so, before the call ends.
      in = in || at(3) == kData || (at(3) == kHeaders && (at(4) & kEndStream) == 0);
      refused_ = refused_ || (at(3) == kHeaders && (at(4) & kEndStream) != 0) || at(3) == kReset;
      heard_.erase(0, kFrameHeader + bytes);
    }
    return in;
  }
  [[nodiscard]] bool turned_out() const override { return refused_; }

 private:
  static constexpr size_t kFrameHeader = 9;
  static constexpr unsigned kData = 0, kHeaders = 1, kReset = 3, kSettings = 4, kEndStream = 1, kEndHeaders = 4;
  static std::string frame(unsigned type, unsigned flags, unsigned stream, const std::string& payload) {
    const auto byte = [](size_t value) { return static_cast<char>(value & 255U); };
    const std::string head = {byte(payload.size() >> 16U),
                              byte(payload.size() >> 8U),
                              byte(payload.size()),
                              byte(type),
                              byte(flags),
                              0,
                              0,
                              0,
                              byte(stream)};
    return head + payload;
  }
  const char* method_;
  int fd_ = -1;
  bool refused_ = false;
  std::string heard_;
};

std::string bounce_some(Rank& rank) { return bounce(rank, {6, 32, 6, 100000, 6}); }

// The stranger is there before rank 0 is, and tries again when the ranks are joined.
std::string join_beside(Rank& rank, Stranger& stranger) {
  if (const np_status s = rank.open(); s != NP_OK) return failed(rank, "open", s);
  const bool first = rank.context.rank == 0;
  Bytes mine(4096);
  size_t bytes = mine.size();
  if (const np_status s = rank.module->address(rank.endpoint, mine.data(), &bytes); s != NP_OK)
    return failed(rank, "address", s);
  mine.resize(bytes);
  const Bytes theirs = rank.exchange(mine);
  bool in = false;
  const auto try_for_ms = [&](int ms) {
    for (int i = 0; i < ms / 5; ++i) {
      in = stranger.got_in() || in;
      nap(5);
    }
  };
  if (first) {
    stranger.knock(door(theirs));
    try_for_ms(200);
  }
  const void* addresses[2] = {first ? mine.data() : theirs.data(), first ? theirs.data() : mine.data()};
  const size_t sizes[2] = {first ? mine.size() : theirs.size(), first ? theirs.size() : mine.size()};
  if (const np_status s = rank.module->connect(rank.endpoint, addresses, sizes); s != NP_OK)
    return failed(rank, "connect", s);
  rank.meet();
  if (std::string wrong = bounce_some(rank); !wrong.empty()) return wrong;
  if (first) try_for_ms(700);  // longer than a stranger waits between two tries
  rank.meet();
  if (std::string wrong = bounce_some(rank); !wrong.empty()) return "after more knocks: " + wrong;
  rank.meet();  // who closes its sockets drops what it has not sent yet
  if (first && !stranger.turned_out()) return "a stranger was not turned out";
  return in ? "a stranger got in" : "";
}

std::string both_beside(const std::string& variant, const std::function<std::unique_ptr<Stranger>()>& make) {
  return run_ranks([&](int number, int control) -> std::string {
           Rank rank(variant, number, control);
           const std::unique_ptr<Stranger> stranger = make();
           return join_beside(rank, *stranger);
         })
      .both();
}

TEST(ServiceModules, ZmqLetsNoStrangerIn) {
  if (!built("zmq")) GTEST_SKIP() << "module zmq was not built";
  const auto make = [] { return std::make_unique<OverZmq>(); };
  EXPECT_EQ(both_beside("zmq", make), "");
  EXPECT_EQ(both_beside("zmq:encrypt=yes", make), "");
}

class NngTurnsStrangersOut : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(NngTurnsStrangersOut, OfEachPattern) {
  if (!built("nng")) GTEST_SKIP() << "module nng was not built";
  const auto [pattern, opens] = GetParam();
  const auto make = [opens = opens] { return std::make_unique<OverNng>(opens); };
  EXPECT_EQ(both_beside(std::string("nng:pattern=") + pattern, make), "");
}

INSTANTIATE_TEST_SUITE_P(ServiceModules, NngTurnsStrangersOut,
                         testing::Values(std::pair{"pair", "nng_pair0_open"}, std::pair{"reqrep", "nng_req0_open"},
                                         std::pair{"pushpull", "nng_push0_open"}),
                         [](const auto& one) { return std::string(one.param.first); });

class GrpcLetsNoStrangerIn : public testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(GrpcLetsNoStrangerIn, WithEitherMethod) {
  if (!built("grpc")) GTEST_SKIP() << "module grpc was not built";
  const auto [api, method] = GetParam();
  const auto make = [method = method] { return std::make_unique<OverGrpc>(method); };
  EXPECT_EQ(both_beside(std::string("grpc:api=") + api, make), "");
}

// What rank 1 tells, but with the certificate of somebody else.
Bytes with_another_certificate(Bytes told, int control) {
  Rank other("grpc:security=tls", 1, control);
  Bytes whole(4096);
  size_t bytes = whole.size();
  if (other.open() != NP_OK || other.module->address(other.endpoint, whole.data(), &bytes) != NP_OK) return {};
  whole.resize(bytes);
  const auto certificate = [](Bytes& address) { return std::find(address.rbegin(), address.rend(), 0).base(); };
  told.erase(certificate(told), told.end());
  told.insert(told.end(), certificate(whole), whole.end());
  return told;
}

TEST(Grpc, TrustsTheCertificateOfItsPeerAndNoOther) {
  if (!built("grpc")) GTEST_SKIP() << "module grpc was not built";
  const auto body = [](int number, int control) -> std::string {
    Rank rank("grpc:security=tls", number, control);
    rank.context.timeout_ns = 1'000'000'000;
    if (const np_status s = rank.open(); s != NP_OK) return s == NP_UNAVAILABLE ? "" : failed(rank, "open", s);
    Bytes mine(4096);
    size_t bytes = mine.size();
    if (const np_status s = rank.module->address(rank.endpoint, mine.data(), &bytes); s != NP_OK) {
      return failed(rank, "address", s);
    }
    mine.resize(bytes);
    Bytes theirs = rank.exchange(mine);
    if (number == 0) theirs = with_another_certificate(theirs, control);
    if (theirs.empty()) return "no other certificate could be made";
    const void* addresses[2] = {number == 0 ? mine.data() : theirs.data(), number == 0 ? theirs.data() : mine.data()};
    const size_t sizes[2] = {number == 0 ? mine.size() : theirs.size(), number == 0 ? theirs.size() : mine.size()};
    const np_status s = rank.module->connect(rank.endpoint, addresses, sizes);
    std::string wrong = s == NP_FAILED ? "" : failed(rank, "connect", s);
    if (number == 0 && wrong.empty()) wrong = expect(rank, s, NP_FAILED, "rank 0 could not join the others");
    rank.meet();
    return wrong;
  };
  EXPECT_EQ("", run_ranks(body).both());
}

INSTANTIATE_TEST_SUITE_P(ServiceModules, GrpcLetsNoStrangerIn,
                         testing::Values(std::pair{"stream", "/netpipe.Messages/Stream"},
                                         std::pair{"unary", "/netpipe.Messages/Exchange"}),
                         [](const auto& one) { return std::string(one.param.first); });

TEST(ServiceModules, APeerThatNeverComesIsGivenUpInASentence) {
  for (const std::string name : {"zmq", "nng", "grpc"}) {
    if (!built(name)) continue;
    const Outcome outcome = run_ranks([&](int number, int control) -> std::string {
      Rank rank(name, number, control);
      rank.context.timeout_ns = 300'000'000;
      if (const np_status s = rank.open(); s != NP_OK) return failed(rank, "open", s);
      return wait_for_nobody(rank, "is rank 0 alive, or is a firewall in between?");
    });
    EXPECT_EQ(outcome.both(), "") << name;
  }
}

}  // namespace
