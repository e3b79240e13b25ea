// SPDX-License-Identifier: Apache-2.0
// Sockets of tcp with their options set, before they connect or listen.
#pragma once

#include <sys/socket.h>

#include "kit/streams/fd_io.h"
#include "netpipe/module.h"

namespace netpipe::tcp {

// A socket with everything set that has to be set before it connects or listens: the buffers decide the window scale.
np_status make_socket(const np_context* context, int family, fd_io::Fd& made);

}  // namespace netpipe::tcp
