// SPDX-License-Identifier: Apache-2.0
// gRPC's core, the C library below gRPC for C++, Python, Ruby and PHP. It is loaded when an endpoint is opened and not
// linked: netpipe loads every module of an installation whenever it lists them, and this library brings some fifty
// others along.
#pragma once

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>

#include <string>

namespace netpipe::grpc {

// What of it is called here.
#define NP_GRPC_FUNCTIONS(X)                   \
  X(gpr_inf_future)                            \
  X(gpr_inf_past)                              \
  X(gpr_now)                                   \
  X(gpr_set_log_function)                      \
  X(gpr_time_add)                              \
  X(gpr_time_from_millis)                      \
  X(grpc_auth_context_find_properties_by_name) \
  X(grpc_auth_context_release)                 \
  X(grpc_auth_property_iterator_next)          \
  X(grpc_byte_buffer_destroy)                  \
  X(grpc_byte_buffer_length)                   \
  X(grpc_byte_buffer_reader_destroy)           \
  X(grpc_byte_buffer_reader_init)              \
  X(grpc_byte_buffer_reader_peek)              \
  X(grpc_call_auth_context)                    \
  X(grpc_call_cancel)                          \
  X(grpc_call_cancel_with_status)              \
  X(grpc_call_details_destroy)                 \
  X(grpc_call_details_init)                    \
  X(grpc_call_error_to_string)                 \
  X(grpc_call_start_batch)                     \
  X(grpc_call_unref)                           \
  X(grpc_channel_create)                       \
  X(grpc_channel_create_registered_call)       \
  X(grpc_channel_credentials_release)          \
  X(grpc_channel_destroy)                      \
  X(grpc_channel_register_call)                \
  X(grpc_completion_queue_create_for_next)     \
  X(grpc_completion_queue_destroy)             \
  X(grpc_completion_queue_next)                \
  X(grpc_completion_queue_shutdown)            \
  X(grpc_init)                                 \
  X(grpc_insecure_credentials_create)          \
  X(grpc_insecure_server_credentials_create)   \
  X(grpc_metadata_array_destroy)               \
  X(grpc_metadata_array_init)                  \
  X(grpc_raw_byte_buffer_create)               \
  X(grpc_server_add_http2_port)                \
  X(grpc_server_cancel_all_calls)              \
  X(grpc_server_create)                        \
  X(grpc_server_credentials_release)           \
  X(grpc_server_destroy)                       \
  X(grpc_server_register_completion_queue)     \
  X(grpc_server_request_call)                  \
  X(grpc_server_shutdown_and_notify)           \
  X(grpc_server_start)                         \
  X(grpc_shutdown)                             \
  X(grpc_slice_from_copied_buffer)             \
  X(grpc_slice_from_static_buffer)             \
  X(grpc_slice_unref)                          \
  X(grpc_ssl_credentials_create)               \
  X(grpc_ssl_server_credentials_create)        \
  X(grpc_version_string)

struct Library {
#define NP_GRPC_FIELD(name) decltype(&::name) name = nullptr;  // NOLINT(bugprone-macro-parentheses): a symbol
  NP_GRPC_FUNCTIONS(NP_GRPC_FIELD)
#undef NP_GRPC_FIELD
};

// The file of the library that this module was built with, "libgrpc.so.29": its version is that of its structures.
const char* file();

// The package of Debian and Ubuntu that has it, "libgrpc29".
std::string package();

// Without loading it. A sentence; "": it is installed.
std::string why_missing();

// Loads it. NULL: it cannot be used, and why says so in a sentence.
const Library* library(std::string& why);

}  // namespace netpipe::grpc
