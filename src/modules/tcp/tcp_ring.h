// SPDX-License-Identifier: Apache-2.0
// A ring of io_uring(7), by its system calls: submissions go in, completions come out, both in memory shared with the
// kernel.
#pragma once

#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "kit/streams/fd.h"

namespace netpipe::tcp {

class Ring {
 public:
  Ring() = default;
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring() {
    if (queues_ != nullptr) munmap(queues_, queue_bytes_);
    if (entries_ != nullptr) munmap(entries_, entry_bytes_);
  }

  // 0, or an error as in errno.
  int open(unsigned entries, unsigned flags) {
    io_uring_params params{};
    params.flags = flags | IORING_SETUP_CLAMP;
    fd_ = fd_io::Fd(static_cast<int>(syscall(SYS_io_uring_setup, entries, &params)));
    if (!fd_) return errno;
    constexpr unsigned kNeeds = IORING_FEAT_SINGLE_MMAP | IORING_FEAT_EXT_ARG | IORING_FEAT_NODROP;
    if ((params.features & kNeeds) != kNeeds) return ENOSYS;
    const size_t submissions = params.sq_off.array + params.sq_entries * sizeof(uint32_t);
    const size_t completions = params.cq_off.cqes + params.cq_entries * sizeof(io_uring_cqe);
    queue_bytes_ = submissions > completions ? submissions : completions;
    entry_bytes_ = params.sq_entries * sizeof(io_uring_sqe);
    queues_ = map(queue_bytes_, IORING_OFF_SQ_RING);
    entries_ = map(entry_bytes_, IORING_OFF_SQES);
    if (queues_ == nullptr || entries_ == nullptr) return ENOMEM;
    sq_head_ = at(params.sq_off.head);
    sq_tail_ = at(params.sq_off.tail);
    sq_flags_ = at(params.sq_off.flags);
    sq_mask_ = *at(params.sq_off.ring_mask);
    sq_entries_ = params.sq_entries;
    cq_head_ = at(params.cq_off.head);
    cq_tail_ = at(params.cq_off.tail);
    cq_mask_ = *at(params.cq_off.ring_mask);
    completions_ = reinterpret_cast<io_uring_cqe*>(static_cast<char*>(queues_) + params.cq_off.cqes);
    uint32_t* const order = at(params.sq_off.array);
    for (uint32_t i = 0; i < params.sq_entries; ++i) order[i] = i;
    return 0;
  }

  // The next submission, all zero, or null: the queue is full. It goes with the next enter().
  io_uring_sqe* next() {
    const uint32_t tail = *sq_tail_;
    if (tail - std::atomic_ref(*sq_head_).load(std::memory_order_acquire) == sq_entries_) return nullptr;
    io_uring_sqe* entry = static_cast<io_uring_sqe*>(entries_) + (tail & sq_mask_);
    *entry = io_uring_sqe{};
    std::atomic_ref(*sq_tail_).store(tail + 1, std::memory_order_release);
    return entry;
  }

  [[nodiscard]] uint32_t noted() const {
    return *sq_tail_ - std::atomic_ref(*sq_head_).load(std::memory_order_acquire);
  }

  // Completions that the kernel leaves until it is entered (IORING_SETUP_TASKRUN_FLAG).
  [[nodiscard]] bool due() const {
    return (std::atomic_ref(*sq_flags_).load(std::memory_order_relaxed) & IORING_SQ_TASKRUN) != 0;
  }

  // Submits what is noted. most_ms above 0: until something has completed, or for so long.
  void enter(int most_ms) {
    const uint32_t count = noted();
    if (most_ms == 0) {
      syscall(SYS_io_uring_enter, fd_.get(), count, 0, IORING_ENTER_GETEVENTS, nullptr, 0);
      return;
    }
    __kernel_timespec time{.tv_sec = most_ms / 1000, .tv_nsec = most_ms % 1000 * 1'000'000LL};
    io_uring_getevents_arg argument{};
    argument.ts = reinterpret_cast<uint64_t>(&time);
    syscall(SYS_io_uring_enter, fd_.get(), count, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &argument,
            sizeof argument);
  }

  // The oldest completion that has not been taken yet, or null.
  bool take(io_uring_cqe& taken) {
    const uint32_t head = *cq_head_;
    if (head == std::atomic_ref(*cq_tail_).load(std::memory_order_acquire)) return false;
    taken = completions_[head & cq_mask_];
    std::atomic_ref(*cq_head_).store(head + 1, std::memory_order_release);
    return true;
  }

  // 0, or an error as in errno.
  int tell(unsigned what, const void* argument, unsigned count) {
    return syscall(SYS_io_uring_register, fd_.get(), what, argument, count) < 0 ? errno : 0;
  }

 private:
  void* map(size_t bytes, off_t what) {
    void* const made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_.get(), what);
    return made == MAP_FAILED ? nullptr : made;
  }
  uint32_t* at(uint32_t offset) { return reinterpret_cast<uint32_t*>(static_cast<char*>(queues_) + offset); }

  fd_io::Fd fd_;
  void* queues_ = nullptr;
  void* entries_ = nullptr;
  size_t queue_bytes_ = 0, entry_bytes_ = 0;
  uint32_t *sq_head_ = nullptr, *sq_tail_ = nullptr, *sq_flags_ = nullptr, *cq_head_ = nullptr, *cq_tail_ = nullptr;
  uint32_t sq_mask_ = 0, sq_entries_ = 0, cq_mask_ = 0;
  io_uring_cqe* completions_ = nullptr;
};

}  // namespace netpipe::tcp
