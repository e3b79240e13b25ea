// SPDX-License-Identifier: Apache-2.0
// Small messages through shared memory: what two processes run for each of them, without a system call.
//
// What a message costs here is the number of times that a cache line travels between two cores. Reading a line that
// another core has written takes one trip, and on today's processors it also takes the ownership along ("migratory"
// reads): the reader may then write the line for nothing. Writing a line that the other side has looked at in the
// meantime takes a trip as well. Hence two ways for a message, both described by an Entry word:
//
//   The hand-over cell. One line, used in both directions, that only its holder may write. Writing a message into it
//   hands it over; who has taken the message out of it is the holder. An answer therefore goes into the line that
//   brought the question, and costs one trip: as a bare flag bounce does.
//   The rings, one per direction. What is sent while the hand-over cell is away, and every part of a long message.
//   Cells are written in turn; each costs two trips, and many are on their way at once.
//
// Entries of a direction are numbered, and their number stands in the word, so both ways together are one ordered
// stream: the receiver looks at the hand-over cell and at the next ring cell for the one number that is due.
//
// Looking costs too: a look that comes too early takes the line away from a peer that is about to write it
// (shm_pace.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

namespace netpipe::shm {

inline constexpr std::size_t kLineBytes = 64;
inline constexpr std::size_t kApart = 128;  // processors fetch lines in pairs: what must not collide is this far apart
inline constexpr std::size_t kPageBytes = 4096;
inline constexpr std::size_t kInlineBytes = 56;  // payload beside the word, in the same line

// word = number of the entry | sender (1 bit) | info. A number comes round after 2^43 entries of one direction, when
// no cell can hold the previous one any more.
inline constexpr unsigned kInfoBits = 20;
inline constexpr std::uint64_t kInfoMask = (std::uint64_t{1} << kInfoBits) - 1;
inline constexpr std::uint64_t kNextEntry = std::uint64_t{1} << (kInfoBits + 1);
// info: the size of an entry, or what else it is; those carry a descriptor in the line itself.
inline constexpr std::uint64_t kLargestEntryBytes = 0xF0000;
inline constexpr std::uint64_t kOffer = 0xFFFFF;  // a message that stays where it is until the receiver has it copied
inline constexpr std::uint64_t kLong = 0xFFFFE;   // a message whose parts follow in the ring

struct alignas(kLineBytes) Cell {
  std::atomic<std::uint64_t> word;
  unsigned char data[kInlineBytes];
};
static_assert(sizeof(Cell) == kLineBytes && std::atomic<std::uint64_t>::is_always_lock_free);

// cldemote: moves a line that the peer will read next towards the cache that both share. A hint, encoded in the space
// of no-operations, so that a processor without it does nothing (Intel SDM, CLDEMOTE).
inline void demote([[maybe_unused]] const void* line) {
#if defined(__x86_64__)
  asm volatile(".byte 0x0f, 0x1c, 0x00" ::"a"(line) : "memory");
#endif
}

// At most kInlineBytes, in constant-size moves that overlap: a call of memcpy would cost more than the copy.
inline void copy_inline(unsigned char* to, const unsigned char* from, std::size_t bytes) {
  if (bytes > 32) {
    std::memcpy(to, from, 32);
    unsigned char tail[32];
    std::memcpy(tail, from + bytes - 32, 32);
    std::memcpy(to + bytes - 32, tail, 32);
  } else if (bytes >= 16) {
    std::memcpy(to, from, 16);
    std::memcpy(to + bytes - 16, from + bytes - 16, 16);
  } else if (bytes >= 8) {
    std::memcpy(to, from, 8);
    std::memcpy(to + bytes - 8, from + bytes - 8, 8);
  } else if (bytes >= 4) {
    std::memcpy(to, from, 4);
    std::memcpy(to + bytes - 4, from + bytes - 4, 4);
  } else if (bytes != 0) {
    to[0] = from[0];
    to[bytes / 2] = from[bytes / 2];
    to[bytes - 1] = from[bytes - 1];
  }
}

constexpr std::size_t round_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

// The sizes of the shared structures; the same on both sides.
struct Shape {
  std::size_t slots = 256;               // cells of a ring, a power of two
  std::size_t ring_bytes = 512 << 10;    // payload of a ring, a power of two, at least four of the largest entries
  std::size_t handover_bytes = 8 << 10;  // the largest message that is handed over
};

class Cells {
 public:
  // Payloads up to this size are demoted after writing. Beyond, the copy out overlaps with the copy in anyway.
  static constexpr std::size_t kDemoteBytes = 4096;

  static std::size_t bytes(const Shape& shape) {
    return round_up(3 * kApart + 2 * shape.slots * sizeof(Cell), kPageBytes) +
           round_up(shape.handover_bytes, kPageBytes) + 2 * shape.ring_bytes;
  }

  // memory: bytes(shape) zeroed bytes that both processes see, aligned to a page; rank: 0 or 1.
  void bind(void* memory, const Shape& shape, unsigned rank, bool handover, bool demoting) {
    auto* at = static_cast<unsigned char*>(memory);
    handover_ = reinterpret_cast<Cell*>(at);
    Taken* taken = reinterpret_cast<Taken*>(at + kApart);
    taken_here_ = &taken[rank];
    taken_there_ = &taken[1 - rank];
    Cell* rings = reinterpret_cast<Cell*>(at + 3 * kApart);
    at += round_up(3 * kApart + 2 * shape.slots * sizeof(Cell), kPageBytes);
    handover_data_ = at;
    at += round_up(shape.handover_bytes, kPageBytes);
    out_cells_ = rings + rank * shape.slots;
    in_cells_ = rings + (1 - rank) * shape.slots;
    out_data_ = at + rank * shape.ring_bytes;
    in_data_ = at + (1 - rank) * shape.ring_bytes;
    slots_ = shape.slots;
    ring_bytes_ = shape.ring_bytes;
    handover_bytes_ = handover ? shape.handover_bytes : 0;
    holding_ = handover && rank == 0;
    demoting_ = demoting;
    out_word_ = kNextEntry | std::uint64_t{rank} << kInfoBits;
    in_word_ = kNextEntry | std::uint64_t{1 - rank} << kInfoBits;
  }

  // The shortest way there is: a message that fits beside the word, into the hand-over cell. False: not at present.
  [[gnu::always_inline]] inline bool hand_over(const void* data, std::size_t bytes) {
    if (!holding_) return false;
    copy_inline(handover_->data, static_cast<const unsigned char*>(data), bytes);
    holding_ = false;
    handover_->word.store(out_word_ | bytes, std::memory_order_release);
    out_word_ += kNextEntry;
    return true;
  }
  // Looks for such a message and takes it. other: what is due has come another way, or is something else.
  enum class Seen { nothing, taken, other };
  [[gnu::always_inline]] inline Seen take_handed(void* data, std::size_t bytes) {
    const std::uint64_t handed = handover_->word.load(std::memory_order_acquire) ^ in_word_;
    if (handed == bytes) {
      copy_inline(static_cast<unsigned char*>(data), handover_->data, bytes);
      in_word_ += kNextEntry;
      holding_ = true;
      return Seen::taken;
    }
    const Cell* next = &in_cells_[in_count_ & (slots_ - 1)];
    const std::uint64_t queued = next->word.load(std::memory_order_acquire) ^ in_word_;
    return handed <= kInfoMask || queued <= kInfoMask ? Seen::other : Seen::nothing;
  }

  // Writes one entry and publishes it; false when there is no room, and then nothing has happened.
  [[gnu::always_inline]] inline bool put(const void* data, std::size_t bytes, std::uint64_t info) {
    Cell* cell = handover_;
    unsigned char* payload = handover_data_;
    if (holding_ && bytes <= handover_bytes_) {
      holding_ = false;
    } else {
      const std::uint64_t begin = place(out_bytes_, bytes);
      const std::uint64_t end = begin + held(bytes);
      if (out_count_ == room_count_ || end > room_bytes_) {
        if (!find_room(end)) return false;
      }
      cell = &out_cells_[out_count_ & (slots_ - 1)];
      payload = out_data_ + (begin & (ring_bytes_ - 1));
      ++out_count_;
      out_bytes_ = end;
    }
    if (bytes <= kInlineBytes) {
      copy_inline(cell->data, static_cast<const unsigned char*>(data), bytes);
    } else {
      std::memcpy(payload, data, bytes);
      if (demoting_ && bytes <= kDemoteBytes) {
        for (std::size_t i = 0; i < bytes; i += kLineBytes) demote(payload + i);
      }
    }
    cell->word.store(out_word_ | info, std::memory_order_release);
    out_word_ += kNextEntry;
    return true;
  }

  // An entry that has come. Its info is kept: the line may be on its way back to a peer that looks at it.
  struct Found {
    const Cell* cell;  // nullptr: it has not come
    std::uint64_t info;
  };

  // The entry that is due.
  [[gnu::always_inline]] inline Found look() const {
    const Cell* next = &in_cells_[in_count_ & (slots_ - 1)];
    const std::uint64_t handed = handover_->word.load(std::memory_order_acquire) ^ in_word_;
    if (handed <= kInfoMask) return {handover_, handed};
    const std::uint64_t queued = next->word.load(std::memory_order_acquire) ^ in_word_;
    if (queued <= kInfoMask) return {next, queued};
    return {nullptr, 0};
  }

  // Takes the entry that look() found: copies its payload, frees its cell. True when that made room for the sender
  // and was published, which is done once for a quarter of the ring.
  [[gnu::always_inline]] inline bool take(const Cell* cell, void* data, std::size_t bytes) {
    const bool handed = cell == handover_;
    if (bytes <= kInlineBytes) {
      copy_inline(static_cast<unsigned char*>(data), cell->data, bytes);
    } else {
      const unsigned char* payload = handed ? handover_data_ : in_data_ + (place(in_bytes_, bytes) & (ring_bytes_ - 1));
      std::memcpy(data, payload, bytes);
    }
    in_word_ += kNextEntry;
    if (handed) {
      holding_ = true;
      return false;
    }
    ++in_count_;
    in_bytes_ = place(in_bytes_, bytes) + held(bytes);
    if (in_count_ - told_count_ < slots_ / 4 && in_bytes_ - told_bytes_ < ring_bytes_ / 4) return false;
    tell();
    return true;
  }

  [[nodiscard]] std::uint64_t entries_out() const { return (out_word_ >> (kInfoBits + 1)) - 1; }
  [[nodiscard]] std::uint64_t ring_entries_out() const { return out_count_; }

 private:
  struct alignas(kApart) Taken {  // how far the receiver has come, written by it
    std::atomic<std::uint64_t> count;
    std::atomic<std::uint64_t> bytes;
  };

  // Bytes of the ring that a payload takes; what lies in the cell itself takes none.
  static std::uint64_t held(std::size_t bytes) { return bytes <= kInlineBytes ? 0 : round_up(bytes, kLineBytes); }

  // Where a payload begins when the ring is used up to `cursor`: it is never torn at the end of the ring.
  [[nodiscard]] std::uint64_t place(std::uint64_t cursor, std::size_t bytes) const {
    const std::uint64_t left = ring_bytes_ - (cursor & (ring_bytes_ - 1));
    return held(bytes) <= left ? cursor : cursor + left;
  }

  [[gnu::noinline]] bool find_room(std::uint64_t end) {
    room_count_ = taken_there_->count.load(std::memory_order_acquire) + slots_;
    room_bytes_ = taken_there_->bytes.load(std::memory_order_acquire) + ring_bytes_;
    return out_count_ != room_count_ && end <= room_bytes_;
  }

  [[gnu::noinline]] void tell() {
    told_count_ = in_count_;
    told_bytes_ = in_bytes_;
    taken_here_->count.store(in_count_, std::memory_order_release);
    taken_here_->bytes.store(in_bytes_, std::memory_order_release);
  }

  // What every message needs comes first.
  std::uint64_t out_word_ = 0, in_word_ = 0;  // of the next entry, with an info of 0
  Cell* handover_ = nullptr;
  Cell *out_cells_ = nullptr, *in_cells_ = nullptr;
  std::uint64_t slots_ = 1;
  std::uint64_t in_count_ = 0, out_count_ = 0;  // ring cells so far
  std::size_t handover_bytes_ = 0;
  bool holding_ = false;
  bool demoting_ = false;
  unsigned char *handover_data_ = nullptr, *out_data_ = nullptr, *in_data_ = nullptr;
  std::uint64_t ring_bytes_ = kLineBytes;
  std::uint64_t out_bytes_ = 0, in_bytes_ = 0;     // ring payload so far, gaps at its end included
  std::uint64_t room_count_ = 0, room_bytes_ = 0;  // how far the sender may go, as last seen
  std::uint64_t told_count_ = 0, told_bytes_ = 0;  // how far the receiver has come, as last told
  Taken *taken_here_ = nullptr, *taken_there_ = nullptr;
};

}  // namespace netpipe::shm
