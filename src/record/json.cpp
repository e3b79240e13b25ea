// SPDX-License-Identifier: Apache-2.0
#include "record/json.h"

namespace netpipe {
namespace {

// Length of the well-formed UTF-8 sequence at the front of text, 0 when there is none (RFC 3629).
std::size_t utf8_length(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xc2 ? 0
                             : first < 0xe0 ? 2
                             : first < 0xf0 ? 3
                             : first < 0xf5 ? 4
                                            : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xc0) != 0x80) return 0;
  }
  if (first == 0xe0 && at(1) < 0xa0) return 0;
  if (first == 0xed && at(1) > 0x9f) return 0;
  if (first == 0xf0 && at(1) < 0x90) return 0;
  if (first == 0xf4 && at(1) > 0x8f) return 0;
  return length;
}

}  // namespace

void Json::quote(std::string_view text) {
  static constexpr char hex[] = "0123456789abcdef";
  text_ += '"';
  while (!text.empty()) {
    const char c = text.front();
    const std::size_t length = utf8_length(text);
    if (length == 0) {
      text_ += "\xef\xbf\xbd";
    } else if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += c;
    } else if (c == '\n') {
      text_ += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      text_ += "\\u00";
      text_ += hex[static_cast<unsigned char>(c) >> 4];
      text_ += hex[c & 15];
    } else if (length == 2 && c == '\xc2' && static_cast<unsigned char>(text[1]) < 0xa0) {
      // The control characters of ECMA-48 beyond ASCII: a terminal may obey them.
      text_ += "\\u00";
      text_ += hex[static_cast<unsigned char>(text[1]) >> 4];
      text_ += hex[text[1] & 15];
    } else {
      text_ += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  text_ += '"';
}

}  // namespace netpipe
