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

// Of an option: bool, int, size, choice or text.
std::string_view type_name(np_type type);
std::optional<np_type> type_named(std::string_view name);

// What its table says of tuning; a value of a later contract is plainly tunable.
np_tunable tunable_of(const np_option& option);
// no, yes, waiting or calling.
std::string_view tunable_word(np_tunable tunable);
std::optional<np_tunable> tunable_named(std::string_view word);

}  // namespace netpipe
