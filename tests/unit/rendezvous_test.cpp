// SPDX-License-Identifier: Apache-2.0
// Where a host can be called, and how it calls another that does not answer as it should.
#include "link/rendezvous.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/time.h>

#include <csignal>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "link/reception.h"

namespace netpipe {
namespace {

constexpr const char* token = "correct horse battery staple";
constexpr const char* plan = "netpipe-plan 1\nvariant tcp\nend\n";
constexpr std::int64_t patience_ns = 20'000'000'000;  // of a test; nothing here takes so long unless it hangs

// Somebody who calls.
Descriptor next_caller(const Listener& listener) {
  pollfd one{listener.socket.get(), POLLIN, 0};
  ::poll(&one, 1, static_cast<int>(patience_ns / 1'000'000));
  return Descriptor(::accept(listener.socket.get(), nullptr, nullptr));
}

TEST(Rendezvous, CallsAgainWhenItIsSentAwayWithoutAWord) {
  const Result<Listener> server = listen_at("127.0.0.1", 0);
  ASSERT_TRUE(server);
  std::thread answerer([&] {
    for (int away = 0; away < 2; ++away) next_caller(*server);
    Reception reception(token, 1);
    std::vector<Caller> callers;
    for (const std::int64_t end = now_ns() + patience_ns; callers.empty() && now_ns() < end;) {
      callers = reception.attend(server->socket.get(), -1, 100);
    }
    ASSERT_EQ(callers.size(), 1U);
    EXPECT_EQ(callers[0].plan_text, plan);
  });
  const Result<Link> link = call({"127.0.0.1", server->port, token, plan, now_ns() + patience_ns, nullptr});
  answerer.join();
  ASSERT_TRUE(link) << link.failure().sentence;
  ::close(link->fd);
}

TEST(Rendezvous, SaysWhenAPortIsTaken) {
  const Result<Listener> first = listen_at("127.0.0.1", 0);
  ASSERT_TRUE(first) << first.failure().sentence;
  EXPECT_EQ(first->host, "127.0.0.1");
  const Result<Listener> second = listen_at("127.0.0.1", first->port);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.failure().exit, Exit::unavailable);
  EXPECT_EQ(second.failure().sentence,
            "port " + std::to_string(first->port) +
                " on 127.0.0.1 is taken by another process; choose another with --port, or 0 for any "
                "free one");
}

TEST(Rendezvous, RefusesToListenWhereThisHostIsNot) {
  for (const char* address : {"", "192.0.2.77"}) {
    const Result<Listener> listener = listen_at(address, 0);
    ASSERT_FALSE(listener) << address;
    EXPECT_EQ(listener.failure().exit, Exit::usage) << listener.failure().sentence;
  }
}

TEST(Rendezvous, SaysThatNobodyListens) {
  Result<Listener> gone = listen_at("127.0.0.1", 0);
  ASSERT_TRUE(gone);
  gone->socket.reset();
  const Result<Link> link = call({"127.0.0.1", gone->port, token, plan, now_ns() + patience_ns, nullptr});
  ASSERT_FALSE(link);
  EXPECT_EQ(link.failure().exit, Exit::unavailable);
  EXPECT_NE(link.failure().sentence.find("no server listens at 127.0.0.1:"), std::string::npos)
      << link.failure().sentence;
}

TEST(Rendezvous, SaysThatAHostIsUnknown) {
  const Result<Link> link = call({"no-such-host.invalid", 1, token, plan, now_ns() + patience_ns, nullptr});
  ASSERT_FALSE(link);
  EXPECT_EQ(link.failure().exit, Exit::unavailable);
  EXPECT_NE(link.failure().sentence.find("host no-such-host.invalid"), std::string::npos) << link.failure().sentence;
}

TEST(Rendezvous, RefusesANameThatIsLongerThanAnyHostsOwn) {
  const std::string name(5'000'000, 'x');
  const Result<Link> link = call({name, 1, token, plan, now_ns() + patience_ns, nullptr});
  ASSERT_FALSE(link);
  const Result<Listener> listener = listen_at(name, 0);
  ASSERT_FALSE(listener);
  for (const Failure& failure : {link.failure(), listener.failure()}) {
    EXPECT_EQ(failure.exit, Exit::usage);
    EXPECT_EQ(failure.sentence, "a host name has at most 253 characters, this one 5000000");
  }
}

TEST(Rendezvous, DoesNotWaitForAMuteServerBeyondItsDeadline) {
  const Result<Listener> mute = listen_at("127.0.0.1", 0);  // the system takes the connection, nobody ever reads it
  ASSERT_TRUE(mute);
  const Result<Link> link = call({"127.0.0.1", mute->port, token, plan, now_ns() + 50'000'000, nullptr});
  ASSERT_FALSE(link);
  EXPECT_EQ(link.failure().exit, Exit::unavailable);
  EXPECT_NE(link.failure().sentence.find("said nothing"), std::string::npos) << link.failure().sentence;
}

volatile int raised_by_alarm = 0;  // NOLINT: a signal handler has no other place for it

TEST(Rendezvous, StopsCallingWhenTheFlagIsRaised) {
  const Result<Listener> mute = listen_at("127.0.0.1", 0);
  ASSERT_TRUE(mute);
  std::signal(SIGALRM, [](int) { raised_by_alarm = 1; });
  itimerval timer{};
  timer.it_value.tv_usec = 20'000;
  ASSERT_EQ(::setitimer(ITIMER_REAL, &timer, nullptr), 0);
  const Result<Link> link = call({"127.0.0.1", mute->port, token, plan, now_ns() + patience_ns, &raised_by_alarm});
  std::signal(SIGALRM, SIG_DFL);
  ASSERT_FALSE(link);
  EXPECT_EQ(link.failure().exit, Exit::interrupted);
}

TEST(Rendezvous, SaysThatSomethingElseAnswers) {
  const Result<Listener> other = listen_at("127.0.0.1", 0);
  ASSERT_TRUE(other);
  for (const std::string_view words : {std::string_view("SSH-2.0-OpenSSH_9.2\r\n"), std::string_view()}) {
    std::thread answerer([&] {
      const Descriptor fd = next_caller(*other);
      EXPECT_EQ(::send(fd.get(), words.data(), words.size(), MSG_NOSIGNAL), static_cast<ssize_t>(words.size()));
    });
    // Who is silent is called again until the deadline.
    const std::int64_t deadline_ns = now_ns() + (words.empty() ? 300'000'000 : patience_ns);
    const Result<Link> link = call({"127.0.0.1", other->port, token, plan, deadline_ns, nullptr});
    answerer.join();
    ASSERT_FALSE(link);
    EXPECT_EQ(link.failure().exit, Exit::unavailable);
    EXPECT_NE(link.failure().sentence.find("netpipe server"), std::string::npos) << link.failure().sentence;
  }
}

}  // namespace
}  // namespace netpipe
