// SPDX-License-Identifier: Apache-2.0
// A setting that strided transfers alone obey is no label of puts and gets of whole messages.
#include <gtest/gtest.h>

#include <string>

#include "catalog/registry.h"
#include "plan/plan.h"

namespace netpipe {
namespace {

TEST(SkipReason, NamesASettingOfStridedTransfersForPutsOfWholeMessages) {
  const Result<Registry> modules = Registry::load({NETPIPE_OPTION_MODULES}, {});
  ASSERT_TRUE(modules);
  const Result<Plan> plan =
      parse_plan("netpipe-plan 1\nvariant many_options:poll=yes\nvariant many_options\npattern put\npattern get\n");
  ASSERT_TRUE(plan) << plan.failure().sentence;
  Result<Resolved> resolved = resolve(*plan, *modules);
  ASSERT_TRUE(resolved) << resolved.failure().sentence;
  Layer layer;
  layer.name = "some";
  layer.min_ranks = layer.max_ranks = 2;
  layer.put = [](np_endpoint*, int, const void*, const np_region*, std::size_t, std::size_t) { return NP_OK; };
  layer.get = [](np_endpoint*, int, void*, const np_region*, std::size_t, std::size_t) { return NP_OK; };
  layer.barrier = [](np_endpoint*) { return NP_OK; };
  for (Variant& variant : resolved->variants) {
    variant.module = &layer;
    variant.options[0].applies_to = NP_USES_STRIDED;
  }
  ASSERT_EQ(resolved->patterns.size(), 2U);
  for (const ChosenPattern& chosen : resolved->patterns) {
    EXPECT_EQ(skip_reason(chosen, resolved->variants[0]),
              "pattern " + chosen.name + " does not obey poll=yes of module some: measure it without that setting");
    EXPECT_EQ(skip_reason(chosen, resolved->variants[1]), "") << "the default is in force everywhere";
    resolved->variants[0].options[0].applies_to = NP_USES_ONE_SIDED;
    EXPECT_EQ(skip_reason(chosen, resolved->variants[0]), "") << "all of one-sided obeys such a setting";
    resolved->variants[0].options[0].applies_to = NP_USES_STRIDED;
  }
}

}  // namespace
}  // namespace netpipe
