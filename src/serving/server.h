// SPDX-License-Identifier: Apache-2.0
// The loop of `netpipe serve`: it listens, lets those in who know the token, and gives one of them at a time a process
// to measure in. Nothing that a stranger or a client does ends it, and what a stranger costs, its own address pays: one
// that calls more than callers.h allows is sent away for the rest of the second, and when all places are taken the
// oldest connection of the address that has most of them goes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "link/rendezvous.h"
#include "serving/admission.h"
#include "serving/child.h"

namespace netpipe {

inline constexpr std::size_t max_pending = 64;  // connections of strangers, and of clients without a process yet
// What the server needs, and the process of a measurement after it, which keeps one of them.
inline constexpr std::size_t descriptors_to_serve = max_pending + 64;

// The server's side of a measurement, in a process that was forked for it: lets the client in or turns it away, and
// measures, or becomes a program that does all this and ends with Child::live(words_fd). control blocks.
using MeasureFor = std::function<Ending(Descriptor control, int words_fd, const Admission& admission)>;

struct ServeOptions {
  std::string token;
  Bounds bounds;
  bool once = false;            // end after one measurement
  std::function<bool()> ready;  // called once it can serve; false: nobody learns of that, so it ends
  MeasureFor measure;
  std::function<void(const std::string&)> log;  // one line without its end, for people; must not block
  // How long a stranger may take to prove the token and send its plan, and how long a measurement may take to end once
  // it has been told to. Tests shorten them.
  std::int64_t handshake_ns = 5'000'000'000;
  std::int64_t grace_ns = 2'000'000'000;
};

// Serves until SIGTERM (0), SIGINT (130) or, with once, the end of the first measurement (its exit code; a refused plan
// is none). To be called in a process of one thread: it blocks these signals and SIGCHLD meanwhile, and forks.
Result<int> serve(Listener listener, const ServeOptions& options);

}  // namespace netpipe
