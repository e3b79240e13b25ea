// SPDX-License-Identifier: Apache-2.0
#include "catalog/variant.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "catalog/registry.h"

namespace netpipe {
namespace {

const Registry& registry() {
  static const Result<Registry> loaded = Registry::load({NETPIPE_OPTION_MODULES, NETPIPE_TEST_MODULES}, {});
  return *loaded;
}

std::string name_of(const std::string& text) {
  const Result<Variant> variant = parse_variant(text, registry());
  return variant ? variant->name : variant.failure().sentence;
}

std::string refusal(const std::string& text) {
  const Result<Variant> variant = parse_variant(text, registry());
  if (variant) return "accepted as " + variant->name;
  EXPECT_EQ(variant.failure().exit, Exit::usage);
  return variant.failure().sentence;
}

// Every value as number and text, in the order of the module's table.
std::vector<std::pair<std::int64_t, std::string>> values_of(const Variant& variant) {
  std::vector<std::pair<std::int64_t, std::string>> values;
  for (const np_value& value : variant.values) values.emplace_back(value.number, value.text);
  return values;
}

TEST(Variant, WithoutOptionsHasTheDefaultsAndTheModulesName) {
  const Result<Variant> variant = parse_variant("many_options", registry());
  ASSERT_TRUE(variant) << variant.failure().sentence;
  EXPECT_EQ(variant->name, "many_options");
  EXPECT_EQ(variant->texts, (std::vector<std::string>{"no", "4", "64k", "block", "", "2", "auto", "-1"}));
  EXPECT_EQ(values_of(*variant),
            (std::vector<std::pair<std::int64_t, std::string>>{
                {0, "no"}, {4, "4"}, {65536, "64k"}, {0, "block"}, {0, ""}, {2, "2"}, {0, "auto"}, {-1, "-1"}}));
}

TEST(Variant, ResolvesEveryTypeOfOption) {
  const Result<Variant> variant =
      parse_variant(" many_options : poll = on , depth=-2, buffer=1M,wait=hybrid,device= eth0=x ", registry());
  ASSERT_TRUE(variant) << variant.failure().sentence;
  EXPECT_EQ(variant->name, "many_options:poll=yes,depth=-2,buffer=1M,wait=hybrid,device=eth0=x");
  EXPECT_EQ(
      values_of(*variant),
      (std::vector<std::pair<std::int64_t, std::string>>{
          {1, "yes"}, {-2, "-2"}, {1 << 20, "1M"}, {2, "hybrid"}, {0, "eth0=x"}, {2, "2"}, {0, "auto"}, {-1, "-1"}}));
}

TEST(VariantName, FoldsWhatIsTheDefaultHoweverItIsWritten) {
  for (const std::string text : {"many_options:poll=no", "many_options:poll=0,depth=4", "many_options:buffer=64k",
                                 "many_options:buffer=65536B", "many_options:wait=block,device="}) {
    EXPECT_EQ(name_of(text), "many_options") << text;
  }
  EXPECT_EQ(name_of("many_options:depth=4,wait=poll"), "many_options:wait=poll");
}

TEST(Variant, ChoosesItsNumberOfRanks) {
  const auto ranks = [](const std::string& text, int by_default) {
    const Result<Variant> variant = parse_variant(text, registry(), by_default);
    return variant ? variant->name + " " + std::to_string(variant->ranks) : variant.failure().sentence;
  };
  EXPECT_EQ(ranks("crowd", 2), "crowd 2");
  EXPECT_EQ(ranks("crowd", 5), "crowd 5");
  EXPECT_EQ(ranks("crowd", 99999),
            "module crowd takes 2 to 64 ranks, and --ranks asks for 99999; write crowd:ranks=64 to measure it with 64, "
            "or leave it out");
  EXPECT_EQ(ranks("silent", 8),
            "module silent takes 2 ranks, and --ranks asks for 8; write silent:ranks=2 to measure it with 2, or leave "
            "it out");
  EXPECT_EQ(ranks("short_put", 8), "short_put 1") << "what stays in one process is the floor of a comparison";
  EXPECT_EQ(ranks("crowd:ranks=3", 2), "crowd:ranks=3 3");
  EXPECT_EQ(ranks("crowd:ranks=2", 2), "crowd 2") << "what the plan says anyway has no name of its own";
  EXPECT_EQ(ranks("crowd:ranks=2", 4), "crowd:ranks=2 2");
  EXPECT_EQ(ranks("crowd:ranks=99999", 2), "option 'ranks' of module crowd: 99999 is outside 2 to 64");
  EXPECT_EQ(ranks("silent:ranks=2", 8), "silent 2");
  EXPECT_EQ(ranks("silent:ranks=4", 2), "option 'ranks' of module silent: 4 is not possible; it has to be 2");
}

TEST(VariantName, DoesNotDependOnTheOrderOrTheSpelling) {
  std::mt19937 random(1);
  std::vector<std::string> settings = {"poll=true", "depth=8", "buffer=131072", "wait=poll", "device=eth1"};
  for (int i = 0; i < 120; ++i) {
    std::shuffle(settings.begin(), settings.end(), random);
    std::string text = "many_options";
    for (const std::string& one : settings) text += (text.back() == 's' ? ":" : ",") + one;
    ASSERT_EQ(name_of(text), "many_options:poll=yes,depth=8,buffer=128k,wait=poll,device=eth1") << text;
  }
}

TEST(VariantName, ParsesToTheVariantThatItNames) {
  std::mt19937 random(2);
  const auto one_of = [&](const std::vector<std::string>& words) { return words[random() % words.size()]; };
  for (int i = 0; i < 2000; ++i) {
    const std::string text = "many_options:poll=" + one_of({"yes", "no"}) +
                             ",depth=" + std::to_string(static_cast<int>(random() % 67) - 2) +
                             ",buffer=" + std::to_string(16 + random() % 1'000'000) +
                             ",wait=" + one_of({"block", "poll", "hybrid"}) + ",device=" + one_of({"", "a", "b:c"});
    const Result<Variant> first = parse_variant(text, registry());
    ASSERT_TRUE(first) << first.failure().sentence;
    const Result<Variant> second = parse_variant(first->name, registry());
    ASSERT_TRUE(second) << second.failure().sentence;
    ASSERT_EQ(first->name, second->name);
    ASSERT_EQ(values_of(*first), values_of(*second));
  }
}

TEST(Variant, RefusesWhatItsTableDoesNotAllowAndNamesModuleOptionAndRemedy) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"many_optons", "there is no module 'many_optons'; did you mean 'many_options'?"},
      {"", "a variant begins with the name of its module"},
      {":depth=1", "a variant begins with the name of its module"},
      {"many_options,silent", "there is no module 'many_options,silent'; write variants with blanks between them"},
      {"many_options:dept=1", "module many_options has no option 'dept'; did you mean 'depth'?"},
      {"many_options:", "module many_options: a setting is empty; write many_options:OPTION=VALUE,..."},
      {"many_options:depth=1,", "module many_options: a setting is empty; write many_options:OPTION=VALUE,..."},
      {"many_options:colour=red", "has no option 'colour'; there are poll, depth, buffer, wait, device, ranks"},
      {"silent:depth=1", "module silent has no option 'depth'; there are ranks, pages, node"},
      {"many_options:depth", "option 'depth' of module many_options needs a value: depth=VALUE"},
      {"many_options:depth=65", "option 'depth' of module many_options: 65 is outside -2 to 64"},
      {"many_options:depth=-3", "-3 is outside -2 to 64"},
      {"many_options:depth=", "'' is not a whole number"},
      {"many_options:depth=1k", "'1k' is not a whole number"},
      {"many_options:buffer=8", "option 'buffer' of module many_options: 8 is outside 16 to 1M"},
      {"many_options:buffer=2M", "2M is outside 16 to 1M"},
      {"many_options:buffer=-1", "'-1' is not a size"},
      {"many_options:poll=maybe", "option 'poll' of module many_options: 'maybe' is neither yes nor no"},
      {"many_options:wait=pol", "'pol' is not one of its choices; did you mean 'poll'?"},
      {"many_options:wait=", "'' is not one of its choices; there are block, poll, hybrid"},
      {"many_options:wait=block|poll", "is not one of its choices"},
      {"many_options:buffer=64,wait=poll", "cannot take buffer=64 with wait=poll: polling needs a page"},
  };
  for (const auto& [text, said] : bad) EXPECT_PRED_FORMAT2(testing::IsSubstring, said, refusal(text)) << text;
}

TEST(ChosenPattern, IsAPatternWithSettings) {
  const Result<ChosenPattern> chosen = parse_pattern(" window : directions=both , in_flight = 64 ");
  ASSERT_TRUE(chosen) << chosen.failure().sentence;
  EXPECT_STREQ(chosen->pattern->name, "window");
  EXPECT_EQ(chosen->name, "window:in_flight=64,directions=both");
  const Part part = chosen->part(1, 2, 8);
  EXPECT_EQ(part.rank, 1);
  EXPECT_EQ(chosen->pattern->operations(part), 64U);
  EXPECT_EQ(chosen->pattern->messages_per_operation(part), 2U);
  EXPECT_EQ(chosen->pattern->departures(part), 64U);
  const Result<ChosenPattern> plain = parse_pattern("window");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->name, "window");
  EXPECT_EQ(plain->pattern->departures(plain->part(1, 2, 8)), 0U) << "one way: rank 1 only receives";
}

TEST(ChosenPattern, SaysUnderWhichOptionsItIsTheSameOperation) {
  const auto tunable = [](const char* pattern) {
    const Result<ChosenPattern> chosen = parse_pattern(pattern);
    std::string names;
    for (const np_option& option : chosen->options) {
      if (option.tunable != 0) names += std::string(option.name) + " ";
    }
    return names;
  };
  EXPECT_EQ(tunable("window"), "in_flight places buffers reuse send_offset recv_offset ")
      << "two directions are two messages, and local completion is not that of the receiver";
  EXPECT_EQ(tunable("collective"), "call root rotate in_place stride buffers reuse send_offset recv_offset ");
  EXPECT_EQ(tunable("halo"), "buffers reuse send_offset recv_offset ") << "in 3 dimensions more faces are sent";
}

TEST(ChosenPattern, RefusesWhatItsTableDoesNotAllowAndNamesPatternOptionAndRemedy) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"windw", "there is no pattern 'windw'; did you mean 'window'?"},
      {"", "there is no pattern ''"},
      {"pingpong:in_flight=2",
       "pattern pingpong has no option 'in_flight'; there are buffers, reuse, send_offset, recv_offset"},
      {"window:inflight=2", "pattern window has no option 'inflight'; did you mean 'in_flight'?"},
      {"window:in_flight=0", "option 'in_flight' of pattern window: 0 is outside 1 to 65536"},
      {"window:directions=all", "option 'directions' of pattern window: 'all' is not one of its choices"},
  };
  for (const auto& [text, said] : bad) {
    const Result<ChosenPattern> chosen = parse_pattern(text);
    ASSERT_FALSE(chosen) << text;
    EXPECT_PRED_FORMAT2(testing::IsSubstring, said, chosen.failure().sentence) << text;
  }
}

TEST(Variant, KeepsItsTextsWhenItMoves) {
  const std::string long_text(100, 'd');  // a short one lies inside the string, a long one outside
  std::vector<Variant> variants;
  for (const std::string& device : {std::string("eth0"), long_text}) {
    Result<Variant> variant = parse_variant("many_options:device=" + device, registry());
    ASSERT_TRUE(variant);
    variants.push_back(std::move(*variant));
  }
  for (int i = 0; i < 100; ++i) {
    variants.push_back(std::move(*parse_variant("many_options:depth=" + std::to_string(i % 60), registry())));
  }
  Variant assigned;
  assigned = std::move(variants[0]);
  EXPECT_STREQ(assigned.values[4].text, "eth0");
  EXPECT_EQ(assigned.values[4].text, assigned.texts[4].c_str());
  EXPECT_EQ(variants[1].values[4].text, long_text);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(variants[static_cast<std::size_t>(i) + 2].values[1].text, std::to_string(i % 60));
  }
}

TEST(Variant, MayBeNamedOnceMoreToBeMeasuredBesideItself) {
  const Result<Variant> copy = parse_variant("many_options:depth=7#2", registry());
  ASSERT_TRUE(copy) << copy.failure().sentence;
  EXPECT_EQ(copy->name, "many_options:depth=7#2");
  EXPECT_EQ(copy->copy, "#2");
  EXPECT_EQ(copy->original(), "many_options:depth=7");
  const Result<Variant> again = parse_variant(copy->full_name(), registry());
  ASSERT_TRUE(again) << again.failure().sentence;
  EXPECT_EQ(again->name, copy->name);
  EXPECT_EQ(name_in("tcp#12"), "tcp");
  for (const char* const none : {"many_options:device=eth#1", "many_options:device=a#", "many_options:device=a#0"}) {
    const Result<Variant> variant = parse_variant(none, registry());
    ASSERT_TRUE(variant) << variant.failure().sentence;
    EXPECT_EQ(variant->name, none) << "a value may have this character";
    EXPECT_EQ(variant->copy, "");
  }
}

}  // namespace
}  // namespace netpipe
