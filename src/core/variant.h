// SPDX-License-Identifier: Apache-2.0
// A variant: one module with chosen settings, as the user writes it: "tcp:sndbuf=512k,wait=poll".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/registry.h"
#include "core/result.h"

namespace netpipe {

struct Variant {
  Variant() = default;
  Variant(Variant&&) = default;
  Variant& operator=(Variant&&) = default;
  Variant(const Variant&) = delete;  // values point into texts
  Variant& operator=(const Variant&) = delete;
  ~Variant() = default;

  const np_module* module = nullptr;
  std::string name;                // canonical: the options that differ from their defaults, in the table's order
  std::vector<std::string> texts;  // every option's value as text, in the table's order
  std::vector<np_value> values;    // the same for the module; text points into texts
};

Result<Variant> parse_variant(std::string_view text, const Registry& registry);

}  // namespace netpipe
