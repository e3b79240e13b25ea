// SPDX-License-Identifier: Apache-2.0
// What a verified message consists of: every byte depends on who sent it, in which visit, as which message, and where
// it lies, so that nothing but the right message at the right place passes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace netpipe {

// The seed of one message.
std::uint64_t message_seed(std::uint64_t job, std::uint64_t visit, int sender, std::uint64_t message);

void fill(void* data, std::size_t bytes, std::uint64_t seed);
// The complement of what is expected: a receive that does nothing can never pass.
void spoil(void* data, std::size_t bytes, std::uint64_t seed);
// Offset of the first byte that is wrong.
std::optional<std::size_t> first_difference(const void* data, std::size_t bytes, std::uint64_t seed);

}  // namespace netpipe
