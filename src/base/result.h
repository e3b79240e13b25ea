// SPDX-License-Identifier: Apache-2.0
// Errors are values with a sentence for the user. C++20 has no std::expected, this is what we need of it.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace netpipe {

// What the process exits with; the meaning of each is in README.md.
enum class Exit : int {
  done = 0,
  gate = 1,
  usage = 2,
  unavailable = 3,
  failed = 4,
  unstable = 5,
  interrupted = 130,
};

// The analyzer loses track of which alternative a Result holds, and takes the other for uninitialized.
struct Failure {  // NOLINT(clang-analyzer-core.uninitialized.Assign)
  Exit exit = Exit::failed;
  std::string sentence;  // what happened, where, what to do
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Failure failure) : state_(std::in_place_index<1>, std::move(failure)) {}

  explicit operator bool() const { return state_.index() == 0; }
  T& operator*() { return std::get<0>(state_); }
  const T& operator*() const { return std::get<0>(state_); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  [[nodiscard]] const Failure& failure() const { return std::get<1>(state_); }

 private:
  std::variant<T, Failure> state_;
};

struct Nothing {};
using Outcome = Result<Nothing>;
inline Outcome ok() { return Nothing{}; }
inline Failure usage(std::string sentence) { return {Exit::usage, std::move(sentence)}; }
inline Failure unavailable(std::string sentence) { return {Exit::unavailable, std::move(sentence)}; }
inline Failure failed(std::string sentence) { return {Exit::failed, std::move(sentence)}; }

}  // namespace netpipe
