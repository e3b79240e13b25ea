/* SPDX-License-Identifier: Apache-2.0 */
/* Stands where libfabric.so.1 is looked for: its network locks memory that is registered with it, as adapters do, up to
 * 1 MiB of each piece, and refuses what RLIMIT_MEMLOCK does not allow. All else is done by libfabric itself, the file
 * LIBFABRIC. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <sys/resource.h>

static void* find(const char* name) {
  static void* library = NULL;
  if (library == NULL) library = dlopen(LIBFABRIC, RTLD_NOW | RTLD_LOCAL);
  return library == NULL ? NULL : dlsym(library, name);
}
#define REAL(name) ((__typeof__(&(name)))find(#name))

static struct fi_ops_mr memory, real_memory;
static struct fi_ops_fabric fabrics, real_fabrics;

static int register_locked(struct fid* domain, const void* base, size_t bytes, uint64_t access, uint64_t offset,
                           uint64_t key, uint64_t flags, struct fid_mr** made, void* context) {
  const size_t most = 1 << 20, locked = bytes < most ? bytes : most;
  struct rlimit limit;
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur < locked) return -FI_ENOMEM;
  return real_memory.reg(domain, base, bytes, access, offset, key, flags, made, context);
}

static int open_domain(struct fid_fabric* fabric, struct fi_info* info, struct fid_domain** domain, void* context) {
  const int code = real_fabrics.domain(fabric, info, domain, context);
  if (code != 0) return code;
  if ((*domain)->mr != &memory) {
    real_memory = *(*domain)->mr;
    memory = real_memory;
    memory.reg = register_locked;
    (*domain)->mr = &memory;
  }
  return 0;
}

int fi_fabric(struct fi_fabric_attr* attributes, struct fid_fabric** fabric, void* context) {
  const int code = REAL(fi_fabric)(attributes, fabric, context);
  if (code == 0 && (*fabric)->ops != &fabrics) {
    real_fabrics = *(*fabric)->ops;
    fabrics = real_fabrics;
    fabrics.domain = open_domain;
    (*fabric)->ops = &fabrics;
  }
  return code;
}

uint32_t fi_version(void) { return REAL(fi_version)(); }
int fi_getinfo(uint32_t version, const char* node, const char* service, uint64_t flags, const struct fi_info* hints,
               struct fi_info** info) {
  return REAL(fi_getinfo)(version, node, service, flags, hints, info);
}
void fi_freeinfo(struct fi_info* info) { REAL(fi_freeinfo)(info); }
struct fi_info* fi_dupinfo(const struct fi_info* info) { return REAL(fi_dupinfo)(info); }
const char* fi_strerror(int number) { return REAL(fi_strerror)(number); }
char* fi_tostr(const void* data, enum fi_type type) { return REAL(fi_tostr)(data, type); }
