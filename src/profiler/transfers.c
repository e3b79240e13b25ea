/* SPDX-License-Identifier: Apache-2.0
 *
 * The transfers that were started and not completed yet, by their handles. There is a bound, because a program may
 * leave very many open, or never complete them: what is started beyond it is counted as a call, but not followed, so
 * its wait is one of nothing. `untracked_transfers` says how often.
 */
#include <stdlib.h>

#include "record.h"

enum { MOST_SLOTS = 1 << 14, MOST_MORE = 1 << 14 }; /* 1 MiB each */

static struct transfer first_slots[256];

COLD void profiler_prepare_transfers(void) {
  profiler.transfers = first_slots;
  profiler.transfer_mask = sizeof first_slots / sizeof *first_slots - 1;
}

COLD static void grow(void) {
  const uint64_t slots = profiler.transfer_mask + 1, mask = 2 * slots - 1;
  if (slots >= MOST_SLOTS) return;
  struct transfer* const table = calloc(2 * slots, sizeof *table);
  if (table == NULL) return;
  for (uint64_t i = 0; i < slots; ++i) {
    if (profiler.transfers[i].handle == 0) continue;
    uint64_t at = mixed(profiler.transfers[i].handle) & mask;
    while (table[at].handle != 0) at = (at + 1) & mask;
    table[at] = profiler.transfers[i];
  }
  if (profiler.transfers != first_slots) free(profiler.transfers);
  profiler.transfers = table;
  profiler.transfer_mask = mask;
}

/* Room for transfers that share a handle. */
COLD static void grow_more(void) {
  const uint32_t from = profiler.more_slots == 0 ? 1 : profiler.more_slots, slots = 2 * (from + 63);
  if (slots > MOST_MORE) return;
  struct transfer* const more = realloc(profiler.more, slots * sizeof *more);
  if (more == NULL) return;
  for (uint32_t i = from; i < slots; ++i) more[i].next = i + 1 < slots ? i + 1 : 0;
  profiler.more = more;
  profiler.more_slots = slots;
  profiler.more_free = from;
}

COLD static void not_followed(void) { profiler.part->untracked_transfers++; }

void profiler_add_transfer(const struct transfer* transfer) {
  if (UNLIKELY(2 * profiler.transfer_count >= profiler.transfer_mask)) grow();
  const uint64_t mask = profiler.transfer_mask;
  uint64_t at = mixed(transfer->handle) & mask;
  while (profiler.transfers[at].handle != 0 && profiler.transfers[at].handle != transfer->handle) at = (at + 1) & mask;
  struct transfer* const oldest = &profiler.transfers[at];
  if (LIKELY(oldest->handle == 0)) {
    if (UNLIKELY(profiler.transfer_count >= mask / 4 * 3)) return not_followed(); /* a fuller one would be slow */
    *oldest = *transfer;
    oldest->next = oldest->last = 0;
    profiler.transfer_count++;
    return;
  }
  if (UNLIKELY(profiler.more_free == 0)) grow_more();
  const uint32_t place = profiler.more_free;
  if (UNLIKELY(place == 0)) return not_followed();
  profiler.more_free = profiler.more[place].next;
  profiler.more[place] = *transfer;
  profiler.more[place].next = 0;
  *(oldest->last != 0 ? &profiler.more[oldest->last].next : &oldest->next) = place;
  oldest->last = place;
}

void profiler_drop_transfer(struct transfer* transfer) {
  if (transfer->next != 0) {
    const uint32_t place = transfer->next, last = transfer->last;
    *transfer = profiler.more[place];
    transfer->last = transfer->next != 0 ? last : 0;
    profiler.more[place].next = profiler.more_free;
    profiler.more_free = place;
    return;
  }
  /* Closes the gap, so that those behind it are still found. */
  const uint64_t mask = profiler.transfer_mask;
  uint64_t gap = (uint64_t)(transfer - profiler.transfers);
  for (uint64_t at = (gap + 1) & mask; profiler.transfers[at].handle != 0; at = (at + 1) & mask) {
    const uint64_t home = mixed(profiler.transfers[at].handle) & mask;
    if (((at - home) & mask) >= ((at - gap) & mask)) {
      profiler.transfers[gap] = profiler.transfers[at];
      gap = at;
    }
  }
  profiler.transfers[gap].handle = 0;
  profiler.transfer_count--;
}
