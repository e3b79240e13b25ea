// SPDX-License-Identifier: Apache-2.0
#include "engine/processes/launched.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include "base/descriptor.h"
#include "base/host_name.h"
#include "engine/processes/pinning.h"

namespace netpipe {
namespace {

// A library that is killed leaves the files of its shared memory. Whoever cleans up after this job, maybe a later run,
// has to know which ones it had (python/netpipe/libraries/starting/scratch.py). Where that cannot be written they stay.
void note_shared_memory() {
  const char* const folder = std::getenv("NETPIPE_JOB_FOLDER");
  if (folder == nullptr) return;
  static constexpr std::string_view place = "/dev/shm/", deleted = " (deleted)";
  std::set<std::string> names;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const auto at = line.find(place);
    if (at != std::string::npos && !line.ends_with(deleted)) names.insert(line.substr(at + place.size()));
  }
  std::string text;
  for (const std::string& name : names) text += name + "\n";
  if (text.empty()) return;
  const std::string path = std::string(folder) + "/shared-memory";
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644));
  [[maybe_unused]] const ssize_t wrote = write(file.get(), text.data(), text.size());
}

}  // namespace

void LaunchedProcess::prepare(const Pinning& pin, const Cost& loading) {
  pin_ = pin;
  loading_ = loading;
}

Result<std::string> LaunchedProcess::address(Endpoint& endpoint) {
  if (Outcome known = endpoint.bootstrap(); !known) return known.failure();
  return process_text(endpoint.rank(), endpoint.nranks(), host_name());
}

Outcome LaunchedProcess::connect(Endpoint& endpoint, const std::vector<std::string>& addresses) {
  note_shared_memory();
  Result<Placement> placement = place_ranks(addresses, endpoint.module().name);
  if (!placement) return placement.failure();
  std::vector<bool> far;
  for (const std::string& host : placement->host_of_rank) far.push_back(host != placement->host_of_rank[0]);
  const Placement::Local local = placement->local(endpoint.rank(), host_name());
  endpoint.place(std::move(placement->member_of_rank), std::move(far));
  return settle(local);
}

Outcome LaunchedProcess::settle(const Placement::Local& local) {
  if (pin_.kind == Pinning::Kind::nearness && local.count != 2) {
    return usage("pin " + pin_text(pin_) + " places two ranks on one host, and here there " +
                 (local.count == 1 ? "is one" : "are " + std::to_string(local.count)) + "; name the processors");
  }
  const Result<std::vector<int>> cpus = choose_cpus(pin_, local.count);
  if (!cpus) return cpus.failure();
  cpu_ = (*cpus)[static_cast<std::size_t>(local.index)];
  return pin_to(cpu_);
}

np_status LaunchedProcess::after_visit(Endpoint& endpoint) {
  return endpoint.module().barrier != nullptr ? endpoint.module().barrier(endpoint.handle()) : NP_OK;
}

std::string LaunchedProcess::last_words(const StuckIn& where, const std::string& sentence) const {
  const std::string who = where.rank >= 0 ? "rank " + std::to_string(where.rank) : "a process";
  const std::string size = where.pattern != nullptr ? ", " + std::to_string(where.size_bytes) + " bytes" : "";
  return "netpipe-worker: " + who + size + ": " + sentence + "\n";
}

int LaunchedProcess::last_words_fd() const { return STDERR_FILENO; }

}  // namespace netpipe
