// SPDX-License-Identifier: Apache-2.0
// What another process wrote as JSON, before it goes into a run file.
#include "record/foreign_json.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "machine/environment.h"

namespace netpipe {
namespace {

std::string anew(const std::string& text) { return rewritten_object(text).value_or("(none)"); }

TEST(ForeignJson, ThatIsOursComesBackAsItIs) {
  const std::string facts = environment_json({});
  EXPECT_EQ(anew(facts), facts);
  for (const char* text : {"{}", R"({"a":1,"b":[],"c":{"d":null,"e":[true,false,-0.5e-3]}})"})
    EXPECT_EQ(anew(text), text);
}

TEST(ForeignJson, ComesBackOnOneLine) {
  EXPECT_EQ(anew("\n{ \"a\" :\r\n 1 ,\t\"b\" : [ 1 , 2 ] }\n"), R"({"a":1,"b":[1,2]})");
}

TEST(ForeignJson, CannotForgeALineOrATerminalsCommand) {
  const std::string forged = R"({"host":"x\n{\"type\":\"point\"}\u001b[2J\u009b31m"})";
  const std::string written = anew(forged);
  EXPECT_EQ(written, R"({"host":"x\n{\"type\":\"point\"}\u001b[2J\u009b31m"})");
  EXPECT_EQ(anew("{\"a\":\"\xc2\x9b\x7f\"}"), R"({"a":"\u009b\u007f"})");
  // Two objects, the second on a line of its own.
  EXPECT_EQ(anew("{\"rank\":1}\n{\"type\":\"point\",\"median_ns\":1}"), "(none)");
  EXPECT_EQ(anew("{\"a\":\"b\n{}\"}"), "(none)") << "a line end within a text";
}

TEST(ForeignJson, KeepsTextsOfAllLanguages) {
  EXPECT_EQ(anew(R"({"a":"\u00e9\u20ac\ud83d\ude00\/"})"), "{\"a\":\"\u00e9\u20ac\U0001f600/\"}");
  EXPECT_EQ(anew("{\"a\":\"\xff\"}"), "{\"a\":\"\xef\xbf\xbd\"}");
  EXPECT_EQ(anew(R"({"a":"\ud83d"})"), "{\"a\":\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"}") << "half a pair";
}

TEST(ForeignJson, ThatIsNoneIsRefused) {
  for (const char* text : {"",
                           " ",
                           "1",
                           "[]",
                           "null",
                           "\"a\"",
                           "{",
                           "}",
                           "{]",
                           "{\"a\"}",
                           "{\"a\":}",
                           "{\"a\":1,}",
                           "{,}",
                           "{a:1}",
                           "{\"a\":01}",
                           "{\"a\":-}",
                           "{\"a\":1.}",
                           "{\"a\":1e}",
                           "{\"a\":+1}",
                           "{\"a\":.5}",
                           "{\"a\":nul}",
                           "{\"a\":NaN}",
                           "{\"a\":Infinity}",
                           "{\"a\":'b'}",
                           "{\"a\":\"\\x\"}",
                           "{\"a\":\"\\u12\"}",
                           "{\"a\":\"\\u12g4\"}",
                           "{\"a\":\"\\ud83d\\u0041\"}",
                           "{\"a\":\"b}",
                           "{\"a\":[1 2]}",
                           "{\"a\":1}{",
                           "{\"a\":1} x",
                           "{\"a\":1}\n{\"b\":2}"}) {
    EXPECT_EQ(anew(text), "(none)") << text;
  }
}

TEST(ForeignJson, IsBoundedInDepthAndInItsNumbers) {
  const auto nested = [](int depth) {
    std::string text = "{\"a\":";
    for (int i = 0; i < depth; ++i) text += '[';
    for (int i = 0; i < depth; ++i) text += ']';
    return text + "}";
  };
  EXPECT_EQ(anew(nested(most_nested)), nested(most_nested));
  EXPECT_EQ(anew(nested(most_nested + 1)), "(none)");
  EXPECT_EQ(anew(nested(400'000)), "(none)");
  EXPECT_EQ(anew("{\"a\":" + std::string(1000, '9') + "}"), "(none)");
}

}  // namespace
}  // namespace netpipe
