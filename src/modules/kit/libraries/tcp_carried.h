/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether TCP carried some bytes, as the kernel counts them: for layers whose library chooses what carries its
 * transfers, and does not say. Read the counts, move bytes to another rank, read them again.
 */
#ifndef NETPIPE_KIT_TCP_CARRIED_H
#define NETPIPE_KIT_TCP_CARRIED_H

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#define TC_SOCKETS 1024 /* descriptors that are looked at */

/* By descriptor: bytes that went out and were acknowledged; 0: no TCP connection. */
struct tc_counts {
  uint64_t acked[TC_SOCKETS];
};

static inline void tc_read(struct tc_counts* counts) {
  for (int fd = 0; fd < TC_SOCKETS; ++fd) {
    struct tcp_info info;
    socklen_t length = sizeof info;
    memset(&info, 0, sizeof info);
    counts->acked[fd] = getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0 ? info.tcpi_bytes_acked : 0;
  }
}

/* How many bytes went out in between, through sockets that carried at least `least` each, and how many of those. */
static inline uint64_t tc_carried(const struct tc_counts* before, const struct tc_counts* after, uint64_t least,
                                  int* connections) {
  uint64_t all = 0;
  *connections = 0;
  for (int fd = 0; fd < TC_SOCKETS; ++fd) {
    if (after->acked[fd] < before->acked[fd] + least) continue;
    all += after->acked[fd] - before->acked[fd];
    ++*connections;
  }
  return all;
}

#endif
