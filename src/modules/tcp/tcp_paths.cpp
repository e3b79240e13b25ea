// SPDX-License-Identifier: Apache-2.0
#include "tcp_paths.h"

#include "tcp_options.h"

namespace netpipe::tcp {

np_status make_path(const np_context* context, std::unique_ptr<TcpPath>& path) {
  if (context->options[kTls].number == kTlsOpenssl) return make_tls(context, path);
  switch (static_cast<PathKind>(context->options[kPath].number)) {
    case PathKind::copy: return context->options[kWait].number == kWaitSigio ? make_signalled(context, path) : NP_OK;
    case PathKind::zerocopy: return make_zerocopy(context, path);
    case PathKind::uring:
    case PathKind::uring_zc: return make_uring(context, path);
    case PathKind::splice:
    case PathKind::sendfile: return make_from_file(context, path);
  }
  return NP_OK;
}

}  // namespace netpipe::tcp
