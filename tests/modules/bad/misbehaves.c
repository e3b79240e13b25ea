/* SPDX-License-Identifier: Apache-2.0
 *
 * A correct layer that misbehaves before anybody has chosen it: a module for each FAULT, named as it
 * (tests/CMakeLists). netpipe looks at modules in a process apart, so that such a one is named and left out.
 */
#define _GNU_SOURCE /* pair.h */
#include <pthread.h>
#include <time.h>

#include "../pair.h"

enum fault {
  closes_output,
  crashes_asked,
  crashes_loading,
  exits_probe,
  prints_probe,
  spins_probe,
  crashes_later,
  leaves_children
};

#define TEXT_OF(word) #word
#define TEXT(word) TEXT_OF(word)

static void* crash_later(void* nothing) {
  const struct timespec pause = {0, 300000};
  nanosleep(&pause, NULL);
  abort();
  return nothing;
}

__attribute__((constructor)) static void loaded(void) {
  if (FAULT == crashes_loading) abort();
  pthread_t thread;
  if (FAULT == crashes_later) pthread_create(&thread, NULL, crash_later, NULL);
}

static np_status probe(char* message, size_t message_bytes) {
  switch (FAULT) {
    case closes_output: close(1); break;
    case exits_probe: exit(0);
    case prints_probe: printf("hello"); break; /* stays in the buffer, as output to a pipe does */
    case spins_probe:
      for (volatile unsigned i = 0;; ++i) {
      }
    case leaves_children: {
      const pid_t child = fork();
      if (child == 0) {
        for (;;) pause();
      }
      snprintf(message, message_bytes, "%d", (int)child);
      return NP_UNAVAILABLE;
    }
    default: break;
  }
  return NP_OK;
}

const np_module* netpipe_module(void) {
  if (FAULT == crashes_asked) abort();
  static np_module table;
  table = pair_module(TEXT(FAULT), "test: misbehaves before it is chosen", pair_send, pair_recv);
  table.probe = probe;
  return &table;
}
