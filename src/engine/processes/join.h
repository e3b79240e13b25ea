// SPDX-License-Identifier: Apache-2.0
// One process of a job: the launcher of a library has started it, and the environment says which conductor requested
// it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "catalog/registry.h"
#include "engine/processes/launched.h"
#include "link/group.h"

namespace netpipe {

// The module of this file under this name.
using ModuleLoader = std::function<Result<Registry>(const std::string& file, const std::string& name)>;

// A process that its conductor has taken into a job.
struct Joined {
  std::string job;     // the same on all ranks, unguessable
  std::string module;  // what is measured; "-" where the plan says which
  std::string plan_text;
  std::string local_address;  // numeric, of the connection to the conductor
  std::unique_ptr<Group> connection;
  std::unique_ptr<Group> group;  // over this connection; its member 0 is the conductor
};
// Calls the conductor that the environment names. words: what it is told beside the number of the job.
// last_of_process: no other rank of this process will call it.
Result<Joined> join_job(bool last_of_process, const std::string& words = "");

// Calls the conductor and carries out its commands. Returns the exit code of the process; a failure is to be printed.
Result<Exit> join(const ModuleLoader& load, LaunchedProcess& process);

}  // namespace netpipe
