// SPDX-License-Identifier: Apache-2.0
#include "plan/plan_keys.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "base/text.h"

namespace netpipe {
namespace {

const PlanKey& key(std::string_view name) {
  for (const PlanKey& one : plan_keys()) {
    if (one.name == name) return one;
  }
  ADD_FAILURE() << "there is no key " << name;
  return plan_keys().front();
}

// Texts that this key takes, of every kind that its type has.
std::vector<std::string> samples_of(const PlanKey& one) {
  switch (one.type) {
    case PlanType::text: return {"some text", "a:b=c,d"};
    case PlanType::integer: return {"1", "7"};
    case PlanType::real: return {"0.1", "2.5", "1"};
    case PlanType::percent: return {"1%", "0.5%", "0.0123", "100%"};
    case PlanType::size: return {"1", "64k", "3MB", "1G"};
    case PlanType::sizes: return {"8", "8,64k,1M"};
    case PlanType::choice: return one.choices;
    case PlanType::yes_no: return {"yes", "no"};
    case PlanType::processors: return {"auto", "none", "smt", "cache", "socket", "sockets", "3", "0,5,2"};
  }
  return {};
}

TEST(PlanKeys, ReadBackExactlyWhatTheyWrite) {
  for (const PlanKey& one : plan_keys()) {
    ASSERT_FALSE(samples_of(one).empty()) << one.name;
    for (const std::string& text : samples_of(one)) {
      Plan plan;
      const Outcome set = set_value(one, plan, text);
      ASSERT_TRUE(set) << one.name << " " << text << ": " << set.failure().sentence;
      const std::vector<std::string> written = values_of(one, plan);
      ASSERT_EQ(written.size(), 1U) << one.name << " " << text;
      Plan again;
      ASSERT_TRUE(set_value(one, again, written.front())) << one.name << " " << written.front();
      EXPECT_EQ(values_of(one, again), written) << one.name << " " << text;
    }
  }
}

TEST(PlanKeys, TakeTheirOwnDefault) {
  int with_default = 0;
  for (const PlanKey& one : plan_keys()) {
    const std::optional<std::string> text = default_of(one);
    if (!text) continue;
    ++with_default;
    Plan plan;
    ASSERT_TRUE(set_value(one, plan, *text)) << one.name << " " << *text;
    EXPECT_EQ(values_of(one, plan).back(), *text) << one.name;
  }
  EXPECT_EQ(default_of(key("target")), "1%");
  EXPECT_EQ(default_of(key("end-size")), "8M");
  EXPECT_EQ(default_of(key("pattern")), "pingpong");
  EXPECT_EQ(default_of(key("variant")), std::nullopt);
  EXPECT_EQ(default_of(key("host")), std::nullopt);
  EXPECT_GT(with_default, 15);
}

TEST(PlanKeys, TakeTheirBoundsAndRefuseWhatIsBeyond) {
  const auto text_of = [](const PlanKey& one, double value) {
    const bool whole = one.type == PlanType::integer || one.type == PlanType::size;
    return whole ? std::to_string(static_cast<std::int64_t>(value)) : std::to_string(value);
  };
  for (const PlanKey& one : plan_keys()) {
    Plan plan;
    if (one.least) {
      EXPECT_TRUE(set_value(one, plan, text_of(one, *one.least))) << one.name;
      if (*one.least > 0) {
        EXPECT_FALSE(set_value(one, plan, text_of(one, *one.least - 1))) << one.name;
      }
    }
    if (one.most) {
      EXPECT_TRUE(set_value(one, plan, text_of(one, *one.most))) << one.name;
      EXPECT_FALSE(set_value(one, plan, text_of(one, *one.most + 1))) << one.name;
    }
  }
}

TEST(PlanKeys, HaveNamesOfTheirOwnAndASentenceOfHelp) {
  std::set<std::string> names, options;
  for (const PlanKey& one : plan_keys()) {
    EXPECT_TRUE(names.insert(one.name).second) << one.name;
    if (one.option != nullptr) {
      EXPECT_TRUE(options.insert(one.option).second) << one.option;
    }
    const std::string help = one.help;
    ASSERT_FALSE(help.empty()) << one.name;
    EXPECT_NE(help.back(), '.') << one.name;
    EXPECT_EQ(one.option != nullptr && one.type != PlanType::yes_no, one.option != nullptr && one.metavar != nullptr)
        << one.name << ": an option with a value shows what stands for it";
  }
}

TEST(PlanKeys, AreRepeatableWhereAPlanHasSeveral) {
  std::set<std::string> several;
  for (const PlanKey& one : plan_keys()) {
    if (repeatable(one)) several.insert(one.name);
  }
  EXPECT_EQ(several, (std::set<std::string>{"variant", "pattern", "module-file", "wanted"}));
  Plan plan;
  ASSERT_TRUE(set_value(key("variant"), plan, "tcp"));
  ASSERT_TRUE(set_value(key("variant"), plan, "shm"));
  EXPECT_EQ(values_of(key("variant"), plan), (std::vector<std::string>{"tcp", "shm"}));
}

// What only one side needs to know: where the other one is, and what happens on this host alone.
TEST(PlanKeys, AreAgreedOnByBothEndsUnlessOneSideAloneNeedsThem) {
  std::set<std::string> own;
  for (const PlanKey& one : plan_keys()) {
    if (!one.agreed) own.insert(one.name);
  }
  EXPECT_EQ(own, (std::set<std::string>{"record", "module-file", "wanted", "start", "end-size", "perturbation", "pin",
                                        "paced", "joining", "hosts", "bind", "host", "port", "token-file"}))
      << "start, end-size and perturbation are in the sizes";
}

}  // namespace
}  // namespace netpipe
