// SPDX-License-Identifier: Apache-2.0
// Memory that two processes of the shm module reach: message memory that one allocates and the other maps, and the
// memory of the other process through the kernel (cross-memory attach, process_vm_readv(2)).
//
// Shared memory has no name: it is a memfd that the other process opens through /proc/PID/fd, so nothing is left
// behind by a process that is killed.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "shm_cells.h"

namespace netpipe::shm {

inline constexpr std::uint32_t kAllocations = 256;  // of one process at a time

// One allocation, as its owner announces it to its peers.
struct Announced {
  std::atomic<std::uint32_t> generation;  // of the slot; 0: never used
  std::atomic<std::int32_t> fd;
  std::atomic<std::uint64_t> bytes;
};

// A place in memory, in words that mean the same to both processes.
struct Place {
  std::uint64_t address = 0;          // in the process that it belongs to
  std::uint32_t slot = kAllocations;  // which allocation; kAllocations: none, reached by cross-memory attach only
  std::uint32_t generation = 0;
  std::uint64_t offset = 0;  // in that allocation
};

class Mapping {  // of a memfd, own or a peer's
 public:
  Mapping() = default;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { unmap(); }

  // 0, or an errno. Every page is there afterwards: no fault is left for the timed region.
  int map(int fd, std::size_t bytes) {
    int reason = reserve(fd, bytes);
    if (reason != 0) return reason;
    madvise(base_, bytes, MADV_HUGEPAGE);  // where the administrator allows them for shared memory
    reason = populate(0, bytes);
    if (reason != 0) unmap();
    return reason;
  }
  // The same without the pages: populate() makes those that are needed.
  int reserve(int fd, std::size_t bytes) {
    void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) return errno;
    base_ = static_cast<unsigned char*>(base);
    bytes_ = bytes;
    return 0;
  }
  // at, bytes: whole pages. 0, or an errno.
  int populate(std::size_t at, std::size_t bytes) {
    constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE of Linux 5.14; a shortage is an error and no SIGBUS
    if (madvise(base_ + at, bytes, kPopulateWrite) == 0) return 0;
    if (errno != EINVAL) return errno;
    for (std::size_t i = at; i < at + bytes; i += kPageBytes) {
      reinterpret_cast<std::atomic<unsigned char>*>(base_ + i)->fetch_or(0, std::memory_order_relaxed);
    }
    return 0;
  }
  // Opens the memory that another process has as its descriptor fd, with its pages or without. 0, or an errno.
  int map_of(pid_t pid, int fd, std::size_t bytes, bool pages = true) {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%d/fd/%d", static_cast<int>(pid), fd);
    const int own = open(path, O_RDWR | O_CLOEXEC);
    if (own < 0) return errno;
    struct stat about{};
    int reason = fstat(own, &about) != 0 ? errno : 0;
    // A file that is smaller than promised would raise SIGBUS at the first touch of its end.
    if (reason == 0 && static_cast<std::uint64_t>(about.st_size) < bytes) reason = ESTALE;
    if (reason == 0) reason = pages ? map(own, bytes) : reserve(own, bytes);
    close(own);
    return reason;
  }
  void unmap() {
    if (base_ != nullptr) munmap(base_, bytes_);
    base_ = nullptr;
    bytes_ = 0;
  }
  [[nodiscard]] unsigned char* base() const { return base_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  unsigned char* base_ = nullptr;
  std::size_t bytes_ = 0;
};

// An anonymous shared file of this size; -1 with errno set where there is not enough memory or no descriptor left.
inline int make_memfd(std::size_t bytes) {
  const int fd = memfd_create("netpipe", MFD_CLOEXEC);
  if (fd < 0) return -1;
  if (ftruncate(fd, static_cast<off_t>(bytes)) == 0) return fd;
  const int reason = errno;
  close(fd);
  errno = reason;
  return -1;
}

// Bytes that can be had without swapping (MemAvailable), or SIZE_MAX where the kernel does not say. Asked for because
// shared memory is granted at once and paid for by the out-of-memory killer.
inline std::uint64_t available_bytes() {
  std::FILE* file = std::fopen("/proc/meminfo", "re");
  if (file == nullptr) return UINT64_MAX;
  char line[128];
  std::uint64_t kib = UINT64_MAX / 1024;
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::strncmp(line, "MemAvailable:", 13) == 0) {
      kib = std::strtoull(line + 13, nullptr, 10);
      break;
    }
  }
  std::fclose(file);
  return kib * 1024;
}

// Message memory of this process that its peers can map.
class OwnMemory {
 public:
  OwnMemory() = default;
  OwnMemory(const OwnMemory&) = delete;
  OwnMemory& operator=(const OwnMemory&) = delete;
  ~OwnMemory() {
    for (Own& own : own_) release(own);
  }

  // announced: the table of this process in the shared memory.
  void attach(Announced* announced) {
    announced_ = announced;
    for (std::uint32_t i = 0; i < kAllocations; ++i) announce(i);
  }

  // 0, or an errno: EMFILE when kAllocations are in use.
  int allocate(std::size_t bytes, void** memory) {
    if (bytes > available_bytes()) return ENOMEM;
    bytes = round_up(bytes == 0 ? 1 : bytes, kPageBytes);
    for (std::uint32_t i = 0; i < kAllocations; ++i) {
      Own& own = own_[i];
      if (own.mapping.base() != nullptr) continue;
      own.fd = make_memfd(bytes);
      if (own.fd < 0) return errno;
      if (const int reason = own.mapping.map(own.fd, bytes); reason != 0) {
        release(own);
        return reason;
      }
      ++own.generation;
      used_ = std::max(used_, i + 1);
      if (announced_ != nullptr) announce(i);
      *memory = own.mapping.base();
      return 0;
    }
    return EMFILE;
  }

  void free(void* memory) {
    for (Own& own : own_) {
      if (own.mapping.base() == memory) release(own);
    }
  }

  // Where these bytes are, for a peer.
  Place place(const void* memory, std::size_t bytes) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    Place found{address, kAllocations, 0, 0};
    for (std::uint32_t tried = 0, i = last_; tried < used_; ++tried, i = i + 1 < used_ ? i + 1 : 0) {
      const Own& own = own_[i];
      const auto base = reinterpret_cast<std::uintptr_t>(own.mapping.base());
      if (base == 0 || address < base || address - base > own.mapping.bytes()) continue;
      if (bytes > own.mapping.bytes() - (address - base)) continue;
      last_ = i;
      found = Place{address, i, own.generation, address - base};
      break;
    }
    return found;
  }

 private:
  struct Own {
    Mapping mapping;
    int fd = -1;
    std::uint32_t generation = 0;
  };

  void announce(std::uint32_t slot) {
    announced_[slot].fd.store(own_[slot].fd, std::memory_order_relaxed);
    announced_[slot].bytes.store(own_[slot].mapping.bytes(), std::memory_order_relaxed);
    announced_[slot].generation.store(own_[slot].generation, std::memory_order_release);
  }

  static void release(Own& own) {
    own.mapping.unmap();
    if (own.fd >= 0) close(own.fd);
    own.fd = -1;
  }

  Announced* announced_ = nullptr;
  std::uint32_t used_ = 0;  // slots from here on were never used
  std::uint32_t last_ = 0;  // where the last place was found
  std::array<Own, kAllocations> own_;
};

// The message memory of one peer, as far as it is mapped here.
class PeerMemory {
 public:
  // announced: the table of the peer in the shared memory.
  void attach(const Announced* announced, pid_t pid) {
    announced_ = announced;
    pid_ = pid;
  }

  // Where a place of the peer is here; nullptr when it is not in memory that can be mapped. The first time that an
  // allocation is named it is mapped: two system calls, in the warm-up of whoever measures.
  unsigned char* reach(const Place& place, std::size_t bytes) {
    if (place.slot >= kAllocations) return nullptr;
    Theirs& theirs = theirs_[place.slot];
    if (theirs.generation != place.generation) {
      theirs.mapping.unmap();
      const Announced& announced = announced_[place.slot];
      if (announced.generation.load(std::memory_order_acquire) != place.generation) return nullptr;
      if (theirs.mapping.map_of(pid_, announced.fd.load(std::memory_order_relaxed),
                                announced.bytes.load(std::memory_order_relaxed)) != 0) {
        return nullptr;
      }
      theirs.generation = place.generation;
    }
    if (place.offset > theirs.mapping.bytes() || bytes > theirs.mapping.bytes() - place.offset) return nullptr;
    return theirs.mapping.base() + place.offset;
  }

 private:
  struct Theirs {
    Mapping mapping;
    std::uint32_t generation = 0;
  };

  const Announced* announced_ = nullptr;
  pid_t pid_ = -1;
  std::array<Theirs, kAllocations> theirs_;
};

// Copies between this process and another one through the kernel, whole or not at all. 0, or an errno: EPERM where
// the kernel does not allow it (Yama, seccomp), ESRCH when the process has gone, EFAULT for memory that it lacks.
inline int copy_from_process(pid_t pid, void* to, std::uint64_t from, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {  // one call moves at most 2 GiB
    iovec local{static_cast<unsigned char*>(to) + done, bytes - done};
    iovec remote{reinterpret_cast<void*>(from + done), bytes - done};  // NOLINT(performance-no-int-to-ptr)
    const ssize_t moved = process_vm_readv(pid, &local, 1, &remote, 1, 0);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return moved == 0 ? EFAULT : errno;
    done += static_cast<std::size_t>(moved);
  }
  return 0;
}
inline int copy_to_process(pid_t pid, std::uint64_t to, const void* from, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    iovec local{const_cast<unsigned char*>(static_cast<const unsigned char*>(from)) + done, bytes - done};
    iovec remote{reinterpret_cast<void*>(to + done), bytes - done};  // NOLINT(performance-no-int-to-ptr)
    const ssize_t moved = process_vm_writev(pid, &local, 1, &remote, 1, 0);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return moved == 0 ? EFAULT : errno;
    done += static_cast<std::size_t>(moved);
  }
  return 0;
}

}  // namespace netpipe::shm
