// SPDX-License-Identifier: Apache-2.0
#include "catalog/contract.h"

#include <gtest/gtest.h>

namespace netpipe {
namespace {

TEST(Operations, AreThoseThatAreThere) {
  np_module table{};
  EXPECT_TRUE(operations(table).empty());
  EXPECT_TRUE(mark_operation(table, "get"));
  EXPECT_TRUE(mark_operation(table, "bootstrap"));
  EXPECT_NE(table.get, nullptr);
  EXPECT_EQ(operations(table), (std::vector<std::string_view>{"bootstrap", "get"}));
}

TEST(Operations, OfAnotherNameAreNone) {
  np_module table{};
  EXPECT_FALSE(mark_operation(table, "options"));
  EXPECT_FALSE(mark_operation(table, ""));
  EXPECT_TRUE(operations(table).empty());
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
