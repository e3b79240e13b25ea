// SPDX-License-Identifier: Apache-2.0
// The `error` record, which both the session and a watchdog's last words write: docs/reference/record.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"

namespace netpipe {

struct ErrorRecord {
  int launch = 0;
  std::string variant;
  const char* pattern = nullptr;  // nullptr: it happened while the variant was opened, so there is no size either
  std::uint64_t size_bytes = 0;
  std::optional<int> rank;  // nullopt: not of one rank
  std::string host;
  Exit code = Exit::failed;
  std::string message;  // a sentence for the user
};

// One JSON object, without a newline.
std::string to_json(const ErrorRecord& error);

}  // namespace netpipe
