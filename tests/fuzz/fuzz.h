// SPDX-License-Identifier: Apache-2.0
// What the fuzzers have in common: their random source, how one ends that has found something, and the count of what
// is allocated. To be included by one file of a program, because it replaces the operators.
#pragma once

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <random>

namespace netpipe::fuzz {

// NOLINTBEGIN: the operators below have no other place for these
inline std::size_t allocated_bytes = 0;  // while it is counted
inline bool counting = true;
// NOLINTEND

inline void* counted(std::size_t bytes) {
  if (counting) allocated_bytes += bytes;
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) std::abort();
  return memory;
}

inline void require(bool truth, const char* what) {
  if (truth) return;
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, what);
  std::abort();
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t word() { return engine_(); }
  std::uint64_t below(std::uint64_t bound) { return word() % bound; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  // Of any size, and often near a power of two.
  std::uint64_t number() {
    const std::uint64_t any = word();
    switch (below(4)) {
      case 0: return any;
      case 1: return any % 300;
      case 2: return (1ULL << any % 64) + (any >> 32) % 3 - 1;
      default: return any >> any % 64;
    }
  }
  template <typename T, std::size_t N>
  T any(const std::array<T, N>& of) {
    return of[below(N)];
  }

 private:
  std::mt19937_64 engine_;
};

// NAME [inputs, 1000000 unless given] [seed, 1 unless given]
struct Arguments {
  Arguments(int argc, char** argv)
      : inputs(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'000'000),
        seed(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1) {}
  std::uint64_t inputs, seed;
};

inline unsigned long long shown(std::uint64_t number) { return number; }  // as printf wants it

// The exit code. A fuzzer that never gets anywhere proves nothing; deep: whether this one has, after enough inputs.
inline int verdict(bool enough, bool deep) {
  if (!enough || deep) return 0;
  std::fprintf(stderr, "%s: the inputs did not get far enough\n", program_invocation_short_name);
  return 1;
}

}  // namespace netpipe::fuzz

void* operator new(std::size_t bytes) { return netpipe::fuzz::counted(bytes); }
void* operator new[](std::size_t bytes) { return netpipe::fuzz::counted(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return netpipe::fuzz::counted(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return netpipe::fuzz::counted(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
