// SPDX-License-Identifier: Apache-2.0
// This process as a task of PVM. libpvm keeps its state in globals, so a process is one task however many endpoints are
// open: they share one enrolment, the fragment size and the routes, and have tags of their own.
//
// A direct route, once made, carries every message between its two tasks, whatever route is asked for afterwards
// (libpvm, mxfer). So a route belongs to the pair, and the endpoint that is about to be measured makes it or takes it
// down, on both sides, before its visit.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "netpipe/module.h"

namespace netpipe::pvm {

// What libpvm says of its last error; "" if nothing. It would go to stderr otherwise.
const char* library_words();
void forget_library_words();

const char* meaning(int code);  // of a negative result

class Task {
 public:
  static Task& of_process();  // the only one
  ~Task() { end_watch(); }
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;

  // Endpoints count. The first enrols with the daemon that PVMSOCK names; the last one leaves.
  np_status enrol(const np_context* context);
  void leave();

  [[nodiscard]] int tid() const { return tid_; }
  int new_tag() { return next_tag_++; }
  void lost_daemon() { broken_ = true; }

  // While libpvm may wait in select, which no signal ends: for room when it sends, for a message when it receives. A
  // time limit would end that too, but the kernel arms a timer for it each time. So another thread looks now and then
  // whether the call has to be given up, and then shuts the sockets.
  void waits(bool now) { waiting_.store(now, std::memory_order_relaxed); }

  // Direct routes to exactly these tasks as well as others, or to none of these. Collective among them; of two tasks
  // the lower rank asks. tags: what the other one listens to, mine: what this one does.
  struct Peer {
    int rank = 0, tid = 0, tag = 0;
  };
  np_status route_directly(const np_context* context, const std::vector<Peer>& peers, int mine);
  np_status route_by_daemon(const np_context* context, const std::vector<Peer>& peers);

  // The socket that carries messages to this task, or -1.
  [[nodiscard]] int socket_to(int tid);

  // Whether this task is on another host, that is, has another daemon.
  [[nodiscard]] bool is_far(int tid) const;
  // What the daemon of this task is called: the address at which the other daemons know it. "" on one host.
  [[nodiscard]] std::string daemon_of(int tid) const;

 private:
  Task() = default;
  [[nodiscard]] std::vector<int> sockets();  // to the daemon, and to each directly connected task in the order of tids
  void keep_watch(const volatile int* abort);
  np_status watch_again(const np_context* context);
  np_status know_daemons(const np_context* context);
  void part();
  void end_watch();
  np_status meet(const np_context* context, const Peer& peer, int mine);
  np_status greet(const np_context* context, const Peer& peer);

  int endpoints_ = 0;
  int tid_ = -1;
  int next_tag_ = 1000;
  bool broken_ = false;
  std::map<int, int> direct_;           // by tid: the socket
  std::map<int, std::string> daemons_;  // by the part of a tid that is its host's: the daemon's name

  std::atomic<bool> waiting_{false};
  std::thread watch_;
  std::mutex mutex_;  // of what follows
  std::condition_variable change_;
  bool watching_ = false;
  std::vector<int> watched_;  // the sockets
};

}  // namespace netpipe::pvm
