// SPDX-License-Identifier: Apache-2.0
// How the bytes of tcp reach the kernel and come from it, where that is not one system call for each piece: the option
// `path`, wait=sigio and tls=openssl.
#pragma once

#include <cstdint>
#include <memory>

#include "kit/streams/fd_path.h"
#include "netpipe/module.h"

namespace netpipe::tcp {

enum class PathKind { copy, zerocopy, uring, uring_zc, splice, sendfile };

// What a path has counted.
struct PathCounts {
  int64_t lent = 0;        // sends whose buffer the kernel read in place, or was to
  int64_t copied = 0;      // those of them that it copied after all
  int64_t refused = 0;     // sends that it would not take without a copy, for want of memory that it may lock
  int64_t signals = 0;     // that ended a sleep
  int64_t moved = 0;       // signals whose handler moved bytes
  int64_t registered = 0;  // bytes whose pages the kernel holds
};

class TcpPath : public fd_io::Path {
 public:
  [[nodiscard]] const PathCounts& counts() const { return counted; }

  // The messages of a visit start here. Outside the timed region; NP_UNSUPPORTED: not from there.
  virtual np_status expect(const np_visit& visit) {
    (void)visit;
    return NP_OK;
  }

 protected:
  PathCounts counted;
};

// With path=copy there is none: it is the fast path of a Wire.
np_status make_path(const np_context* context, std::unique_ptr<TcpPath>& path);

// For make_path.
np_status make_zerocopy(const np_context* context, std::unique_ptr<TcpPath>& path);
np_status make_signalled(const np_context* context, std::unique_ptr<TcpPath>& path);
np_status make_uring(const np_context* context, std::unique_ptr<TcpPath>& path);
np_status make_from_file(const np_context* context, std::unique_ptr<TcpPath>& path);
np_status make_tls(const np_context* context, std::unique_ptr<TcpPath>& path);

}  // namespace netpipe::tcp
