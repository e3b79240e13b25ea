// SPDX-License-Identifier: Apache-2.0
// The contents of a verified message: every byte depends on the sender, the visit, the number of the message and the
// position of the byte, so that nothing but the right message at the right place passes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace netpipe {

// The seed of one message.
std::uint64_t message_seed(std::uint64_t run, std::uint64_t visit, int sender, std::uint64_t message);

void fill(void* data, std::size_t bytes, std::uint64_t seed);
// The complement of what is expected: a receive that does nothing can never pass.
void spoil(void* data, std::size_t bytes, std::uint64_t seed);
// The offset of the first wrong byte; nullopt: all bytes are right.
std::optional<std::size_t> first_difference(const void* data, std::size_t bytes, std::uint64_t seed);

}  // namespace netpipe
