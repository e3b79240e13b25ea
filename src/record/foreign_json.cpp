// SPDX-License-Identifier: Apache-2.0
#include "record/foreign_json.h"

#include <cstddef>
#include <cstdint>

#include "record/json.h"

namespace netpipe {
namespace {

constexpr std::size_t longest_number = 64;  // characters; none of ours has more than 24

void append_utf8(std::string& text, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xc0 | code >> 6);
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
  }
  put(0x80 | (code & 0x3f));
}

class Rewriter {
 public:
  explicit Rewriter(std::string_view text) : left_(text) {}

  std::optional<std::string> object() {
    skip_blanks();
    if (!next_is('{') || !value(0)) return std::nullopt;
    skip_blanks();
    if (!left_.empty()) return std::nullopt;
    return json_.take();
  }

 private:
  [[nodiscard]] bool next_is(char c) const { return !left_.empty() && left_.front() == c; }
  bool take(char c) {
    if (!next_is(c)) return false;
    left_.remove_prefix(1);
    return true;
  }
  void skip_blanks() {
    const std::size_t first = left_.find_first_not_of(" \t\r\n");
    left_.remove_prefix(first == std::string_view::npos ? left_.size() : first);
  }

  bool value(int depth) {
    if (left_.empty() || depth > most_nested) return false;
    switch (left_.front()) {
      case '{': return members(depth);
      case '[': return items(depth);
      case '"': {
        const std::optional<std::string> text = string();
        if (text) json_.value(*text);
        return text.has_value();
      }
      case 't': return word("true");
      case 'f': return word("false");
      case 'n': return word("null");
      default: return number();
    }
  }

  bool members(int depth) {
    take('{');
    json_.open('{');
    skip_blanks();
    if (!next_is('}')) {
      do {
        skip_blanks();
        const std::optional<std::string> name = next_is('"') ? string() : std::nullopt;
        if (!name) return false;
        json_.key(*name);
        skip_blanks();
        if (!take(':')) return false;
        skip_blanks();
        if (!value(depth + 1)) return false;
        skip_blanks();
      } while (take(','));
    }
    json_.close('}');
    return take('}');
  }

  bool items(int depth) {
    take('[');
    json_.open('[');
    skip_blanks();
    if (!next_is(']')) {
      do {
        skip_blanks();
        if (!value(depth + 1)) return false;
        skip_blanks();
      } while (take(','));
    }
    json_.close(']');
    return take(']');
  }

  bool word(std::string_view literal) {
    if (!left_.starts_with(literal)) return false;
    left_.remove_prefix(literal.size());
    json_.raw(literal);
    return true;
  }

  std::size_t digits(std::size_t at) const {
    const std::size_t begin = at;
    while (at < left_.size() && left_[at] >= '0' && left_[at] <= '9') ++at;
    return at - begin;
  }

  bool number() {
    std::size_t at = next_is('-') ? 1 : 0;
    const std::size_t whole = digits(at);
    if (whole == 0 || (whole > 1 && left_[at] == '0')) return false;
    at += whole;
    if (at < left_.size() && left_[at] == '.') {
      const std::size_t fraction = digits(at + 1);
      if (fraction == 0) return false;
      at += 1 + fraction;
    }
    if (at < left_.size() && (left_[at] == 'e' || left_[at] == 'E')) {
      ++at;
      if (at < left_.size() && (left_[at] == '+' || left_[at] == '-')) ++at;
      const std::size_t exponent = digits(at);
      if (exponent == 0) return false;
      at += exponent;
    }
    if (at > longest_number) return false;
    json_.raw(left_.substr(0, at));
    left_.remove_prefix(at);
    return true;
  }

  // What stands between the quotes, without its escapes.
  std::optional<std::string> string() {
    take('"');
    std::string text;
    for (;;) {
      if (left_.empty() || static_cast<unsigned char>(left_.front()) < 0x20) return std::nullopt;
      if (take('"')) return text;
      if (!take('\\')) {
        text += left_.front();
        left_.remove_prefix(1);
      } else if (!escape(text)) {
        return std::nullopt;
      }
    }
  }

  bool escape(std::string& text) {
    static constexpr std::string_view names = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
    if (left_.empty()) return false;
    if (const std::size_t at = names.find(left_.front()); at != std::string_view::npos) {
      text += meant[at];
      left_.remove_prefix(1);
      return true;
    }
    std::optional<std::uint32_t> code = take('u') ? hex4() : std::nullopt;
    if (!code) return false;
    if (*code >= 0xd800 && *code < 0xdc00 && left_.starts_with("\\u")) {
      left_.remove_prefix(2);
      const std::optional<std::uint32_t> low = hex4();
      if (!low || *low < 0xdc00 || *low >= 0xe000) return false;
      code = 0x10000 + ((*code - 0xd800) << 10) + (*low - 0xdc00);
    }
    append_utf8(text, *code);  // half a pair is no UTF-8, and the writer puts U+FFFD for it
    return true;
  }

  std::optional<std::uint32_t> hex4() {
    if (left_.size() < 4) return std::nullopt;
    std::uint32_t code = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = left_[static_cast<std::size_t>(i)];
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return std::nullopt;
      code = code << 4 | static_cast<std::uint32_t>(digit);
    }
    left_.remove_prefix(4);
    return code;
  }

  std::string_view left_;
  Json json_;
};

}  // namespace

std::optional<std::string> rewritten_object(std::string_view text) { return Rewriter(text).object(); }

}  // namespace netpipe
