// SPDX-License-Identifier: Apache-2.0
// The processes of one measurement, and how they talk before and between timed regions. Whoever makes the group knows
// how they found each other: a fork, a control connection between two hosts, a library's own launcher.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "link/seal.h"

namespace netpipe {

class Group {
 public:
  virtual ~Group() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  // Blocking, whole, in order. A call ends early when the abort flag rises or the peer has gone; its failure then names
  // the peer.
  virtual Outcome send(int peer, const void* data, std::size_t bytes) = 0;
  virtual Outcome recv(int peer, void* data, std::size_t bytes) = 0;
  // Waits for something from this peer, at most wait_ms, and takes nothing. true: recv will not wait for its first
  // byte. false: not yet, or a signal came.
  virtual bool arrives(int peer, int wait_ms) = 0;
  // Has this peer gone, or reported a failure of its own? Async-signal-safe; the watchdog asks during a measurement.
  // false for a peer that this process has no connection to.
  [[nodiscard]] virtual bool gone(int peer) const noexcept = 0;
  [[nodiscard]] bool any_gone() const noexcept;

  // Built on send and recv; rank 0 is the root.
  Outcome bcast(void* data, std::size_t bytes);
  Outcome barrier();
  Outcome bcast_text(std::string& text);                               // at most 1 MiB
  Result<std::vector<std::string>> gather_text(const std::string&);    // rank 0: one per rank; others: empty
  Result<std::vector<std::string>> exchange_text(const std::string&);  // all ranks: one per rank
  // All ranks exchange what they came to: the texts of all, or the first failure with the name of the rank that had it
  // and its exit code.
  Result<std::vector<std::string>> agree(const Result<std::string>&);
  // The same, but only rank 0 receives the texts; the others get none, or the failure.
  Result<std::vector<std::string>> agree_for_root(const Result<std::string>&);
  Outcome send_text(int peer, const std::string& text);
  Outcome recv_text(int peer, std::string& text);

  // What sentences call a peer: "rank 1", unless it was renamed.
  [[nodiscard]] std::string name(int peer) const;
  void rename(int peer, std::string name);

 private:
  // The texts in the outcomes that all ranks sent, or the failures among them.
  [[nodiscard]] Result<std::vector<std::string>> decoded(std::vector<std::string> outcomes) const;
  std::vector<std::string> names_;
};

// One process, which has nobody to talk to.
std::unique_ptr<Group> make_single_group();
// A star of connected stream sockets (socket pairs, or TCP): rank 0 holds fds[1..size-1] (fds[0] is -1), every other
// rank holds fds[0]. The group owns and closes them. keys: of each of fds, where they lead to other hosts; then every
// message is sealed (link/seal.h), and one that is not ends the conversation with a failure. Empty: they are not.
std::unique_ptr<Group> make_socket_group(int rank, int size, std::vector<int> fds, const volatile int* abort,
                                         const std::vector<FrameKeys>& keys = {});
// The first `size` ranks of a group, for what concerns no others; only these may use it. whole outlives it.
std::unique_ptr<Group> make_subgroup(Group& whole, int size);
// The same connection to rank 0, once this process has learned over it which rank of how many it is. connection
// outlives it.
std::unique_ptr<Group> make_member(Group& connection, int rank, int size);

}  // namespace netpipe
