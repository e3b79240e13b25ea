/* SPDX-License-Identifier: Apache-2.0
 *
 * Open MPI 4 and 5: MCA parameters in the environment, and UCX and libfabric below it.
 */
#include "beneath.h"
#include "library/mpi_settings.h"

static const np_option openmpi_options[] = {
    OPTION_TRANSPORT("auto|shm|tcp|ucx|ucx_shm|ucx_tcp|ofi|ofi_tcp",
                     "what carries messages: the library's choice, its own shared memory or TCP (btl), or UCX or "
                     "libfabric, which choose themselves or are told"),
    OPTION_EAGER,
    OPTION_BYTES("rndv", "transport=shm and tcp: first part of a message that waits for its receiver"),
    OPTION_SNDBUF,
    OPTION_RCVBUF,
    OPTION_SINGLE_COPY,
    OPTION_YIELD,
    OPTIONS_END,
};

#define NO_SOCKET "there is no socket"
#define LEFT_TO_THE_KERNEL "libfabric's tcp provider leaves it to the kernel"
static const struct refusal openmpi_refusals[] = {
    {"rndv", NULL, "transport", "ucx|ucx_shm|ucx_tcp|ofi|ofi_tcp", NULL, "UCX and libfabric decide that themselves"},
    {"sndbuf", NULL, "transport", "shm|ucx_shm", NULL, NO_SOCKET},
    {"sndbuf", NULL, "transport", "ofi|ofi_tcp", NULL, LEFT_TO_THE_KERNEL},
    {"rcvbuf", NULL, "transport", "shm|ucx_shm", NULL, NO_SOCKET},
    {"rcvbuf", NULL, "transport", "ofi|ofi_tcp", NULL, LEFT_TO_THE_KERNEL},
    {"single_copy", NULL, "transport", "tcp|ucx_tcp|ofi|ofi_tcp", NULL, "no memory is shared"},
    {"single_copy", NULL, "transport", "ucx", NULL, "choose transport=ucx_shm"},
    {.option = NULL},
};

/* A parameter of the component that carries messages, which must know it then, or of both that the library may choose.
 * transport: the parameter is of that one alone; NULL: of either. */
static void openmpi_set_btl(struct settings* s, const char* transport, const char* parameter, long long bytes) {
  const char* const components[] = {openmpi_shm(s->library), "tcp"};
  const char* const transports[] = {"shm", "tcp"};
  for (int i = 0; i < 2; ++i) {
    char name[80];
    if (transport != NULL && strcmp(transport, transports[i]) != 0) continue;
    snprintf(name, sizeof name, "btl_%s_%s", components[i], parameter);
    if (is(s, "transport", transports[i])) put_checked(s, MCA, name, "%lld", bytes);
    snprintf(name, sizeof name, MCA "btl_%s_%s", components[i], parameter);
    if (is(s, "transport", "auto")) put(s, name, "%lld", bytes);
  }
}

static np_status openmpi_set(struct settings* s) {
  const long long eager = number_of(s, "eager"), rndv = number_of(s, "rndv");
  const long long sndbuf = number_of(s, "sndbuf"), rcvbuf = number_of(s, "rcvbuf");
  const int shm = is(s, "transport", "shm"), tcp = is(s, "transport", "tcp");
  const int ucx = is(s, "transport", "ucx|ucx_shm|ucx_tcp"), ofi = is(s, "transport", "ofi|ofi_tcp");
  if (shm || tcp) {
    openmpi_carry(s->library, shm ? FOUND_SHM : FOUND_TCP, put_known, s);
  } else if (ucx) {
    put_checked(s, MCA, "pml", "ucx");
    /* Without both it refuses everything but InfiniBand: "cannot be selected". */
    put(s, MCA "opal_common_ucx_tls", "any");
    put(s, MCA "opal_common_ucx_devices", "any");
    if (is(s, "transport", "ucx_tcp")) put(s, "UCX_TLS", "self,tcp");
    if (is(s, "transport", "ucx_shm")) set_ucx_shm(s);
  } else if (ofi) {
    put_checked(s, MCA, "pml", "cm");
    put_checked(s, MCA, "mtl", "ofi");
    if (is(s, "transport", "ofi_tcp")) put(s, MCA "mtl_ofi_provider_include", "tcp;ofi_rxm");
    /* Its default excludes tcp, which leaves nothing on a machine without a fabric. */
    if (is(s, "transport", "ofi")) put(s, MCA "mtl_ofi_provider_exclude", "shm,sockets,udp,rstream");
  }
  if (ucx) openmpi_windows("ucx", put_known, s);
  if (is(s, "transport", "ofi_tcp")) openmpi_windows("^sm,ucx", put_known, s);
  if (eager > 0) openmpi_set_btl(s, NULL, "eager_limit", eager);
  if (eager > 0 && ofi) put(s, "FI_OFI_RXM_BUFFER_SIZE", "%lld", eager);
  if (rndv > 0) openmpi_set_btl(s, NULL, "rndv_eager_limit", rndv);
  if (sndbuf > 0) openmpi_set_btl(s, "tcp", "sndbuf", sndbuf);
  if (rcvbuf > 0) openmpi_set_btl(s, "tcp", "rcvbuf", rcvbuf);
  if (ucx || is(s, "transport", "auto")) set_ucx(s);
  if (!ucx && !is(s, "single_copy", "auto")) {
    if (s->library->major >= 5) {
      put(s, MCA "smsc", "%s", is(s, "single_copy", "none") ? "^cma,knem,xpmem" : "cma");
    } else {
      put(s, MCA "btl_vader_single_copy_mechanism", "%s", text_of(s, "single_copy"));
    }
  }
  if (yielding(s) >= 0) openmpi_yield(s->library, yielding(s), put_known, s);
  return NP_OK;
}

static const struct family openmpi_family = {
    .identify = openmpi_identify,
    .options = openmpi_options,
    .refusals = openmpi_refusals,
    .set = openmpi_set,
    .through = openmpi_through,
};
