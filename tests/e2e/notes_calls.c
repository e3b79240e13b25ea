/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests/e2e/test_mpi_more.py, preloaded into the ranks of an MPI library: leaves a file NOTED.NAME where a call of
 * these names is made, and makes it.
 */
#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

/* Before it measures, the module exchanges something with another tag. */
enum { OF_MESSAGES = 1 }; /* TAG_MESSAGE of src/modules/mpi/mpi_endpoint.h */

static void note(int* noted, const char* file) {
  if (!*noted) close(open(file, O_CREAT | O_WRONLY, 0600));
  *noted = 1;
}

int MPI_Sendrecv(const void* out, int sent, MPI_Datatype of_sent, int to, int send_tag, void* in, int received,
                 MPI_Datatype of_received, int from, int receive_tag, MPI_Comm comm, MPI_Status* status) {
  static int noted;
  if (send_tag == OF_MESSAGES) note(&noted, NOTED ".MPI_Sendrecv");
  return PMPI_Sendrecv(out, sent, of_sent, to, send_tag, in, received, of_received, from, receive_tag, comm, status);
}

int MPI_Irecv(void* in, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request* request) {
  static int noted;
  if (tag == OF_MESSAGES) note(&noted, NOTED ".MPI_Irecv");
  return PMPI_Irecv(in, count, type, from, tag, comm, request);
}

int MPI_Accumulate(const void* out, int sent, MPI_Datatype of_sent, int to, MPI_Aint place, int count,
                   MPI_Datatype type, MPI_Op op, MPI_Win win) {
  static int noted;
  note(&noted, NOTED ".MPI_Accumulate");
  return PMPI_Accumulate(out, sent, of_sent, to, place, count, type, op, win);
}

int MPI_Get_accumulate(const void* out, int sent, MPI_Datatype of_sent, void* in, int fetched, MPI_Datatype of_fetched,
                       int to, MPI_Aint place, int count, MPI_Datatype type, MPI_Op op, MPI_Win win) {
  static int noted;
  note(&noted, NOTED ".MPI_Get_accumulate");
  return PMPI_Get_accumulate(out, sent, of_sent, in, fetched, of_fetched, to, place, count, type, op, win);
}
