// SPDX-License-Identifier: Apache-2.0
// A layer of this netpipe that was not built, because what it binds was missing. The build leaves a file NAME.absent in
// the place of NAME.so (cmake/modules.cmake):
//
//     netpipe-absent 1
//     name ucx
//     summary one line, as in module.toml
//     reason why it was not built, and the command that changes that
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace netpipe {

struct AbsentModule {
  std::string name, summary, reason;
  std::string path;  // of the file that says so
};

// nullopt: the text is something else.
std::optional<AbsentModule> parse_absent(std::string_view text, const std::string& path);
std::optional<AbsentModule> read_absent(const std::string& path);

}  // namespace netpipe
