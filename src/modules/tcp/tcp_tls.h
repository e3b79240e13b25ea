// SPDX-License-Identifier: Apache-2.0
// The option `tls`: TLS 1.3 by OpenSSL, or by the kernel once OpenSSL has shaken hands.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kit/streams/fd.h"
#include "netpipe/module.h"

namespace netpipe::tcp {

// Whether this host can do what the option asks for. Exit code 3 and a sentence where not.
np_status tls_is_here(const np_context* context);

// Collective: shakes hands on the connections that were just made, joined[rank * streams + lane]. Whoever does not know
// the proof of the connecting rank gets no further. Nothing to do with tls=no.
np_status secure(np_endpoint& endpoint, std::vector<fd_io::Fd>& joined, int64_t deadline_ns);

// "OpenSSL 3.0.15", or "" where it is not loaded.
std::string tls_library();

}  // namespace netpipe::tcp
