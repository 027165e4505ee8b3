#include "rendezvous/real_names.h"

#include <gtest/gtest.h>

#include <functional>

#include "rendezvous/core/recovery.h"
#include "rendezvous/journal_file.h"
#include "rendezvous/succession/claim_directory.h"
#include "rendezvous/wire/convert.h"

namespace ddprun {
namespace {

constexpr std::int64_t kNow = 1'800'000'000'000;  // Some day.
constexpr std::int64_t kDay = 24 * 3'600'000;

NodeReport Plain() {
  NodeReport report;
  report.run_id = "run";
  report.node = "n0";
  report.host = "h0";
  return report;
}

// What a server reads whose clock says `unix_ms`; "": taken.
std::string Refusal(const NodeReport& report, std::int64_t unix_ms) {
  v1::SyncRequest wire;
  ToProto(report, &wire);
  const Result<NodeReport> read = ReportFromProtoAt(wire, unix_ms);
  return read ? "" : read.error().message;
}

// A clock that is set back takes nothing back.
TEST(RealNames, TheClockThatJudgesNeverGoesBack) {
  std::atomic<std::int64_t> latest{0};
  EXPECT_EQ(Latest(kNow, latest), kNow);
  EXPECT_EQ(Latest(kNow - 3 * kDay, latest), kNow);
  EXPECT_EQ(Latest(kNow + 1, latest), kNow + 1);
}

// Its nodes have heard a server whose clock was right.
TEST(RealNames, AServerADayBehindTakesATermOfToday) {
  NodeReport report = Plain();
  report.term = TermOf(kNow);
  EXPECT_EQ(Refusal(report, kNow), "");
  EXPECT_EQ(Refusal(report, kNow - kDay), "");
}

// Adopted, it would be every run's, and no later one could be counted from it.
TEST(RealNames, ATermOfTheDayAfterTomorrowIsRefused) {
  NodeReport report = Plain();
  report.term = {std::uint64_t{1} << 62};
  EXPECT_EQ(Refusal(report, kNow).substr(0, 27), "term is 4611686018427387904");
  report.term = {TermOf(kNow + kDay).value + 1};
  EXPECT_NE(Refusal(report, kNow), "");
}

// Whatever somebody made a server adopt, the next one's clock is past it.
TEST(RealNames, WhatWasAdoptedIsTakenAMomentLater) {
  NodeReport report = Plain();
  report.term = ReignAfter({}, TermOf(kNow + kDay));
  report.floor = Generation{static_cast<std::uint64_t>(kNow + kDay)}.Next();
  EXPECT_EQ(Refusal(report, kNow + 1), "");
}

TEST(RealNames, AGenerationThatNobodyCanHaveReachedIsRefused) {
  const auto refused = [](const std::function<void(NodeReport&)>& edit) {
    NodeReport report = Plain();
    edit(report);
    return Refusal(report, kNow) != "";
  };
  const Generation far{std::uint64_t{1} << 62};
  EXPECT_TRUE(refused([&](NodeReport& report) { report.floor = far; }));
  EXPECT_TRUE(refused([&](NodeReport& report) { report.placement = {.generation = far}; }));
  EXPECT_TRUE(refused([&](NodeReport& report) { report.echo = Stop{far, {1}, {}}; }));
  EXPECT_FALSE(refused([&](NodeReport& report) { report.floor = {1'000'000'000'000}; }));
}

TEST(RealNames, ServersAreNotBelievedEither) {
  const Term far{std::uint64_t{1} << 62};
  v1::SyncReply reply;
  ToProto(SyncReply{Wait{}, 1, Duration{1}, Duration{1}, far}, &reply);
  EXPECT_FALSE(ReplyFromProto(reply));
  const Claim claim{1, far, {"h0", 1}, 0, false};
  v1::WitnessReply answer;
  ToProto(WitnessAnswer{false, true, claim}, &answer);
  EXPECT_FALSE(WitnessAnswerFromProto(answer));
  v1::WitnessRequest request;
  ToProto(WitnessRequest{.verb = WitnessVerb::kMove, .claim = claim}, &request);
  EXPECT_FALSE(WitnessRequestFromProto(request));
  EXPECT_FALSE(DecodeClaim(Encode(claim), 1));
  EXPECT_FALSE(DecodeEntry(Encode(JournalEntry(Reign{far}))));
}

}  // namespace
}  // namespace ddprun
