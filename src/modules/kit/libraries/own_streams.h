/* SPDX-License-Identifier: Apache-2.0
 *
 * stderr and stdout for a library that was compiled for programs and is linked into a module
 * (python/netpipe/libraries/adding/archives.py): it reads them where they must lie in the same file. These are this
 * module's own, so what the library prints goes where the module says: nowhere. Included by one source of a module, and
 * not in one that includes stdio.h's streams for itself.
 */
#ifndef NETPIPE_KIT_OWN_STREAMS_H
#define NETPIPE_KIT_OWN_STREAMS_H

#include <stdio.h>

/* The names of the C library's variables, for the linker. */
extern FILE* np_stderr __asm__("stderr") __attribute__((visibility("hidden")));
extern FILE* np_stdout __asm__("stdout") __attribute__((visibility("hidden")));
FILE* np_stderr;
FILE* np_stdout;

__attribute__((constructor)) static void own_streams(void) {
  np_stderr = fopen("/dev/null", "we");
  np_stdout = np_stderr;
}

#endif
