// SPDX-License-Identifier: Apache-2.0
// The options of `netpipe-worker serve`. The worker is a program and no library, so its source is taken in here.
#include "serving/serve.cpp"  // NOLINT(bugprone-suspicious-include)

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"

namespace netpipe {
namespace {

Result<ServeArguments> parse(const std::vector<std::string>& arguments) { return parse_serve(arguments); }

TEST(ServeOptions, ListenOnLoopbackUnlessToldOtherwise) {
  const Result<ServeArguments> given = parse({});
  ASSERT_TRUE(given);
  EXPECT_EQ(given->bind, "127.0.0.1");
  EXPECT_EQ(given->port, default_port);
  EXPECT_FALSE(given->once);
}

TEST(ServeOptions, AreReadWithBlankOrEqualsSign) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--bind", "::1", "--port", "0", "--token-file", "t", "--max-size", "4k",
                                 "--max-memory", "1M", "--max-seconds", "2.5", "--once"},
        std::vector<std::string>{"--bind=::1", "--port=0", "--token-file=t", "--max-size=4k", "--max-memory=1M",
                                 "--max-seconds=2.5", "--once"}}) {
    const Result<ServeArguments> given = parse(arguments);
    ASSERT_TRUE(given) << given.failure().sentence;
    EXPECT_EQ(given->bind, "::1");
    EXPECT_EQ(given->port, 0);
    EXPECT_EQ(given->token_file, "t");
    EXPECT_EQ(given->bounds.max_message_bytes, 4096U);
    EXPECT_EQ(given->bounds.max_memory_bytes, 1U << 20);
    EXPECT_EQ(given->bounds.max_seconds, 2.5);
    EXPECT_TRUE(given->once);
  }
}

TEST(ServeOptions, AreRefusedWithASentenceThatNamesThem) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> bad = {
      {{"--prot", "1"}, "did you mean '--port'?"},
      {{"5002"}, "serve has no option '5002'"},
      {{"--port"}, "--port needs a value"},
      {{"--port", "65536"}, "'65536' is not a port"},
      {{"--port", "-1"}, "'-1' is not a port"},
      {{"--port", "http"}, "'http' is not a port"},
      {{"--max-size", "8Q"}, "--max-size: '8Q' is not a size"},
      {{"--max-size", "-1"}, "--max-size: '-1' is not a size"},
      {{"--max-memory", "0"}, "--max-memory: 0 bytes"},
      {{"--max-seconds", "0"}, "--max-seconds: '0' is not a number of seconds"},
      {{"--max-seconds", "1e9"}, "--max-seconds: '1e9' is not a number of seconds"},
      {{"--max-seconds", "soon"}, "--max-seconds: 'soon' is not a number"},
      {{"--bind", std::string(254, 'x')}, "--bind: a host name has at most 253 characters, this one 254"},
      {{"--once=yes"}, "--once takes no value"},
      {{"--token-file="}, "--token-file: the name of a file is missing"},
  };
  for (const auto& [arguments, sentence] : bad) {
    const Result<ServeArguments> given = parse(arguments);
    ASSERT_FALSE(given) << arguments[0];
    EXPECT_EQ(given.failure().exit, Exit::usage);
    EXPECT_NE(given.failure().sentence.find(sentence), std::string::npos) << given.failure().sentence;
  }
}

TEST(ServeOptions, AreAllInTheHelp) {
  const std::string help = serve_help();
  for (const ServeOption& one : serve_options)
    EXPECT_NE(help.find(std::string("  ") + std::string(one.name)), std::string::npos);
}

// What the program says and how it ends, with its standard output caught.
struct Ran {
  int code = -1;
  std::string output;
};

Ran run_serve(const std::vector<std::string>& arguments, const char* token,
              const std::function<void(const std::string&)>& meanwhile) {
  std::array<int, 2> out{};
  EXPECT_EQ(::pipe(out.data()), 0);
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(out[1], STDOUT_FILENO);
    ::close(out[0]);
    ::unsetenv(token_variable);
    if (token != nullptr) ::setenv(token_variable, token, 1);
    ::alarm(60);  // the deadline of this test
    ::_exit(serve_main(arguments, [](const Descriptor& control, int words_fd, const Admission& admission) -> Ending {
      EXPECT_TRUE(let_in(control, admission));
      Child::live(words_fd, [] { return Ending{3, true, {}}; });
    }));
  }
  ::close(out[1]);
  Ran ran;
  std::array<char, 512> buffer{};
  for (ssize_t got = 0; (got = ::read(out[0], buffer.data(), buffer.size())) > 0;) {
    ran.output.append(buffer.data(), static_cast<std::size_t>(got));
    if (ran.output.ends_with('\n')) meanwhile(ran.output);
  }
  ::close(out[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (WIFEXITED(status)) ran.code = WEXITSTATUS(status);
  return ran;
}

TEST(Serve, PrintsWhereItListensAndServes) {
  const Ran ran = run_serve({"--port", "0", "--once"}, "a token of some length", [](const std::string& line) {
    const std::string before = R"({"event":"listening","host":"127.0.0.1","port":)";
    ASSERT_TRUE(line.starts_with(before)) << line;
    const auto port = static_cast<std::uint16_t>(std::stoi(line.substr(before.size())));
    const Result<Link> link =
        call({"127.0.0.1", port, "a token of some length", "a plan", now_ns() + 20'000'000'000, nullptr});
    ASSERT_TRUE(link) << link.failure().sentence;
    ::close(link->fd);
  });
  EXPECT_EQ(ran.code, 3);
}

TEST(Serve, EndsAtOnceWithTheRightCode) {
  const auto nothing = [](const std::string&) {};
  EXPECT_EQ(run_serve({"--port", "0"}, nullptr, nothing).code, 2) << "no token";
  EXPECT_EQ(run_serve({"--port", "0"}, "short", nothing).code, 2) << "a short token";
  EXPECT_EQ(run_serve({"--bind", "192.0.2.77"}, "a token of some length", nothing).code, 2) << "not this host";
  const Ran checked = run_serve({"--port", "0", "--check"}, nullptr, nothing);
  EXPECT_EQ(checked.code, 0) << "nothing but a check";
  EXPECT_NE(checked.output.find(R"("event":"listening")"), std::string::npos) << checked.output;
  EXPECT_EQ(run_serve({"--nonsense"}, "a token of some length", nothing).code, 2) << "an unknown option";
  const Result<Listener> other = listen_at("127.0.0.1", 0);
  ASSERT_TRUE(other);
  const Ran taken = run_serve({"--port", std::to_string(other->port)}, "a token of some length", nothing);
  EXPECT_EQ(taken.code, 3) << "a port that is taken";
  EXPECT_EQ(taken.output, "");
  const Ran help = run_serve({"--help"}, nullptr, nothing);
  EXPECT_EQ(help.code, 0);
  EXPECT_EQ(help.output, serve_help());
}

}  // namespace
}  // namespace netpipe
