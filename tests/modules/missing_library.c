/* SPDX-License-Identifier: Apache-2.0
 *
 * Needs a shared library that is not there when it is loaded: refused with the loader's sentence, exit code 3. This
 * file is both, the library and the module; a test builds the two and removes the library:
 *
 *     cc -shared -fPIC -DABSENT_LIBRARY -o libnpabsent.so missing_library.c
 *     cc -shared -fPIC -I include -o missing_library.so missing_library.c -L. -Wl,--no-as-needed -lnpabsent
 *     rm libnpabsent.so
 *
 * Built alone, without -lnpabsent, it is a module with an undefined symbol, which is refused in the same way.
 */
int np_absent(void);

#ifdef ABSENT_LIBRARY
int np_absent(void) { return 1; }
#else
#include "pair.h"

static np_status probe(char* message, size_t message_bytes) {
  (void)message, (void)message_bytes;
  return np_absent() != 0 ? NP_OK : NP_UNAVAILABLE;
}

const np_module* netpipe_module(void) {
  static np_module table;
  table = pair_module("missing_library", "test: binds a library that is not there", pair_send, pair_recv);
  table.probe = probe;
  return &table;
}
#endif
