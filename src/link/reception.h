// SPDX-License-Identifier: Apache-2.0
// Where processes that are expected call in, beside whoever else can reach the port: all are heard side by side, so
// that nobody who says nothing keeps the others waiting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "link/handshake.h"
#include "link/seal.h"

namespace netpipe {

// Somebody who called, proved the token and was accepted.
struct Caller {
  Descriptor fd;  // blocking
  std::string plan_text;
  FrameKeys keys;
};

class Reception {
 public:
  static constexpr std::int64_t patience_ns = 5'000'000'000;  // that a caller has to prove the token
  static constexpr std::size_t strangers = 64;                // heard beside those who are expected

  // expected: how many may call at once.
  Reception(std::string token, std::size_t expected) : token_(std::move(token)), most_(expected + strangers) {}

  // Waits until somebody calls at the listener, which does not block, or says something, or until `other` (-1: nothing
  // else) can be read; at most wait_ms. Returns those who were accepted meanwhile.
  std::vector<Caller> attend(int listener, int other, int wait_ms);

 private:
  struct Place {
    Descriptor fd;
    std::unique_ptr<ServerHandshake> talk;
  };
  void welcome(int listener);
  void hear(Place& place, std::vector<Caller>& accepted);

  const std::string token_;
  const std::size_t most_;
  std::vector<Place> places_;  // the oldest first
};

}  // namespace netpipe
