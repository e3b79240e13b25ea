// SPDX-License-Identifier: Apache-2.0
#include "catalog/contract.h"

#include <gtest/gtest.h>

namespace netpipe {
namespace {

TEST(Operations, AreThoseThatAreThere) {
  Layer layer;
  EXPECT_TRUE(operations(layer).empty());
  EXPECT_TRUE(mark_operation(layer, "get"));
  EXPECT_TRUE(mark_operation(layer, "bootstrap"));
  EXPECT_NE(layer.get, nullptr);
  EXPECT_EQ(operations(layer), (std::vector<std::string_view>{"bootstrap", "get"}));
}

TEST(Operations, OfAnotherNameAreNone) {
  Layer layer;
  EXPECT_FALSE(mark_operation(layer, "options"));
  EXPECT_FALSE(mark_operation(layer, ""));
  EXPECT_TRUE(operations(layer).empty());
}

TEST(Operations, OfTwoTablesWithOneNameAreToldApart) {
  Layer layer;
  EXPECT_TRUE(mark_operation(layer, "prepare_collective"));
  EXPECT_EQ(layer.prepare, nullptr);
  EXPECT_EQ(operations(layer), (std::vector<std::string_view>{"prepare_collective"}));
}

TEST(Operations, OfMemoryMakeItTheLayersOwn) {
  Layer layer;
  EXPECT_TRUE(mark_operation(layer, "alloc"));
  EXPECT_TRUE(mark_operation(layer, "free"));
  EXPECT_EQ(layer.memory_kinds.size(), 1U);
  EXPECT_EQ(operations(layer), (std::vector<std::string_view>{"alloc", "free"}));
}

TEST(TypeNames, GoBothWays) {
  for (const np_type type : {NP_BOOL, NP_INT, NP_SIZE, NP_CHOICE, NP_TEXT}) {
    EXPECT_EQ(type_named(type_name(type)), type);
  }
  EXPECT_EQ(type_name(NP_SIZE), "size");
  EXPECT_EQ(type_named("float"), std::nullopt);
}

}  // namespace
}  // namespace netpipe
