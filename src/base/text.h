// SPDX-License-Identifier: Apache-2.0
// How numbers and sizes are read from people. Every size that a user can give, anywhere, goes through parse_size.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace netpipe {

// "8", "64k", "1M", "2GiB", "1.5M": bytes; k, M, G, T and KiB ... are powers of 1024, kB, MB ... powers of 1000.
Result<std::uint64_t> parse_size(std::string_view text);
Result<std::int64_t> parse_integer(std::string_view text);
// "0.01" or "1%".
Result<double> parse_real(std::string_view text);
Result<bool> parse_yes_no(std::string_view text);

// Shortest text that parse_size reads back as the same number: 65536 is "64k".
std::string size_text(std::uint64_t bytes);

// 1, "rank" -> "1 rank"; 2, "rank" -> "2 ranks". plural: of a word that takes more than an s ("processes").
std::string counted(std::uint64_t number, std::string_view word, std::string_view plural = {});

// Foreign text, fit for a line of a terminal: blanks of all kinds become a blank, other control characters (C0, DEL and
// C1, ECMA-48) '?'.
std::string without_controls(std::string_view text);

std::string_view trim(std::string_view text);
std::vector<std::string> split(std::string_view text, char separator);
// The candidate that the user most likely meant, or "": edit distance at most 2.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace netpipe
