# SPDX-License-Identifier: Apache-2.0
"""cma beside the system call that it stands on, in a loop by hand, and beside a copy within a process."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from measured import MissingError, Result
from slices import MEASURE_S, SAID, Program, Start, at_most, compared, from_numbers, netpipe

# Reads or writes the memory of its child again and again: a line for each few calls, the ns of one.
BY_HAND = r"""
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
static long long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}
static void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}
static char* memory(size_t bytes) {
  return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
int main(int argc, char** argv) {
  const int writes = argc > 1 && argv[1][0] == 'w';
  const size_t bytes = strtoull(argv[2], NULL, 10);
  FILE* out = fopen(argv[3], "w");
  const long long until = now() + atoll(argv[4]) * 1000000000LL;
  char* far = memory(bytes);
  int ready[2];
  char byte = 0;
  if (out == NULL || pipe(ready) != 0) return 1;
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin(1);
    memset(far, 2, bytes);
    if (write(ready[1], &byte, 1) != 1) _exit(1);
    for (;;) pause();
  }
  pin(0);
  char* near = memory(bytes);
  memset(near, 1, bytes);
  if (read(ready[0], &byte, 1) != 1) return 1;
  const int calls = bytes < 65536 ? 16 : 1;
  for (long long begin = now(), end; begin < until; begin = end) {
    for (int i = 0; i < calls; ++i) {
      struct iovec local = {near, bytes}, remote = {far, bytes};
      const ssize_t moved = writes ? process_vm_writev(child, &local, 1, &remote, 1, 0)
                                   : process_vm_readv(child, &local, 1, &remote, 1, 0);
      if (moved != (ssize_t)bytes) return 1;
    }
    end = now();
    fprintf(out, "%.1f\n", (double)(end - begin) / calls);
    fflush(out);
    end = now();
  }
  return 0;
}
"""


def by_hand(program: Path, way: str, size: int) -> Start:
    def start(output: Path) -> Program:
        return Program([str(program), way, str(size), str(output), str(MEASURE_S)], output, from_numbers)

    return start


def cma_call(rounds: int) -> list[Result]:
    """A get or put of netpipe is one system call, a call through its table and a flush that does nothing."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise MissingError("cc is not installed")
    results = []
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "by_hand.c", Path(folder) / "by_hand"
        source.write_text(BY_HAND)
        subprocess.run([compiler, "-O2", "-o", program, source], check=True, timeout=60)
        for size, text in ((8, "8 B"), (4096, "4 KiB"), (64 << 10, "64 KiB"), (1 << 20, "1 MiB")):
            for pattern, way in (("get", "read"), ("put", "write")):
                ours, peer = netpipe("cma", size, pattern), by_hand(program, way, size)
                what = f"{text}: cma {pattern} / process_vm_{way}v in a loop"
                results.append(compared("cma-call", what, min(rounds, 6), ours, peer, at_most(1.02)))
    return results


def cma_copy(rounds: int) -> list[Result]:
    """What the kernel adds to a copy: for each page it looks up whom it belongs to."""
    results = []
    for size, text in ((4096, "4 KiB"), (64 << 10, "64 KiB"), (1 << 20, "1 MiB")):
        ours, peer = netpipe("cma", size, "get"), netpipe("memcpy", size, "get")
        what = f"{text}: cma get / memcpy within a process"
        results.append(compared("cma-copy", what, min(rounds, 6), ours, peer, SAID))
    return results


COMPARISONS = {"cma-call": cma_call, "cma-copy": cma_copy}
