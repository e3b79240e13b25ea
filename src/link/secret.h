// SPDX-License-Identifier: Apache-2.0
// What two hosts must not share with others: the token that both know, and the nonces that make each conversation new.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"
#include "link/handshake.h"

namespace netpipe {

inline constexpr std::size_t min_token_bytes = 16;
inline constexpr std::size_t max_token_bytes = 1024;
inline constexpr const char* token_variable = "NETPIPE_TOKEN";

// From the file, or where its name is empty from the environment variable NETPIPE_TOKEN; never from a command line,
// which every user of a host can read. Blanks and line ends around it do not count. Exit::usage: there is none, it is
// too short, or others than the owner may read the file.
Result<std::string> read_token(const std::string& file);

Result<Nonce> fresh_nonce();

}  // namespace netpipe
