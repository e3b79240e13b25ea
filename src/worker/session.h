// SPDX-License-Identifier: Apache-2.0
// Conducts a measurement: opens the variants, lets the sampler decide what is measured next and the workers measure it,
// writes what comes of it, and decides what goes on when something fails.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "machine/environment.h"
#include "plan/plan.h"
#include "record/run_file.h"
#include "sampling/sampler.h"
#include "sampling/yardstick.h"
#include "worker/results/records.h"
#include "worker/workers/forked_workers.h"
#include "worker/workers/hosted_workers.h"
#include "worker/workers/launched_workers.h"

namespace netpipe {

struct SessionSetting {
  const Plan* plan = nullptr;
  const Resolved* resolved = nullptr;
  ForkedWorkers* forked = nullptr;
  // Of netpipe's own layers, by their number of ranks; none: forked measures them, else only the yardsticks.
  std::map<int, HostedWorkers*> hosted;
  JobServer* job_server = nullptr;  // for the variants that are launched
  RunFile* file = nullptr;
  std::string hash;                               // of the plan
  std::vector<int> pin;                           // by rank
  std::vector<std::string> environments;          // records, one for each host
  std::function<void(const std::string&)> event;  // one line of JSON for the Python side
  // Paced runs: waits for the word to go on, and calls alive meanwhile. false when nobody will say it any more.
  std::function<bool(const std::function<void()>& alive)> wait_for_go;
};

class Session {
 public:
  explicit Session(SessionSetting setting);
  // Measures everything. Returns the exit code of the worker; sentences go to standard error as they happen.
  Exit run();

 private:
  // One variant in the course of the session.
  struct Open {
    Workers* workers = nullptr;  // nullptr: it is not open
    Opening opening;             // the latest
    int restarts = 0;            // of its processes, after they were lost
    std::string lack;            // why something of it was skipped
  };

  void write(std::string record);
  void complain(Exit exit, std::uint32_t variant, std::optional<std::uint64_t> size_bytes, const std::string& sentence);
  void write_skipped(std::uint32_t variant, const std::string& pattern, std::optional<std::uint64_t> size_bytes,
                     const std::string& reason);
  // pattern nullptr: of the whole variant.
  void write_error(std::uint32_t variant, const ChosenPattern* pattern, std::uint64_t size_bytes,
                   const Failure& failure);
  bool open(std::uint32_t variant);
  Outcome open_variants();
  std::vector<CurveSetting> curve_settings();
  void take_yardstick();
  void take_yardstick(Sampler& sampler);  // which learns of another clock source
  Outcome measure(Sampler& sampler);
  Outcome visit(Sampler& sampler, const Visit& visit);
  void take(Sampler& sampler, const Visit& visit, const Report& report, double began_s);
  void note_suspension();
  void note_pause(Sampler& sampler, const Visit& visit, double paused_s, double began_s);
  void leave_out(Sampler& sampler, const Visit& visit, const std::string& why);
  void say_what_was_refused(std::size_t curve, const Curve& of);
  void leave(Sampler& sampler, std::uint32_t variant);
  Outcome close_one(std::uint32_t variant);
  void give_up(Sampler& sampler, const Visit& visit, bool again, std::uint64_t from_bytes);
  void lose(Sampler& sampler, const Visit& visit, const Failure& failure, bool again);
  void write_done(Sampler& sampler);
  Outcome lose_forked(Sampler& sampler, const Failure& failure);
  void note_verified(std::size_t curve, const Curve& of, const Point& point);
  void say_what_was_not_verified(const Sampler& sampler);
  bool progress(const Sampler& sampler, bool wait);  // false: nobody wants it to go on
  void close_variants();
  MemoryUse finish(bool whole);
  void say_that_nothing_was_measured();
  Exit end(const Sampler& sampler, const MemoryUse& memory);
  [[nodiscard]] double at_s() const;  // since the session began
  [[nodiscard]] const ChosenPattern& chosen_of(const Curve& curve) const;
  [[nodiscard]] CurveName name_of(const Curve& curve) const;

  SessionSetting set_;
  std::vector<Open> variants_;
  std::vector<std::unique_ptr<LaunchedWorkers>> jobs_;
  MachineStates states_;
  int state_ = -1;
  double yardstick_at_s_ = -1;
  std::optional<ProcessorTime> processor_time_;  // at the latest yardstick
  std::optional<std::uint64_t> block_;           // the one that is being measured
  double clock_cost_ns_ = 25;
  std::optional<std::string> clock_source_;  // at the latest yardstick
  std::int64_t started_ns_;
  std::int64_t suspended_ns_;  // of this host, as it was last looked at
  int pauses_ = 0;             // that a visit fell into
  std::int64_t progress_ns_ = 0;
  std::uint64_t visits_ = 0;
  Gathered gathered_;
  // curve -> a size that its layer refused, and why, as long as no other size is known
  std::map<std::size_t, std::pair<std::uint64_t, std::string>> refused_;
  bool sampled_ = false;                             // anything at all
  std::map<std::size_t, std::uint64_t> unverified_;  // curve -> its smallest size of which no byte could be checked
  Exit exit_ = Exit::done;
  Outcome file_state_ = ok();  // after a failure nothing more is written, and nothing more measured
};

}  // namespace netpipe
