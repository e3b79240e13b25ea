// SPDX-License-Identifier: Apache-2.0
// JSON that another process wrote, perhaps on another host, before it goes into a file of ours.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace netpipe {

inline constexpr int most_nested = 16;

// The object in text, written anew by our own writer: on one line, control characters escaped, numbers as they stood.
// nullopt: it is no JSON object (RFC 8259), something follows it, or it is nested deeper than most_nested.
std::optional<std::string> rewritten_object(std::string_view text);

}  // namespace netpipe
