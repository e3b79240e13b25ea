// SPDX-License-Identifier: Apache-2.0
// Which curves a plan comes to, and what is written about them.
#include "worker/results/records.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "record/error_record.h"
#include "worker/curves.h"

namespace netpipe {
namespace {

const Registry& registry() {
  static const Result<Registry> loaded = Registry::load({NETPIPE_TEST_MODULES}, {});
  return *loaded;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

struct Planned {
  explicit Planned(const std::string& text) : plan(*parse_plan("netpipe-plan 1\n" + text)) {
    Result<Resolved> found = resolve(plan, registry());
    EXPECT_TRUE(found) << found.failure().sentence;
    resolved = std::move(*found);
    openings.resize(resolved.variants.size());
    for (std::optional<Opening>& opening : openings) {
      opening.emplace();
      opening->nranks = 2;
      opening->limits.delivers = 1;
    }
  }
  [[nodiscard]] Curves curves() const { return plan_curves(plan, resolved, openings); }
  Plan plan;
  Resolved resolved;
  std::vector<std::optional<Opening>> openings;
};

const std::string sizes = "schedule list\nsizes 8,64,1024\n";

TEST(Curves, AreOneForEachPatternOverEachOpenVariant) {
  Planned planned("variant crowd\nvariant closed\npattern pingpong\npattern stream\n" + sizes);
  Curves curves = planned.curves();
  ASSERT_EQ(curves.settings.size(), 4U);
  EXPECT_TRUE(curves.skipped.empty());
  EXPECT_EQ(curves.settings[3].variant, 1U);
  EXPECT_EQ(curves.settings[3].pattern, 1U);
  EXPECT_EQ(curves.settings[0].sizes, (std::vector<std::uint64_t>{8, 64, 1024}));
  EXPECT_EQ(curves.settings[0].most_rounds, (std::vector<std::uint64_t>{0, 0, 0})) << "nothing is verified";
  planned.openings[0].reset();
  curves = planned.curves();
  ASSERT_EQ(curves.settings.size(), 2U);
  EXPECT_EQ(curves.settings[0].variant, 1U);
}

TEST(Curves, LeaveOutSizesAboveTheVariantsLargestMessage) {
  Planned planned("variant crowd\n" + sizes);
  planned.openings[0]->limits.max_message_bytes = 64;
  const Curves curves = planned.curves();
  ASSERT_EQ(curves.settings.size(), 1U);
  EXPECT_EQ(curves.settings[0].sizes, (std::vector<std::uint64_t>{8, 64}));
  ASSERT_EQ(curves.skipped.size(), 1U);
  EXPECT_EQ(curves.skipped[0].size_bytes, 1024U);
  EXPECT_EQ(curves.skipped[0].reason, "the largest message of this variant is 64 bytes");
}

TEST(Curves, OfAPatternThatTheModuleCannotRunAreSkipped) {
  const Curves curves = Planned("variant crowd\npattern put\n" + sizes).curves();
  EXPECT_TRUE(curves.settings.empty());
  ASSERT_EQ(curves.skipped.size(), 1U);
  EXPECT_EQ(curves.skipped[0].pattern, "put");
  EXPECT_EQ(curves.skipped[0].size_bytes, std::nullopt);
}

TEST(Curves, LeaveOutEmptyMessagesWhereTheLayerHasNone) {
  Planned planned("variant crowd\nschedule list\nsizes 0,8\n");
  Curves curves = planned.curves();
  EXPECT_EQ(curves.settings[0].sizes, (std::vector<std::uint64_t>{8}));
  ASSERT_EQ(curves.skipped.size(), 1U);
  EXPECT_EQ(curves.skipped[0].size_bytes, 0U);
  EXPECT_EQ(curves.skipped[0].reason, "this layer has no empty messages");
  planned.openings[0]->limits.empty = 1;
  curves = planned.curves();
  EXPECT_EQ(curves.settings[0].sizes, (std::vector<std::uint64_t>{0, 8}));
  EXPECT_TRUE(curves.skipped.empty());
}

TEST(Curves, OfFreshBuffersAreSkippedWhereMessagesLieInTheLayersOwnMemory) {
  Planned planned("variant crowd\nbuffers fresh\n" + sizes);
  EXPECT_EQ(planned.curves().settings[0].most_rounds[0], 16383U);
  Layer own = Layer();
  own.name = "own";
  own.memory_kinds.emplace_back();
  const ChosenPattern& chosen = planned.resolved.patterns[0];
  np_limits limits{};
  EXPECT_TRUE(has(fresh_obstacle(chosen, own, limits, 2), "memory of the layer's own"));
  limits.any_memory = 1;
  EXPECT_EQ(fresh_obstacle(chosen, own, limits, 2), "");
  own.put = [](np_endpoint*, int, const void*, const np_region*, size_t, size_t) { return NP_OK; };
  EXPECT_TRUE(has(fresh_obstacle(chosen, own, limits, 1), "open to the peer")) << "a rank alone puts";
}

TEST(Curves, BoundTheRoundsOfAVerifiedVisitUnlessNothingArrives) {
  Planned planned("variant crowd\nverify yes\n" + sizes);
  EXPECT_GT(planned.curves().settings[0].most_rounds[0], 0U);
  planned.openings[0]->limits.delivers = 0;
  EXPECT_EQ(planned.curves().settings[0].most_rounds[0], 0U);
  EXPECT_TRUE(planned.curves().skipped.empty()) << "it is measured, and its points say that nothing was verified";
  planned.openings[0]->limits.idle = 1;
  const Curves curves = planned.curves();
  EXPECT_EQ(curves.settings[0].most_rounds[0], 0U);
  ASSERT_EQ(curves.skipped.size(), 1U);
  EXPECT_TRUE(has(curves.skipped[0].reason, "nothing to verify"));
}

TEST(Records, OfAVariantSayWhereItReallyStands) {
  const Planned planned("variant crowd\n" + sizes);
  Opening opening;
  opening.settings = {R"({"rank":0})", R"({"rank":1})"};
  const std::string plain = variant_record(4, planned.resolved.variants[0], opening);
  EXPECT_TRUE(has(plain, R"("type":"variant","launch":4,"variant":"crowd","module":"crowd")")) << plain;
  EXPECT_TRUE(has(plain, R"("launch_s":null,"ranks":[{"rank":0},{"rank":1}]})")) << plain;
  opening.below = "tcp";
  opening.launch_s = 0.5;
  const std::string found = variant_record(4, planned.resolved.variants[0], opening);
  EXPECT_TRUE(has(found, R"("below":"tcp")")) << found;
  EXPECT_TRUE(has(found, R"("launch_s":0.5)")) << found;
}

TEST(Records, OfAVariantSayWhatItsLayerPromises) {
  Layer layer;
  layer.name = layer.version = "some";
  Variant variant;
  variant.module = &layer;
  const std::string usual = variant_record(0, variant, {});
  EXPECT_TRUE(has(usual, R"("promises":{"delivers":false,"lossy":false,"unordered":false,"empty":false,)"
                         R"("max_message_bytes":null,"max_inline_bytes":0,"alignment_bytes":1},)"))
      << usual;
  Opening opening;
  opening.limits.delivers = opening.limits.lossy = opening.limits.unordered = opening.limits.empty = 1;
  opening.limits.max_message_bytes = 4080;
  opening.limits.max_inline_bytes = 220;
  opening.limits.alignment = 256;
  const std::string datagrams = variant_record(0, variant, opening);
  EXPECT_TRUE(has(datagrams, R"("promises":{"delivers":true,"lossy":true,"unordered":true,"empty":true,)"
                             R"("max_message_bytes":4080,"max_inline_bytes":220,"alignment_bytes":256},)"))
      << datagrams;
}

TEST(Records, OfAVariantSayWhatItsLayerCounts) {
  Layer layer;
  layer.name = layer.version = "some";
  Variant variant;
  variant.module = &layer;
  EXPECT_TRUE(has(variant_record(0, variant, {}), R"("counted":{},)"));
  layer.keep_counters({{"retransmits", "1", "", NP_COUNTS_UP}, {"rtt_us", "us", "", NP_GAUGE}});
  const std::string record = variant_record(0, variant, {});
  EXPECT_TRUE(
      has(record, R"("counted":{"retransmits":{"unit":"1","gauge":false},"rtt_us":{"unit":"us","gauge":true}},)"))
      << record;
}

TEST(Records, OfAVariantNameTheLibraryThatAnsweredInItsRanks) {
  Layer described;
  described.name = "mpi@some";
  described.version = "Some MPI 4.1";
  described.process_model = NP_LAUNCHED;
  Variant variant;
  variant.module = &described;
  Opening opening;
  opening.version = "Some MPI 4.1";
  const std::string same = variant_record(0, variant, opening);
  EXPECT_TRUE(has(same, R"("version":"Some MPI 4.1","added_for":null)")) << same;
  opening.version = "Some MPI 4.2";
  const std::string upgraded = variant_record(0, variant, opening);
  EXPECT_TRUE(has(upgraded, R"("version":"Some MPI 4.2","added_for":"Some MPI 4.1")")) << upgraded;
  described.process_model = NP_FORKED;  // built with netpipe, and loaded by each host's own
  const std::string elsewhere = variant_record(0, variant, opening);
  EXPECT_TRUE(has(elsewhere, R"("version":"Some MPI 4.2","added_for":null)")) << elsewhere;
}

TEST(Records, OfSomethingSkippedHaveASizeOrNone) {
  EXPECT_EQ(skipped_record(0, "tcp", "put", std::nullopt, "why"),
            R"({"type":"skipped","launch":0,"variant":"tcp","pattern":"put","size_bytes":null,"reason":"why"})");
  EXPECT_TRUE(has(skipped_record(0, "tcp", "put", 12, "why"), R"("size_bytes":12,)"));
  EXPECT_TRUE(has(skipped_record(0, "tcp", "put", 0, "why"), R"("size_bytes":0,)")) << "an empty message";
}

TEST(Records, OfAnErrorHaveAPatternAndASizeOrNeither) {
  ErrorRecord error;
  error.launch = 1;
  error.variant = "tcp";
  error.host = "h";
  error.code = Exit::usage;
  error.message = "m";
  EXPECT_EQ(to_json(error),
            R"({"type":"error","launch":1,"variant":"tcp","pattern":null,"size_bytes":null,"rank":null,"host":"h",)"
            R"("code":2,"message":"m"})");
  error.pattern = "pingpong";
  error.size_bytes = 9;
  error.rank = 1;
  EXPECT_TRUE(has(to_json(error), R"("pattern":"pingpong","size_bytes":9,"rank":1)"));
}

TEST(Records, OfSamplesKeepApartWhatWasDropped) {
  const Planned planned("variant crowd\npattern overlap\n" + sizes);
  const CurveName name{2, &planned.resolved.variants[0], &planned.resolved.patterns[0]};
  Samples samples;
  samples.ns = {90, 10, 20};
  samples.beside.measures = {{9, 1, 2}};
  const std::string record = sample_record(
      name, {.size_bytes = 8, .operations = 4, .pass = 1, .state = 0, .dropped = 1, .verified_bytes = 24}, samples);
  EXPECT_TRUE(
      has(record,
          R"("ops":4,"ns":[10,20],"dropped_ns":[90],"measures":{"overlap":[1,2]},"verified_bytes":24,"counters":{}})"))
      << record;
}

TEST(Records, OfAPointHaveARateUnlessTheLayerIsIdle) {
  const Planned planned("variant crowd\npattern pingpong\n" + sizes);
  const CurveName name{0, &planned.resolved.variants[0], &planned.resolved.patterns[0]};
  Opening opening = *planned.openings[0];
  Point point;
  point.size_bytes = 1000;
  point.rounds = 1;
  point.stop = Stop::precision;
  const std::vector<Block> blocks(8, Block{0, {100, 100, 100, 100}});
  CurveSetting setting;
  const std::string record = point_record(name, setting, opening, point, blocks);
  EXPECT_TRUE(has(record, R"("median_ns":100)")) << record;
  EXPECT_TRUE(has(record, R"("bytes_per_s":1e+10,)") || has(record, R"("bytes_per_s":10000000000,)")) << record;
  EXPECT_TRUE(has(record, R"("converged":true,"stop":"precision")")) << record;
  opening.limits.idle = 1;
  EXPECT_TRUE(has(point_record(name, setting, opening, point, blocks), R"("bytes_per_s":null)"));
}

TEST(Records, OfAPointHaveTheLossOfAllAndOfEachReceiver) {
  const Planned planned("variant crowd\npattern cast:by=sends\n" + sizes);
  const CurveName name{0, &planned.resolved.variants[0], &planned.resolved.patterns[0]};
  Point point;
  point.size_bytes = 1000;
  point.rounds = 1;
  point.losses = std::vector<Losses>(8, {30, 200});
  point.losses_of_ranks = {std::vector<Losses>(8, {0, 0}), std::vector<Losses>(8, {10, 100}),
                           std::vector<Losses>(8, {20, 100})};
  const std::vector<Block> blocks(8, Block{0, {100, 100, 100, 100}});
  const std::string record = point_record(name, {}, *planned.openings[0], point, blocks);
  EXPECT_TRUE(has(record, R"({"name":"loss","unit":"1","median":0.15,)")) << record;
  EXPECT_TRUE(has(record, R"({"name":"loss_rank_1","unit":"1","median":0.1,)")) << record;
  EXPECT_TRUE(has(record, R"({"name":"loss_rank_2","unit":"1","median":0.2,)")) << record;
  EXPECT_FALSE(has(record, "loss_rank_0")) << record;
}

TEST(Records, OfASizeWithoutATimeHaveWhatWasLost) {
  const Planned planned("variant crowd\npattern cast:by=sends\n" + sizes);
  const CurveName name{3, &planned.resolved.variants[0], &planned.resolved.patterns[0]};
  Point point;
  point.size_bytes = 1000;
  point.losses = std::vector<Losses>(8, {106, 200});
  point.losses_of_ranks = {std::vector<Losses>(8, {0, 0}), std::vector<Losses>(8, {6, 100})};
  const std::string record = lost_record(name, point);
  EXPECT_TRUE(record.starts_with(
      R"({"type":"skipped","launch":3,"variant":"crowd","pattern":"cast:by=sends","size_bytes":1000,"reason":")"))
      << record;
  EXPECT_TRUE(has(record, R"({"name":"loss","unit":"1","median":0.53,"low":0.53,"high":0.53})")) << record;
  EXPECT_TRUE(has(record, R"({"name":"loss_rank_1","unit":"1","median":0.06,"low":)")) << record;
  EXPECT_FALSE(has(record, "loss_rank_0")) << record;
  point.losses.resize(7);
  EXPECT_TRUE(has(lost_record(name, point), R"("median":0.53,"low":null,"high":null})")) << "too few visits";
}

TEST(Records, HaveWhatTheLayerMeasures) {
  Planned planned("variant crowd\npattern pingpong\n" + sizes);
  Layer layer;
  layer.keep_counters({{"came", "1", "", NP_COUNTS_UP}, {"late_ns", "ns", "", NP_COUNTS_UP}});
  layer.keep_measures({{"late", "ns", "", 1, 0}, {"early", "ns", "", 1, 0}});
  planned.resolved.variants[0].module = &layer;
  const CurveName name{0, &planned.resolved.variants[0], &planned.resolved.patterns[0]};
  Point point;
  point.size_bytes = 1000;
  point.rounds = 1;
  point.of_layer = {std::vector<Ratio>(8, {300, 100}), {}};
  const std::string measured = R"("measures":[{"name":"late","unit":"ns","median":3,"low":3,"high":3}])";
  const std::vector<Block> blocks(8, Block{0, {100, 100, 100, 100}});
  EXPECT_TRUE(has(point_record(name, {}, *planned.openings[0], point, blocks), measured));
  EXPECT_TRUE(has(lost_record(name, point), measured)) << lost_record(name, point);
}

TEST(Records, OfAPointHaveEachOfItsVisits) {
  const Planned planned("variant crowd\npattern pingpong\n" + sizes);
  const CurveName name{0, &planned.resolved.variants[0], &planned.resolved.patterns[0]};
  Point point;
  point.size_bytes = 1000;
  point.rounds = 1;
  // Each visit of so few samples begins with one that is warm-up.
  const std::vector<Block> blocks = {{0.5, {900, 10, 20, 30}, {}, 3, 0},
                                     {1.25, {900, 10, 20, 31}, {}, 4, 0},
                                     {2, {900, 10, 20, 30}, {}, 9, 1},
                                     {3, {900, 10, 20.5, 30}, {}, 11, 0}};
  const std::string record = point_record(name, {}, *planned.openings[0], point, blocks);
  EXPECT_TRUE(has(record, R"("visits":{"block":[3,4,9,11],"at_s":[0.5,1.25,2,3],"state":[0,0,1,0],)"
                          R"("samples":[3,3,3,3],"median_ns":[20,20,20,20.5]})"))
      << record;
}

TEST(Records, OfALaunchHaveItsMemory) {
  EXPECT_EQ(launch_record({.launch = 1, .seconds = 2.5, .passes = 8, .memory = {100, 200}, .states = 1}),
            R"({"type":"launch","launch":1,"seconds":2.5,"passes":8,"rss_bytes":100,"buffer_bytes":200,"states":1})");
}

}  // namespace
}  // namespace netpipe
