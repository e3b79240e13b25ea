// SPDX-License-Identifier: Apache-2.0
// zmq, nng and grpc, which listen where strangers can see it: whoever comes before the peer and does not prove itself
// is not let in, nor is anybody once the ranks are joined. The strangers are a socket of the same library (zmq), or
// speak its protocol by hand, in the process of the rank that connects.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
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

// With a first message that is not the proof: the protocols of nanomsg over TCP by hand, because nng_send of libnng
// 1.5.2 may crash where a connection ends meanwhile.
class OverNng final : public Stranger {
 public:
  explicit OverNng(int protocol) : protocol_(protocol) {}
  ~OverNng() override { hang_up(); }
  void knock(const std::string& where) override {
    at_.sin_family = AF_INET;
    at_.sin_port = htons(static_cast<uint16_t>(std::stoi(where.substr(where.rfind(':') + 1))));
    at_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  }
  bool got_in() override {  // what it says may be on its way to a door that is shut; what it hears is from inside
    if (fd_ < 0 && !dial()) return false;
    char room[64];
    const ssize_t got = ::recv(fd_, room, sizeof room, MSG_DONTWAIT);
    if (got > 0) heard_ += static_cast<size_t>(got);
    const bool in = heard_ > kGreeting;
    if (got == 0 || (got < 0 && errno != EAGAIN)) hang_up();
    return in;
  }

  static constexpr int kPair = 0x10, kReq = 0x30, kPush = 0x50;

 private:
  static constexpr size_t kGreeting = 8;

  // One message to a connection: one that comes while it is being closed is what libnng 1.5.2 does not survive.
  bool dial() {
    heard_ = 0;
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const std::string greeting = {0, 'S', 'P', 0, 0, static_cast<char>(protocol_), 0, 0};
    const std::string message = (protocol_ == kReq ? std::string("\x80\0\0\1", 4) : "") + "spoilt";
    const std::string all = greeting + std::string(7, '\0') + static_cast<char>(message.size()) + message;
    if (::connect(fd_, reinterpret_cast<const sockaddr*>(&at_), sizeof at_) == 0 &&
        ::send(fd_, all.data(), all.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(all.size())) {
      return true;
    }
    hang_up();
    return false;
  }
  void hang_up() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

  const int protocol_;
  sockaddr_in at_{};
  int fd_ = -1;
  size_t heard_ = 0;  // of this connection
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

class NngTurnsStrangersOut : public testing::TestWithParam<std::pair<const char*, int>> {};

TEST_P(NngTurnsStrangersOut, OfEachPattern) {
  if (!built("nng")) GTEST_SKIP() << "module nng was not built";
  const auto [pattern, protocol] = GetParam();
  const auto make = [protocol = protocol] { return std::make_unique<OverNng>(protocol); };
  EXPECT_EQ(both_beside(std::string("nng:pattern=") + pattern, make), "");
}

INSTANTIATE_TEST_SUITE_P(ServiceModules, NngTurnsStrangersOut,
                         testing::Values(std::pair{"pair", OverNng::kPair}, std::pair{"reqrep", OverNng::kReq},
                                         std::pair{"pushpull", OverNng::kPush}),
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
