#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "rendezvous/testing/full_report.h"
#include "rendezvous/wire/convert.h"
#include "rendezvous/wire/wire_messages.h"

namespace ddprun {
namespace {

constexpr std::uint32_t kWorkers = 2;

v1::RankDetails Good() {
  v1::RankDetails wire;
  WriteFields(FullReport().rank_details, &wire);
  return wire;
}

void AddRank(v1::RankDetails& details) {
  details.add_state(0);
  details.add_step(0);
  details.add_since_ms(0);
  details.add_step_time_us(0);
  details.add_phase(0);
}

TEST(ConvertDetails, ImpossibleValuesAreRefusedByField) {
  struct Spoiled {
    const char* field;
    std::function<void(v1::RankDetails&)> spoil;
  };
  const std::vector<Spoiled> refusals = {
      {"rank_details", [](v1::RankDetails& w) { w.add_state(0); }},
      {"rank_details", [](v1::RankDetails& w) { w.clear_phase(); }},
      {"rank_details",
       [](v1::RankDetails& w) {
         for (std::uint32_t i = 0; i < kWorkers; ++i) {
           AddRank(w);
         }
       }},
      {"rank_details.state", [](v1::RankDetails& w) { w.set_state(0, 4); }},
      {"rank_details.phase", [](v1::RankDetails& w) { w.set_phase(0, 2); }},
      {"rank_details.phases", [](v1::RankDetails& w) { w.set_phases(0, "\n"); }},
      {"rank_details.phases", [](v1::RankDetails& w) { w.set_phases(0, std::string(65, 'x')); }},
      {"rank_details.phases",
       [](v1::RankDetails& w) {
         for (std::size_t i = 0; i < kMostPhases; ++i) {
           w.add_phases("x");
         }
       }},
      {"training.loss", [](v1::RankDetails& w) { w.mutable_training()->set_loss(std::nan("")); }},
      {"training.samples_per_s",
       [](v1::RankDetails& w) { w.mutable_training()->set_samples_per_s(HUGE_VAL); }},
  };
  for (const Spoiled& refusal : refusals) {
    v1::RankDetails wire = Good();
    refusal.spoil(wire);
    Reader in(Duration(0));
    RankDetails details;
    Fields(FieldReader(wire, in, "rank_details"), details, kWorkers);
    ASSERT_FALSE(in.ok()) << refusal.field;
    EXPECT_TRUE(in.error().message.starts_with(refusal.field)) << in.error().message;
  }
}

TEST(ConvertFacts, ImpossibleValuesAreRefusedByField) {
  const auto refusal = [](const HostFact& fact, std::size_t count) {
    v1::NodeStatus wire;
    for (std::size_t i = 0; i < count; ++i) {
      v1::HostFact* const added = wire.add_facts();
      added->set_name(fact.name);
      added->set_value(fact.value);
    }
    Reader in(Duration(0));
    HostFacts facts;
    FieldReader(wire, in).List(FIELD(facts), facts, kMaxFacts, "fact");
    return in.ok() ? "taken" : in.error().message.substr(0, in.error().message.find(' '));
  };
  EXPECT_EQ(refusal({"gpu3", std::string(kMaxFactValue, '\xff'), true}, kMaxFacts), "taken");
  EXPECT_EQ(refusal({"", "x"}, 1), "fact.name");
  EXPECT_EQ(refusal({"\n", "x"}, 1), "fact.name");
  EXPECT_EQ(refusal({std::string(kMaxFactName + 1, 'x'), "x"}, 1), "fact.name");
  EXPECT_EQ(refusal({"x", std::string(kMaxFactValue + 1, 'x')}, 1), "fact.value");
  EXPECT_EQ(refusal({"x", "x"}, kMaxFacts + 1), "facts");
}

// At most 16 bytes for each rank of a node that steps.
TEST(ConvertDetails, IsShort) {
  RankDetails details{.phases = {"forward"}};
  for (int rank = 0; rank < 64; ++rank) {
    details.ranks.push_back({RankState::kRunning, 1'000'000, Duration(10'000),
                             std::chrono::microseconds(800'000), 1,
                             std::chrono::microseconds(700'000)});
  }
  v1::RankDetails wire;
  WriteFields(details, &wire);
  EXPECT_LE(wire.ByteSizeLong(), 16u * 64);
}

}  // namespace
}  // namespace ddprun
