// SPDX-License-Identifier: Apache-2.0
// What the user chose of something that has options, as he writes it: a variant is one module with chosen settings,
// "tcp:sndbuf=512k,wait=poll", and a mode is one pattern with chosen settings, "window:in_flight=64".
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "catalog/registry.h"
#include "patterns/kit/pattern.h"
#include "patterns/kit/slots.h"

namespace netpipe {

struct Choice {
  Choice() = default;
  Choice(Choice&&) = default;
  Choice& operator=(Choice&&) = default;
  Choice(const Choice&) = delete;  // values point into texts
  Choice& operator=(const Choice&) = delete;
  ~Choice() = default;

  // With every default written out.
  [[nodiscard]] std::string whole(const char* of, const np_option* options) const;

  std::string name;                // canonical: the options that differ from their defaults, in the table's order
  std::vector<std::string> texts;  // every option's value as text, in the table's order
  std::vector<np_value> values;    // the same for whom it is chosen; text points into texts
};

struct Variant : Choice {
  const Layer* module = nullptr;
};

struct Mode : Choice {
  const Pattern* pattern = nullptr;
  std::vector<np_option> options;  // the pattern's own, and after them those that every pattern has
  BufferPolicy buffers;
  // With every default written out.
  [[nodiscard]] std::string all() const { return whole(pattern->name, options.data()); }
  // The part of one rank in a visit of this size.
  [[nodiscard]] Part part(int rank, int nranks, std::uint64_t size_bytes) const {
    return {rank, nranks, size_bytes, values.data()};
  }
};

Result<Variant> parse_variant(std::string_view text, const Registry& registry);
// buffers: where the text says nothing else.
Result<Mode> parse_mode(std::string_view text, const BufferPolicy& buffers = {});

// What every pattern can be told beside its own options; the plan has the defaults.
std::span<const np_option> common_options();

}  // namespace netpipe
