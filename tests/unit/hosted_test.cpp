// SPDX-License-Identifier: Apache-2.0
// Who is taken as a rank of netpipe's own layers, and who is refused.
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/watchdog.h"
#include "worker/workers/hosted_workers.h"

namespace netpipe {
namespace {

const std::string here = NETPIPE_VERSION;

// A conductor that asks for its two processes, and processes that say these words beside the number of the job.
class Hosted {
 public:
  explicit Hosted(const std::string& plan_text) {
    EXPECT_TRUE(Watchdog::install(false));
    registry_ = std::make_unique<Registry>(*Registry::load({NETPIPE_TEST_MODULES}, {}));
    plan_ = *parse_plan("netpipe-plan 1\n" + plan_text);
    Result<Resolved> resolved = resolve(plan_, *registry_);
    resolved_ = std::move(*resolved);
    Result<Listener> listener = listen_at("127.0.0.1", 0);
    server_.listener = std::move(*listener);
    server_.job = "a-job";
    server_.input = &input_;
    server_.registry = registry_.get();
    server_.event = [this](const std::string& line) { events_.push_back(line); };
  }

  // Each connects once the one before it has been heard.
  Failure begin(const std::vector<std::string>& words) {
    HostedWorkers workers(server_, plan_, resolved_, 2);
    std::vector<std::thread> callers;
    server_.event = [&, this](const std::string& line) {
      events_.push_back(line);
      if (line.find("\"launch\"") == std::string::npos) return;
      const std::string key = "\"secret\":\"";
      const std::string secret = line.substr(line.find(key) + key.size(), 64);
      callers.emplace_back([this, words, secret] {
        for (const std::string& one : words) {
          CallOptions options;
          options.host = "127.0.0.1";
          options.port = server_.listener.port;
          options.token = secret;
          options.plan_text = one;
          options.deadline_ns = now_ns() + 10'000'000'000;
          if (const Result<Link> link = call(options); link) links_.emplace_back(link->fd);
        }
      });
    };
    const Result<std::vector<HostedWorkers::Host>> hosts = workers.begin();
    for (std::thread& caller : callers) caller.join();
    EXPECT_FALSE(hosts);
    return hosts ? Failure{Exit::done, ""} : hosts.failure();
  }
  [[nodiscard]] const std::vector<std::string>& events() const { return events_; }

 private:
  std::unique_ptr<Registry> registry_;
  Plan plan_;
  Resolved resolved_;
  LauncherInput input_;
  JobServer server_;
  std::vector<std::string> events_;
  std::vector<Descriptor> links_;
};

const std::string plan = "variant silent\nvariant newer\nhosts a,b\njoining 2\ntimeout 1\n";

TEST(Hosted, RefusesAnotherVersionWithBoth) {
  Hosted conductor(plan);
  const Failure refused = conductor.begin({"join 0 1 0.0.9 node2"});
  EXPECT_EQ(refused.exit, Exit::unavailable);
  EXPECT_EQ(refused.sentence, "netpipe on node2 is version 0.0.9, and here it is " + here +
                                  "; install the same version at the same path on all hosts");
}

TEST(Hosted, RefusesAVersionThatDoesNotSayWhichRankItIs) {
  Hosted conductor(plan);
  const Failure refused = conductor.begin({"join 0"});
  EXPECT_EQ(refused.exit, Exit::unavailable);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "netpipe on one of the hosts is version older, and here", refused.sentence);
}

TEST(Hosted, RefusesTwoProcessesOfOneRank) {
  Hosted conductor(plan);
  const Failure refused = conductor.begin({"join 0 1 " + here + " node2", "join 0 1 " + here + " node2"});
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "two processes are rank 1", refused.sentence);
}

TEST(Hosted, TakesNobodyOfAnotherJobOrWithARankThatThereIsNot) {
  Hosted conductor(plan);
  const std::string rest = " " + here + " node2";
  const Failure refused =
      conductor.begin({"join 1 1" + rest, "join 00 1" + rest, "join 0 2" + rest, "join 0 -1" + rest});
  EXPECT_EQ(refused.exit, Exit::unavailable);
  EXPECT_PRED_FORMAT2(testing::IsSubstring,
                      "0 of 2 processes joined within 2 s; the hosts must be able to connect to "
                      "127.0.0.1:",
                      refused.sentence);
}

TEST(Hosted, SaysTheNamesOfHostsAsATerminalCanShowThem) {
  Hosted conductor(plan);
  const Failure refused =
      conductor.begin({"join 0 1 \x1b[2J no\x07"
                       "de"});
  EXPECT_EQ(refused.sentence.find('\x1b'), std::string::npos);
  EXPECT_EQ(refused.sentence.find('\x07'), std::string::npos);
}

TEST(Hosted, AsksOnceForAllOfItsVariantsAndEndsTheJobWhenItFails) {
  Hosted conductor(plan);
  conductor.begin({"join 0 1 0.0.9 node2"});
  ASSERT_EQ(conductor.events().size(), 2U);
  EXPECT_PRED_FORMAT2(testing::IsSubstring, R"("job":0,"variant":"","module":"","ranks":2,)", conductor.events()[0]);
  EXPECT_EQ(conductor.events()[1], R"({"event":"stop","job":0})");
}

}  // namespace
}  // namespace netpipe
