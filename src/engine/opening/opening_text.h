// SPDX-License-Identifier: Apache-2.0
// What the ranks tell each other while a variant opens, as text and back. Pure; a text that another process sent is
// never trusted to be well formed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "netpipe/module.h"

namespace netpipe {

// One rank's part of an opening.
struct RankFacts {
  np_limits limits{};
  bool simulated = false;  // its clock stands still while it computes
  std::string version;     // of the library that answers here
  std::string below;       // the module that these settings really stand on; "": as the module's table says
  std::string settings;    // a JSON object: an element of `ranks` in the `variant` record
};
std::string facts_text(const RankFacts& facts);
// nullopt: the text is no such text.
std::optional<RankFacts> parse_facts(std::string_view text);

// What a peer has to know of exposed memory to attach to it: base, size and key of each region.
std::string keys_text(const std::vector<np_region>& regions);
// The regions in a peer's text; none where it is malformed. Their base is an address of the peer's process.
std::vector<np_region> parse_keys(std::string_view text);

}  // namespace netpipe
