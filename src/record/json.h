// SPDX-License-Identifier: Apache-2.0
// Writes JSON (RFC 8259) into a string. Writing only: nothing here ever reads JSON.
#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace netpipe {

class Json {
 public:
  Json& open(char bracket) {
    comma();
    text_ += bracket;
    fresh_ = true;
    return *this;
  }
  Json& close(char bracket) {
    text_ += bracket;
    fresh_ = false;
    return *this;
  }
  Json& key(std::string_view name) {
    comma();
    quote(name);
    text_ += ':';
    fresh_ = true;
    return *this;
  }
  Json& value(std::string_view text) {
    comma();
    quote(text);
    return *this;
  }
  Json& value(const char* text) { return value(std::string_view(text)); }
  Json& value(bool truth) { return literal(truth ? "true" : "false"); }
  Json& null() { return literal("null"); }
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Json& value(T number) {
    return digits(number);
  }
  // A double that is not finite is not known: null. Printed shortest, so that it reads back as the same double.
  Json& value(double number) { return std::isfinite(number) ? digits(number) : null(); }
  Json& value(float number) { return std::isfinite(number) ? digits(number) : null(); }
  template <typename T>
  Json& value(const std::optional<T>& maybe) {
    return maybe ? value(*maybe) : null();
  }
  // Already JSON.
  Json& raw(std::string_view json) { return literal(json); }

  template <typename T>
  Json& field(std::string_view name, const T& content) {
    return key(name).value(content);
  }
  Json& field_null(std::string_view name) { return key(name).null(); }
  Json& field_raw(std::string_view name, std::string_view json) { return key(name).raw(json); }

  [[nodiscard]] const std::string& text() const { return text_; }
  std::string take() { return std::move(text_); }

 private:
  void comma() {
    if (!fresh_) text_ += ',';
    fresh_ = false;
  }
  Json& literal(std::string_view json) {
    comma();
    text_ += json;
    return *this;
  }
  template <typename T>
  Json& digits(T number) {
    comma();
    char room[32];
    const auto end = std::to_chars(room, room + sizeof room, number);
    text_.append(room, end.ptr);
    return *this;
  }
  // Bytes that are not UTF-8 come from the system (host names, paths); they are written as U+FFFD so the line stays
  // JSON.
  void quote(std::string_view text);

  std::string text_;
  bool fresh_ = true;
};

}  // namespace netpipe
