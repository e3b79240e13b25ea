// SPDX-License-Identifier: Apache-2.0
// The records of a run file that are about variants, sizes and samples: each of them data in, one JSON object out,
// without a newline. docs/reference/record.md describes them. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/engine.h"
#include "plan/plan.h"
#include "sampling/sampler.h"
#include "sampling/yardstick.h"
#include "worker/results/samples.h"

namespace netpipe {

// What the records of one curve have in common.
struct CurveName {
  int launch = 0;
  const Variant* variant = nullptr;
  const ChosenPattern* chosen = nullptr;
};

// facts: JSON of machine/environment.h.
std::string environment_record(int launch, int rank, const std::string& host, const std::string& facts);
std::string variant_record(int launch, const Variant& variant, const Opening& opening);
// size_bytes nullopt: all sizes.
std::string skipped_record(int launch, const std::string& variant, const std::string& pattern,
                           std::optional<std::uint64_t> size_bytes, const std::string& reason);
// Of a size whose samples all lost a message, so that it has no time: a skipped record with what was lost.
inline constexpr const char* lost_in_every_sample = "messages were lost in every sample, so none has a time";
std::string lost_record(const CurveName& name, const Point& point);
// clock_source: that the kernel reads the time from; stolen: share of the processor time since the yardstick before
// that the hypervisor gave to others. nullopt: not known, or the first of a launch.
std::string yardstick_record(int launch, double at_s, int state, const Yardstick& yardstick,
                             const std::optional<std::string>& clock_source, std::optional<double> stolen);
// values: a JSON object.
std::string counters_record(int launch, const std::string& variant, std::size_t rank, const std::string& values);

struct SampleRecord {
  std::uint64_t size_bytes = 0;
  std::uint64_t operations = 0;  // of each sample
  int pass = 0;
  std::uint64_t block = 0;
  int state = -1;  // of the machine
  double at_s = 0;
  std::size_t dropped = 0;  // leading samples, as warm-up
  std::uint64_t verified_bytes = 0;
  std::string counters = "{}";  // what the layer counted: a JSON object
};
std::string sample_record(const CurveName& curve, const SampleRecord& record, const Samples& samples);

// Nothing ran for a while. visit: the one that it fell into, which does not count; nullptr: it fell between two.
struct PauseRecord {
  double at_s = 0;         // when it began, or the visit did
  double seconds = 0;      // how long it lasted
  bool suspended = false;  // this host was; false: a process of the run was stopped, or another host suspended
  std::uint64_t size_bytes = 0;
};
std::string pause_record(int launch, const CurveName* visit, const PauseRecord& record);

// blocks: the visits of the point, at least one.
std::string point_record(const CurveName& name, const CurveSetting& setting, const Opening& opening, const Point& point,
                         std::span<const Block> blocks);

struct LaunchRecord {
  int launch = 0;
  double seconds = 0;
  int passes = 0;
  MemoryUse memory;
  int states = 0;  // of the machine that were seen
};
std::string launch_record(const LaunchRecord& record);

}  // namespace netpipe
