#include "rendezvous/wire/convert.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

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

// Name by name, and none is left out.
template <class Value, class Wire>
void ExpectSameNumbers(const std::vector<std::pair<Value, Wire>>& values) {
  for (const auto& [value, wire] : values) {
    EXPECT_EQ(static_cast<int>(value), static_cast<int>(wire));
  }
  const auto* const descriptor = google::protobuf::GetEnumDescriptor<Wire>();
  EXPECT_EQ(descriptor->value_count(), static_cast<int>(values.size()) + 1) << descriptor->name();
}

TEST(WireFields, ReasonsAndCausesHaveTheNumbersOfTheWire) {
  ExpectSameNumbers<WaitFor, v1::WaitFor>({{WaitFor::kNodes, v1::WAIT_FOR_NODES},
                                           {WaitFor::kLastCall, v1::WAIT_FOR_LAST_CALL},
                                           {WaitFor::kDrain, v1::WAIT_FOR_DRAIN},
                                           {WaitFor::kPeers, v1::WAIT_FOR_PEERS},
                                           {WaitFor::kSpare, v1::WAIT_FOR_SPARE},
                                           {WaitFor::kEarlierSelf, v1::WAIT_FOR_EARLIER_SELF},
                                           {WaitFor::kRecovery, v1::WAIT_FOR_RECOVERY},
                                           {WaitFor::kSettling, v1::WAIT_FOR_SETTLING},
                                           {WaitFor::kHeldBack, v1::WAIT_FOR_HELD_BACK},
                                           {WaitFor::kNoGrowth, v1::WAIT_FOR_NO_GROWTH},
                                           {WaitFor::kFinishing, v1::WAIT_FOR_FINISHING},
                                           {WaitFor::kOutcomeKept, v1::WAIT_FOR_OUTCOME_KEPT},
                                           {WaitFor::kClaim, v1::WAIT_FOR_CLAIM},
                                           {WaitFor::kRoom, v1::WAIT_FOR_ROOM},
                                           {WaitFor::kCheck, v1::WAIT_FOR_CHECK},
                                           {WaitFor::kUnfit, v1::WAIT_FOR_UNFIT},
                                           {WaitFor::kBackoff, v1::WAIT_FOR_BACKOFF}});
  ExpectSameNumbers<StopCause, v1::StopCause>(
      {{StopCause::kFailure, v1::STOP_CAUSE_FAILURE},
       {StopCause::kNodeLost, v1::STOP_CAUSE_NODE_LOST},
       {StopCause::kDeclaredLost, v1::STOP_CAUSE_DECLARED_LOST},
       {StopCause::kScaleUp, v1::STOP_CAUSE_SCALE_UP},
       {StopCause::kLeave, v1::STOP_CAUSE_LEAVE},
       {StopCause::kOperator, v1::STOP_CAUSE_OPERATOR},
       {StopCause::kSuperseded, v1::STOP_CAUSE_SUPERSEDED},
       {StopCause::kHang, v1::STOP_CAUSE_HANG}});
}

TEST(WireFields, EnumsHaveTheNumbersOfTheWire) {
  ExpectSameNumbers<Ending, v1::Ending>({{Ending::kSucceeded, v1::ENDING_SUCCEEDED},
                                         {Ending::kFailed, v1::ENDING_FAILED},
                                         {Ending::kLeft, v1::ENDING_LEFT},
                                         {Ending::kRefused, v1::ENDING_REFUSED},
                                         {Ending::kEnded, v1::ENDING_ENDED}});
  ExpectSameNumbers<Hosting, v1::Hosting>({{Hosting::kNothing, v1::HOSTING_NOTHING},
                                           {Hosting::kWorkers, v1::HOSTING_WORKERS},
                                           {Hosting::kStopping, v1::HOSTING_STOPPING}});
  ExpectSameNumbers<Outcome, v1::Outcome>({{Outcome::kNone, v1::OUTCOME_NONE},
                                           {Outcome::kSucceeded, v1::OUTCOME_SUCCEEDED},
                                           {Outcome::kFailed, v1::OUTCOME_FAILED},
                                           {Outcome::kStopped, v1::OUTCOME_STOPPED},
                                           {Outcome::kSpawnFailed, v1::OUTCOME_SPAWN_FAILED}});
  ExpectSameNumbers<Leaving, v1::Leaving>({{Leaving::kNo, v1::LEAVING_NO},
                                           {Leaving::kLeave, v1::LEAVING_LEAVE},
                                           {Leaving::kStopRun, v1::LEAVING_STOP_RUN}});
  ExpectSameNumbers<NoticeLevel, v1::NoticeLevel>(
      {{NoticeLevel::kDetail, v1::NOTICE_LEVEL_DETAIL},
       {NoticeLevel::kInfo, v1::NOTICE_LEVEL_INFO},
       {NoticeLevel::kWarning, v1::NOTICE_LEVEL_WARNING}});
  ExpectSameNumbers<RequestKind, v1::RequestKind>(
      {{RequestKind::kLogs, v1::REQUEST_KIND_LOGS},
       {RequestKind::kStacks, v1::REQUEST_KIND_STACKS},
       {RequestKind::kSave, v1::REQUEST_KIND_SAVE},
       {RequestKind::kStopSoon, v1::REQUEST_KIND_STOP_SOON},
       {RequestKind::kEvidence, v1::REQUEST_KIND_EVIDENCE}});
  ExpectSameNumbers<ControlVerb, v1::ControlVerb>(
      {{ControlVerb::kDrain, v1::CONTROL_VERB_DRAIN}, {ControlVerb::kStop, v1::CONTROL_VERB_STOP}});
  ExpectSameNumbers<PoolRunPhase, v1::PoolRunPhase>(
      {{PoolRunPhase::kWaits, v1::POOL_RUN_PHASE_WAITS},
       {PoolRunPhase::kRuns, v1::POOL_RUN_PHASE_RUNS},
       {PoolRunPhase::kEnds, v1::POOL_RUN_PHASE_ENDS},
       {PoolRunPhase::kOver, v1::POOL_RUN_PHASE_OVER}});
}

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

TEST_F(WireStatus, ImpossibleValuesAreRefusedByField) {
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

// Workers and the system need not keep texts short.
TEST_F(WireStatus, WritingCutsWhatReadingWouldRefuse) {
  run.waits_for = std::string(kMaxTextBytes + 1, 'x');
  wire.Clear();
  ToProto(std::vector<RunStatus>{run}, &wire);
  EXPECT_EQ(Refusal(), "accepted");
}

}  // namespace
}  // namespace ddprun
