// SPDX-License-Identifier: Apache-2.0
// The ranks of one measurement, and how they talk before and between timed regions. How they found each other (a fork,
// a control connection between two hosts, a library's own launcher) is the business of whoever made the Group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "netpipe/module.h"

namespace netpipe {

class Group {
 public:
  virtual ~Group() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  // Blocking, whole, in order. Each ends when the abort flag rises or the peer has gone; the sentence then says which
  // rank.
  virtual Outcome send(int peer, const void* data, std::size_t bytes) = 0;
  virtual Outcome recv(int peer, void* data, std::size_t bytes) = 0;
  // Has a peer gone (or reported a failure of its own)? Async-signal-safe; asked by the watchdog during a measurement.
  [[nodiscard]] virtual bool peer_gone() const noexcept = 0;

  // Built on send and recv; rank 0 is the root.
  Outcome bcast(void* data, std::size_t bytes);
  Outcome barrier();
  Outcome bcast_text(std::string& text);                               // at most 1 MiB
  Result<std::vector<std::string>> gather_text(const std::string&);    // rank 0: one per rank; others: empty
  Result<std::vector<std::string>> exchange_text(const std::string&);  // all ranks: one per rank
  // All ranks: everybody's text, or the first failure with the name of who had it. A failure travels with its exit
  // code.
  Result<std::vector<std::string>> agree(const Result<std::string>&);
  // The same, but the texts are rank 0's alone; the others get none, or the failure.
  Result<std::vector<std::string>> agree_for_root(const Result<std::string>&);
  Outcome send_text(int peer, const std::string& text);
  Outcome recv_text(int peer, std::string& text);

  // What a peer is called in sentences: "rank 1", unless it was renamed.
  [[nodiscard]] std::string name(int peer) const;
  void rename(int peer, std::string name);

 private:
  // What is in everybody's parcel, or the failures among them.
  [[nodiscard]] Result<std::vector<std::string>> opened(std::vector<std::string> parcels) const;
  std::vector<std::string> names_;
};

// Alone: one process, nothing to say.
std::unique_ptr<Group> make_single_group();
// A star of connected stream sockets (socket pairs, or TCP): rank 0 holds fds[1..size-1] (fds[0] is -1), every other
// rank holds fds[0]. The group owns and closes them.
std::unique_ptr<Group> make_socket_group(int rank, int size, std::vector<int> fds, const volatile int* abort);
}  // namespace netpipe
