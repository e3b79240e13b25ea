// SPDX-License-Identifier: Apache-2.0
// Which protocol UCX uses from which size on, read off what it prints (src/modules/ucx/ucx_protocols.h): both ways that
// it has of saying so, whatever version of UCX is here.
#include "ucx/ucx_protocols.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace netpipe::ucx {
namespace {

// As UCX 1.13 prints them (ucp_ep_print_info) over shared memory.
const char* const kLines =
    "# UCP endpoint \n"
    "#\n"
    "#               peer: uuid 0x6f6d host a pid 7\n"
    "#                 lane[0]:  2:sysv/memory.0 md[2]   -> md[2]/sysv/sysdev[255] am rma\n"
    "#\n"
    "#                tag_send: 0..<egr/short>..93..<egr/bcopy>..8256..<rndv>..(inf)\n"
    "#            tag_send_nbr: 0..<egr/short>..93..<egr/bcopy>..524288..<rndv>..(inf)\n"
    "#             stream_send: 0..<egr/short>..93..<egr/bcopy>..(inf)\n"
    "#                 am_send: 0..<egr/short>..93..<egr/bcopy>..16384..<rndv>..(inf)\n"
    "#                 put[0]: 0..<short>..4294967296..<bcopy>..(inf)\n"
    "#                 put[1]: 0..<bcopy>..2048..<zcopy>..(inf)\n"
    "#                 get[0]: 0..<bcopy>..(inf)\n";

// As newer versions do. The order of tables is that of their first use.
const char* const kTables =
    "# +--------------------+-----------------------------------------------+\n"
    "# | ucx ep_cfg[1]      | tagged message by ucp_tag_send*(multi) from host memory |\n"
    "# +--------------------+---------------------------------+-------------+\n"
    "# |             0..inf | eager long                      | tcp/lo      |\n"
    "# +--------------------+---------------------------------+-------------+\n"
    "# +--------------------+-----------------------------------------------+\n"
    "# | ucx ep_cfg[1]      | tagged message by ucp_tag_send*() from host memory |\n"
    "# +--------------------+---------------------------------+-------------+\n"
    "# |             0..788 | eager short                     | tcp/lo      |\n"
    "# |           789..64K | eager copy-in copy-out          | tcp/lo      |\n"
    "# |           64K..inf | (?) rendezvous copy-in copy-out | tcp/lo      |\n"
    "# +--------------------+---------------------------------+-------------+\n"
    "# | ucx ep_cfg[1]      | tagged message by ucp_tag_send*() from cuda memory |\n"
    "# +--------------------+---------------------------------+-------------+\n"
    "# |             0..inf | rendezvous zero-copy            | cuda_ipc    |\n"
    "# +--------------------+---------------------------------+-------------+\n"
    "# | ucx ep_cfg[1]      | stream message by ucp_stream_send* from host memory |\n"
    "# |             0..inf | multi-frag stream copy-in       | tcp/lo      |\n"
    "# | ucx ep_cfg[1]      | active message by ucp_am_send* with reply flag from host memory |\n"
    "# |             0..inf | eager reply                     | tcp/lo      |\n"
    "# | ucx ep_cfg[1]      | active message by ucp_am_send* from host memory |\n"
    "# |              0..99 | eager short                     |             |\n"
    "# |           100..inf | eager copy-in copy-out          | tcp/lo      |\n"
    "# | ucx rkey_cfg[0]    | remote memory write by ucp_put* from host memory to host |\n"
    "# |             0..inf | zero-copy                       | 50% on a/b and 50% on c/d |\n"
    "# | ucx rkey_cfg[1]    | remote memory write by ucp_put* from host memory to host |\n"
    "# |             0..inf | software emulation              | tcp/lo      |\n"
    "# | ucx rkey_cfg[0]    | remote memory read by ucp_get* into host memory from host |\n"
    "# |           0..65536 | copy-out                        | tcp/lo      |\n"
    "# |         65537..inf | zero-copy                       | tcp/lo      |\n";

Protocols found_in(const std::string& text, const std::string& memory = "host") {
  return read_protocols(lines(text), memory);
}

TEST(UcxProtocols, ALineForEachOperationIsRead) {
  const Protocols expected = {
      {"protocols_tag", "egr/short from 0, egr/bcopy from 93, rndv from 8256"},
      {"protocols_stream", "egr/short from 0, egr/bcopy from 93"},
      {"protocols_am", "egr/short from 0, egr/bcopy from 93, rndv from 16384"},
      {"protocols_put", "lane 0: short from 0, bcopy from 4294967296; lane 1: bcopy from 0, zcopy from 2048"},
      {"protocols_get", "lane 0: bcopy from 0"},
  };
  EXPECT_EQ(expected, found_in(kLines));
}

// Of two tables about one operation the first counts, and none that is about calls with other flags.
TEST(UcxProtocols, ATableForEachOperationIsRead) {
  const Protocols expected = {
      {"protocols_tag",
       "eager short from 0 over tcp/lo, eager copy-in copy-out from 789 over tcp/lo, "
       "(?) rendezvous copy-in copy-out from 64K over tcp/lo"},
      {"protocols_stream", "multi-frag stream copy-in from 0 over tcp/lo"},
      {"protocols_am", "eager short from 0, eager copy-in copy-out from 100 over tcp/lo"},
      {"protocols_put", "zero-copy from 0 over 50% on a/b and 50% on c/d"},
      {"protocols_get", "copy-out from 0 over tcp/lo, zero-copy from 65537 over tcp/lo"},
  };
  EXPECT_EQ(expected, found_in(kTables));
}

TEST(UcxProtocols, MessagesOfADeviceHaveTablesOfTheirOwn) {
  const Protocols expected = {{"protocols_tag", "rendezvous zero-copy from 0 over cuda_ipc"}};
  EXPECT_EQ(expected, found_in(kTables, "cuda"));
}

TEST(UcxProtocols, WhereThereAreBothTheTablesAreInForce) {
  Protocols expected = found_in(kTables);
  EXPECT_EQ(expected, found_in(std::string(kLines) + kTables));
}

TEST(UcxProtocols, WhatIsNotSaidIsNotMadeUp) { EXPECT_EQ(Protocols(), found_in("# UCP endpoint \n#\n")); }

}  // namespace
}  // namespace netpipe::ucx
