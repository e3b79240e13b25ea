// SPDX-License-Identifier: Apache-2.0
// Rank 0's part: drives the sampler, tells the other ranks what to do, and writes what comes of it into the run file.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "catalog/plan.h"
#include "record/run_file.h"
#include "sampling/sampler.h"
#include "worker/crew.h"

namespace netpipe {

struct SessionSetting {
  const Plan* plan = nullptr;
  const Resolved* resolved = nullptr;
  NativeCrew* native = nullptr;
  JobOffice* office = nullptr;  // where a variant is a launched one
  RunFile* file = nullptr;
  std::string hash;
  std::vector<int> pin;                           // per rank
  std::vector<std::string> environments;          // facts of each rank, JSON
  std::function<void(const std::string&)> event;  // one JSON line for the launcher
  // Paced runs: waits for the launcher's word and calls alive meanwhile. false when the launcher has gone.
  std::function<bool(const std::function<void()>& alive)> wait_for_go;
};

class Session {
 public:
  explicit Session(SessionSetting setting);
  // Measures everything. The exit code of the worker; sentences go to standard error as they happen.
  Exit run();

 private:
  struct Shown;  // what the file has of one curve already
  Outcome write(std::string line);
  void complain(Exit exit, std::size_t curve, std::uint64_t size_bytes, const std::string& sentence);
  void skip(std::uint32_t variant, const char* pattern, std::uint64_t size_bytes, const std::string& reason);
  void write_error(std::uint32_t variant, const char* pattern, std::uint64_t size_bytes, Exit exit,
                   const std::string& sentence);
  bool open(std::uint32_t variant);
  void open_variants();
  std::vector<CurveSetting> curve_settings();
  Outcome measure(Sampler& sampler);
  Outcome visit(Sampler& sampler, const Visit& visit);
  void give_up(Sampler& sampler, const Visit& visit, bool again);
  void lose(Sampler& sampler, const Visit& visit, Exit exit, const std::string& sentence, bool again);
  void take_yardstick(Sampler* sampler);
  // What the ranks noted in a visit, sample by sample.
  struct Taken {
    std::vector<double> ns;
    double span_ns = 0;  // of the whole visit
    Beside beside;
  };
  Taken take(const Visit& visit, const Mode& mode, int nranks, std::uint64_t size_bytes) const;
  Outcome write_sample(const Sampler& sampler, const Visit& visit, const Taken& taken, std::size_t dropped,
                       std::uint64_t verified_bytes);
  Outcome write_done(Sampler& sampler);
  std::string point_record(const Sampler& sampler, std::size_t curve, std::size_t point) const;
  bool progress(const Sampler& sampler, bool wait);  // false: the launcher has gone
  void close_variants();
  void say_that_nothing_was_measured();
  [[nodiscard]] double at_s() const;

  SessionSetting set_;
  MachineStates states_;
  int state_ = -1;
  double yardstick_at_s_ = -1;
  double clock_cost_ns_ = 25;
  std::int64_t started_ns_;
  std::int64_t progress_ns_ = 0;
  std::uint64_t visits_ = 0;
  std::vector<std::unique_ptr<JobCrew>> jobs_;
  std::vector<Crew*> crews_;        // per variant; nullptr: it is not open
  std::vector<Opening> openings_;   // per variant
  std::vector<int> restarts_;       // per variant, of its job
  std::vector<std::string> lacks_;  // per variant, why something of it was skipped
  bool sampled_ = false;            // anything at all
  RankNotes notes_;
  Exit exit_ = Exit::done;
  Outcome file_state_ = ok();
};

}  // namespace netpipe
