// SPDX-License-Identifier: Apache-2.0
#include "base/host_name.h"

#include <unistd.h>

#include <array>
#include <climits>

namespace netpipe {

std::string host_name() {
  std::array<char, HOST_NAME_MAX + 1> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace netpipe
