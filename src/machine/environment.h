// SPDX-License-Identifier: Apache-2.0
// What this host is, and which processors a measurement should be pinned to.
// docs/reference/environment.md names every fact with its unit and its source.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace netpipe {

// Where the host's files are read from. Tests give a directory that looks like another machine; then nothing is asked
// of the running one, and what no file says is not known.
struct Host {
  std::string root = "/";
};

// The facts as one JSON object. `cpus` names the processor that each rank is pinned to, -1 for a rank that is not; it
// is empty if there are no ranks. Never fails: what cannot be read is null. Starts no process, opens no connection, and
// takes a few milliseconds. Contains no address of any kind.
std::string environment_json(std::span<const int> cpus, const Host& host = {});

// What the kernel reads the time from ("tsc"): it leaves one that it finds unstable while programs run. nullopt: not
// known. Reads one file, in a few microseconds.
std::optional<std::string> clock_source(const Host& host = {});

// What all processors of the host spent since it started, in the ticks of the kernel's accounting. stolen: wanted, and
// given to others by the hypervisor. nullopt: not known. Reads one file, in some microseconds.
struct ProcessorTime {
  double all_ticks = 0;
  double stolen_ticks = 0;
};
std::optional<ProcessorTime> processor_time(const Host& host = {});

// The share of the processor time between the two that was stolen. nullopt: one is not known, or no time has passed.
std::optional<double> stolen_share(const std::optional<ProcessorTime>& before,
                                   const std::optional<ProcessorTime>& after);

// How near to each other the processors of two ranks are: on one core, on two that share the last level of cache, on
// two of one socket (in different last levels of cache, where it has several), on two sockets.
enum class Nearness { smt, cache, socket, sockets };
inline constexpr std::array<const char*, 4> nearness_names = {"smt", "cache", "socket", "sockets"};

// Two processors that are so, within the affinity mask, always the same on the same machine: where there is a choice of
// one kind of core, the fastest, and without the core of processor 0. A failure names what this host has.
Result<std::vector<int>> two_cpus(Nearness nearness, const Host& host = {});

// One processor per rank, always the same on the same machine: distinct physical cores of one kind that share the last
// level of cache, else one socket, else any; without the core of processor 0, where interrupts go, when there are more
// than 4 cores; always within the affinity mask. With more ranks than cores the idle SMT siblings follow, with more
// ranks than processors they repeat. Empty when the machine does not say which processors there are: leave the ranks
// alone then.
std::vector<int> sensible_cpus(int ranks, const Host& host = {});

}  // namespace netpipe
