// SPDX-License-Identifier: Apache-2.0
// security=tls: a certificate for this run, which nobody has to install. Each rank that listens makes a key and signs a
// certificate with it, and tells the others the certificate over netpipe's authenticated control connection; they trust
// that one and no other.
#pragma once

#include <string>

#include "grpc_library.h"
#include "netpipe/module.h"

namespace netpipe::grpc {

// The name in every certificate: ranks are known by addresses that change from run to run.
inline constexpr char kCertifiedName[] = "netpipe";

// Both as PEM text.
struct Certificate {
  std::string certificate, key;
};

// NP_UNAVAILABLE: OpenSSL 3, which makes it, is missing.
np_status make_certificate(const np_context* context, Certificate& made);

// One property of what secures a call, as the library says it: "ssl" for transport_security_type. "": it has none.
std::string security_of(const Library& lib, grpc_call* call, const char* property);

}  // namespace netpipe::grpc
