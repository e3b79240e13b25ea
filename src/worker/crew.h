// SPDX-License-Identifier: Apache-2.0
// Whoever measures a variant, as the session sees it: the ranks of this host that were forked (or the pair with a
// server), of which rank 0 is the session's own process, or a job, whose processes the library's launcher started.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "catalog/plan.h"
#include "engine/commands.h"
#include "engine/rig.h"
#include "link/group.h"
#include "link/rendezvous.h"
#include "worker/launcher_io.h"

namespace netpipe {

// By rank: what each noted in a visit; nothing where its clock does not count.
using RankNotes = std::vector<std::vector<std::int64_t>>;

class Crew {
 public:
  virtual ~Crew() = default;
  // Each is collective and comes to an end. variant: of the plan.
  virtual Result<Opening> open(std::uint32_t variant) = 0;
  // The worst of the ranks' reports, and what they noted. A failure: a rank has gone.
  virtual Result<Report> visit(const Command& command, RankNotes& notes) = 0;
  virtual Result<std::vector<std::string>> counters(std::uint32_t variant) = 0;  // and closes the variant
  // Ends the ranks that are not this process. What they used at most.
  virtual MemoryUse finish() = 0;
  // After a failure: whoever is left of a job ends now.
  virtual void let_go() {}
  // A visit that does not run may be waited for: tells the ranks that there is somebody.
  virtual void sign_of_life() = 0;
};

// Rank 0 is this process; group: with the others.
class NativeCrew final : public Crew {
 public:
  NativeCrew(Group& group, Rig& rig, const Plan& plan, const Resolved& resolved)
      : group_(group), rig_(rig), plan_(plan), resolved_(resolved) {}
  Result<Opening> open(std::uint32_t variant) override;
  Result<Report> visit(const Command& command, RankNotes& notes) override;
  Result<std::vector<std::string>> counters(std::uint32_t variant) override;
  MemoryUse finish() override;
  void sign_of_life() override;
  [[nodiscard]] MemoryUse memory() const { return rig_.memory(); }
  Yardstick yardstick();

 private:
  [[nodiscard]] bool alone(std::uint32_t variant) const { return rig_.ranks(variant) == 1; }
  Group& group_;
  Rig& rig_;
  const Plan& plan_;
  const Resolved& resolved_;
};

// Where the processes of all jobs come to, and how they are asked for.
struct JobOffice {
  Listener listener;
  std::string job;  // the same on all ranks of the run, unguessable
  LauncherInput* input = nullptr;
  std::function<void(const std::string&)> event;
  const Registry* registry = nullptr;
  int jobs = 0;  // that were asked for so far
};

// One variant of a launched module, in processes of its own.
class JobCrew final : public Crew {
 public:
  JobCrew(JobOffice& office, const Plan& plan, const Resolved& resolved)
      : office_(office), plan_(plan), resolved_(resolved) {}
  ~JobCrew() override;
  Result<Opening> open(std::uint32_t variant) override;
  Result<Report> visit(const Command& command, RankNotes& notes) override;
  Result<std::vector<std::string>> counters(std::uint32_t variant) override;
  MemoryUse finish() override;
  void let_go() override;
  void sign_of_life() override {}  // these wait for ever, and go when the connection does

 private:
  Result<Opening> open_new(std::uint32_t variant);
  Outcome gather(std::uint32_t variant, int ranks);
  Outcome welcome(std::uint32_t variant);
  // With what the launcher has to say of it.
  Failure lost(const Failure& failure) const;
  [[nodiscard]] std::string plan_of(std::uint32_t variant) const;

  JobOffice& office_;
  const Plan& plan_;
  const Resolved& resolved_;
  int job_ = -1;
  std::vector<int> joined_;  // connections, until the group has them
  std::unique_ptr<Group> group_;
  Placement placement_;
};

}  // namespace netpipe
