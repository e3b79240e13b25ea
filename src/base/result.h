// SPDX-License-Identifier: Apache-2.0
// Errors are values with a sentence for the user. C++20 has no std::expected, this is what we need of it.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <variant>

namespace netpipe {

// What a process exits with.
enum class Exit : int {
  done = 0,
  gate = 1,
  usage = 2,
  unavailable = 3,
  failed = 4,
  unstable = 5,
  interrupted = 130,
};

struct ExitCode {
  Exit exit;
  const char* name;
  const char* meaning;
};

// From the least to the most serious: what failed outranks what is missing, and a wrong byte outranks both.
inline constexpr std::array<ExitCode, 7> exit_codes{{
    {Exit::done, "done", "everything that was asked for was done"},
    {Exit::unstable, "unstable", "with --strict: a point of the whole run is not within the target"},
    {Exit::unavailable, "unavailable", "something that is needed is not available on this host"},
    {Exit::usage, "usage", "the command line or the plan is wrong"},
    {Exit::failed, "failed", "a measurement failed"},
    {Exit::gate, "gate", "a check or a gate failed, such as a wrong byte"},
    {Exit::interrupted, "interrupted", "the user interrupted it"},
}};

// The more serious of two.
constexpr Exit worse(Exit a, Exit b) {
  // NOLINTNEXTLINE(modernize-loop-convert): from the end, and std::views::reverse would be a header for it
  for (auto code = exit_codes.rbegin(); code != exit_codes.rend(); ++code) {
    if (code->exit == a || code->exit == b) return code->exit;
  }
  return Exit::failed;
}

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
