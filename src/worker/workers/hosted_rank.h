// SPDX-License-Identifier: Apache-2.0
// Ranks of netpipe's own layers that ssh or srun started on their host.
#pragma once

namespace netpipe {

// The environment variable with the number of the rank, or with those of all ranks of a host: "4-7". Where it is set,
// `join` means this, not a library's process.
inline constexpr const char* rank_variable = "NETPIPE_JOIN_RANK";

// Joins the job that the environment names, once for each rank, and follows its conductor. Returns the exit code.
int hosted_rank(const char* ranks);

}  // namespace netpipe
