#include "rendezvous/wire/convert.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

// A value of its own for every field of a table.
class Filler {
 public:
  template <class Table, class Value>
  void operator()(const Table& table, Value& value) {
    ForEach(table, [&](const auto& row) { Fill(value.*row.member); });
  }

 private:
  template <class T>
  void Fill(T& value) {
    value = T(next_++);
  }
  template <class Tag>
  void Fill(ddprun::Number<Tag>& value) {
    value = {next_++};
  }
  void Fill(std::string& value) { value = "text " + std::to_string(next_++); }
  void Fill(bool& value) { value = !value; }

  std::uint32_t next_ = 2;
};

TEST(WireFields, EveryFieldOfARunsShapeCrosses) {
  NodeReport report;
  static_cast<NodeIdentity&>(report) = {.run_id = "r", .node = "n", .host = "h"};
  Filler{}(kSpecFields, report.spec);
  v1::SyncRequest wire;
  ToProto(report, &wire);
  const Result<NodeReport> read = FromProto<NodeReport>(wire);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->spec, report.spec);
}

struct WireStatus : testing::Test {
  RunStatus run;

  WireStatus() {
    Filler fill;
    fill(kRunStatusFields, run);
    fill(kNodeStatusFields, run.nodes.emplace_back());
    run.nodes.back().rank_details = {.ranks = {{RankState::kRunning, UINT64_MAX, Duration(70),
                                                std::chrono::microseconds(80), 2}},
                                     .phases = {"train", "save"}};
    run.nodes.back().facts = {{"gpu3", "is gone", true}};
    run.training = {{9, 0.5, 100.25, 8}, {10, {}, {}, {}}};
    run.more_nodes = 1;
    fill(kStartupFields, run.startups.emplace_back());
    run.startups.emplace_back() = {.number = 1, .generation = {1}};  // Nothing of it is known.
    fill(kRunEventFields, run.events.emplace_back());
    run.events.back().level = NoticeLevel::kWarning;
    fill(kCauseTotalFields, run.totals.emplace_back());
    ToProto(std::vector<RunStatus>{run}, &wire);
  }
  std::string Refusal() const {
    const auto runs = FromProto<std::vector<RunStatus>>(wire);
    return runs ? "accepted" : runs.error().message;
  }

  v1::DescribeReply wire;
  v1::RunStatus& told() { return *wire.mutable_runs(0); }
};

TEST_F(WireStatus, EveryFieldCrosses) {
  const auto runs = FromProto<std::vector<RunStatus>>(wire);
  ASSERT_TRUE(runs) << runs.error().message;
  EXPECT_EQ(runs->front(), run);
}

TEST_F(WireStatus, WhatCannotBeIsRefusedByField) {
  const auto refusal = [&](auto spoil) {
    const v1::DescribeReply good = wire;
    spoil(told());
    std::string why = Refusal();
    wire = good;
    return why;
  };
  EXPECT_EQ(refusal([](auto& w) { w.clear_run_id(); }), "run_id is empty");
  EXPECT_EQ(refusal([](auto& w) { w.set_phase("\n"); }),
            "phase has characters that cannot be printed");
  EXPECT_EQ(refusal([](auto& w) { w.mutable_nodes(0)->clear_state(); }), "nodes.state is empty");
  EXPECT_EQ(refusal([](auto& w) { w.mutable_nodes(0)->clear_host(); }), "accepted");
  for (const std::string field : {"phase_since", "exit_code", "job_ends_unix", "outcome"}) {
    const std::string why = refusal([&](auto& w) {
      w.set_phase_since_ms(field == "phase_since" ? -1 : 0);
      w.set_exit_code(field == "exit_code" ? 256 : 0);
      w.set_job_ends_unix(field == "job_ends_unix" ? INT64_MAX : 0);
      w.set_outcome(std::string(field == "outcome" ? kMaxTextBytes + 1 : 0, 'x'));
    });
    EXPECT_TRUE(why.starts_with(field + " ")) << why;
  }
}

// Workers and the system owe nobody short texts.
TEST_F(WireStatus, WritingCutsWhatReadingWouldRefuse) {
  run.waits_for = std::string(kMaxTextBytes + 1, 'x');
  wire.Clear();
  ToProto(std::vector<RunStatus>{run}, &wire);
  EXPECT_EQ(Refusal(), "accepted");
}

}  // namespace
}  // namespace ddprun
