// SPDX-License-Identifier: Apache-2.0
// A measurement in a process of its own: started, held within its bounds, ended and reaped. What it does wrong hurts
// itself alone.
#pragma once

#include <csignal>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/descriptor.h"
#include "base/result.h"

namespace netpipe {

// What a server grants to one client.
struct Bounds {
  std::uint64_t max_message_bytes = std::uint64_t{64} << 20;
  std::uint64_t max_memory_bytes = std::uint64_t{1} << 30;
  double max_seconds = 600;
};

// What a child has to say at its end.
struct Ending {
  int exit = static_cast<int>(Exit::failed);  // as of a process
  bool measured = true;                       // false: it was refused before anything was measured
  std::string sentence;                       // "", or why
};

class Child {
 public:
  // Runs body in a new process, as leader of its own process group, with signals as in mask and at most
  // max_memory_bytes of new address space. The new process dies with this one. Exit::unavailable: no process is to be
  // had. grace_ns: how long the process may take to end once it has been asked to. body: gets the descriptor that its
  // ending is to be left in, in case it becomes another program, which then does so with live().
  static Result<Child> start(const std::function<Ending(int words_fd)>& body, const Bounds& bounds,
                             std::int64_t grace_ns, const sigset_t& mask);
  // The rest of such a process: leaves the ending of body, and ends with it.
  [[noreturn]] static void live(int words_fd, const std::function<Ending()>& body);

  Child(Child&&) = default;
  Child& operator=(Child&&) = default;

  [[nodiscard]] double seconds(std::int64_t now_ns) const { return static_cast<double>(now_ns - started_ns_) * 1e-9; }
  // After max_seconds SIGTERM to the process group, and SIGKILL when the grace is over. SIGKILL, too, when somebody has
  // stopped (SIGSTOP) the process for as long as the grace: its client gave up before.
  void tick(std::int64_t now_ns);
  [[nodiscard]] std::int64_t next_ns() const;  // when tick has something to do
  // How it ended, once it has; whatever else is left of its group ends with it. Never waits.
  std::optional<Ending> reap();
  // Ends it now: SIGTERM, and SIGKILL after the grace. Waits.
  Ending stop();

 private:
  Child() = default;
  void kill_group(int signal) const;
  void notice_stop(std::int64_t now_ns);

  pid_t pid_ = -1;
  Descriptor words_;  // where the child leaves its ending
  std::int64_t started_ns_ = 0;
  std::int64_t next_ns_ = 0;
  std::int64_t grace_ns_ = 0;
  double max_seconds_ = 0;
  bool asked_ = false;           // SIGTERM was sent because its time was over
  std::int64_t stopped_ns_ = 0;  // since when somebody keeps it stopped; 0: nobody does
  bool given_up_ = false;        // SIGKILL was sent because of that
};

}  // namespace netpipe
