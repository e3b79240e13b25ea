// SPDX-License-Identifier: Apache-2.0
// The server as a process of its own on loopback, and what clients and strangers do to it. After each of them it must
// serve.
#include "serving/server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "link/frame.h"
#include "link/handshake.h"
#include "link/rendezvous.h"
#include "serving/callers.h"

// In a build with the leak checker the server's process looks for leaks at its end.
extern "C" int __lsan_do_recoverable_leak_check() __attribute__((weak));  // NOLINT: the checker's name, not ours

namespace netpipe {
namespace {

constexpr const char* token = "correct horse battery staple";
constexpr const char* plan = "netpipe-plan 1\nvariant tcp\nend\n";
constexpr std::int64_t patience_ns = 20'000'000'000;  // of a test; nothing here takes so long unless it hangs
constexpr int leaked = 77;

bool wait_for(int fd, short events) {
  pollfd one{fd, events, 0};
  return ::poll(&one, 1, static_cast<int>(patience_ns / 1'000'000)) > 0;
}

// All that comes until the end of the stream or until `until` has come; "(silent)" at its end when the patience was
// over.
std::string read_text(int fd, std::string_view until = {}) {
  std::string text;
  for (;;) {
    if (!until.empty() && text.find(until) != std::string::npos) return text;
    if (!wait_for(fd, POLLIN)) return text + "(silent)";
    std::array<char, 512> buffer{};
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

void write_text(int fd, std::string_view text) {
  EXPECT_EQ(::send(fd, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
}

// Says what it was given, and ends when the client hangs up.
Ending tell(int fd, const Admission& a) {
  write_text(fd, a.plan_text + "|" + a.peer_host + "|" + a.local_address + "|" + a.job + "\n");
  read_text(fd);
  return {0, true, {}};
}

bool is_stopped(int pid) {
  std::string text;
  std::getline(std::ifstream("/proc/" + std::to_string(pid) + "/stat"), text);
  return text.find(") T ") != std::string::npos;
}

using Body = std::function<Ending(int fd, const Admission&)>;

// Lets every client in and does this with it.
MeasureFor measured(const Body& body) {
  return [body](Descriptor control, int, const Admission& admission) {
    EXPECT_TRUE(let_in(control, admission));
    return body(control.release(), admission);
  };
}

class RunningServer {
 public:
  explicit RunningServer(ServeOptions options = {}, const std::string& address = "127.0.0.1") {
    if (options.token.empty()) options.token = token;
    if (!options.measure) options.measure = measured(tell);
    Result<Listener> listener = listen_at(address, 0);
    std::array<int, 2> log{};
    if (!listener || ::pipe(log.data()) != 0) {
      ADD_FAILURE() << (listener ? "no pipe" : listener.failure().sentence);
      return;
    }
    host_ = listener->host;
    port_ = listener->port;
    std::fflush(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(log[0]);
      options.log = [&](const std::string& line) {
        [[maybe_unused]] const ssize_t written = ::write(log[1], (line + "\n").data(), line.size() + 1);
      };
      int code = serve_here(std::move(*listener), options);
      options = {};
      if (__lsan_do_recoverable_leak_check != nullptr && __lsan_do_recoverable_leak_check() != 0) code = leaked;
      ::_exit(code);
    }
    ::close(log[1]);
    log_.reset(log[0]);
  }
  ~RunningServer() {
    if (pid_ > 0) {
      EXPECT_EQ(end(SIGTERM), 0);
    }
  }
  RunningServer(const RunningServer&) = delete;
  RunningServer& operator=(const RunningServer&) = delete;

  [[nodiscard]] CallOptions options() const { return {host_, port_, token, plan, now_ns() + patience_ns, nullptr}; }
  [[nodiscard]] Result<Link> call() const { return netpipe::call(options()); }

  // A connection that knows nothing of any protocol.
  [[nodiscard]] Descriptor stranger() const {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port_);
    ::inet_pton(AF_INET, host_.c_str(), &address.sin_addr);
    Descriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_TRUE(fd && ::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    return fd;
  }

  // The proof that it goes on: a whole measurement.
  void expect_serves() const {
    const Result<Link> link = call();
    ASSERT_TRUE(link) << link.failure().sentence;
    const Descriptor fd(link->fd);
    const std::string told = read_text(fd.get(), "\n");
    EXPECT_NE(told.find(link->job), std::string::npos) << told;
  }

  std::string log_until(std::string_view sentence) { return log_text_ += read_text(log_.get(), sentence); }

  // Ends the server; its exit code, or -1 when it had to be killed.
  int end(int signal) {
    ::kill(pid_, signal);
    return wait_end();
  }
  int wait_end() {
    const pid_t pid = std::exchange(pid_, -1);
    for (const std::int64_t deadline = now_ns() + patience_ns; now_ns() < deadline; ::poll(nullptr, 0, 2)) {
      int status = 0;
      if (::waitpid(pid, &status, WNOHANG) == pid) return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return -1;
  }

 private:
  static int serve_here(Listener listener, const ServeOptions& options) {
    const Result<int> code = serve(std::move(listener), options);
    return code ? *code : static_cast<int>(code.failure().exit);
  }

  std::string host_;
  std::uint16_t port_ = 0;
  pid_t pid_ = -1;
  Descriptor log_;
  std::string log_text_;
};

// ---------------------------------------------------------------------------------------------- a measurement

TEST(Server, GivesBothSidesTheSameJobAndTheirAddresses) {
  RunningServer server;
  const Result<Link> link = server.call();
  ASSERT_TRUE(link) << link.failure().sentence;
  const Descriptor fd(link->fd);
  EXPECT_EQ(read_text(fd.get(), "\n"), std::string(plan) + "|127.0.0.1|127.0.0.1|" + link->job + "\n");
  EXPECT_EQ(link->job.size(), 32U);
  EXPECT_EQ(link->local_address, "127.0.0.1");
  EXPECT_EQ(link->peer_address, "127.0.0.1");
  std::array<char, 256> name{};
  ASSERT_EQ(::gethostname(name.data(), name.size() - 1), 0);
  EXPECT_EQ(link->server_host, name.data());
}

TEST(Server, WorksOverIpv6AndUnwrapsIpv4InIt) {
  const Result<Listener> six = listen_at("::", 0);
  if (!six) GTEST_SKIP() << six.failure().sentence;
  RunningServer server({}, "::");
  for (const char* host : {"::1", "127.0.0.1"}) {
    CallOptions options = server.options();
    options.host = host;
    const Result<Link> link = call(options);
    ASSERT_TRUE(link) << link.failure().sentence;
    const Descriptor fd(link->fd);
    EXPECT_EQ(read_text(fd.get(), "\n"), std::string(plan) + "|" + host + "|" + host + "|" + link->job + "\n");
    EXPECT_EQ(link->local_address, host);
  }
}

TEST(Server, ServesOneAfterTheOtherWithoutAPause) {
  RunningServer server;
  for (int i = 0; i < 20; ++i) server.expect_serves();
}

TEST(Server, ReportsWhoMeasuredWhatAndHowItEnded) {
  RunningServer server;
  server.expect_serves();
  const std::string log = server.log_until("done");
  EXPECT_NE(log.find("127.0.0.1:"), std::string::npos) << log;
  EXPECT_NE(log.find("plan " + hex(sha256(plan)).substr(0, 12)), std::string::npos) << log;
}

TEST(Server, TellsASecondClientThatItIsBusyAndKeepsTheFirst) {
  RunningServer server;
  const Result<Link> first = server.call();
  ASSERT_TRUE(first) << first.failure().sentence;
  Descriptor fd(first->fd);
  EXPECT_NE(read_text(fd.get(), "\n").find(first->job), std::string::npos);
  for (int i = 0; i < 2; ++i) {
    const Result<Link> second = server.call();
    ASSERT_FALSE(second);
    EXPECT_EQ(second.failure().exit, Exit::unavailable);
    EXPECT_NE(second.failure().sentence.find("busy with another measurement, which has been running for"),
              std::string::npos)
        << second.failure().sentence;
  }
  write_text(fd.get(), "still here");
  fd.reset();
  server.expect_serves();
}

TEST(Server, CarriesTheRefusalOfAPlan) {
  ServeOptions options;
  options.bounds.max_message_bytes = 4096;
  options.measure = [](Descriptor control, int words_fd, const Admission& a) {
    if (a.plan_text == plan) return measured(tell)(std::move(control), words_fd, a);
    const std::string most = std::to_string(a.bounds.max_message_bytes);
    return turn_away(control, usage("messages of at most " + most + " bytes are allowed here"));
  };
  RunningServer server(options);
  CallOptions greedy = server.options();
  greedy.plan_text = "netpipe-plan 1\nend-size 1T\n";
  const Result<Link> link = call(greedy);
  ASSERT_FALSE(link);
  EXPECT_EQ(link.failure().exit, Exit::usage);
  EXPECT_NE(link.failure().sentence.find("at most 4096 bytes are allowed here"), std::string::npos)
      << link.failure().sentence;
  EXPECT_NE(server.log_until("allowed here").find("refused: "), std::string::npos);
  server.expect_serves();
}

TEST(Server, TakesThePlansThatItSaysItTakes) {
  RunningServer server;
  CallOptions options = server.options();
  options.plan_text.assign(max_plan_bytes, 'x');
  const Result<Link> link = call(options);
  ASSERT_TRUE(link) << link.failure().sentence;
  const Descriptor fd(link->fd);
  EXPECT_EQ(read_text(fd.get(), "|"), options.plan_text + "|127.0.0.1|127.0.0.1|" + link->job + "\n");
  options.plan_text += 'x';
  const Result<Link> too_long = call(options);
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.failure().exit, Exit::usage);
}

// ---------------------------------------------------------------------------------------------- strangers

TEST(Server, RefusesAWrongTokenAndServesOn) {
  RunningServer server;
  CallOptions options = server.options();
  options.token = "a token that is wrong";
  const Result<Link> link = call(options);
  ASSERT_FALSE(link);
  EXPECT_EQ(link.failure().exit, Exit::usage);
  EXPECT_NE(link.failure().sentence.find("the token is not the one that the server was started with"),
            std::string::npos)
      << link.failure().sentence;
  EXPECT_NE(server.log_until("the token is not").find("refused: "), std::string::npos);
  server.expect_serves();
}

// Also from the address that is sent away: its clients call again.
TEST(Server, SendsAnAddressAwayThatCallsTooOftenAndServesItsClients) {
  RunningServer server;
  CallOptions options = server.options();
  options.token = "a token that is wrong";
  const std::string hello = ClientHandshake({token}, {}, plan).take_output();
  int heard = 0;
  std::string answer = "not asked yet";
  for (const std::int64_t end = now_ns() + patience_ns; !answer.empty() && now_ns() < end; ++heard) {
    const Descriptor fd = server.stranger();
    // It may be gone already.
    [[maybe_unused]] const ssize_t sent = ::send(fd.get(), hello.data(), hello.size(), MSG_NOSIGNAL);
    answer = read_text(fd.get(), "NPR");
  }
  EXPECT_EQ(answer, "") << "all of " << heard << " calls were heard";
  EXPECT_GT(heard, static_cast<int>(Callers::most_calls));
  const Result<Link> link = call(options);
  ASSERT_FALSE(link);
  EXPECT_EQ(link.failure().exit, Exit::usage) << link.failure().sentence;
  server.expect_serves();
}

TEST(Server, DropsTheSilentTheSlowAndTheHalfSaid) {
  ServeOptions options;
  options.handshake_ns = 100'000'000;
  RunningServer server(options);
  const std::string hello = ClientHandshake({token}, {}, plan).take_output();
  for (const std::size_t length : {std::size_t{0}, std::size_t{5}, std::size_t{8}, hello.size() - 1}) {
    const Descriptor fd = server.stranger();
    write_text(fd.get(), hello.substr(0, length));
    EXPECT_EQ(read_text(fd.get()), "") << "after " << length << " bytes";
  }
  const Descriptor slow = server.stranger();  // one byte now and then, which keeps no server waiting
  std::size_t said = 0;
  for (; said < hello.size(); ++said) {
    if (::send(slow.get(), hello.data() + said, 1, MSG_NOSIGNAL) != 1) break;
    ::poll(nullptr, 0, 20);
  }
  EXPECT_LT(said, hello.size());
  EXPECT_NE(server.log_until("in time").find("did not finish its handshake in time"), std::string::npos);
}

TEST(Server, SurvivesGarbageHalfMessagesAndHangUps) {
  RunningServer server;
  const std::string hello = ClientHandshake({token}, {}, plan).take_output();
  const std::vector<std::string> garbage = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                                            std::string(100'000, '\0'),
                                            std::string("NPR\x01\xff\xff\xff\xff", 8),
                                            hello + hello,
                                            hello + std::string(72, 'x'),
                                            hello.substr(0, 20),
                                            ""};
  for (const std::string& text : garbage) {
    {
      const Descriptor fd = server.stranger();
      // It may have been dropped before all was sent.
      [[maybe_unused]] const ssize_t sent = ::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
    }
    server.expect_serves();
  }
  EXPECT_NE(server.log_until("does not speak netpipe's").find("dropped: "), std::string::npos);
}

TEST(Server, ServesWhileAFloodOfConnectionsStands) {
  RunningServer server;
  const std::string hello = ClientHandshake({token}, {}, plan).take_output();
  std::vector<Descriptor> flood;
  for (int i = 0; i < 300; ++i) {
    flood.push_back(server.stranger());
    if (i % 2 == 0) {
      [[maybe_unused]] const ssize_t sent = ::send(flood.back().get(), hello.data(), hello.size(), MSG_NOSIGNAL);
    }
  }
  server.expect_serves();
  int standing = 0;
  for (const Descriptor& one : flood) {
    std::array<char, 128> buffer{};
    ssize_t got = ::recv(one.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got > 0) got = ::recv(one.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);  // after its CHALLENGE
    if (got < 0 && errno == EAGAIN) ++standing;
  }
  EXPECT_LE(standing, static_cast<int>(max_pending)) << "handshakes that the server keeps open";
  EXPECT_GT(standing, 0) << "the flood did not stand while the server was asked to serve";
}

// ---------------------------------------------------------------------------------------------- measurements that go
// wrong

TEST(Server, ServesOnAfterAMeasurementThatCrashes) {
  ServeOptions options;
  options.measure = measured([](int fd, const Admission& admission) {
    if (admission.plan_text == plan) return tell(fd, admission);
    std::raise(SIGKILL);
    return Ending{};
  });
  RunningServer server(options);
  CallOptions deadly = server.options();
  deadly.plan_text = "deadly";
  const Result<Link> link = call(deadly);
  ASSERT_TRUE(link) << link.failure().sentence;
  const Descriptor fd(link->fd);
  EXPECT_EQ(read_text(fd.get()), "");
  EXPECT_NE(server.log_until("Killed").find("killed by signal 9"), std::string::npos);
  server.expect_serves();
}

TEST(Server, ServesOnAfterAClientThatDies) {
  RunningServer server;
  const pid_t client = ::fork();
  if (client == 0) {
    const Result<Link> link = server.call();
    if (!link) ::_exit(1);
    read_text(link->fd, "\n");
    std::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(client, &status, 0), client);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_NE(server.log_until("done").find("plan "), std::string::npos);
  server.expect_serves();
}

TEST(Server, EndsAMeasurementWhoseTimeIsOver) {
  for (const bool deaf : {false, true}) {
    ServeOptions options;
    options.bounds.max_seconds = 0.2;
    options.grace_ns = 100'000'000;
    options.measure = measured([&](int fd, const Admission&) {
      std::signal(SIGTERM, deaf ? SIG_IGN : SIG_DFL);
      write_text(fd, "begun\n");
      for (;;) ::poll(nullptr, 0, 1000);
      return Ending{};
    });
    RunningServer server(options);
    const Result<Link> link = server.call();
    ASSERT_TRUE(link) << link.failure().sentence;
    const Descriptor fd(link->fd);
    EXPECT_EQ(read_text(fd.get()), "begun\n");
    EXPECT_NE(server.log_until("grants").find("stopped after 0.2 s, which is all that the server grants"),
              std::string::npos);
    const Result<Link> next = server.call();
    ASSERT_TRUE(next) << next.failure().sentence;
    const Descriptor next_fd(next->fd);
  }
}

TEST(Server, EndsAMeasurementThatSomebodyKeepsStopped) {
  ServeOptions options;
  options.grace_ns = 1'000'000'000;
  options.measure = measured([](int fd, const Admission& admission) {
    write_text(fd, std::to_string(::getpid()) + "\n");
    std::raise(SIGSTOP);
    write_text(fd, "going on\n");
    if (admission.plan_text != plan) std::raise(SIGSTOP);
    return Ending{0, true, {}};
  });
  RunningServer server(options);
  for (const bool again : {true, false}) {
    CallOptions caller = server.options();
    if (again) caller.plan_text = "stopped twice";
    const Result<Link> link = call(caller);
    ASSERT_TRUE(link) << link.failure().sentence;
    const Descriptor fd(link->fd);
    const int pid = std::stoi(read_text(fd.get(), "\n"));
    for (int waited = 0; !is_stopped(pid) && waited < 5000; ++waited) ::poll(nullptr, 0, 1);
    ::kill(pid, SIGCONT);
    EXPECT_EQ(read_text(fd.get(), "\n"), "going on\n") << "a short stop is no fault";
    const std::string log = server.log_until(again ? "had stopped it for 1 s" : ": done");
    EXPECT_EQ(log.find("(silent)"), std::string::npos) << log;
  }
}

TEST(Server, BoundsTheMemoryOfAMeasurement) {
  constexpr std::size_t granted = std::size_t{256} << 20;
  ServeOptions options;
  options.bounds.max_memory_bytes = granted;
  options.measure = measured([](int fd, const Admission&) {
    const auto fits = [](std::size_t bytes, int flags) {
      return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
    };
    for (const int flags : {MAP_PRIVATE, MAP_SHARED}) write_text(fd, fits(2 * granted, flags) ? "yes " : "no ");
    write_text(fd, fits(granted / 4, MAP_PRIVATE) ? "yes" : "no");
    return Ending{0, true, {}};
  });
  RunningServer server(options);
  const Result<Link> link = server.call();
  ASSERT_TRUE(link) << link.failure().sentence;
  const Descriptor fd(link->fd);
  EXPECT_EQ(read_text(fd.get()), "no no yes");
}

// ---------------------------------------------------------------------------------------------- the end of the server

TEST(Server, EndsWithItsMeasurementAtASignal) {
  for (const auto& [signal, code] : {std::pair{SIGTERM, 0}, std::pair{SIGINT, 130}}) {
    ServeOptions options;
    options.measure = measured([](int fd, const Admission&) {
      write_text(fd, std::to_string(::getpid()) + "\n");
      for (;;) ::poll(nullptr, 0, 1000);
      return Ending{};
    });
    RunningServer server(options);
    const Result<Link> link = server.call();
    ASSERT_TRUE(link) << link.failure().sentence;
    const Descriptor fd(link->fd);
    const int pid = std::stoi(read_text(fd.get(), "\n"));
    ASSERT_EQ(::kill(pid, 0), 0);
    EXPECT_EQ(server.end(signal), code);
    EXPECT_EQ(::kill(pid, 0), -1) << "the measurement outlived its server";
    EXPECT_EQ(errno, ESRCH);
  }
}

TEST(Server, EndsWithTheMeasurementsCodeWhenItServesOnce) {
  ServeOptions options;
  options.once = true;
  options.measure = [](Descriptor control, int, const Admission& admission) {
    if (admission.plan_text != plan) return turn_away(control, usage("not this plan"));
    return let_in(control, admission) ? Ending{4, true, {}} : Ending{};
  };
  RunningServer server(options);
  CallOptions refused = server.options();
  refused.plan_text = "another";
  EXPECT_FALSE(call(refused));  // was none
  const Result<Link> link = server.call();
  ASSERT_TRUE(link) << link.failure().sentence;
  const Descriptor fd(link->fd);
  EXPECT_EQ(server.wait_end(), 4);
}

}  // namespace
}  // namespace netpipe
