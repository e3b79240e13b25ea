// SPDX-License-Identifier: Apache-2.0
#include "link/secret.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/descriptor.h"

namespace netpipe {
namespace {

class TokenFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "netpipe-token-XXXXXX").string();
    const Descriptor fd(::mkstemp(name.data()));
    ASSERT_TRUE(fd);
    path = name;
    ::unsetenv(token_variable);
  }
  void TearDown() override { std::filesystem::remove(path); }
  void write(const std::string& text) const { std::ofstream(path) << text; }

  std::string path;
};

TEST_F(TokenFile, IsReadWithoutTheBlanksAroundIt) {
  write("  a token of some length\n");
  const Result<std::string> token_text = read_token(path);
  ASSERT_TRUE(token_text) << token_text.failure().sentence;
  EXPECT_EQ(*token_text, "a token of some length");
}

TEST_F(TokenFile, IsRefusedWhenOthersCanReadIt) {
  write("a token of some length");
  for (const mode_t mode : {0604, 0640}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    const Result<std::string> token_text = read_token(path);
    ASSERT_FALSE(token_text);
    EXPECT_EQ(token_text.failure().exit, Exit::usage);
    EXPECT_NE(token_text.failure().sentence.find("chmod 600 " + path), std::string::npos)
        << token_text.failure().sentence;
  }
}

TEST_F(TokenFile, IsRefusedWhenItIsTooShortOrTooLong) {
  for (const std::size_t length : {std::size_t{0}, min_token_bytes - 1, max_token_bytes + 1, std::size_t{100'000}}) {
    write(std::string(length, 'x'));
    EXPECT_FALSE(read_token(path)) << length;
  }
  for (const std::size_t length : {min_token_bytes, max_token_bytes}) {
    write(std::string(length, 'x'));
    EXPECT_TRUE(read_token(path)) << length;
  }
}

TEST_F(TokenFile, IsRefusedWhenItIsNotThere) {
  const Result<std::string> token_text = read_token(path + "-not");
  ASSERT_FALSE(token_text);
  EXPECT_EQ(token_text.failure().exit, Exit::usage);
}

TEST_F(TokenFile, GivesWayToTheEnvironmentWhenNoneIsNamed) {
  const Result<std::string> none = read_token("");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.failure().exit, Exit::usage);
  ::setenv(token_variable, "a token of the environment", 1);
  const Result<std::string> token_text = read_token("");
  ::unsetenv(token_variable);
  ASSERT_TRUE(token_text);
  EXPECT_EQ(*token_text, "a token of the environment");
}

TEST(Nonce, IsNeverTheSameTwice) {
  const Result<Nonce> one = fresh_nonce();
  const Result<Nonce> other = fresh_nonce();
  ASSERT_TRUE(one && other);
  EXPECT_NE(*one, *other);
}

}  // namespace
}  // namespace netpipe
