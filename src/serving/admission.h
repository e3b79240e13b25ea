// SPDX-License-Identifier: Apache-2.0
// What the process of a measurement gets of the server that admitted its client, and what it does first. Not the token:
// of that it has only what was derived for this one conversation.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/descriptor.h"
#include "link/seal.h"
#include "serving/child.h"

namespace netpipe {

struct Admission {
  std::string plan_text;
  std::string peer_host, local_address;  // numeric
  std::string job;                       // known to the two sides alone
  std::string accept;                    // the message that accepts the client, ready to be sent
  FrameKeys keys;
  Bounds bounds;
};

// Accepts the client. false: it has gone.
bool let_in(const Descriptor& control, const Admission& admission);
// Tells the client why it is not measured with; what the server says of it.
Ending turn_away(const Descriptor& control, const Failure& why);

// As bytes and back, for a process that replaces the one that was forked. nullopt: it is no such text.
std::string admission_text(const Admission& admission);
std::optional<Admission> parse_admission(std::string_view text);

}  // namespace netpipe
