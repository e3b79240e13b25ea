/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads a program that was made a library, as interpreters load extensions: its MPI library is there for it alone.
 */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char** argv) {
  void* const library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  int (*const run)(int, char**) = library != NULL ? (int (*)(int, char**))dlsym(library, "run") : NULL;
  if (run == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 4;
  }
  return run(argc - 1, argv + 1); /* the library stands for the name of the program */
}
