// SPDX-License-Identifier: Apache-2.0
// What the build leaves beside the modules, from their module.toml (cmake/modules.cmake). Of a layer that was not
// built, because its library was missing, a file NAME.absent in the place of NAME.so:
//
//     netpipe-absent 1
//     name ucx
//     summary one line, as in module.toml
//     reason why it was not built, and the command that changes that
//
// and of one that was built, for a host or a day on which its library is missing, NAME.needs beside NAME.so:
//
//     netpipe-needs 1
//     get the command that installs the library, as in module.toml
//
// and of one that a run without variants measures, NAME.default:
//
//     netpipe-default 1
//     variants shm shm:wait=block
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace netpipe {

struct AbsentModule {
  std::string name, summary, reason;
  std::string path;  // of the file that says so
};

// nullopt: the text is something else.
std::optional<AbsentModule> parse_absent(std::string_view text, const std::string& path);
std::optional<AbsentModule> read_absent(const std::string& path);

// The command that installs the library of the module in this file; "": nobody has said one.
std::string library_command(const std::string& module_path);

// What a run without variants measures of the module in this file; empty: it is left out of such a run.
std::vector<std::string> default_variants(const std::string& module_path);

}  // namespace netpipe
