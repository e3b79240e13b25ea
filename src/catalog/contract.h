// SPDX-License-Identifier: Apache-2.0
// The names of what is in a module's table, for whoever lists, describes or reads one.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "netpipe/module.h"

namespace netpipe {

// The operations that are there, by their field names.
std::vector<std::string_view> operations(const np_module& table);

// Marks the operation of this name as one that is there, in another process: calling it here aborts. False: the
// contract has no such operation.
bool mark_operation(np_module& table, std::string_view name);

// How the ranks of a module come to life. The one place that answers this; nothing else is concluded from an operation
// that a module has or lacks.
enum class ProcessModel {
  forked,    // netpipe forks them on this host, any number of them; between two hosts each host has one
  launched,  // the library's own launcher starts them, and the library says which rank each of them is
};
ProcessModel process_model(const np_module& module);

// Of an option: bool, int, size, choice or text.
std::string_view type_name(np_type type);
std::optional<np_type> type_named(std::string_view name);

}  // namespace netpipe
