// SPDX-License-Identifier: Apache-2.0
// The options of shm.
#pragma once

#include <cstdint>

#include "kit/waiting.h"
#include "netpipe/module.h"

namespace netpipe::shm {

enum Option {
  kWait,
  kSpin,
  kCopy,
  kCooperate,
  kEager,
  kCmaMin,
  kChunk,
  kRing,
  kSlots,
  kHandover,
  kPollGap,
  kDemote,
  kOptions
};
inline constexpr np_option kOptionTable[kOptions] = {
    {"wait", NP_CHOICE, "poll", 0, 0, NP_WAIT_CHOICES, "",
     "block sleeps in the kernel (futex), poll reads memory again and again, hybrid polls for spin_us and then "
     "sleeps",
     NP_TUNABLE_WAITING},
    kSpinOption,
    {"copy", NP_CHOICE, "auto", 0, 0, "auto|pipeline|cma", "",
     "messages above eager: auto copies once where the peer's memory can be mapped, else by cma from cma_min on, else "
     "through the ring; pipeline always through the ring; cma always by process_vm_readv",
     1},
    {"cooperate", NP_BOOL, "yes", 0, 0, nullptr, "",
     "both processes copy a large message at the same time, the receiver from its front and the waiting sender from "
     "its back",
     1},
    {"eager", NP_SIZE, "4k", 0, 256 << 10, nullptr, "bytes",
     "largest message that is copied into shared memory at once, without waiting for its receiver", 1},
    {"cma_min", NP_SIZE, "48k", 0, INT64_MAX, nullptr, "bytes",
     "copy=auto: smallest message that is worth the system call of process_vm_readv", 1, 0,
     "with copy=pipeline|cma: only copy=auto chooses"},
    {"chunk", NP_SIZE, "16k", 1024, 256 << 10, nullptr, "bytes", "parts of a message that goes through the ring", 1},
    {"ring", NP_SIZE, "256k", 16 << 10, 64 << 20, nullptr, "bytes",
     "payload in flight in one direction; rounded up to a power of two, at least four times eager and chunk", 1},
    {"slots", NP_INT, "256", 8, 65536, nullptr, "",
     "messages and parts in flight in one direction; rounded up to a power of two", 1},
    {"handover", NP_BOOL, "yes", 0, 0, nullptr, "",
     "a reply goes into the cache line that brought the message; no sends everything through the rings", 1},
    {"poll_gap", NP_INT, "30", 0, 1000000, nullptr, "ns",
     "pause between two polls, so that a poll does not take the cache line from a peer that is about to write it",
     NP_TUNABLE_WAITING},
    {"demote", NP_BOOL, "yes", 0, 0, nullptr, "",
     "lines of messages up to 4k are pushed towards the shared cache after writing (cldemote)", 1},
};

}  // namespace netpipe::shm
