// SPDX-License-Identifier: Apache-2.0
// A rank of netpipe's own layers that ssh or srun started on its host.
#pragma once

namespace netpipe {

// The environment variable with the number of the rank. Where it is set, `join` means this, not a library's process.
inline constexpr const char* rank_variable = "NETPIPE_JOIN_RANK";

// Joins the job that the environment names, and follows its conductor. Returns the exit code.
int hosted_rank(const char* rank);

}  // namespace netpipe
