// SPDX-License-Identifier: Apache-2.0
// The names of the operations and option types of the contract, for listings and descriptions.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "layer/layer.h"

namespace netpipe {

// The operations that the layer has, by their names in module.h; those of np_collectives are prepare_collective and
// release_collective, those of its own memory alloc and free.
std::vector<std::string_view> operations(const Layer& layer);

// Marks the operation of this name as present in another process: calling it here aborts. False: the contract has no
// such operation.
bool mark_operation(Layer& layer, std::string_view name);

// How the ranks of a module come to life. The one place that answers this; nothing else is concluded from an operation
// that a module has or lacks.
enum class ProcessModel {
  forked,    // netpipe forks them on this host, any number of them; between two hosts each host has one
  launched,  // the library's own launcher starts them, and the library says which rank each of them is
};
ProcessModel process_model(const Layer& layer);

// Of an option: bool, int, size, choice or text.
std::string_view type_name(np_type type);
std::optional<np_type> type_named(std::string_view name);

}  // namespace netpipe
