// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>

#include <cstring>
#include <string_view>
#include <vector>

#include "machine/qdisc.h"

namespace netpipe {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes_of(const void* from, std::size_t size) {
  Bytes bytes(size);
  std::memcpy(bytes.data(), from, size);
  return bytes;
}

void append(Bytes& to, const Bytes& more) {
  to.insert(to.end(), more.begin(), more.end());
  to.resize((to.size() + 3) / 4 * 4);
}

Bytes attribute(unsigned short type, const Bytes& content) {
  const rtattr head{static_cast<unsigned short>(sizeof(rtattr) + content.size()), type};
  Bytes bytes = bytes_of(&head, sizeof head);
  append(bytes, content);
  return bytes;
}

Bytes text(std::string_view words) { return bytes_of(words.data(), words.size()); }

Bytes message(int interface, std::uint32_t parent, std::string_view kind, const Bytes& options) {
  tcmsg body{};
  body.tcm_ifindex = interface;
  body.tcm_parent = parent;
  Bytes content = bytes_of(&body, sizeof body);
  append(content, attribute(TCA_KIND, text(kind)));
  append(content, attribute(TCA_OPTIONS, options));
  nlmsghdr head{};
  head.nlmsg_len = static_cast<std::uint32_t>(sizeof head + content.size());
  head.nlmsg_type = RTM_NEWQDISC;
  Bytes bytes = bytes_of(&head, sizeof head);
  append(bytes, content);
  return bytes;
}

Bytes done() {
  nlmsghdr head{};
  head.nlmsg_len = sizeof head;
  head.nlmsg_type = NLMSG_DONE;
  return bytes_of(&head, sizeof head);
}

// ticks: that the bucket takes to fill.
Bytes tbf(std::uint32_t bytes_per_s, std::uint32_t ticks) {
  tc_tbf_qopt parameters{};
  parameters.rate.rate = bytes_per_s;
  parameters.buffer = ticks;
  return attribute(TCA_TBF_PARMS, bytes_of(&parameters, sizeof parameters));
}

TEST(EnvironmentQdisc, TheOneAtTheRootOfEachInterface) {
  Bytes answer = message(1, TC_H_ROOT, "noqueue", {});
  append(answer, message(2, TC_H_ROOT, "mq", {}));
  append(answer, message(2, 0x10000, "fq_codel", {}));  // below mq
  Qdiscs found;
  EXPECT_TRUE(read_qdiscs(answer, found));
  EXPECT_FALSE(read_qdiscs(done(), found));
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[1].kind, "noqueue");
  EXPECT_EQ(found[2].kind, "mq");
  EXPECT_EQ(found[2].bits_per_s, std::nullopt);
}

TEST(EnvironmentQdisc, WhatATokenBucketLetsThrough) {
  // tc qdisc add dev lo root tbf rate 1gbit burst 128k latency 20ms
  Qdiscs found;
  EXPECT_TRUE(read_qdiscs(message(1, TC_H_ROOT, "tbf", tbf(125'000'000, 16384)), found));
  EXPECT_EQ(found[1].bits_per_s, 1'000'000'000U);
  EXPECT_EQ(found[1].burst_bytes, 131072U);
  // Beyond 32 bits: 80 Gbit/s.
  Bytes options = tbf(UINT32_MAX, 1000);
  const std::uint64_t rate = 10'000'000'000;
  append(options, attribute(TCA_TBF_RATE64, bytes_of(&rate, sizeof rate)));
  EXPECT_TRUE(read_qdiscs(message(1, TC_H_ROOT, "tbf", options), found));
  EXPECT_EQ(found[1].bits_per_s, 80'000'000'000U);
  EXPECT_EQ(found[1].burst_bytes, 640'000U);
}

TEST(EnvironmentQdisc, AnAnswerThatBreaksOffIsReadAsFarAsItGoes) {
  const Bytes whole = message(7, TC_H_ROOT, "tbf", tbf(1000, 1));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    Qdiscs found;
    read_qdiscs(std::span(whole).first(size), found);
    EXPECT_TRUE(found.empty()) << size;
  }
  // Lengths that lie: a message of nothing, and an attribute beyond its message.
  Bytes lying = whole;
  std::memset(lying.data(), 0, 4);
  Qdiscs found;
  EXPECT_FALSE(read_qdiscs(lying, found));
  lying = whole;
  std::memset(lying.data() + sizeof(nlmsghdr) + sizeof(tcmsg), 0xff, 2);
  EXPECT_TRUE(read_qdiscs(lying, found));
  EXPECT_TRUE(found.empty());
}

}  // namespace
}  // namespace netpipe
