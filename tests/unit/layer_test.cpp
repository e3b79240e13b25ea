// SPDX-License-Identifier: Apache-2.0
// Which tables are taken and which are refused, and how those of other versions of the contract are read.
#include "layer/layer.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

namespace netpipe {
namespace {

// A table that fits: every operation is there. None is ever called.
struct Tables {
  np_module module{};
  np_messages messages{};
  np_one_sided one_sided{};
  np_collectives collectives{};
  np_memory memory{};
  const np_memory* memories[2] = {};

  const np_module* all() {
    module.messages = &messages;
    module.one_sided = &one_sided;
    module.collectives = &collectives;
    memories[0] = &memory;
    module.memories = memories;
    return &module;
  }
};

Tables good_tables() {
  Tables t;
  np_module& m = t.module;
  m.magic = NP_MAGIC;
  m.abi = NP_ABI;
  m.size = sizeof m;
  m.name = "good";
  m.summary = "a module that fits";
  m.version = "test";
  m.min_ranks = 2;
  m.max_ranks = 2;
  m.open = [](const np_context*, np_endpoint**) { return NP_OK; };
  m.close = [](np_endpoint*) {};
  m.address = [](np_endpoint*, void*, std::size_t*) { return NP_OK; };
  m.connect = [](np_endpoint*, const void* const*, const std::size_t*) { return NP_OK; };
  m.reset = [](np_endpoint*) { return NP_OK; };
  t.memory.alloc = [](np_endpoint*, std::size_t, void**) { return NP_OK; };
  t.memory.free = [](np_endpoint*, void*, std::size_t) {};
  t.messages.send = [](np_endpoint*, int, const void*, std::size_t) { return NP_OK; };
  t.messages.recv = [](np_endpoint*, int, void*, std::size_t) { return NP_OK; };
  t.messages.isend = [](np_endpoint*, int, const void*, std::size_t, std::size_t, np_request*, std::size_t) {
    return NP_OK;
  };
  t.messages.irecv = [](np_endpoint*, int, void*, std::size_t, std::size_t, np_request*, std::size_t) { return NP_OK; };
  t.messages.cast = [](np_endpoint*, const void*, std::size_t) { return NP_OK; };
  t.messages.recv_cast = [](np_endpoint*, int, void*, std::size_t) { return NP_OK; };
  t.messages.isend_parts = [](np_endpoint*, int, const void*, std::size_t, np_request*, std::uint32_t*) {
    return NP_OK;
  };
  t.messages.part_ready = [](np_endpoint*, np_request*, std::uint32_t) { return NP_OK; };
  t.messages.sendrecv = [](np_endpoint*, int, const void*, int, void*, std::size_t) { return NP_OK; };
  m.wait = [](np_endpoint*, np_request*, std::size_t) { return NP_OK; };
  m.test = [](np_endpoint*, np_request*) { return NP_OK; };
  t.one_sided.expose = [](np_endpoint*, void*, std::size_t, np_region*) { return NP_OK; };
  t.one_sided.attach = [](np_endpoint*, int, np_region*) { return NP_OK; };
  t.one_sided.withdraw = [](np_endpoint*, np_region*) {};
  t.one_sided.put = [](np_endpoint*, int, const void*, const np_region*, std::size_t, std::size_t) { return NP_OK; };
  t.one_sided.get = [](np_endpoint*, int, void*, const np_region*, std::size_t, std::size_t) { return NP_OK; };
  t.one_sided.fence = [](np_endpoint*) { return NP_OK; };
  t.one_sided.flush = [](np_endpoint*, int) { return NP_OK; };
  t.one_sided.iput = [](np_endpoint*, int, const void*, std::size_t, const np_region*, std::size_t, std::size_t,
                        std::size_t, np_request*, std::size_t) { return NP_OK; };
  t.one_sided.put_signal = [](np_endpoint*, int, const void*, const np_region*, std::size_t, std::size_t,
                              std::uint64_t) { return NP_OK; };
  t.one_sided.await_signal = [](np_endpoint*, int, std::uint64_t*) { return NP_OK; };
  t.collectives.prepare = [](np_endpoint*, const np_collective_plan*, np_prepared*) { return NP_UNSUPPORTED; };
  t.collectives.release = [](np_endpoint*, np_prepared*) {};
  t.memory.host_access = 1;
  m.barrier = [](np_endpoint*) { return NP_OK; };
  t.messages.size = sizeof t.messages, t.one_sided.size = sizeof t.one_sided;
  t.collectives.size = sizeof t.collectives, t.memory.size = sizeof t.memory;
  return t;
}

np_option good_option() {
  np_option o{};
  o.name = "depth";
  o.type = NP_INT;
  o.default_value = "1";
  o.max = 8;
  o.unit = "";
  o.help = "a number";
  return o;
}

constexpr np_counter counted[] = {{"came", "1", "", NP_COUNTS_UP}, {"window", "bytes", "", NP_GAUGE}};

// With counters, and one measure of them.
void add_measure(Tables& tables, const np_measure& one) {
  np_module& m = tables.module;
  m.read_counters = [](np_endpoint*, std::int64_t*) {};
  m.counters = counted, m.ncounters = 2, m.counter_bytes = sizeof(np_counter);
  m.measures = &one, m.nmeasures = 1, m.measure_bytes = sizeof(np_measure);
}

struct Fault {
  std::string name;
  std::function<void(Tables&)> make;
  std::vector<std::string> said;  // all of these are in the sentence
};

std::string refusal(const np_module* table) {
  const auto layer = Layer::of(table, "/opt/some.so");
  if (layer) return "accepted";
  EXPECT_EQ(layer.failure().exit, Exit::usage);
  return layer.failure().sentence;
}

TEST(Layer, TakesTablesThatFit) {
  Tables tables = good_tables();
  EXPECT_EQ(refusal(tables.all()), "accepted");
}

TEST(Layer, TakesAModuleThatCanDoOneThingOnly) {
  Tables whole = good_tables();
  np_module least{};
  least.magic = NP_MAGIC, least.abi = NP_ABI, least.size = sizeof least;
  least.name = "least", least.summary = "", least.version = "";
  least.min_ranks = least.max_ranks = 1;
  least.open = whole.module.open, least.close = whole.module.close;
  const np_messages messages = {.size = sizeof messages, .send = whole.messages.send, .recv = whole.messages.recv};
  np_module sender = least;
  sender.messages = &messages;
  EXPECT_EQ(refusal(&sender), "accepted");
  const np_one_sided puts = {.size = sizeof puts,
                             .expose = whole.one_sided.expose,
                             .attach = whole.one_sided.attach,
                             .withdraw = whole.one_sided.withdraw,
                             .put = whole.one_sided.put};
  np_module putter = least;
  putter.one_sided = &puts;
  EXPECT_EQ(refusal(&putter), "accepted");
  np_module library = sender;
  library.max_ranks = INT32_MAX, library.process_model = NP_LAUNCHED;
  library.bootstrap = [](np_endpoint*, np_bootstrap*) { return NP_OK; };
  EXPECT_EQ(refusal(&library), "accepted");
}

TEST(Layer, IsFlat) {
  Tables tables = good_tables();
  const auto layer = Layer::of(tables.all(), "/opt/some.so");
  ASSERT_TRUE(layer);
  EXPECT_EQ((*layer)->send, tables.messages.send);
  EXPECT_EQ((*layer)->recv_cast, tables.messages.recv_cast);
  EXPECT_EQ((*layer)->put, tables.one_sided.put);
  EXPECT_EQ((*layer)->release, tables.collectives.release);
  ASSERT_NE((*layer)->own_memory(), nullptr);
  EXPECT_EQ((*layer)->own_memory()->alloc, tables.memory.alloc);
  EXPECT_EQ((*layer)->memory_of(NP_MEMORY_HOST), (*layer)->own_memory());
  EXPECT_EQ((*layer)->memory_of(NP_MEMORY_DEVICE), nullptr);
}

TEST(Layer, TakesWhatAShorterTableLacksAsNullAndNeverLooksBehindItsEnd) {
  Tables tables = good_tables();
  tables.module.size = offsetof(np_module, barrier);
  tables.messages.size = offsetof(np_messages, isend);
  tables.one_sided.size = offsetof(np_one_sided, iput);
  const np_option option = good_option();
  struct OldOption {
    char bytes[offsetof(np_option, tunable)];
  } options[2];
  std::memcpy(&options[0], &option, sizeof options[0]);
  std::memcpy(&options[1], &option, sizeof options[1]);
  tables.module.options = reinterpret_cast<const np_option*>(options);
  tables.module.noptions = 2;
  tables.module.option_bytes = sizeof(OldOption);
  const auto layer = Layer::of(tables.all(), "/opt/old.so");
  ASSERT_TRUE(layer) << layer.failure().sentence;
  EXPECT_EQ((*layer)->barrier, nullptr);
  EXPECT_EQ((*layer)->send, tables.messages.send);
  EXPECT_EQ((*layer)->isend, nullptr);
  EXPECT_EQ((*layer)->put, tables.one_sided.put);
  EXPECT_EQ((*layer)->iput, nullptr);
  EXPECT_EQ((*layer)->await_signal, nullptr);
  ASSERT_EQ((*layer)->noptions, 2U);
  EXPECT_STREQ((*layer)->options[1].name, "depth");
  EXPECT_EQ((*layer)->options[1].max, 8);
  EXPECT_EQ((*layer)->options[1].tunable, 0U);
  EXPECT_EQ((*layer)->options[1].unsupported, nullptr);
}

TEST(Layer, TakesATableFromBeforeThereWereCasts) {
  Tables tables = good_tables();
  tables.messages.size = offsetof(np_messages, cast);
  const auto layer = Layer::of(tables.all(), "/opt/old.so");
  ASSERT_TRUE(layer) << layer.failure().sentence;
  EXPECT_EQ((*layer)->irecv, tables.messages.irecv);
  EXPECT_EQ((*layer)->cast, nullptr);
  EXPECT_EQ((*layer)->recv_cast, nullptr);
  EXPECT_EQ((*layer)->isend_parts, nullptr);
}

TEST(Layer, TakesMeasuresAndNoneOfATableFromBeforeThereWereAny) {
  static constexpr np_measure share = {"late", "1", "messages that came late", 0, 0};
  Tables tables = good_tables();
  add_measure(tables, share);
  auto layer = Layer::of(tables.all(), "/opt/some.so");
  ASSERT_TRUE(layer) << layer.failure().sentence;
  ASSERT_EQ((*layer)->nmeasures, 1U);
  EXPECT_STREQ((*layer)->measures[0].name, "late");
  EXPECT_NE((*layer)->measures, &share) << "a copy, at its full size";
  tables.module.size = offsetof(np_module, measures);
  layer = Layer::of(tables.all(), "/opt/old.so");
  ASSERT_TRUE(layer) << layer.failure().sentence;
  EXPECT_EQ((*layer)->nmeasures, 0U);
  EXPECT_EQ((*layer)->ncounters, 2U);
}

TEST(Layer, TakesATableFromBeforeThereWasSendrecv) {
  Tables tables = good_tables();
  tables.messages.size = offsetof(np_messages, sendrecv);
  const auto layer = Layer::of(tables.all(), "/opt/old.so");
  ASSERT_TRUE(layer) << layer.failure().sentence;
  EXPECT_EQ((*layer)->part_ready, tables.messages.part_ready);
  EXPECT_EQ((*layer)->sendrecv, nullptr);
}

TEST(Layer, TakesATableFromBeforeASumCouldFetch) {
  Tables tables = good_tables();
  tables.one_sided.accumulate = [](np_endpoint*, int, const double*, const np_region*, std::size_t, std::size_t) {
    return NP_OK;
  };
  tables.one_sided.fetch_accumulate = [](np_endpoint*, int, const double*, double*, const np_region*, std::size_t,
                                         std::size_t) { return NP_OK; };
  tables.one_sided.accumulate_each = [](np_endpoint*, int, const double*, std::size_t, double*, const np_region*,
                                        std::size_t, std::size_t, std::size_t, std::size_t) { return NP_OK; };
  auto layer = Layer::of(tables.all(), "/opt/new.so");
  ASSERT_TRUE(layer) << layer.failure().sentence;
  EXPECT_EQ((*layer)->fetch_accumulate, tables.one_sided.fetch_accumulate);
  EXPECT_EQ((*layer)->accumulate_each, tables.one_sided.accumulate_each);
  tables.one_sided.size = offsetof(np_one_sided, accumulate_each);
  layer = Layer::of(tables.all(), "/opt/older.so");
  ASSERT_TRUE(layer) << layer.failure().sentence;
  EXPECT_EQ((*layer)->fetch_accumulate, tables.one_sided.fetch_accumulate);
  EXPECT_EQ((*layer)->accumulate_each, nullptr);
  tables.one_sided.size = offsetof(np_one_sided, fetch_accumulate);
  layer = Layer::of(tables.all(), "/opt/old.so");
  ASSERT_TRUE(layer) << layer.failure().sentence;
  EXPECT_EQ((*layer)->accumulate, tables.one_sided.accumulate);
  EXPECT_EQ((*layer)->fetch_accumulate, nullptr);
}

TEST(Layer, LeavesOutMemoryOfAKindThatItDoesNotKnow) {
  Tables tables = good_tables();
  tables.memory.kind = 99;
  tables.memory.alloc = nullptr;
  const auto layer = Layer::of(tables.all(), "/opt/new.so");
  ASSERT_TRUE(layer) << layer.failure().sentence;
  EXPECT_EQ((*layer)->own_memory(), nullptr);
}

TEST(Layer, CanBeRenamed) {
  Tables tables = good_tables();
  const auto layer = Layer::of(tables.all(), "/opt/some.so");
  ASSERT_TRUE(layer);
  (*layer)->rename("good@two");
  EXPECT_STREQ((*layer)->name, "good@two");
  EXPECT_EQ(layer_fault(**layer), "");
  (*layer)->rename("Good Two");
  EXPECT_NE(layer_fault(**layer), "");
}

TEST(Layer, RefusesWhatDoesNotFitAndNamesBothSides) {
  const std::vector<Fault> faults = {
      {"magic", [](Tables& t) { t.module.magic = 0xdeadbeef; }, {"0xdeadbeef", "0x314550495054454e"}},
      {"abi",
       [](Tables& t) { t.module.abi = 7; },
       {"ABI 7", "this netpipe has " + std::to_string(NP_ABI), "build it again"}},
      {"size", [](Tables& t) { t.module.size = 40; }, {"its table of operations has 40 bytes", "at least 56"}},
      {"option size",
       [](Tables& t) {
         static const np_option option = good_option();
         t.module.options = &option, t.module.noptions = 1, t.module.option_bytes = 0;
       },
       {"its table of options has 0 bytes"}},
      {"no name", [](Tables& t) { t.module.name = nullptr; }, {"its name is missing"}},
      {"empty name", [](Tables& t) { t.module.name = ""; }, {"its name is missing"}},
      {"name", [](Tables& t) { t.module.name = "TCP"; }, {"not lower case"}},
      {"name with a colon", [](Tables& t) { t.module.name = "tcp:fast"; }, {"not lower case"}},
      {"name with a digit first", [](Tables& t) { t.module.name = "2tcp"; }, {"not lower case"}},
      {"summary", [](Tables& t) { t.module.summary = nullptr; }, {"no summary"}},
      {"version", [](Tables& t) { t.module.version = nullptr; }, {"no version"}},
      {"no ranks", [](Tables& t) { t.module.min_ranks = 0; }, {"from 0 to 2 ranks"}},
      {"ranks", [](Tables& t) { t.module.min_ranks = 3; }, {"from 3 to 2 ranks"}},
      {"options", [](Tables& t) { t.module.noptions = 1; }, {"counts options and has no table"}},
      {"open", [](Tables& t) { t.module.open = nullptr; }, {"open and close"}},
      {"close", [](Tables& t) { t.module.close = nullptr; }, {"open and close"}},
      {"send", [](Tables& t) { t.messages.send = nullptr; }, {"send and recv belong together"}},
      {"recv", [](Tables& t) { t.messages.recv = nullptr; }, {"send and recv belong together"}},
      {"address", [](Tables& t) { t.module.address = nullptr; }, {"address and connect belong together"}},
      {"connect", [](Tables& t) { t.module.connect = nullptr; }, {"address and connect belong together"}},
      {"isend", [](Tables& t) { t.messages.isend = nullptr; }, {"isend and irecv belong together"}},
      {"irecv", [](Tables& t) { t.messages.irecv = nullptr; }, {"isend and irecv belong together"}},
      {"cast", [](Tables& t) { t.messages.cast = nullptr; }, {"cast and recv_cast belong together"}},
      {"part_ready",
       [](Tables& t) { t.messages.part_ready = nullptr; },
       {"isend_parts and part_ready belong together"}},
      {"recv_cast", [](Tables& t) { t.messages.recv_cast = nullptr; }, {"cast and recv_cast belong together"}},
      {"wait", [](Tables& t) { t.module.wait = nullptr; }, {"need wait and test"}},
      {"test", [](Tables& t) { t.module.test = nullptr; }, {"need wait and test"}},
      {"expose", [](Tables& t) { t.one_sided.expose = nullptr; }, {"need expose, attach and withdraw"}},
      {"attach", [](Tables& t) { t.one_sided.attach = nullptr; }, {"need expose, attach and withdraw"}},
      {"withdraw", [](Tables& t) { t.one_sided.withdraw = nullptr; }, {"need expose, attach and withdraw"}},
      {"alloc", [](Tables& t) { t.memory.alloc = nullptr; }, {"alloc and free of memory belong together"}},
      {"free", [](Tables& t) { t.memory.free = nullptr; }, {"alloc and free of memory belong together"}},
      {"one of a signal",
       [](Tables& t) { t.one_sided.await_signal = nullptr; },
       {"put_signal and await_signal belong together"}},
      {"collectives", [](Tables& t) { t.collectives.release = nullptr; }, {"prepare and release"}},
      {"memory out of reach",
       [](Tables& t) { t.memory.host_access = 0; },
       {"without host_access needs copy_in, copy_out, fill and compare"}},
      {"counters",
       [](Tables& t) { t.module.read_counters = [](np_endpoint*, std::int64_t*) {}; },
       {"counters and read_counters belong together"}},
      {"measures", [](Tables& t) { t.module.nmeasures = 1; }, {"counts measures and has no table"}},
      {"measure size",
       [](Tables& t) {
         static constexpr np_measure one = {"late", "1", "", 0, 0};
         add_measure(t, one);
         t.module.measure_bytes = 8;
       },
       {"its table of measures has 8 bytes"}},
      {"measure without a unit",
       [](Tables& t) {
         static constexpr np_measure one = {"late", nullptr, "", 0, 0};
         add_measure(t, one);
       },
       {"its measure 'late' has no unit"}},
      {"measure of a gauge",
       [](Tables& t) {
         static constexpr np_measure one = {"late", "1", "", 0, 1};
         add_measure(t, one);
       },
       {"its measure 'late' has a counter that is a gauge"}},
      {"measure of no counter",
       [](Tables& t) {
         static constexpr np_measure one = {"late", "1", "", 2, 0};
         add_measure(t, one);
       },
       {"its measure 'late' has a counter that is not in the table"}},
      {"group without a size",
       [](Tables& t) { t.messages.size = 0; },
       {"its table of messages has 0 bytes, at least 8 are needed"}},
      {"process model", [](Tables& t) { t.module.process_model = 9; }, {"process model is unknown"}},
      {"launcher",
       [](Tables& t) { t.module.process_model = NP_LAUNCHED; },
       {"NP_LAUNCHED and bootstrap belong together"}},
      {"bootstrap",
       [](Tables& t) { t.module.bootstrap = [](np_endpoint*, np_bootstrap*) { return NP_OK; }; },
       {"NP_LAUNCHED and bootstrap belong together"}},
      {"no way to move",
       [](Tables& t) {
         t.messages = {.size = sizeof t.messages};
         t.one_sided = {.size = sizeof t.one_sided};
         t.collectives = {.size = sizeof t.collectives};
       },
       {"no operation that moves a message"}},
      {"no way to meet",
       [](Tables& t) { t.module.address = nullptr, t.module.connect = nullptr; },
       {"several ranks need address and connect"}},
  };
  for (const Fault& one : faults) {
    Tables tables = good_tables();
    one.make(tables);
    const std::string sentence = refusal(tables.all());
    EXPECT_PRED_FORMAT2(testing::IsSubstring, "module /opt/some.so is refused", sentence) << one.name;
    for (const std::string& part : one.said) EXPECT_PRED_FORMAT2(testing::IsSubstring, part, sentence) << one.name;
  }
  EXPECT_PRED_FORMAT2(testing::IsSubstring, "returned no table", refusal(nullptr));
}

TEST(Layer, RefusesAnOptionThatMakesNoSenseAndNamesIt) {
  struct OptionFault {
    std::string name;
    std::function<void(np_option&)> make;
    std::string said;
  };
  const std::vector<OptionFault> faults = {
      {"no name", [](np_option& o) { o.name = nullptr; }, "an option whose name is missing or malformed"},
      {"name with a blank", [](np_option& o) { o.name = "queue depth"; },
       "an option whose name is missing or malformed"},
      {"name with an equals sign", [](np_option& o) { o.name = "a=b"; },
       "an option whose name is missing or malformed"},
      {"default", [](np_option& o) { o.default_value = nullptr; }, "option 'depth' has no default"},
      {"help", [](np_option& o) { o.help = nullptr; }, "option 'depth' has no help or no unit"},
      {"unit", [](np_option& o) { o.unit = nullptr; }, "option 'depth' has no help or no unit"},
      {"type", [](np_option& o) { o.type = static_cast<np_type>(5); }, "option 'depth' has an unknown type"},
      {"no choices", [](np_option& o) { o.type = NP_CHOICE; }, "option 'depth' has no choices"},
      {"empty choices", [](np_option& o) { o.type = NP_CHOICE, o.choices = ""; }, "has no choices"},
      {"range", [](np_option& o) { o.min = 9; }, "option 'depth' has a smallest value above its largest"},
      {"size range", [](np_option& o) { o.type = NP_SIZE, o.min = 9; }, "a smallest value above its largest"},
  };
  for (const OptionFault& one : faults) {
    std::vector<np_option> options = {good_option(), good_option()};
    Tables tables = good_tables();
    tables.module.options = options.data();
    tables.module.noptions = 2;
    tables.module.option_bytes = sizeof(np_option);
    EXPECT_EQ(refusal(tables.all()), "accepted");
    one.make(options[1]);
    EXPECT_PRED_FORMAT2(testing::IsSubstring, one.said, refusal(tables.all())) << one.name;
  }
}

}  // namespace
}  // namespace netpipe
