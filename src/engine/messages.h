// SPDX-License-Identifier: Apache-2.0
// The bytes of a visit's messages: where they start and land, what they hold before it, and whether they arrived.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "catalog/variant.h"
#include "engine/memory/buffer_pool.h"
#include "patterns/kit/pattern.h"

namespace netpipe {

struct VisitMessages {
  const ChosenPattern* chosen = nullptr;
  std::uint64_t rounds = 0;  // of the whole visit, those that are not timed included
  bool verify = false;       // every message gets contents of its own, and a place to be checked in
  std::uint64_t seed = 0;    // of the run
  std::uint64_t visit = 0;   // number of the visit: all contents differ from those of every other
};

// Chooses the places, fills them where the visit is verified, and pushes them out of the caches where they are to be
// cold. Sets stage.outgoing and stage.incoming. A failure: there is no memory for fresh ones.
Outcome prepare_messages(const VisitMessages& visit, BufferPool& pool, Stage& stage);

struct Checked {
  std::uint64_t bytes = 0;  // that are right, up to the first that is not
  std::string fault;        // "", or what is wrong, with the rank and the message
};
Checked check_messages(const VisitMessages& visit, Stage& stage);

}  // namespace netpipe
