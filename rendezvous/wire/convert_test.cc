#include "rendezvous/wire/convert.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "rendezvous/testing/full_report.h"

namespace ddprun {
namespace {

using namespace std::chrono_literals;

v1::SyncRequest WireReport() {
  v1::SyncRequest wire;
  ToProto(FullReport(), &wire);
  return wire;
}

// Converts to bytes and back, as over a socket.
Result<NodeReport> AcrossTheWire(const NodeReport& report) {
  v1::SyncRequest wire;
  ToProto(report, &wire);
  v1::SyncRequest read;
  EXPECT_TRUE(read.ParseFromString(wire.SerializeAsString()));
  return FromProto<NodeReport>(read);
}

Result<SyncReply> AcrossTheWire(const SyncReply& reply) {
  v1::SyncReply wire;
  ToProto(reply, &wire);
  v1::SyncReply read;
  EXPECT_TRUE(read.ParseFromString(wire.SerializeAsString()));
  return FromProto<SyncReply>(read);
}

template <class T>
void ExpectSame(const T& value) {
  const Result<T> read = AcrossTheWire(value);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, value);
}

TEST(Convert, EveryFieldOfAReportSurvives) {
  ExpectSame(FullReport());
}

TEST(Convert, AnAbsentFieldStaysAbsent) {
  NodeReport report;
  report.run_id = "r";
  report.node = "n";
  report.host = "h";
  ExpectSame(report);
}

// Each value of their enums has its number (wire_fields_test), and crosses by it.
TEST(Convert, EveryDirectiveSurvivesInAReplyAndAsEcho) {
  const std::vector<Directive> directives = {
      Wait{{WaitFor::kNodes, 3, 4, 5, {"n03", "n04"}, 2'000ms}},
      Wait{{.what = WaitFor::kUnfit, .unfit = {"a line"}}},
      Wait{{WaitFor::kHeldBack, 3, 4, 5, {}, 8'000ms, 3, 60'000ms}},
      ddprun::Run{SomePlacement()},
      Stop{{4}, {77}, StopCause::kOperator, true},
      Finish{Ending::kFailed, 137, kBytes, SomeFailure(Killed{9, false}), true},
      Finish{Ending::kSucceeded, 0, "", {}}};
  for (const Directive& directive : directives) {
    ExpectSame(SyncReply{directive, INT64_MAX, 3'001ms, 1'001ms, {6}});
    NodeReport report = FullReport();
    report.echo = directive;
    ExpectSame(report);
  }
}

// A long text of a worker must not make the server refuse its agent's reports.
TEST(Convert, WritingCutsToTheBoundsThatReadingHas) {
  NodeReport report = FullReport();
  report.failures.assign(kMaxFailures + 1, SomeFailure(Exited{1}));
  report.failures[0].last_lines = std::string(kMaxLastLines, 'a') + "end";
  report.failures[0].details.message = "begin" + std::string(kMaxErrorMessage, 'm');
  report.failures[0].details.traceback = std::string(kMaxTraceback, 't') + "cause";
  report.spawn_failure = "start" + std::string(kMaxTextBytes, 'b');
  const Result<NodeReport> read = AcrossTheWire(report);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->failures.size(), kMaxFailures);
  EXPECT_TRUE(read->failures[0].last_lines.ends_with("aend"));
  EXPECT_TRUE(read->failures[0].details.message.starts_with("beginm"));
  EXPECT_TRUE(read->failures[0].details.traceback.ends_with("tcause"));
  EXPECT_TRUE(read->spawn_failure.starts_with("startb"));

  Wait wait;
  wait.reason.missing.assign(kMaxNamed + 1, "n");
  const Result<SyncReply> reply = AcrossTheWire(SyncReply{wait, 0, 1ms, 1ms, {}});
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(std::get<Wait>(reply->directive).reason.missing.size(), kMaxNamed);
}

struct Refusal {
  const char* field;  // That the error must name first.
  std::function<void(v1::SyncRequest&)> spoil;
};

void ExpectRefused(const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals) {
    v1::SyncRequest wire = WireReport();
    refusal.spoil(wire);
    const Result<NodeReport> report = FromProto<NodeReport>(wire);
    ASSERT_FALSE(report) << refusal.field;
    EXPECT_EQ(report.error().kind, ErrorKind::kInvalid);
    EXPECT_TRUE(report.error().message.starts_with(std::string(refusal.field) + " "))
        << refusal.field << ": " << report.error().message;
  }
}

TEST(Convert, ReportsThatCannotBeUsedAreRefusedByField) {
  const std::string long_name(kMaxNameBytes + 1, 'x');
  const std::vector<Refusal> refusals = {
      {"run_id", [&](auto& w) { w.set_run_id(""); }},
      {"run_id", [&](auto& w) { w.set_run_id(long_name); }},
      {"run_id", [&](auto& w) { w.set_run_id("a\nb"); }},
      {"node", [&](auto& w) { w.set_node(""); }},
      {"node", [&](auto& w) { w.set_node(long_name); }},
      {"node", [&](auto& w) { w.set_node("\x1b[2J"); }},
      {"host", [&](auto& w) { w.set_host(long_name); }},
      {"host", [&](auto& w) { w.set_host(""); }},
      {"role", [&](auto& w) { w.set_role("\x7f"); }},
      {"term", [&](auto& w) { w.set_term(UINT64_MAX); }},
      {"beat", [&](auto& w) { w.set_beat(-1); }},
      {"floor", [&](auto& w) { w.set_floor(UINT64_MAX); }},
      {"echo", [&](auto& w) { w.mutable_echo()->Clear(); }},
      {"spec.max_nodes", [&](auto& w) { w.clear_spec(); }},
      {"spec.max_nodes", [&](auto& w) { w.mutable_spec()->set_max_nodes(100'001); }},
      {"spec.min_nodes", [&](auto& w) { w.mutable_spec()->set_min_nodes(0); }},
      {"spec.min_nodes", [&](auto& w) { w.mutable_spec()->set_min_nodes(5); }},
      {"spec.last_call", [&](auto& w) { w.mutable_spec()->set_last_call_ms(-1); }},
      {"spec.restart_window", [&](auto& w) { w.mutable_spec()->set_restart_window_ms(-1); }},
      {"spec.join_timeout", [&](auto& w) { w.mutable_spec()->set_join_timeout_ms(INT64_MAX); }},
      {"node_rank", [&](auto& w) { w.set_node_rank(100'000); }},
      {"workers", [&](auto& w) { w.set_workers(0); }},
      {"workers", [&](auto& w) { w.set_workers(4097); }},
      {"first_local_rank", [&](auto& w) { w.set_first_local_rank(4096); }},
      {"store.host", [&](auto& w) { w.mutable_store()->set_host(long_name); }},
      {"store.port", [&](auto& w) { w.mutable_store()->set_port(65536); }},
      {"page.host", [&](auto& w) { w.mutable_page()->set_host(long_name); }},
      {"page.port", [&](auto& w) { w.mutable_page()->set_port(65536); }},
      {"hosting", [&](auto& w) { w.clear_hosting(); }},
      {"hosting", [&](auto& w) { w.set_hosting(static_cast<v1::Hosting>(4)); }},
      {"outcome", [&](auto& w) { w.clear_outcome(); }},
      {"outcome", [&](auto& w) { w.set_outcome(static_cast<v1::Outcome>(-1)); }},
      {"leaving", [&](auto& w) { w.clear_leaving(); }},
  };
  ExpectRefused(refusals);
}

TEST(Convert, PlacementsAndFailuresThatCannotBeUsedAreRefusedByField) {
  const std::vector<Refusal> refusals = {
      {"placement.term", [&](auto& w) { w.mutable_placement()->set_term(UINT64_MAX); }},
      {"placement.generation", [&](auto& w) { w.mutable_placement()->set_generation(1ull << 63); }},
      {"placement.group_size", [&](auto& w) { w.mutable_placement()->set_group_size(0); }},
      {"placement.group_rank", [&](auto& w) { w.mutable_placement()->set_group_rank(4); }},
      {"placement.world_size", [&](auto& w) { w.mutable_placement()->set_world_size(0); }},
      {"placement.first_rank", [&](auto& w) { w.mutable_placement()->set_first_rank(16); }},
      {"placement.role_world_size",
       [&](auto& w) { w.mutable_placement()->set_role_world_size(17); }},
      {"placement.role_first_rank",
       [&](auto& w) { w.mutable_placement()->set_role_first_rank(8); }},
      {"failures",
       [&](auto& w) {
         while (w.failures_size() <= static_cast<int>(kMaxFailures)) {
           *w.add_failures() = w.failures(0);
         }
       }},
      {"failure.status", [&](auto& w) { w.mutable_failures(0)->clear_status(); }},
      {"failure.exit_code", [&](auto& w) { w.mutable_failures(0)->set_exit_code(256); }},
      {"failure.signal", [&](auto& w) { w.mutable_failures(1)->set_signal(0); }},
      {"failure.rank", [&](auto& w) { w.mutable_failures(0)->set_rank(UINT32_MAX); }},
      {"failure.local_rank", [&](auto& w) { w.mutable_failures(0)->set_local_rank(4096); }},
      {"failure.pid", [&](auto& w) { w.mutable_failures(0)->set_pid(-1); }},
      {"failure.after", [&](auto& w) { w.mutable_failures(0)->set_after_ms(-1); }},
      {"failure.host", [&](auto& w) { w.mutable_failures(0)->set_host("\t"); }},
      {"failure.last_lines",
       [&](auto& w) {
         w.mutable_failures(0)->set_last_lines(std::string(kMaxLastLines + 1, 'x'));
       }},
      {"failure.unix_ms", [&](auto& w) { w.mutable_failures(0)->set_unix_ms(-1); }},
      {"failure.unix_ms", [&](auto& w) { w.mutable_failures(0)->set_unix_ms(INT64_MAX); }},
      {"failure.error_file",
       [&](auto& w) { w.mutable_failures(0)->set_error_file(std::string(kMaxPath + 1, 'x')); }},
      {"failure.error_message",
       [&](auto& w) {
         w.mutable_failures(0)->set_error_message(std::string(kMaxErrorMessage + 1, 'x'));
       }},
      {"failure.traceback",
       [&](auto& w) { w.mutable_failures(0)->set_traceback(std::string(kMaxTraceback + 1, 'x')); }},
      {"spawn_failure", [&](auto& w) { w.set_spawn_failure(std::string(kMaxTextBytes + 1, 'x')); }},
      {"unkillable", [&](auto& w) { w.set_unkillable(4097); }},
      {"unfit", [&](auto& w) { w.set_unfit(std::string(kMaxUnfit + 1, 'x')); }},
      {"job_ends_unix", [&](auto& w) { w.set_job_ends_unix(-1); }},
      {"addresses", [&](auto& w) { w.set_addresses("10.0.0.1 or so"); }},
      {"addresses", [&](auto& w) { w.set_addresses(std::string(kMaxAddressesBytes + 1, '1')); }},
      {"ended_well", [&](auto& w) { w.set_ended_well(w.workers() + 1); }},
      {"hung_rank", [&](auto& w) { w.set_hung_rank(UINT32_MAX); }},
      {"progress_group.count", [&](auto& w) { w.mutable_progress_groups(0)->set_count(0); }},
      {"progress_group.late", [&](auto& w) { w.mutable_progress_groups(0)->set_late(2); }},
      {"progress_group.phase", [&](auto& w) { w.mutable_progress_groups(0)->set_phase("\n"); }},
      {"progress_group.first_rank",
       [&](auto& w) { w.mutable_progress_groups(0)->set_first_rank(UINT32_MAX); }},
      {"progress_group.allowed",
       [&](auto& w) { w.mutable_progress_groups(0)->set_allowed_ms(-1); }},
      {"progress_group.source", [&](auto& w) { w.mutable_progress_groups(0)->set_source(3); }},
      {"start_timings.started", [&](auto& w) { w.mutable_start_timings()->set_started_ms(-1); }},
      {"progress_groups",
       [&](auto& w) {
         for (std::size_t i = 0; i < kMaxProgressGroups; ++i) {
           *w.add_progress_groups() = w.progress_groups(0);
         }
       }},
  };
  ExpectRefused(refusals);
}

TEST(Convert, DirectivesThatCannotBeUsedAreRefusedByField) {
  const auto error_of = [](const Directive& directive, std::function<void(v1::Directive&)> spoil) {
    v1::SyncReply wire;
    ToProto(SyncReply{directive, 0, 1ms, 1ms, {}}, &wire);
    spoil(*wire.mutable_directive());
    const Result<SyncReply> reply = FromProto<SyncReply>(wire);
    return reply ? "accepted" : reply.error().message.substr(0, reply.error().message.find(' '));
  };
  EXPECT_EQ(error_of(Wait{}, [](auto& d) { d.Clear(); }), "directive");
  EXPECT_EQ(error_of(Wait{}, [](auto& d) { d.mutable_wait()->clear_what(); }), "wait.what");
  EXPECT_EQ(error_of(Wait{}, [](auto& d) { d.mutable_wait()->set_have(UINT32_MAX); }), "wait.have");
  EXPECT_EQ(error_of(Wait{}, [](auto& d) { d.mutable_wait()->set_need(UINT32_MAX); }), "wait.need");
  EXPECT_EQ(error_of(Wait{}, [](auto& d) { d.mutable_wait()->set_want(UINT32_MAX); }), "wait.want");
  EXPECT_EQ(error_of(Wait{}, [](auto& d) { d.mutable_wait()->add_missing(""); }), "wait.missing");
  EXPECT_EQ(error_of(Wait{},
                     [](auto& d) {
                       for (std::size_t i = 0; i <= kMaxNamed; ++i) {
                         d.mutable_wait()->add_missing("n");
                       }
                     }),
            "wait.missing");
  EXPECT_EQ(error_of(Wait{}, [](auto& d) { d.mutable_wait()->set_remaining_ms(-1); }),
            "wait.remaining");
  EXPECT_EQ(error_of(ddprun::Run{}, [](auto& d) { d.mutable_run()->clear_placement(); }),
            "run.placement");
  EXPECT_EQ(error_of(Stop{}, [](auto& d) { d.mutable_stop()->clear_cause(); }), "stop.cause");
  EXPECT_EQ(error_of(Stop{}, [](auto& d) { d.mutable_stop()->set_generation(UINT64_MAX); }),
            "stop.generation");
  EXPECT_EQ(error_of(Wait{}, [](auto& d) { d.mutable_wait()->set_span_ms(-1); }), "wait.span");
  const auto spoiled = [&](auto spoil) {
    return error_of(Finish{Ending::kFailed, 3}, [&](auto& d) { spoil(*d.mutable_finish()); });
  };
  EXPECT_EQ(spoiled([](auto& f) { f.clear_ending(); }), "finish.ending");
  EXPECT_EQ(spoiled([](auto& f) { f.set_exit_code(256); }), "finish.exit_code");
  EXPECT_EQ(spoiled([](auto& f) { f.set_exit_code(0); }), "finish.exit_code");
  EXPECT_EQ(spoiled([](auto& f) { f.set_text(std::string(kMaxTextBytes + 1, 'x')); }),
            "finish.text");
  EXPECT_EQ(spoiled([](auto& f) { f.mutable_root(); }), "failure.status");
}

TEST(Convert, RepliesThatCannotBeUsedAreRefusedByField) {
  const auto error_of = [](std::function<void(v1::SyncReply&)> spoil) {
    v1::SyncReply wire;
    ToProto(SyncReply{}, &wire);
    spoil(wire);
    const Result<SyncReply> reply = FromProto<SyncReply>(wire);
    return reply ? "accepted" : reply.error().message.substr(0, reply.error().message.find(' '));
  };
  EXPECT_EQ(error_of([](auto&) {}), "accepted");
  EXPECT_EQ(error_of([](auto& w) { w.set_beat(-1); }), "beat");
  EXPECT_EQ(error_of([](auto& w) { w.set_lease_ms(-1); }), "lease");
  EXPECT_EQ(error_of([](auto& w) { w.set_lease_ms(3'600'000); }), "lease");
  EXPECT_EQ(error_of([](auto& w) { w.set_poll_period_ms(3'600'000); }), "poll_period");
  EXPECT_EQ(error_of([](auto& w) { w.set_term(UINT64_MAX); }), "term");
}

}  // namespace
}  // namespace ddprun
