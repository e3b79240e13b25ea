/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into the ranks of verbs: the network loses messages of unreliable connections that are RDMA writes. Every
 * 89th is lost whole, because its key is none of the receiver, which drops it without a word. Every 97th loses its end:
 * the word behind the message (op=write), or the immediate data (op=write_imm). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stddef.h>

enum { WHOLE = 89, END = 97 };

static int (*post)(struct ibv_qp*, struct ibv_send_wr*, struct ibv_send_wr**);

static int lose_some(struct ibv_qp* pair, struct ibv_send_wr* first, struct ibv_send_wr** bad) {
  static unsigned long writes = 0;
  for (struct ibv_send_wr* one = first; pair->qp_type == IBV_QPT_UC && one != NULL; one = one->next) {
    if (one->opcode != IBV_WR_RDMA_WRITE && one->opcode != IBV_WR_RDMA_WRITE_WITH_IMM) continue;
    ++writes;
    if (writes % WHOLE == 0) one->wr.rdma.rkey ^= 0x5a5a00U;
    if (writes % END == 0) {
      if (one->opcode == IBV_WR_RDMA_WRITE && one->num_sge > 0) --one->num_sge;
      one->opcode = IBV_WR_RDMA_WRITE;
    }
  }
  return post(pair, first, bad);
}

struct ibv_qp* ibv_create_qp(struct ibv_pd* domain, struct ibv_qp_init_attr* wanted) {
  struct ibv_qp* (*create)(struct ibv_pd*, struct ibv_qp_init_attr*) = NULL;
  *(void**)&create = dlsym(RTLD_NEXT, "ibv_create_qp");
  struct ibv_qp* const made = create(domain, wanted);
  if (made != NULL && made->context->ops.post_send != lose_some) {
    post = made->context->ops.post_send;
    made->context->ops.post_send = lose_some;
  }
  return made;
}
