// SPDX-License-Identifier: Apache-2.0
// What the process of a measurement gets of the server that admitted its client, and what it does first. Not the token:
// of that it has only what was derived for this one conversation.
#pragma once

#include <functional>
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

// May this plan be measured here, within these bounds? A failure is what the client is told.
using Check = std::function<Outcome(const std::string& plan_text, const Bounds& bounds)>;
// The server's side of a measurement. control_fd is a blocking stream to the client that the handler owns.
using Handler = std::function<Ending(int control_fd, const Admission& admission)>;

// Checks the plan, accepts the client or tells it why not, and measures.
Ending measure_admitted(Descriptor control, const Admission& admission, const Check& check, const Handler& handler);

// As bytes and back, for a process that replaces the one that was forked. nullopt: it is no such text.
std::string admission_text(const Admission& admission);
std::optional<Admission> parse_admission(std::string_view text);

}  // namespace netpipe
