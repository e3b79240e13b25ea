// SPDX-License-Identifier: Apache-2.0
// What a module may give a Wire beyond its lanes: another path for the bytes than one system call for each piece, and
// names for lanes that stand still. Neither is on the fast path of a Wire without them.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "netpipe/module.h"

namespace netpipe::fd_io {

// Moves bytes through the descriptors of lanes, which have slots here. One path serves all the wires of an endpoint.
class Path {
 public:
  Path() = default;
  Path(const Path&) = delete;
  Path& operator=(const Path&) = delete;
  virtual ~Path() = default;

  // Messages of up to so many bytes are moved as if there were no path.
  [[nodiscard]] virtual size_t direct_bytes() const = 0;

  // The slot of a lane, or -1; of a socket both descriptors are one. Nothing refers to its buffers after remove() or
  // cancel().
  virtual int add(int in, int out) = 0;
  virtual void remove(int slot) = 0;
  virtual void cancel(int slot) = 0;

  // As send(2) and recv(2) of a socket that does not block. A call that came to EAGAIN is repeated with the same bytes.
  virtual ssize_t write(int slot, const void* data, size_t bytes) = 0;
  virtual ssize_t read(int slot, void* data, size_t bytes) = 0;

  // A buffer may be written again once what was written from it has settled.
  virtual uint64_t written(int slot) = 0;  // counts the writes whose buffers the kernel may still read
  virtual bool settled(int slot, uint64_t written_so_far) = 0;

  virtual void submit() = 0;  // what write and read have only noted
  // Until something has happened, or for so long. False: poll() on the sockets says that as well.
  virtual bool sleep(int most_ms) = 0;

  // A Wire says when its calls begin, and of those that leave transfers behind when they end. In between the path may
  // move these, from a signal handler of this thread.
  class Mover {
   public:
    Mover() = default;
    Mover(const Mover&) = delete;
    Mover& operator=(const Mover&) = delete;
    // Whether anything moved. What fails is left as it is: the next call meets it again and says so.
    virtual bool move_unasked() = 0;

   protected:
    ~Mover() = default;
  };
  virtual void enter() {}
  virtual void leave(Mover&) {}
};

// Says of lanes to a peer, a bit each, what a user should know where they stand still or have failed: the end of a
// sentence, or "".
class LaneNames {
 public:
  LaneNames() = default;
  LaneNames(const LaneNames&) = delete;
  LaneNames& operator=(const LaneNames&) = delete;
  virtual ~LaneNames() = default;
  [[nodiscard]] virtual std::string stand_still(int peer, uint64_t lanes) const = 0;
};

}  // namespace netpipe::fd_io
