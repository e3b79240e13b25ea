/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls from Fortran. MPI's Fortran library converts the arguments and calls the C function: MPICH's calls MPI_Send,
 * which is ours by then, but PMPI_Barrier for mpi_f08; Open MPI's calls PMPI_ always. So wherever that library refers
 * to PMPI_X and we have an MPI_X, its reference is pointed at ours before the program begins. Handles, MPI_BOTTOM and
 * the like, logicals and descriptors are converted by who knows how, and a call that we do not have goes its own way.
 */
#define _GNU_SOURCE /* dl_iterate_phdr, dladdr */
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include "record.h"

/* Parts of the names of the libraries: Open MPI's, MPICH's and Intel's. */
static const char* const layers[] = {"/libmpi_mpifh", "/libmpi_usempi", "/libmpichf", "/libmpifort"};

/* Our function of this name, or NULL where there is none, or another tool's comes before it. */
COLD static void* ours(const char* name) {
  Dl_info at, here;
  void* const found = dlsym(RTLD_DEFAULT, name);
  if (found == NULL || !dladdr(found, &at) || !dladdr(&profiler, &here)) return NULL;
  return at.dli_fbase == here.dli_fbase ? found : NULL;
}

/* Writes a reference, which may lie in pages that are read-only since the program was loaded. */
COLD static void point(const struct dl_phdr_info* library, ElfW(Addr) at, void* target) {
  void** const slot = (void**)(library->dlpi_addr + at);
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)slot / page * page;
  int sealed = 0;
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    const ElfW(Phdr)* const segment = &library->dlpi_phdr[i];
    if (segment->p_type == PT_GNU_RELRO && at >= segment->p_vaddr && at < segment->p_vaddr + segment->p_memsz)
      sealed = 1;
  }
  if (sealed && mprotect((void*)start, page, PROT_READ | PROT_WRITE) != 0) return;
  *slot = target;
  if (sealed) mprotect((void*)start, page, PROT_READ);
}

COLD static void point_all(const struct dl_phdr_info* library, const ElfW(Rela) * table, size_t bytes,
                           const ElfW(Sym) * symbols, const char* names) {
  for (size_t i = 0; table != NULL && i < bytes / sizeof *table; ++i) {
    const char* const name = names + symbols[ELF64_R_SYM(table[i].r_info)].st_name;
    if (strncmp(name, "PMPI_", 5) != 0 || table[i].r_addend != 0) continue;
    void* const target = ours(name + 1);
    if (target != NULL) point(library, table[i].r_offset, target);
  }
}

COLD static int attach(struct dl_phdr_info* library, size_t size, void* unused) {
  int is_layer = 0;
  (void)size;
  (void)unused;
  for (size_t i = 0; i < sizeof layers / sizeof *layers; ++i)
    is_layer |= library->dlpi_name != NULL && strstr(library->dlpi_name, layers[i]) != NULL;
  if (!is_layer) return 0;
  const ElfW(Sym)* symbols = NULL;
  const ElfW(Rela)* plain = NULL, *lazy = NULL;
  const char* names = NULL;
  size_t plain_bytes = 0, lazy_bytes = 0;
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    if (library->dlpi_phdr[i].p_type != PT_DYNAMIC) continue;
    const ElfW(Dyn)* entry = (const ElfW(Dyn)*)(library->dlpi_addr + library->dlpi_phdr[i].p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry) {
      /* glibc has added the library's address to these, other loaders have not. */
      const ElfW(Addr) value = entry->d_un.d_ptr, at = value < library->dlpi_addr ? value + library->dlpi_addr : value;
      switch (entry->d_tag) {
        case DT_SYMTAB: symbols = (const void*)at; break;
        case DT_STRTAB: names = (const void*)at; break;
        case DT_RELA: plain = (const void*)at; break;
        case DT_RELASZ: plain_bytes = value; break;
        case DT_JMPREL: lazy = (const void*)at; break;
        case DT_PLTRELSZ: lazy_bytes = value; break;
        default: break;
      }
    }
  }
  if (symbols == NULL || names == NULL) return 0;
  point_all(library, plain, plain_bytes, symbols, names);
  point_all(library, lazy, lazy_bytes, symbols, names);
  return 0;
}

COLD void profiler_attach_fortran(void) { dl_iterate_phdr(attach, NULL); }
