/* SPDX-License-Identifier: Apache-2.0
 *
 * LAM/MPI 7.1: SSI parameters in the environment. An MPI-2 without MPI_Get_library_version: its header says its
 * version.
 */
#include "library/mpi_settings.h"

#define SSI "LAM_MPI_SSI_"

static int lam_identify(struct library* l, const char* text) {
  (void)text;
  snprintf(l->version, sizeof l->version, "LAM/MPI %d.%d.%d", LAM_MAJOR_VERSION, LAM_MINOR_VERSION,
           LAM_RELEASE_VERSION);
  return 1;
}

static const np_option lam_options[] = {
    OPTION_TRANSPORT("auto|shm|tcp",
                     "what carries messages: the library's choice, shared memory (rpi usysv) or TCP (rpi tcp)"),
    {.name = "rpi",
     .type = NP_CHOICE,
     .default_value = "auto",
     .choices = "auto|tcp|usysv|sysv|lamd",
     .unit = "",
     .help = "request progression interface: TCP, shared memory with spin locks, shared memory with semaphores, or "
             "through the daemons",
     .tunable = 1},
    OPTION_EAGER,
    OPTION_BYTES("sndbuf", "SO_SNDBUF and SO_RCVBUF of the library's sockets"),
    OPTIONS_END,
};

#define ONLY_TCP_HAS_SOCKETS "only rpi tcp has sockets"
static const struct refusal lam_refusals[] = {
    {"thread", "multiple", NULL, NULL, NULL, "one thread at a time may be in it: choose thread=serialized"},
    {"transport", "shm|tcp", "rpi", "tcp|usysv|sysv|lamd", NULL, "both say the same, so give only one of them"},
    {"eager", NULL, "rpi", "lamd", NULL, "the daemons take every message in parts"},
    {"sndbuf", NULL, "rpi", "usysv|sysv|lamd", NULL, ONLY_TCP_HAS_SOCKETS},
    {"sndbuf", NULL, "transport", "shm", NULL, ONLY_TCP_HAS_SOCKETS},
    {.option = NULL},
};

static np_status lam_set(struct settings* s) {
  const char* rpi = is(s, "transport", "shm") ? "usysv" : is(s, "transport", "tcp") ? "tcp" : "";
  const long long eager = number_of(s, "eager"), sndbuf = number_of(s, "sndbuf");
  if (!is(s, "rpi", "auto")) rpi = text_of(s, "rpi");
  const int any = *rpi == '\0', usysv = strcmp(rpi, "usysv") == 0;
  /* Its places for them have no more, and what lies behind one is lost: seen from 8225 bytes on. */
  const long long most = 8192;
  if (usysv && eager > most) {
    return fail(
        s->context, NP_USAGE,
        "%s cannot take eager=%lld with rpi=usysv, which is also transport=shm: there it delivers wrong bytes of "
        "eager messages above %lld; choose eager=%lld, rpi=sysv or rpi=tcp",
        s->library->version, eager, most, most);
  }
  if (!any) put(s, SSI "rpi", "%s", rpi);
  if (eager > 0 && (any || strcmp(rpi, "tcp") == 0)) put(s, SSI "rpi_tcp_short", "%lld", eager);
  if (eager > 0 && (any || usysv)) put(s, SSI "rpi_usysv_short", "%lld", eager);
  if (eager > 0 && (any || strcmp(rpi, "sysv") == 0)) put(s, SSI "rpi_sysv_short", "%lld", eager);
  if (sndbuf > 0) put(s, SSI "rpi_tcp_sockbuf", "%lld", sndbuf);
  return NP_OK;
}

static const char* lam_asked_for(const struct settings* s) {
  return text_of(s, is(s, "rpi", "auto") ? "transport" : "rpi");
}

static int lam_carrier(const char* mappings) { return strstr(mappings, "SYSV") == NULL ? FOUND_DAEMON : FOUND_SHM; }

static uint64_t lam_eager_bytes(const struct settings* s, int transport) {
  const int64_t eager = number_of(s, "eager");
  return eager > 0 ? (uint64_t)eager : transport == FOUND_TCP ? 65536 : 8192;
}

static const struct family lam_family = {
    .identify = lam_identify,
    .options = lam_options,
    .refusals = lam_refusals,
    .set = lam_set,
    .quirks = PRIVATE_NAMES | FREES_WINDOW_ERROR_HANDLERS | EAGER_BOUNDS_PSCW,
    .max_bytes = INT_MAX - 65536, /* it counts a message and what it adds in an int */
    .asked_for = lam_asked_for,
    .carrier = lam_carrier,
    .eager_bytes = lam_eager_bytes,
};

/* LAM 7.1.4 begins and ends with empty messages to its daemon, whose address it never sets: the address is whatever lay
 * on the stack, or in a register that was saved there (lam_rtrnamesweep, lpattach, lpdetach). If it is no address of
 * this process, writev refuses it (EFAULT), the message is lost, and MPI_Init fails or MPI_Finalize waits for the
 * answer for ever. So both must find zeros there. */
static __attribute__((noinline)) void lam_clear_stack(void) {
  volatile char below[65536];
  for (size_t i = 0; i < sizeof below; ++i) below[i] = 0;
}
#if defined(__x86_64__)
#define LAM_CLEAR_REGISTERS()                                                                               \
  __asm__ volatile("xor %%ebx,%%ebx; xor %%r12,%%r12; xor %%r13,%%r13; xor %%r14,%%r14; xor %%r15,%%r15" :: \
                       : "rbx", "r12", "r13", "r14", "r15", "cc", "memory")
#else
#define LAM_CLEAR_REGISTERS() (void)0
#endif
/* In the function that calls them: it is the last to touch the registers. */
#define BEFORE_INIT_AND_FINALIZE() \
  do {                             \
    lam_clear_stack();             \
    LAM_CLEAR_REGISTERS();         \
  } while (0)
