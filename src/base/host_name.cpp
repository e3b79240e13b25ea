// SPDX-License-Identifier: Apache-2.0
#include "base/host_name.h"

#include <unistd.h>

#include <array>
#include <climits>

namespace netpipe {
namespace {

constexpr std::size_t longest_name = 253;

}  // namespace

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

Outcome check_host_name(const std::string& name) {
  if (name.size() <= longest_name) return ok();
  return usage("a host name has at most " + std::to_string(longest_name) + " characters, this one " +
               std::to_string(name.size()));
}

}  // namespace netpipe
