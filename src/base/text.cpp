// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace netpipe {
namespace {

std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

template <typename T>
bool whole(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

// The multiplier that a suffix stands for; 0 when it is none.
double multiplier(std::string_view suffix) {
  if (suffix.empty() || suffix == "B") return 1;
  static constexpr std::string_view letters = "kmgt";
  const auto power = letters.find(static_cast<char>(suffix.front() | 0x20));  // in lower case
  if (power == std::string_view::npos) return 0;
  const std::string_view rest = suffix.substr(1);
  if (rest.empty() || rest == "iB") return std::pow(1024.0, static_cast<double>(power + 1));
  if (rest == "B") return std::pow(1000.0, static_cast<double>(power + 1));
  return 0;
}

// How many letters are to be changed, added, left out or exchanged with the next one (optimal string alignment).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, above(b.size() + 1), row(b.size() + 1);
  std::iota(above.begin(), above.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({change, above[j] + 1, row[j - 1] + 1});
      const bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (exchanged) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = std::exchange(above, row);
  }
  return above.back();
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
  const std::string_view t = trim(text);
  const auto digits = t.find_first_not_of("0123456789.");
  const std::string_view number = t.substr(0, digits);
  const double factor = multiplier(digits == std::string_view::npos ? "" : t.substr(digits));
  double value = 0;
  const bool readable = !number.empty() && whole(number, value) && factor > 0;
  if (!readable) {
    return usage(quoted(text) + " is not a size; write a number of bytes such as 8, 64k, 1M or 2G (k = 1024)");
  }
  std::uint64_t exact = 0;
  const auto unit = static_cast<std::uint64_t>(factor);
  if (whole(number, exact) && exact <= std::numeric_limits<std::int64_t>::max() / unit) return exact * unit;
  const double bytes = value * factor;
  if (bytes >= 9.2e18) return usage(quoted(text) + " is more bytes than a 64-bit size can count");
  if (bytes != std::floor(bytes)) return usage(quoted(text) + " is not a whole number of bytes");
  return static_cast<std::uint64_t>(bytes);
}

Result<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t value = 0;
  if (!whole(trim(text), value)) return usage(quoted(text) + " is not a whole number");
  return value;
}

Result<double> parse_real(std::string_view text) {
  std::string_view t = trim(text);
  const bool percent = t.ends_with('%');
  if (percent) t.remove_suffix(1);
  double value = 0;
  if (!whole(t, value) || !std::isfinite(value)) return usage(quoted(text) + " is not a number");
  return percent ? value / 100 : value;
}

Result<bool> parse_yes_no(std::string_view text) {
  const std::string_view t = trim(text);
  if (t == "yes" || t == "true" || t == "on" || t == "1") return true;
  if (t == "no" || t == "false" || t == "off" || t == "0") return false;
  return usage(quoted(text) + " is neither yes nor no");
}

std::string size_text(std::uint64_t bytes) {
  static constexpr std::string_view letters = "kMGT";
  std::string suffix;
  for (const char letter : letters) {
    if (bytes == 0 || bytes % 1024 != 0) break;
    bytes /= 1024;
    suffix = letter;
  }
  return std::to_string(bytes) + suffix;
}

std::string counted(std::uint64_t number, std::string_view word, std::string_view plural) {
  std::string text = std::to_string(number) + " ";
  if (number == 1) return text.append(word);
  return plural.empty() ? text.append(word).append("s") : text.append(plural);
}

std::string without_controls(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool c1 = c == 0xc2 && i + 1 < text.size() && (static_cast<unsigned char>(text[i + 1]) & 0xe0U) == 0x80;
    if (c == '\n' || c == '\t' || c == '\r') {
      clean += ' ';
    } else if (c < ' ' || c == 0x7f || c1) {
      clean += '?';
      if (c1) ++i;
    } else {
      clean += text[i];
    }
  }
  return clean;
}

std::string_view trim(std::string_view text) {
  static constexpr std::string_view blank = " \t\r\n";
  const auto first = text.find_first_not_of(blank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const auto at = text.find(separator);
    parts.emplace_back(trim(text.substr(0, at)));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string best;
  std::size_t least = 3;
  for (const std::string& candidate : candidates) {
    const std::size_t d = distance(word, candidate);
    const std::size_t most = std::min(word.size(), candidate.size()) < 5 ? 1 : 2;
    if (d < least && d <= most && d < candidate.size()) {
      least = d;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string guess = nearest(word, candidates);
  if (!guess.empty()) return "; did you mean " + quoted(guess) + "?";
  std::string all;
  for (const std::string& candidate : candidates) all += (all.empty() ? "" : ", ") + candidate;
  return all.empty() ? std::string{} : (candidates.size() == 1 ? "; there is only " : "; there are ") + all;
}

}  // namespace netpipe
