/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into the processes of a run: as soon as the file that SUSPENDED names is there, this machine was suspended
 * for 37 s, as far as its clocks tell. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec* now) {
  const int answer = (int)syscall(SYS_clock_gettime, clock, now);
  const char* const file = clock == CLOCK_BOOTTIME ? getenv("SUSPENDED") : NULL;
  if (answer == 0 && file != NULL && access(file, F_OK) == 0) now->tv_sec += 37;
  return answer;
}
