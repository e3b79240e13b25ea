// SPDX-License-Identifier: Apache-2.0
#include "base/sha256.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace netpipe {
namespace {

std::string hash_of(std::string_view text) { return hex(sha256(text)); }
std::string tag_of(std::string_view key, std::string_view text) { return hex(HmacSha256(key).update(text).finish()); }

// The example computations that NIST publishes for FIPS 180-4.
TEST(Sha256, GivesThePublishedDigests) {
  EXPECT_EQ(hash_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hash_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(
      hash_of("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrs"
              "tnopqrstu"),
      "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(hash_of(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotDependOnHowTheTextIsCutUp) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i);
  for (std::size_t length = 0; length <= text.size(); ++length) {
    const std::string_view whole = std::string_view(text).substr(0, length);
    for (const std::size_t cut : {std::size_t{1}, length / 2, std::size_t{63}, std::size_t{64}, std::size_t{65}}) {
      if (cut > length) continue;
      EXPECT_EQ(hex(Sha256().update(whole.substr(0, cut)).update(whole.substr(cut)).finish()), hash_of(whole))
          << length << " bytes cut after " << cut;
    }
  }
}

// RFC 4231, section 4; case 5 is the truncated one.
TEST(HmacSha256, GivesTheTagsOfRfc4231) {
  std::string count;
  for (int i = 1; i <= 25; ++i) count += static_cast<char>(i);
  EXPECT_EQ(tag_of(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(tag_of("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(tag_of(std::string(20, '\xaa'), std::string(50, '\xdd')),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  EXPECT_EQ(tag_of(count, std::string(50, '\xcd')), "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  EXPECT_EQ(tag_of(std::string(20, '\x0c'), "Test With Truncation").substr(0, 32), "a3b6167473100ee06e0c796c2955552b");
  EXPECT_EQ(tag_of(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(
      tag_of(std::string(131, '\xaa'),
             "This is a test using a larger than block-size key and a larger than block-size data. The key needs to be "
             "hashed before being used by the HMAC algorithm."),
      "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(Same, IsTrueForEqualBytesOnly) {
  const Digest one = sha256("one");
  Digest other = one;
  EXPECT_TRUE(same(one, other));
  for (std::size_t i = 0; i < other.size(); ++i) {
    other[i] ^= std::byte{0x80};
    EXPECT_FALSE(same(one, other)) << "differs in byte " << i;
    other[i] = one[i];
  }
  EXPECT_FALSE(same(one, std::span(other).first<31>()));
}

}  // namespace
}  // namespace netpipe
