// SPDX-License-Identifier: Apache-2.0
// The shared memory of a cma run: no byte of a message lies in it, only where messages are, and which were copied.
//
// For each two ranks and direction there is a lane: one rank publishes where a message is (with direction=read its
// sender, with direction=write its receiver), and the other copies it and says so.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "kit/streams/fd.h"

namespace netpipe::cma {

inline constexpr std::size_t kApart = 128;   // two cache lines: processors fetch them in pairs
inline constexpr std::uint64_t kSlots = 64;  // published and not yet copied, at once
inline constexpr std::uint64_t kMagic = 0x616d63657069706eU;

struct Slot {
  std::uint64_t address, bytes;
};

struct Lane {
  alignas(kApart) std::atomic<std::uint64_t> published;  // messages so far
  Slot slots[kSlots];
  alignas(kApart) std::atomic<std::uint64_t> copied;  // messages so far
};

struct Member {
  alignas(kApart) std::atomic<std::uint32_t> asleep;  // 1: wake me after you have published or copied. A futex
  alignas(kApart) std::atomic<std::uint64_t> steps;   // how far it is in connecting
  std::atomic<std::uint64_t> barriers;                // that it has come to
  std::uint64_t probe_address;                        // of a word that is kMagic
};

class Segment {
 public:
  Segment() = default;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment() {
    if (base_ != nullptr) munmap(base_, bytes_);
  }

  // A new one, all zero, or that of a descriptor. False: errno says why.
  bool map(std::uint32_t nranks, fd_io::Fd& fd) {
    nranks_ = nranks;
    bytes_ = std::size_t{nranks} * sizeof(Member) + std::size_t{nranks} * nranks * sizeof(Lane);
    if (!fd) {
      fd = fd_io::Fd(memfd_create("netpipe-cma", MFD_CLOEXEC));
      if (!fd || ftruncate(fd.get(), static_cast<off_t>(bytes_)) != 0) return false;
    }
    void* const at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd.get(), 0);
    if (at == MAP_FAILED) return false;
    base_ = at;
    return true;
  }

  [[nodiscard]] Member& member(int rank) const { return static_cast<Member*>(base_)[rank]; }
  [[nodiscard]] Lane& lane(int publisher, int copier) const {
    char* const lanes = static_cast<char*>(base_) + std::size_t{nranks_} * sizeof(Member);
    return reinterpret_cast<Lane*>(
        lanes)[std::size_t{nranks_} * static_cast<std::size_t>(publisher) + static_cast<std::size_t>(copier)];
  }

 private:
  void* base_ = nullptr;
  std::size_t bytes_ = 0;
  std::uint32_t nranks_ = 0;
};

}  // namespace netpipe::cma
