/* SPDX-License-Identifier: Apache-2.0
 *
 * MPICH 4 and 5: control variables in the environment, over UCX or libfabric, whichever it was built with.
 */
#include "library/mpi_beneath.h"

#define CVAR "MPIR_CVAR_"
enum { MPICH_UCX = 1, MPICH_OFI = 2, MPICH_CH4 = 4 }; /* built_with */

static int mpich_identify(struct library* l, const char* text) {
  if (!version_behind(l, text, "MPICH Version:", "MPICH")) return 0;
  /* "MPICH Device: ch4:ucx,ofi" */
  const char* const device = strstr(text, "MPICH Device:");
  char words[128] = "";
  if (device != NULL) snprintf(words, sizeof words, "%.*s", (int)strcspn(device, "\n"), device);
  if (strstr(words, "ch4:") != NULL) l->built_with |= MPICH_CH4;
  if (strstr(words, "ucx") != NULL) l->built_with |= MPICH_UCX;
  if (strstr(words, "ofi") != NULL) l->built_with |= MPICH_OFI;
  /* Found by verification in 4.0.2; 5.0.2 is right. */
  if (strncmp(l->version, "MPICH 4.0", 9) == 0) l->quirks |= STALE_PERSISTENT_COLLECTIVES;
  return 1;
}

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

static int mpich_without_ucx(const struct library* l) { return (l->built_with & MPICH_UCX) == 0; }
static int mpich_without_ofi(const struct library* l) { return (l->built_with & MPICH_OFI) == 0; }
static int mpich_with_ofi(const struct library* l) { return (l->built_with & MPICH_OFI) != 0; }
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
  if (shm) put_checked(s, "", CVAR "NOLOCAL", "0");
  if (ucx || ofi) {
    put_checked(s, "", CVAR "NOLOCAL", "1"); /* or ranks of one host use its own shared memory */
    /* MPI_T reports this one as empty whatever it is, so it cannot be checked. */
    if (has_ucx && has_ofi) put(s, CVAR "CH4_NETMOD", "%s", ucx ? "ucx" : "ofi");
    if (ucx && (tcp || is(s, "transport", "ucx_tcp"))) put(s, "UCX_TLS", "tcp,self");
    if (is(s, "transport", "ucx_shm")) set_ucx_shm(s);
    if (ofi && (tcp || is(s, "transport", "ofi_tcp"))) put(s, "FI_PROVIDER", "tcp");
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
  /* Polls before it yields: by default a thousand. 0 is never. */
  if (yielding(s) >= 0) put_checked(s, "", CVAR "POLLS_BEFORE_YIELD", "%d", yielding(s));
  return NP_OK;
}

/* Device ch4 has its own shared memory and one network module, for messages and windows alike. */
static int mpich_through(const struct library* l, int transport, int windows) {
  const int has_ucx = !mpich_without_ucx(l), has_ofi = mpich_with_ofi(l);
  (void)windows;
  if ((l->built_with & MPICH_CH4) == 0 || (!has_ucx && !has_ofi)) return THROUGH_ITS_OWN;
  /* On one host its own shared memory comes first, unless it was told that ranks share no host. */
  if (transport == FOUND_SHM && !variable_is(CVAR "NOLOCAL", "1")) return THROUGH_ITS_OWN;
  if (!has_ofi) return THROUGH_UCX;
  if (!has_ucx) return THROUGH_LIBFABRIC;
  /* With both, MPI_T does not tell which is in use. The one for UCX makes a context in MPI_Init. So does libfabric's
   * provider for UCX, which needs InfiniBand; there it is not certain. */
  const int contexts = transport == FOUND_SHM || transport == FOUND_TCP ? ucp_contexts() : -1;
  return contexts < 0 ? THROUGH_ITS_OWN : contexts > 0 ? THROUGH_UCX : THROUGH_LIBFABRIC;
}

static const struct family mpich_family = {
    .identify = mpich_identify,
    .options = mpich_options,
    .refusals = mpich_refusals,
    .set = mpich_set,
    .through = mpich_through,
};
