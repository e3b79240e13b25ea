// SPDX-License-Identifier: Apache-2.0
#include "link/reception.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "link/rendezvous.h"

namespace netpipe {
namespace {

const std::string token = "a secret of this job";
constexpr std::int64_t patience_ns = 60'000'000'000;

Descriptor connected(std::uint16_t port) {
  Descriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in there{};
  there.sin_family = AF_INET;
  there.sin_port = htons(port);
  there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&there), sizeof there), 0);
  return fd;
}

std::vector<Caller> first_caller(Reception& reception, const Listener& listener) {
  std::vector<Caller> callers;
  for (const std::int64_t end = now_ns() + patience_ns; callers.empty() && now_ns() < end;) {
    callers = reception.attend(listener.socket.get(), -1, 100);
  }
  return callers;
}

TEST(Reception, HearsWhoIsExpectedBesideMoreThanItHasPlacesFor) {
  const Result<Listener> listener = listen_at("127.0.0.1", 0);
  ASSERT_TRUE(listener);
  Reception reception(token, 2);
  std::vector<Descriptor> silent;
  for (std::size_t i = 0; i < 2 * Reception::strangers; ++i) {
    silent.push_back(connected(listener->port));
    if (i % 3 == 1) {
      EXPECT_EQ(::send(silent.back().get(), "GET /", 5, MSG_NOSIGNAL), 5);
    }
    if (i % 16 == 0) reception.attend(listener->socket.get(), -1, 0);
  }
  const std::int64_t began_ns = now_ns();
  std::thread rank([&] {
    const Result<Link> link = call({"127.0.0.1", listener->port, token, "join 0", now_ns() + patience_ns, nullptr});
    EXPECT_TRUE(link) << link.failure().sentence;
    if (link) ::close(link->fd);
  });
  const std::vector<Caller> callers = first_caller(reception, *listener);
  rank.join();
  ASSERT_EQ(callers.size(), 1U);
  EXPECT_EQ(callers[0].plan_text, "join 0");
  EXPECT_LT(now_ns() - began_ns, Reception::patience_ns) << "it waited for somebody silent";
}

TEST(Reception, TakesNobodyWithAnotherToken) {
  const Result<Listener> listener = listen_at("127.0.0.1", 0);
  ASSERT_TRUE(listener);
  Reception reception(token, 1);
  std::thread wrong([&] {
    const auto link = call({"127.0.0.1", listener->port, "another secret here", "x", now_ns() + patience_ns, nullptr});
    ASSERT_FALSE(link);
    EXPECT_EQ(link.failure().exit, Exit::usage);
  });
  std::vector<Caller> callers;
  for (int i = 0; i < 20; ++i) {
    for (Caller& one : reception.attend(listener->socket.get(), -1, 50)) callers.push_back(std::move(one));
  }
  wrong.join();
  EXPECT_TRUE(callers.empty());
}

}  // namespace
}  // namespace netpipe
