/* SPDX-License-Identifier: Apache-2.0
 *
 * The timed calls of two-sided messages. Only one comparison stands between the pattern and a plain MPI_Send. Every
 * other way to send is a pair of functions, chosen when the endpoint is opened.
 */
#ifndef NETPIPE_MPI_MESSAGES_H
#define NETPIPE_MPI_MESSAGES_H

#include "mpi_requests.h"

/* ---------------------------------------------------------------------------------------------- threads
 *
 * Thread t of a rank names its peers by rank + ranks * t, and its messages have a tag of their own: so only those of
 * the same thread meet (docs/decisions/0026). What these calls share is read only; what they are about is prepared
 * before. */

enum { TAG_THREADS = 16 }; /* that of thread t is this and t */
_Static_assert(TAG_THREADS - TAG_CONTROL > 0, "a thread's tag is none of the others");
_Static_assert(TAG_THREADS + MOST_THREADS < 32767, "every MPI has tags up to there");

static inline int of_thread(const np_endpoint* e, int peer) { return peer >= e->nranks; }
/* The tag of a peer's thread; *peer becomes its rank. Only if it is of a thread. */
static inline int thread_tag(const np_endpoint* e, int* peer) {
  const int thread = (int)((unsigned)*peer / (unsigned)e->nranks);
  *peer -= thread * e->nranks;
  return TAG_THREADS + thread;
}

static COLD np_status lacks_threads(np_endpoint* e) {
  return fail(e->context, NP_UNSUPPORTED,
              "several threads send at once only where MPI_THREAD_MULTIPLE was asked for, and this variant has "
              "thread=%s: choose thread=multiple",
              text_of(&e->settings, "thread"));
}

/* Whether the messages of this peer's thread can be sent and received: asked by a batch of none. */
static COLD np_status ask_for_thread(np_endpoint* e, int peer) {
  if (!of_thread(e, peer)) return NP_OK;
  if (e->thread_level < MPI_THREAD_MULTIPLE) return lacks_threads(e);
  if (e->on_device) {
    return fail(e->context, NP_UNSUPPORTED, "memory=cuda: the device is current in one thread of a rank alone");
  }
  if (!e->threaded) {
    return fail(e->context, NP_UNSUPPORTED,
                "several threads send at once with op=send, isend and ssend of plain bytes to a named rank: leave out "
                "%s=%s",
                e->type != TYPE_BYTES ? "type"
                : e->any_source       ? "any_source"
                                      : "op",
                e->type != TYPE_BYTES ? text_of(&e->settings, "type")
                : e->any_source       ? "yes"
                                      : text_of(&e->settings, "op"));
  }
  return NP_OK;
}

/* With MPI_ANY_SOURCE only one rank may be sending to this one. */
static inline int source_of(const np_endpoint* e, int peer) { return e->any_source ? MPI_ANY_SOURCE : peer; }

#define SHAPE_OR_RETURN(e, bytes, shape)                            \
  struct shape shape;                                               \
  do {                                                              \
    const np_status status_of_shape = shape_of(e, bytes, &shape);   \
    if (UNLIKELY(status_of_shape != NP_OK)) return status_of_shape; \
  } while (0)

#define MPI_OR_RETURN(e, call, words)                                                 \
  do {                                                                                \
    const int code_of_call = (call);                                                  \
    if (UNLIKELY(code_of_call != MPI_SUCCESS)) return failed(e, code_of_call, words); \
  } while (0)

/* ---------------------------------------------------------------------------------------------- send, ssend */

static np_status send_blocking(np_endpoint* e, int peer, const void* data, size_t bytes) {
  SHAPE_OR_RETURN(e, bytes, shape);
  return outcome(e, COUNTED(MPI_Send, data, shape, peer, TAG_MESSAGE, e->comm), "MPI_Send");
}

static np_status recv_blocking(np_endpoint* e, int peer, void* data, size_t bytes) {
  SHAPE_OR_RETURN(e, bytes, shape);
  return outcome(e, COUNTED(MPI_Recv, data, shape, source_of(e, peer), TAG_MESSAGE, e->comm, MPI_STATUS_IGNORE),
                 "MPI_Recv");
}

static np_status ssend_blocking(np_endpoint* e, int peer, const void* data, size_t bytes) {
  SHAPE_OR_RETURN(e, bytes, shape);
  return outcome(e, COUNTED(MPI_Ssend, data, shape, peer, TAG_MESSAGE, e->comm), "MPI_Ssend");
}

/* ---------------------------------------------------------------------------------------------- isend */

static np_status isend_wait(np_endpoint* e, int peer, const void* data, size_t bytes) {
  SHAPE_OR_RETURN(e, bytes, shape);
  MPI_Request request;
  MPI_OR_RETURN(e, COUNTED(MPI_Isend, data, shape, peer, TAG_MESSAGE, e->comm, &request), "MPI_Isend");
  return outcome(e, MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
}

static np_status irecv_wait(np_endpoint* e, int peer, void* data, size_t bytes) {
  SHAPE_OR_RETURN(e, bytes, shape);
  MPI_Request request;
  MPI_OR_RETURN(e, COUNTED(MPI_Irecv, data, shape, source_of(e, peer), TAG_MESSAGE, e->comm, &request), "MPI_Irecv");
  return outcome(e, MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
}

/* ---------------------------------------------------------------------------------------------- bsend */

static np_status attach_buffer(np_endpoint* e) {
#if HAVE_COUNTS
  return outcome(e, MPI_Buffer_attach_c(e->bsend_memory, (MPI_Count)e->bsend_bytes), "MPI_Buffer_attach");
#else
  return outcome(e, MPI_Buffer_attach(e->bsend_memory, (int)e->bsend_bytes), "MPI_Buffer_attach");
#endif
}

static int detach_buffer(np_endpoint* e) {
  void* memory = NULL;
  (void)e;
#if HAVE_COUNTS
  MPI_Count bytes = 0;
  return MPI_Buffer_detach_c(&memory, &bytes);
#else
  int bytes = 0;
  return MPI_Buffer_detach(&memory, &bytes);
#endif
}

/* MPI reports a full buffer as an error and does not wait. Detaching it waits until all of it has been sent. */
static COLD np_status drain_and_bsend(np_endpoint* e, int peer, const void* data, const struct shape* shape) {
  ++e->drained;
  MPI_OR_RETURN(e, detach_buffer(e), "MPI_Buffer_detach");
  const np_status status = attach_buffer(e);
  if (status != NP_OK) return status;
  return outcome(e, COUNTED(MPI_Bsend, data, *shape, peer, TAG_MESSAGE, e->comm), "MPI_Bsend");
}

static np_status bsend_blocking(np_endpoint* e, int peer, const void* data, size_t bytes) {
  SHAPE_OR_RETURN(e, bytes, shape);
  const int code = COUNTED(MPI_Bsend, data, shape, peer, TAG_MESSAGE, e->comm);
  if (LIKELY(code == MPI_SUCCESS)) return NP_OK;
  return drain_and_bsend(e, peer, data, &shape);
}

/* ---------------------------------------------------------------------------------------------- rsend */

/* MPI_Rsend is legal only when the receive has been posted, and a blocking pattern cannot know that. So the receiver
 * posts its receive and announces it by an empty message, for which the sender waits. In a ping-pong that empty message
 * travels right behind the previous one and has arrived when it is needed. */

static np_status rsend_when_ready(np_endpoint* e, int peer, const void* data, size_t bytes) {
  SHAPE_OR_RETURN(e, bytes, shape);
  MPI_OR_RETURN(e, MPI_Recv(NULL, 0, MPI_BYTE, peer, TAG_READY, e->comm, MPI_STATUS_IGNORE), "MPI_Recv");
  return outcome(e, COUNTED(MPI_Rsend, data, shape, peer, TAG_MESSAGE, e->comm), "MPI_Rsend");
}

static np_status recv_ready(np_endpoint* e, int peer, void* data, size_t bytes) {
  SHAPE_OR_RETURN(e, bytes, shape);
  MPI_Request request;
  MPI_OR_RETURN(e, COUNTED(MPI_Irecv, data, shape, source_of(e, peer), TAG_MESSAGE, e->comm, &request), "MPI_Irecv");
  MPI_OR_RETURN(e, MPI_Send(NULL, 0, MPI_BYTE, peer, TAG_READY, e->comm), "MPI_Send");
  return outcome(e, MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
}

/* ---------------------------------------------------------------------------------------------- persistent,
 * partitioned */

static COLD np_status all_in_flight(np_endpoint* e) {
  return fail(e->context, NP_UNSUPPORTED, "more than %d persistent requests in flight in one direction", KEPT);
}

static inline uint32_t partitions_of(const np_endpoint* e, size_t bytes) {
  return (uint32_t)greatest_divisor(bytes, (uint64_t)e->partitions); /* an empty message has all of them */
}

static int make_request(np_endpoint* e, int direction, int peer, const void* data, size_t bytes,
                        const struct shape* shape, MPI_Request* request) {
#if HAVE_PARTITIONED
  if (e->op == OP_PARTITIONED) {
    const uint32_t parts = partitions_of(e, bytes);
    const MPI_Count count = (MPI_Count)(bytes / parts);
    return direction == FOR_SEND ? MPI_Psend_init(PLAIN(data), (int)parts, count, MPI_BYTE, peer, TAG_MESSAGE, e->comm,
                                                  MPI_INFO_NULL, request)
                                 : MPI_Precv_init(PLAIN(data), (int)parts, count, MPI_BYTE, peer, TAG_MESSAGE, e->comm,
                                                  MPI_INFO_NULL, request);
  }
#endif
  (void)bytes;
  return direction == FOR_SEND
             ? COUNTED(MPI_Send_init, data, *shape, peer, TAG_MESSAGE, e->comm, request)
             : COUNTED(MPI_Recv_init, data, *shape, source_of(e, peer), TAG_MESSAGE, e->comm, request);
}

/* The request of this message, new or restarted. */
static inline np_status find_or_make(np_endpoint* e, int direction, int peer, const void* data, size_t bytes,
                                     struct kept_request** kept) {
  const struct purpose purpose = {.data = data, .bytes = bytes, .peer = peer};
  struct request_store* const store = e->stores[direction];
  int fresh = 0, code = MPI_SUCCESS;
  struct kept_request* const one = find_request(store, &purpose, &fresh, &code);
  if (UNLIKELY(one == NULL)) return all_in_flight(e);
  MPI_OR_RETURN(e, code, "MPI_Request_free");
  if (UNLIKELY(fresh)) {
    struct shape shape;
    const np_status status = shape_of(e, bytes, &shape);
    if (status == NP_OK) code = make_request(e, direction, peer, data, bytes, &shape, &one->request);
    if (status != NP_OK || code != MPI_SUCCESS) {
      forget_request(store, one);
      return status != NP_OK ? status : failed(e, code, "making a persistent request");
    }
  }
  *kept = one;
  return NP_OK;
}

/* A partitioned message: nothing of it is ready. */
static inline np_status start_unmarked(np_endpoint* e, int direction, int peer, const void* data, size_t bytes,
                                       struct kept_request** started) {
  struct kept_request* one = NULL;
  const np_status status_of_request = find_or_make(e, direction, peer, data, bytes, &one);
  if (UNLIKELY(status_of_request != NP_OK)) return status_of_request;
  e->peers[direction] = peer;
  MPI_OR_RETURN(e, MPI_Start(&one->request), "MPI_Start");
  one->active = 1;
  *started = one;
  return NP_OK;
}

static inline np_status start_kept(np_endpoint* e, int direction, int peer, const void* data, size_t bytes,
                                   struct kept_request** started) {
  const np_status status = start_unmarked(e, direction, peer, data, bytes, started);
#if HAVE_PARTITIONED
  if (status == NP_OK && e->op == OP_PARTITIONED && direction == FOR_SEND) {
    const int last = (int)partitions_of(e, bytes) - 1;
    MPI_OR_RETURN(e, MPI_Pready_range(0, last, (*started)->request), "MPI_Pready_range");
  }
#endif
  return status;
}

static inline np_status finish_kept(np_endpoint* e, int direction, struct kept_request* one) {
  one->active = 0;
  if (LIKELY(e->reuse)) return NP_OK;
  return outcome(e, drop_request(e->stores[direction], one), "MPI_Request_free");
}

static inline np_status kept_message(np_endpoint* e, int direction, int peer, const void* data, size_t bytes) {
  struct kept_request* one = NULL;
  const np_status status = start_kept(e, direction, peer, data, bytes, &one);
  if (UNLIKELY(status != NP_OK)) return status;
  MPI_OR_RETURN(e, MPI_Wait(&one->request, MPI_STATUS_IGNORE), "MPI_Wait");
  return finish_kept(e, direction, one);
}

static np_status send_kept(np_endpoint* e, int peer, const void* data, size_t bytes) {
  return kept_message(e, FOR_SEND, peer, data, bytes);
}
static np_status recv_kept(np_endpoint* e, int peer, void* data, size_t bytes) {
  return kept_message(e, FOR_RECV, peer, data, bytes);
}

/* ---------------------------------------------------------------------------------------------- before a visit */

#define FEW_PLACES 64

/* in mpi_one_sided.h */
static np_status prepare_one_sided(np_endpoint* e, const np_visit* visit);
static np_status send_one_sided(np_endpoint* e, int peer, const void* data, size_t bytes);
static np_status recv_one_sided(np_endpoint* e, int peer, void* data, size_t bytes);
/* in mpi_reach.h */
static np_status prepare_reach(np_endpoint* e, const np_visit* visit);

/* Makes the persistent requests in advance where a visit uses few places again and again, for the peer of the visit
 * before. */
static np_status make_ahead(np_endpoint* e, int direction, size_t bytes, const np_places* places) {
  struct request_store* const store = e->stores[direction];
  const uint64_t reused = store->reused;
  np_status status = NP_OK;
  if (e->peers[direction] < 0 || places->count > FEW_PLACES) return NP_OK;
  for (uint64_t i = 0; i < places->count && status == NP_OK; ++i) {
    struct kept_request* one = NULL;
    status = find_or_make(e, direction, e->peers[direction], places->base + places->stride * i, bytes, &one);
  }
  store->reused = reused; /* nothing has been sent */
  return status;
}

/* Makes the datatype of this size, and drops the requests of partitioned messages, so that both sides keep and drop the
 * same ones wherever they start in their buffers. */
static np_status mpi_prepare(np_endpoint* e, const np_visit* visit) {
  SHAPE_OR_RETURN(e, visit->bytes, shape);
  (void)shape;
  if (e->on_device) {
    const np_status status = np_cuda_use(&e->device);
    if (status != NP_OK) return status;
  }
  for (int i = FOR_SEND; e->op == OP_PARTITIONED && i <= FOR_RECV; ++i) {
    MPI_OR_RETURN(e, drop_requests(e->stores[i]), "MPI_Request_free");
  }
  if (e->op == OP_PERSISTENT && e->reuse) {
    np_status status = make_ahead(e, FOR_SEND, visit->bytes, &visit->outgoing);
    if (status == NP_OK) status = make_ahead(e, FOR_RECV, visit->bytes, &visit->incoming);
    if (status != NP_OK) return status;
  }
  return e->one_sided ? prepare_one_sided(e, visit) : prepare_reach(e, visit);
}

/* ---------------------------------------------------------------------------------------------- by op */

struct way {
  np_status (*send)(np_endpoint*, int, const void*, size_t);
  np_status (*recv)(np_endpoint*, int, void*, size_t);
};
/* in the order of the option's choices */
static const struct way ways[] = {
    {send_blocking, recv_blocking},   {isend_wait, irecv_wait},         {send_kept, recv_kept},
    {ssend_blocking, recv_blocking},  {bsend_blocking, recv_blocking},  {rsend_when_ready, recv_ready},
    {send_one_sided, recv_one_sided}, {send_one_sided, recv_one_sided}, {send_one_sided, recv_one_sided},
    {send_kept, recv_kept},
};

/* Where several threads may call. A call by one for another thread's rank is as in the table above. */
static np_status send_of_any_thread(np_endpoint* e, int peer, const void* data, size_t bytes) {
  if (!of_thread(e, peer)) return ways[e->op].send(e, peer, data, bytes);
  const int tag = thread_tag(e, &peer);
  SHAPE_OR_RETURN(e, bytes, shape);
  if (e->op == OP_SSEND) return outcome(e, COUNTED(MPI_Ssend, data, shape, peer, tag, e->comm), "MPI_Ssend");
  if (e->op == OP_SEND) return outcome(e, COUNTED(MPI_Send, data, shape, peer, tag, e->comm), "MPI_Send");
  MPI_Request request;
  MPI_OR_RETURN(e, COUNTED(MPI_Isend, data, shape, peer, tag, e->comm, &request), "MPI_Isend");
  return outcome(e, MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
}
static np_status recv_of_any_thread(np_endpoint* e, int peer, void* data, size_t bytes) {
  if (!of_thread(e, peer)) return ways[e->op].recv(e, peer, data, bytes);
  const int tag = thread_tag(e, &peer);
  SHAPE_OR_RETURN(e, bytes, shape);
  if (e->op != OP_ISEND) {
    return outcome(e, COUNTED(MPI_Recv, data, shape, peer, tag, e->comm, MPI_STATUS_IGNORE), "MPI_Recv");
  }
  MPI_Request request;
  MPI_OR_RETURN(e, COUNTED(MPI_Irecv, data, shape, peer, tag, e->comm, &request), "MPI_Irecv");
  return outcome(e, MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
}

/* Once the library has said what level it gives. One more comparison then stands before a plain MPI_Send. */
static void allow_threads(np_endpoint* e) {
  const int plain = e->op == OP_SEND || e->op == OP_ISEND || e->op == OP_SSEND;
  e->threaded =
      e->thread_level == MPI_THREAD_MULTIPLE && plain && e->type == TYPE_BYTES && !e->any_source && !e->on_device;
  if (!e->threaded) return;
  e->direct_bytes = 0;
  e->send = send_of_any_thread;
  e->recv = recv_of_any_thread;
}

/* The plain way is written out: another jump costs 1 % of a small message in shared memory. direct_bytes is 0 for all
 * other ways, so one comparison is enough. */
static np_status mpi_send(np_endpoint* e, int peer, const void* data, size_t bytes) {
  if (UNLIKELY(bytes >= e->direct_bytes)) return e->send(e, peer, data, bytes);
  return outcome(e, MPI_Send(PLAIN(data), (int)bytes, MPI_BYTE, peer, TAG_MESSAGE, e->comm), "MPI_Send");
}
static np_status mpi_recv(np_endpoint* e, int peer, void* data, size_t bytes) {
  if (UNLIKELY(bytes >= e->direct_bytes)) return e->recv(e, peer, data, bytes);
  return outcome(e, MPI_Recv(data, (int)bytes, MPI_BYTE, peer, TAG_MESSAGE, e->comm, MPI_STATUS_IGNORE), "MPI_Recv");
}

/* A message each way in one call. */
static np_status mpi_sendrecv(np_endpoint* e, int to, const void* outgoing, int from, void* incoming, size_t bytes) {
  if (UNLIKELY(e->op != OP_SEND)) {
    return fail(e->context, NP_UNSUPPORTED,
                "op=%s: one call for both directions is MPI_Sendrecv, which has no such form: leave out op",
                text_of(&e->settings, "op"));
  }
  SHAPE_OR_RETURN(e, bytes, shape);
  const int source = source_of(e, from);
#if HAVE_COUNTS
  if (UNLIKELY(shape.count > INT_MAX)) {
    const int code =
        MPI_Sendrecv_c(outgoing, (MPI_Count)shape.count, shape.type, to, TAG_MESSAGE, incoming, (MPI_Count)shape.count,
                       shape.type, source, TAG_MESSAGE, e->comm, MPI_STATUS_IGNORE);
    return outcome(e, code, "MPI_Sendrecv_c");
  }
#endif
  return outcome(e,
                 MPI_Sendrecv(PLAIN(outgoing), (int)shape.count, shape.type, to, TAG_MESSAGE, incoming,
                              (int)shape.count, shape.type, source, TAG_MESSAGE, e->comm, MPI_STATUS_IGNORE),
                 "MPI_Sendrecv");
}

/* ---------------------------------------------------------------------------------------------- in flight */

#define APART __attribute__((noinline))

/* np_request: word 0 is the library's own request (an int or a pointer) or a kept one. If requests may be kept
 * (e->keeps), word 1 says which: the purpose that it is kept for, or OWN. */
enum { OWN = PURPOSES };
_Static_assert(sizeof(MPI_Request) <= sizeof(uint64_t), "a request fits into a word");

static inline MPI_Request* own_request(np_request* request) { return (MPI_Request*)(void*)&request->word[0]; }
static inline struct kept_request* kept_in(const np_request* from) {
  return (struct kept_request*)(uintptr_t)from->word[0];
}
static inline void store_kept(np_request* to, struct kept_request* one, int direction) {
  to->word[0] = (uint64_t)(uintptr_t)one;
  to->word[1] = (uint64_t)direction;
}
static inline MPI_Request* request_in(const np_endpoint* e, np_request* from) {
  return e->keeps && from->word[1] != OWN ? &kept_in(from)->request : own_request(from);
}
static inline np_status finish(np_endpoint* e, np_request* from) {
  return e->keeps && from->word[1] != OWN ? finish_kept(e, (int)from->word[1], kept_in(from)) : NP_OK;
}

static np_status start_message(np_endpoint* e, int direction, int peer, const void* data, size_t bytes,
                               np_request* to) {
  if (UNLIKELY(e->one_sided)) {
    return fail(e->context, NP_UNSUPPORTED, "op=%s: one-sided transfers are not waited for one by one",
                text_of(&e->settings, "op"));
  }
  if (e->keeps) {
    struct kept_request* one = NULL;
    const np_status status = start_kept(e, direction, peer, data, bytes, &one);
    if (status == NP_OK) store_kept(to, one, direction);
    return status;
  }
  SHAPE_OR_RETURN(e, bytes, shape);
  MPI_Request* const request = own_request(to);
  const int tag = UNLIKELY(of_thread(e, peer)) ? thread_tag(e, &peer) : TAG_MESSAGE;
  if (direction == FOR_RECV) {
    if (UNLIKELY(e->op == OP_RSEND)) {
      return fail(e->context, NP_UNSUPPORTED, "op=rsend: only a blocking receive tells its sender that it is posted");
    }
    MPI_OR_RETURN(e, COUNTED(MPI_Irecv, data, shape, source_of(e, peer), tag, e->comm, request), "MPI_Irecv");
  } else if (e->op == OP_SSEND) {
    MPI_OR_RETURN(e, COUNTED(MPI_Issend, data, shape, peer, tag, e->comm, request), "MPI_Issend");
  } else if (e->op == OP_BSEND) {
    MPI_OR_RETURN(e, COUNTED(MPI_Ibsend, data, shape, peer, tag, e->comm, request), "MPI_Ibsend");
  } else if (e->op == OP_RSEND) {
    return fail(e->context, NP_UNSUPPORTED,
                "op=rsend: only a blocking send can wait until its receive has been posted");
  } else {
    MPI_OR_RETURN(e, COUNTED(MPI_Isend, data, shape, peer, tag, e->comm, request), "MPI_Isend");
  }
  return NP_OK;
}

#if HAVE_PARTITIONED
/* Parts that other threads mark. */
static np_status mpi_isend_parts(np_endpoint* e, int peer, const void* data, size_t bytes, np_request* request,
                                 uint32_t* parts) {
  *parts = partitions_of(e, bytes);
  if (UNLIKELY(request == NULL)) {
    if (e->op != OP_PARTITIONED) {
      return fail(e->context, NP_UNSUPPORTED,
                  "messages have partitions with op=partitioned, and this variant has op=%s",
                  text_of(&e->settings, "op"));
    }
    return e->thread_level == MPI_THREAD_MULTIPLE ? NP_OK : lacks_threads(e);
  }
  struct kept_request* one = NULL;
  const np_status status = start_unmarked(e, FOR_SEND, peer, data, bytes, &one);
  if (status == NP_OK) store_kept(request, one, FOR_SEND);
  return status;
}
static np_status mpi_part_ready(np_endpoint* e, np_request* request, uint32_t part) {
  return outcome(e, MPI_Pready((int)part, kept_in(request)->request), "MPI_Pready");
}
#endif

static APART np_status start_messages(np_endpoint* e, int direction, int peer, const void* data, size_t stride,
                                      size_t bytes, np_request* requests, size_t count) {
  np_status status = NP_OK;
  for (size_t i = 0; i < count && status == NP_OK; ++i) {
    status = start_message(e, direction, peer, (const char*)data + i * stride, bytes, &requests[i]);
  }
  return status;
}

/* The plain way is written out as above. One message is handled apart from many, whose loop has to save registers; a
 * jump to a function for one was 1 % slower in both directions at once. */
static APART np_status isend_many(np_endpoint* e, int peer, const void* data, size_t stride, size_t bytes,
                                  np_request* requests, size_t count) {
  if (UNLIKELY(count == 0)) return ask_for_thread(e, peer);
  if (UNLIKELY(bytes >= e->direct_bytes)) {
    return start_messages(e, FOR_SEND, peer, data, stride, bytes, requests, count);
  }
  char* from = PLAIN(data);
  for (const np_request* const end = requests + count; requests != end; ++requests, from += stride) {
    MPI_OR_RETURN(e, MPI_Isend(from, (int)bytes, MPI_BYTE, peer, TAG_MESSAGE, e->comm, own_request(requests)),
                  "MPI_Isend");
  }
  return NP_OK;
}
static np_status mpi_isend(np_endpoint* e, int peer, const void* data, size_t stride, size_t bytes,
                           np_request* requests, size_t count) {
  if (UNLIKELY(count != 1 || bytes >= e->direct_bytes))
    return isend_many(e, peer, data, stride, bytes, requests, count);
  return outcome(e, MPI_Isend(PLAIN(data), (int)bytes, MPI_BYTE, peer, TAG_MESSAGE, e->comm, own_request(requests)),
                 "MPI_Isend");
}

static APART np_status irecv_many(np_endpoint* e, int peer, void* data, size_t stride, size_t bytes,
                                  np_request* requests, size_t count) {
  if (UNLIKELY(count == 0)) return ask_for_thread(e, peer);
  if (UNLIKELY(bytes >= e->direct_bytes)) {
    return start_messages(e, FOR_RECV, peer, data, stride, bytes, requests, count);
  }
  char* into = data;
  for (const np_request* const end = requests + count; requests != end; ++requests, into += stride) {
    MPI_OR_RETURN(e, MPI_Irecv(into, (int)bytes, MPI_BYTE, peer, TAG_MESSAGE, e->comm, own_request(requests)),
                  "MPI_Irecv");
  }
  return NP_OK;
}
static np_status mpi_irecv(np_endpoint* e, int peer, void* data, size_t stride, size_t bytes, np_request* requests,
                           size_t count) {
  if (UNLIKELY(count != 1 || bytes >= e->direct_bytes))
    return irecv_many(e, peer, data, stride, bytes, requests, count);
  return outcome(e, MPI_Irecv(data, (int)bytes, MPI_BYTE, peer, TAG_MESSAGE, e->comm, own_request(requests)),
                 "MPI_Irecv");
}

/* MPI takes an array of requests, and ours lie apart, so they are copied. */
static np_status wait_all(np_endpoint* e, np_request* requests, size_t count) {
  enum { AT_ONCE = 1024 };
  MPI_Request all[AT_ONCE];
  while (count > 0) {
    const int n = count < AT_ONCE ? (int)count : AT_ONCE;
    for (int i = 0; i < n; ++i) all[i] = *request_in(e, &requests[i]);
    MPI_OR_RETURN(e, MPI_Waitall(n, all, MPI_STATUSES_IGNORE), "MPI_Waitall");
    for (int i = 0; i < n; ++i) {
      *request_in(e, &requests[i]) = all[i];
      const np_status status = finish(e, &requests[i]);
      if (status != NP_OK) return status;
    }
    requests += n;
    count -= (size_t)n;
  }
  return NP_OK;
}

static APART np_status wait_apart(np_endpoint* e, np_request* requests, size_t count) {
  if (e->waitall) return wait_all(e, requests, count);
  np_status status = NP_OK;
  for (size_t i = 0; i < count && status == NP_OK; ++i) {
    MPI_OR_RETURN(e, MPI_Wait(request_in(e, &requests[i]), MPI_STATUS_IGNORE), "MPI_Wait");
    status = finish(e, &requests[i]);
  }
  return status;
}

/* One by one and not by MPI_Waitall, which is how waitall=no is labelled. Over Open MPI 5.0.11 in shared memory,
 * MPI_Waitall takes 8 % longer for 64 messages of 8 bytes. */
static APART np_status wait_many(np_endpoint* e, np_request* requests, size_t count) {
  if (UNLIKELY(e->waits_apart)) return wait_apart(e, requests, count);
  for (const np_request* const end = requests + count; requests != end; ++requests) {
    MPI_OR_RETURN(e, MPI_Wait(own_request(requests), MPI_STATUS_IGNORE), "MPI_Wait");
  }
  return NP_OK;
}
/* One and two apart from many, as above. */
static np_status mpi_wait(np_endpoint* e, np_request* requests, size_t count) {
  if (UNLIKELY(count - 1 > 1)) return wait_many(e, requests, count);
  if (UNLIKELY(e->waits_apart)) return wait_apart(e, requests, count);
  if (count == 2) {
    MPI_OR_RETURN(e, MPI_Wait(own_request(requests), MPI_STATUS_IGNORE), "MPI_Wait");
    ++requests;
  }
  return outcome(e, MPI_Wait(own_request(requests), MPI_STATUS_IGNORE), "MPI_Wait");
}

static np_status mpi_test(np_endpoint* e, np_request* from) {
  int done = 0;
  MPI_OR_RETURN(e, MPI_Test(request_in(e, from), &done, MPI_STATUS_IGNORE), "MPI_Test");
  return done ? finish(e, from) : NP_PENDING;
}

#endif
