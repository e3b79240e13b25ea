// SPDX-License-Identifier: Apache-2.0
#include "serving/serve_child.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "base/complain.h"
#include "base/text.h"
#include "link/secret.h"
#include "machine/environment.h"
#include "machine/files.h"
#include "machine/memory.h"
#include "serving/confine.h"
#include "serving/serve_rank.h"

namespace netpipe {
namespace {

constexpr const char* own_program = "/proc/self/exe";  // also after an update has replaced the file
constexpr std::size_t most_bytes = 1U << 20;           // of an admission

bool write_whole(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t some = ::write(fd, text.data(), text.size());
    if (some <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(some));
  }
  return ::lseek(fd, 0, SEEK_SET) == 0;
}

std::optional<Admission> read_admission(int fd) {
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t some = 0; (some = ::read(fd, part.data(), part.size())) > 0 && text.size() < most_bytes;) {
    text.append(part.data(), static_cast<std::size_t>(some));
  }
  ::close(fd);
  return parse_admission(text);
}

// Everything that the measurement will have to know of this host and cannot find out once it is confined.
Result<ServingHost> look_around() {
  Result<Registry> registry = Registry::load(module_directories(), {});
  if (!registry) return registry.failure();
  // The code of all that a client can choose.
  std::vector<std::string> choices;
  for (const LoadedModule& module : registry->modules()) {
    const bool own = module.description.empty() && module.reason.empty();
    if (own && module.layer->crosses_hosts != 0) choices.emplace_back(module.layer->name);
  }
  if (Outcome bound = registry->bind(choices); !bound) return bound.failure();
  // A client on the same host has taken the first of the sensible processors; this is rank 1 wherever it runs.
  const std::vector<int> cpus = sensible_cpus(2);
  const int cpu = cpus.size() < 2 ? -1 : cpus[1];
  last_level_cache_bytes();  // remembers it
  keep_open({"/proc/self/status", "/proc/self/smaps_rollup", "/proc/meminfo"});
  return ServingHost{std::move(*registry), cpu, environment_json(std::array{cpu})};
}

Ending serve_admitted(int control_fd, const Admission& admission) {
  Result<ServingHost> host = look_around();
  const Outcome confined = confine();
  const Check check = [&](const std::string& plan_text, const Bounds& bounds) -> Outcome {
    if (!host) return host.failure();
    // That a kernel has no filters, the server has said when it began.
    if (!confined && confined.failure().exit != Exit::unavailable) return confined.failure();
    return check_remote_plan(plan_text, bounds, host->registry);
  };
  const Handler handler = [&](int fd, const Admission& admitted) { return serve_rank(fd, admitted, *host); };
  return measure_admitted(Descriptor(control_fd), admission, check, handler);
}

}  // namespace

Failure become_serving(int control_fd, int words_fd, const Admission& admission) {
  const auto cannot = [](const char* what) {
    return unavailable(std::string("the server cannot start a program for the measurement: ") + what + ": " +
                       std::strerror(errno));
  };
  const Descriptor paper(::memfd_create("netpipe-admission", 0));
  if (!paper) return cannot("memfd_create");
  if (!write_whole(paper.get(), admission_text(admission))) return cannot("memfd");
  for (const int fd : {control_fd, words_fd}) ::fcntl(fd, F_SETFD, 0);
  ::unsetenv(token_variable);
  std::array<std::string, 5> words = {"netpipe-worker", serving_command, std::to_string(control_fd),
                                      std::to_string(words_fd), std::to_string(paper.get())};
  std::array<char*, 6> arguments{};
  for (std::size_t i = 0; i < words.size(); ++i) arguments[i] = words[i].data();
  ::execv(own_program, arguments.data());
  return cannot(own_program);
}

int serving_main(std::span<const std::string> arguments) {
  std::array<int, 3> fds{};
  bool whole = arguments.size() == fds.size();
  for (std::size_t i = 0; i < fds.size() && whole; ++i) {
    const Result<std::int64_t> fd = parse_integer(arguments[i]);
    whole = fd && *fd > STDERR_FILENO && *fd < 1 << 20;
    if (whole) fds[i] = static_cast<int>(*fd);
  }
  const std::optional<Admission> admission = whole ? read_admission(fds[2]) : std::nullopt;
  if (!admission) return complain(usage("only netpipe-worker serve starts this"));
  Child::live(fds[1], [&] { return serve_admitted(fds[0], *admission); });
}

}  // namespace netpipe
