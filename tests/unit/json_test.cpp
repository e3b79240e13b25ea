// SPDX-License-Identifier: Apache-2.0
#include "record/json.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <random>
#include <string>

namespace netpipe {
namespace {

std::string as_json(std::string_view text) { return Json().value(text).take(); }
const std::string replacement = "\xef\xbf\xbd";  // U+FFFD

TEST(Json, PutsCommasWhereTheyBelong) {
  Json json;
  json.open('{').field("a", 1).key("b").open('[').close(']').key("c").open('[').value(1).value("x").open('{').close(
      '}');
  json.null()
      .close(']')
      .field_null("d")
      .field_raw("e", "[2]")
      .key("f")
      .open('{')
      .field("g", true)
      .close('}')
      .close('}');
  EXPECT_EQ(json.text(), R"({"a":1,"b":[],"c":[1,"x",{},null],"d":null,"e":[2],"f":{"g":true}})");
}

TEST(Json, EscapesWhatAStringMayNotHold) {
  EXPECT_EQ(as_json("a\"b\\c/d"), R"("a\"b\\c/d")");
  EXPECT_EQ(as_json("1\n2"), R"("1\n2")");
  EXPECT_EQ(as_json(std::string_view("\0\t\r\x1f\x7f", 5)), R"("\u0000\u0009\u000d\u001f\u007f")");
  for (int c = 0; c < 0x20; ++c) {
    const std::string text = as_json(std::string(1, static_cast<char>(c)));
    EXPECT_EQ(text.find_first_of("\n\r\t\b\f"), std::string::npos) << "a record is one line";
    EXPECT_EQ(text[1], '\\');
  }
  EXPECT_EQ(Json().open('{').key("a\"b").value(1).close('}').text(), R"({"a\"b":1})");
}

TEST(Json, KeepsWellFormedUtf8) {
  for (const std::string text :
       {"µs", "日本", "\xf0\x9f\x90\xb0", "\xed\x9f\xbf", "\xee\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_EQ(as_json(text), "\"" + text + "\"");
  }
}

TEST(Json, ReplacesEachByteThatIsNoUtf8) {
  EXPECT_EQ(as_json("a\xff"
                    "b"),
            "\"a" + replacement + "b\"");
  EXPECT_EQ(as_json("\x80"), "\"" + replacement + "\"") << "a continuation without a beginning";
  EXPECT_EQ(as_json("\xc3"), "\"" + replacement + "\"") << "cut off";
  EXPECT_EQ(as_json("\xe6\x97"), "\"" + replacement + replacement + "\"") << "cut off";
  EXPECT_EQ(as_json("\xc0\xaf"), "\"" + replacement + replacement + "\"") << "an overlong slash";
  EXPECT_EQ(as_json("\xe0\x80\xaf"), "\"" + replacement + replacement + replacement + "\"") << "an overlong slash";
  EXPECT_EQ(as_json("\xed\xa0\x80"), "\"" + replacement + replacement + replacement + "\"") << "a surrogate";
  EXPECT_EQ(as_json("\xf4\x90\x80\x80"), "\"" + replacement + replacement + replacement + replacement + "\"");
  EXPECT_EQ(as_json("\xc3\"x"), "\"" + replacement + "\\\"x\"") << "what follows is not swallowed";
}

TEST(Json, WritesWholeNumbersExactly) {
  EXPECT_EQ(Json().value(std::numeric_limits<std::uint64_t>::max()).text(), "18446744073709551615");
  EXPECT_EQ(Json().value(std::numeric_limits<std::int64_t>::min()).text(), "-9223372036854775808");
  EXPECT_EQ(Json().value(0).text(), "0");
  EXPECT_EQ(Json().value(true).text(), "true");
  EXPECT_EQ(Json().value(false).text(), "false");
}

TEST(Json, WritesEveryDoubleSoThatItReadsBackTheSame) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const double number = std::bit_cast<double>(random());
    if (!std::isfinite(number)) continue;
    const std::string text = Json().value(number).take();
    ASSERT_EQ(std::strtod(text.c_str(), nullptr), number) << text;
    ASSERT_EQ(text.find_first_not_of("0123456789.e+-"), std::string::npos) << text;
  }
}

TEST(Json, WritesWhatIsNotKnownAsNull) {
  EXPECT_EQ(Json().value(std::numeric_limits<double>::infinity()).text(), "null");
  EXPECT_EQ(Json().value(-std::numeric_limits<double>::infinity()).text(), "null");
  EXPECT_EQ(Json().value(std::numeric_limits<double>::quiet_NaN()).text(), "null");
  EXPECT_EQ(Json().value(std::optional<double>{}).text(), "null");
  EXPECT_EQ(Json().value(std::optional<double>{0.5}).text(), "0.5");
}

}  // namespace
}  // namespace netpipe
