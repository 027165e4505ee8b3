#include "rendezvous/term_bounds.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "common/result_testing.h"
#include "rendezvous/core/recovery.h"
#include "rendezvous/failover/claim_directory.h"
#include "rendezvous/wire/convert.h"
#include "rendezvous/wire/ended_run.h"

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

// A server's result whose clock says `unix_ms`; "": taken.
std::string Refusal(const NodeReport& report, std::int64_t unix_ms) {
  v1::SyncRequest wire;
  ToProto(report, &wire);
  const Result<NodeReport> read = FromProtoAt<NodeReport>(wire, unix_ms);
  return read ? "" : read.error().message;
}

// A clock that is set back takes nothing back.
TEST(TermBounds, TheClockThatJudgesNeverGoesBack) {
  std::atomic<std::int64_t> latest{0};
  EXPECT_EQ(Latest(kNow, latest), kNow);
  EXPECT_EQ(Latest(kNow - 3 * kDay, latest), kNow);
  EXPECT_EQ(Latest(kNow + 1, latest), kNow + 1);
}

// Its nodes have heard a server whose clock was right.
TEST(TermBounds, AServerADayBehindTakesATermOfToday) {
  NodeReport report = Plain();
  report.term = TermOf(kNow);
  EXPECT_EQ(Refusal(report, kNow), "");
  EXPECT_EQ(Refusal(report, kNow - kDay), "");
}

// Adopted, it would be every run's, and no later one could be counted from it.
TEST(TermBounds, ATermOfTheDayAfterTomorrowIsRefused) {
  NodeReport report = Plain();
  report.term = {std::uint64_t{1} << 62};
  EXPECT_EQ(Refusal(report, kNow).substr(0, 27), "term is 4611686018427387904");
  report.term = {TermOf(kNow + kDay).value + 1};
  EXPECT_NE(Refusal(report, kNow), "");
}

// People must know whose clock to look at, and how wrong it is.
TEST(TermBounds, TheRefusalSaysByHowMuchTheClocksDiffer) {
  NodeReport report = Plain();
  report.term = TermOf(kNow + 4 * kDay);
  EXPECT_NE(Refusal(report, kNow)
                .find("the clock of its source was 96 h 00 min ahead of this host's, "
                      "2027-01-15 08:00 UTC (compare `date -u` on both"),
            std::string::npos)
      << Refusal(report, kNow);
  report.term = {std::numeric_limits<std::uint64_t>::max()};
  EXPECT_NE(Refusal(report, kNow).find("the clock of its source was years ahead"),
            std::string::npos);
  constexpr std::int64_t kDayInMicroseconds = kDay * 1'000;
  const auto at = [](std::int64_t offset) {
    return ClockAt({"n0", 29400}, ClockOffset{offset, 1});
  };
  EXPECT_EQ(at(kDayInMicroseconds), "; the clock at n0:29400 is 24 h 00 min ahead of this host's");
  EXPECT_EQ(at(-kDayInMicroseconds), "; the clock at n0:29400 is 24 h 00 min behind this host's");
  EXPECT_EQ(at(2'000'000), "");
  EXPECT_EQ(ClockAt({"n0", 29400}, std::nullopt), "");
}

// Regardless of the term that a server was made to adopt, the next one's clock is past it.
TEST(TermBounds, AnAdoptedTermIsTakenAMomentLater) {
  NodeReport report = Plain();
  report.term = TermAfter({}, TermOf(kNow + kDay));
  report.floor = Generation{static_cast<std::uint64_t>(kNow + kDay)}.Next();
  EXPECT_EQ(Refusal(report, kNow + 1), "");
}

TEST(TermBounds, AGenerationThatCannotHaveBeenReachedIsRefused) {
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

TEST(TermBounds, ServersAreNotBelievedEither) {
  const Term far{std::uint64_t{1} << 62};
  v1::SyncReply reply;
  ToProto(SyncReply{Wait{}, 1, Duration{1}, Duration{1}, far}, &reply);
  EXPECT_FALSE(FromProto<SyncReply>(reply));
  const Claim claim{1, far, {"h0", 1}, 0, false};
  EXPECT_TRUE(Fails(DecodeClaim(Encode(claim), 1),
                    "claim 1, made by the server at h0:1, has the term 46116860"));
  const Generation far_too{far.value};
  EXPECT_FALSE(DecodeEndedRun(Encode(EndedRun{"run", far_too, Finish{}})));
  EXPECT_TRUE(DecodeEndedRun(Encode(EndedRun{"run", {5}, Finish{}})));
}

}  // namespace
}  // namespace ddprun
