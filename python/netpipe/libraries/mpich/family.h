/* SPDX-License-Identifier: Apache-2.0
 *
 * MPICH 4 and 5: control variables in the environment, over UCX or libfabric, whichever it was built with.
 */
#include "beneath.h"
#include "library/mpi_settings.h"

static const np_option mpich_options[] = {
    OPTION_TRANSPORT("auto|shm|tcp|ucx|ucx_shm|ucx_tcp|ofi|ofi_tcp",
                     "what carries messages: the library's choice, its own shared memory, TCP by whichever network "
                     "module is there, or UCX or libfabric, also between two ranks of one host"),
    OPTION_EAGER,
    OPTION_SNDBUF,
    OPTION_RCVBUF,
    OPTION_SINGLE_COPY,
    OPTION_YIELD,
    OPTIONS_END,
};

static int mpich_without_ofi(const struct library* l) { return (l->built_with & MPICH_OFI) == 0; }
static int mpich_before_5(const struct library* l) { return l->major < 5; }

#define MPICH_NO_SOCKET "there is no socket"
#define MPICH_LEFT_TO_THE_KERNEL "libfabric's tcp provider leaves it to the kernel"
static const struct refusal mpich_refusals[] = {
    {"transport", "ucx|ucx_shm|ucx_tcp", NULL, NULL, mpich_without_ucx,
     "it was built without UCX and would silently use libfabric"},
    {"transport", "ofi|ofi_tcp", NULL, NULL, mpich_without_ofi,
     "it was built without libfabric and would silently use UCX"},
    {"eager", NULL, "transport", "shm", mpich_before_5, "its shared memory cuts every message into cells"},
    {"sndbuf", NULL, "transport", "shm|ucx_shm", NULL, MPICH_NO_SOCKET},
    {"sndbuf", NULL, "transport", "tcp|ofi|ofi_tcp", mpich_with_ofi, MPICH_LEFT_TO_THE_KERNEL},
    {"rcvbuf", NULL, "transport", "shm|ucx_shm", NULL, MPICH_NO_SOCKET},
    {"rcvbuf", NULL, "transport", "tcp|ofi|ofi_tcp", mpich_with_ofi, MPICH_LEFT_TO_THE_KERNEL},
    {"single_copy", NULL, "transport", "tcp|ucx|ucx_tcp|ofi|ofi_tcp", NULL, "choose transport=shm or ucx_shm"},
    {.option = NULL},
};

static np_status mpich_set(struct settings* s) {
  const int automatic = is(s, "transport", "auto"), shm = is(s, "transport", "shm"), tcp = is(s, "transport", "tcp");
  const int has_ucx = !mpich_without_ucx(s->library), has_ofi = mpich_with_ofi(s->library);
  const int ofi = is(s, "transport", "ofi|ofi_tcp") || (tcp && has_ofi);
  const int ucx = is(s, "transport", "ucx|ucx_shm|ucx_tcp") || (tcp && !has_ofi);
  const long long eager = number_of(s, "eager");
  if (shm || tcp) {
    mpich_carry(s->library, shm ? FOUND_SHM : FOUND_TCP, put_known, s);
  } else if (ucx || ofi) {
    mpich_leave_memory(s->library, ucx, is(s, "transport", "ucx_tcp|ofi_tcp"), put_known, s);
    if (is(s, "transport", "ucx_shm")) set_ucx_shm(s);
  }
  if (eager > 0) {
    /* In shared memory: the largest message that goes through cells instead of one copy by the kernel. */
    if (shm || (automatic && s->library->major >= 5)) {
      put_checked(s, "", CVAR "CH4_IPC_CMA_P2P_THRESHOLD", "%lld", eager + 1);
    }
    if (ofi || (automatic && has_ofi)) {
      /* 5 gave it the better name, and the meaning that it had in 4 only by its name. */
      put_checked(s, "", s->library->major >= 5 ? CVAR "CH4_OFI_EAGER_THRESHOLD" : CVAR "CH4_OFI_EAGER_MAX_MSG_SIZE",
                  "%lld", eager);
      put(s, "FI_OFI_RXM_BUFFER_SIZE", "%lld", eager);
    }
  }
  if (ucx || (automatic && has_ucx)) set_ucx(s);
  if ((shm || automatic) && !is(s, "single_copy", "auto")) {
    put_checked(s, "", CVAR "CH4_CMA_ENABLE", "%d", is(s, "single_copy", "cma"));
  }
  if (yielding(s) >= 0) mpich_yield(s->library, yielding(s), put_known, s);
  return NP_OK;
}

static const struct family mpich_family = {
    .identify = mpich_identify,
    .options = mpich_options,
    .refusals = mpich_refusals,
    .set = mpich_set,
    .through = mpich_through,
};
