#include "agent/core/health.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "agent/core/scenario_testing.h"

namespace ddprun {
namespace {

// A node with two workers, ranks 4 and 5, which may be silent for ten seconds.
struct Health : Agent {
  void SetUp() override {
    config.hang_timeout = 10s;
    Agent::SetUp();
    TellRun(1, 1s);
  }
  void Says(std::uint32_t local_rank, std::uint64_t step, Duration when) {
    Feed(WorkerSpoke{.local_rank = local_rank, .step = step}, when);
  }
  void Tick(Duration when) { Feed(AgentTick{}, when); }
  std::optional<std::uint32_t> Late() { return ReportOf(state, config).hung_rank; }
};

TEST_F(Health, SilenceAfterAHelloIsLateAndReported) {
  Says(1, 7, 2s);
  EXPECT_EQ(NextWake(state, config), At(12s));
  Tick(12s);
  ASSERT_TRUE(Did<SendReport>());
  const NodeReport& report = Find<SendReport>()->report;
  EXPECT_EQ(report.hung_rank, 5u);
  EXPECT_EQ(report.progress_groups, (std::vector<ProgressGroup>{{7, "", 5, 1, 1, 10s}}));
  EXPECT_EQ(state.phase, AgentPhase::kRunning);  // The coordinator decides.
}

std::size_t WarningsOf(const std::vector<AgentEffect>& effects) {
  return static_cast<std::size_t>(std::ranges::count_if(effects, [](const AgentEffect& effect) {
    const auto* const notice = std::get_if<Say>(&effect);
    return notice != nullptr && notice->level == NoticeLevel::kWarning &&
           notice->text.find("no worker has reported progress") != std::string::npos;
  }));
}

// A user who sets a time-out expects that a hang is found.
TEST_F(Health, ATimeoutThatWatchesNoWorkerIsReportedOnce) {
  EXPECT_EQ(NextWake(state, config), At(11s));
  Tick(10s);
  EXPECT_EQ(WarningsOf(effects), 0u);
  Tick(11s);
  EXPECT_EQ(WarningsOf(effects), 1u);
  Tick(60s);
  EXPECT_EQ(WarningsOf(effects), 0u);
}

TEST_F(Health, AnUnrequestedTimeoutMayWatchNoWorker) {
  config.says_unwatched = false;
  EXPECT_EQ(UnwatchedAt(state, config), std::nullopt);
  Tick(60s);
  EXPECT_EQ(WarningsOf(effects), 0u);
}

TEST_F(Health, ATimeoutThatWatchesOneOfThemIsNotReported) {
  Says(1, 1, 2s);
  Tick(11s);
  EXPECT_EQ(WarningsOf(effects), 0u);
}

TEST_F(Health, OnlyProgressCounts) {
  struct Case {
    const char* what;
    WorkerSpoke spoke;
    bool progress;
  };
  const std::vector<Case> cases = {
      {"a larger step", {.step = 8}, true},         {"the same step", {.step = 7}, false},
      {"a smaller step", {.step = 6}, false},       {"another phase", {.phase = "reduce"}, true},
      {"the same phase", {.phase = "data"}, false}, {"another hello", {.ready = true}, false}};
  Duration now = 2s;
  for (const Case& c : cases) {
    state.heartbeats.clear();
    Feed(WorkerSpoke{.step = 7, .phase = "data"}, now);
    Feed(c.spoke, now + 5s);
    EXPECT_EQ(NextLate(state, config), At(now + (c.progress ? 15s : 10s))) << c.what;
    now += 6s;
  }
}

TEST_F(Health, AnExtensionLastsUntilTheNextProgress) {
  Feed(WorkerSpoke{.step = 7, .phase = "checkpoint", .extend = 60s}, 2s);
  EXPECT_EQ(NextLate(state, config), At(62s));
  Feed(WorkerSpoke{.extend = 60s}, 50s);
  EXPECT_EQ(NextLate(state, config), At(110s));
  Says(0, 8, 55s);
  EXPECT_EQ(NextLate(state, config), At(65s));
}

TEST_F(Health, ProgressOfALateWorkerIsReportedAtOnce) {
  Says(0, 7, 2s);
  Tick(12s);
  EXPECT_EQ(Late(), 4u);
  Says(0, 8, 13s);
  ASSERT_TRUE(Did<SendReport>());
  EXPECT_EQ(Late(), std::nullopt);
}

// Otherwise a paused agent would blame its workers for its own pause.
TEST_F(Health, ALateTickJudgesNoWorker) {
  Says(0, 7, 2s);
  Tick(11s);
  Tick(30s);
  EXPECT_EQ(Late(), std::nullopt);
  EXPECT_EQ(NextLate(state, config), At(32s));
  Tick(32s);
  EXPECT_EQ(Late(), 4u);
}

// A suspended job: the workers continue with the step in which they were stopped.
TEST_F(Health, APauseOfTheWorkersTooTakesNoneOfTheirTime) {
  Says(0, 7, 2s);
  Tick(5s);
  Tick(100s);
  EXPECT_EQ(Late(), std::nullopt);
  EXPECT_EQ(NextLate(state, config), At(108s));  // 7 s were left, and 1 s to be heard.
}

// The number travels with the next report; a change of it causes none.
TEST_F(Health, HowManyHaveEndedWellIsReported) {
  Says(1, 0, 2s);
  EXPECT_EQ(ReportOf(state, config).ended_well, 0u);
  const std::uint64_t sequence = state.sequence;
  Ends(0, Exited{0}, 3s);
  EXPECT_EQ(ReportOf(state, config).ended_well, 1u);
  EXPECT_EQ(state.sequence, sequence);
}

TEST_F(Health, WithoutATimeoutNoWorkerIsLateButProgressIsReported) {
  config.hang_timeout = Duration{0};
  Says(0, 7, 2s);
  EXPECT_EQ(NextLate(state, config), std::nullopt);
  EXPECT_EQ(ReportOf(state, config).progress_groups.size(), 1u);
}

TEST_F(Health, ProgressIsGroupedAndBounded) {
  config.workers = 8;
  state.alive = 8;
  for (std::uint32_t local = 0; local < 8; ++local) {
    Says(local, 100 - local / 2 * 10, 2s);  // 100 100 90 90 80 80 70 70
  }
  Says(0, 200, 3s);
  const std::vector<ProgressGroup> groups = ReportOf(state, config).progress_groups;
  ASSERT_EQ(groups.size(), kMaxProgressGroups);
  EXPECT_EQ(groups.front(), (ProgressGroup{70, "", 10, 2, 0, Duration{0}}));
  EXPECT_EQ(groups.back().step, 100u);
  EXPECT_EQ(groups.back().count, 2u);  // The one at 200 is with them.
}

TEST_F(Health, AHangStopTakesStacksAndThenKills) {
  Says(0, 9, 2s);
  Says(1, 7, 2s);
  TellStop(1, StopCause::kHang, 20s);
  ASSERT_TRUE(Did<TakeStacks>());
  EXPECT_EQ(Find<TakeStacks>()->local_ranks, (std::vector<std::uint32_t>{1, 0}));
  EXPECT_FALSE(Did<SignalWorkers>() || Did<KillWorkers>());
  Feed(StacksTaken{{1}}, 21s);
  EXPECT_TRUE(Did<KillWorkers>());
  Feed(StacksTaken{{1}}, 22s);
  EXPECT_FALSE(Did<KillWorkers>());
}

TEST_F(Health, StacksThatTakeTooLongAreNotWaitedFor) {
  TellStop(1, StopCause::kHang, 20s);
  EXPECT_EQ(NextWake(state, config), At(26s));
  Tick(26s);
  EXPECT_TRUE(Did<KillWorkers>());
}

TEST_F(Health, StacksOfAnEarlierGenerationKillNoWorker) {
  TellStop(1, StopCause::kHang, 20s);
  BothEnd(Killed{9}, Killed{9}, 20s);
  TellRun(2, 21s);
  TellStop(2, StopCause::kHang, 22s);
  Feed(StacksTaken{{1}}, 23s);
  EXPECT_FALSE(Did<KillWorkers>());
}

// ---- Seen from outside ----
TEST_F(Health, AWorkerThatIsOnlySeenIsWatchedFromItsFirstStepOn) {
  Feed(WorkerSpoke{.collectives = 0}, 2s);
  EXPECT_EQ(NextLate(state, config), std::nullopt);
  Feed(WorkerSpoke{.collectives = 5, .world_collectives = 3, .in_collective = true}, 5s);
  EXPECT_EQ(NextLate(state, config), At(15s));
  Feed(WorkerSpoke{.collectives = 5, .world_collectives = 3},
       7s);  // It ended: no progress by itself.
  EXPECT_EQ(NextLate(state, config), At(15s));
  Tick(15s);
  EXPECT_EQ(ReportOf(state, config).progress_groups,
            (std::vector<ProgressGroup>{{3, "", 4, 1, 1, 10s, ProgressSource::kCollectives}}));
}

TEST_F(Health, APrintedStepIsShownAndCollectivesAreCompared) {
  Feed(WorkerSpoke{.collectives = 350, .world_collectives = 300, .in_collective = true}, 2s);
  Feed(WorkerSpoke{.printed = 7}, 3s);
  EXPECT_EQ(RankDetailsOf(state, config).ranks[0].step, 7u);
  EXPECT_EQ(ReportOf(state, config).progress_groups,
            (std::vector<ProgressGroup>{
                {300, kInCollective, 4, 1, 0, Duration{0}, ProgressSource::kCollectives}}));
  Feed(WorkerSpoke{.collectives = 351, .world_collectives = 300}, 9s);
  EXPECT_EQ(NextLate(state, config), At(19s));  // Either is progress.
}

// A worker that prepares data may hold its interpreter for long and is silent meanwhile.
TEST_F(Health, BeforeTheFirstCollectiveOnlyClaimedStillnessIsLate) {
  Feed(WorkerSpoke{.collectives = 0, .still = 4s}, 5s);
  EXPECT_EQ(NextLate(state, config), At(15s));
  Tick(15s);  // Silence is the peers' to judge.
  EXPECT_EQ(ReportOf(state, config).progress_groups.front().phase, kUnheard);
  Feed(WorkerSpoke{.collectives = 0, .still = 10s}, 101s);
  EXPECT_EQ(ReportOf(state, config).progress_groups,
            (std::vector<ProgressGroup>{
                {0, kBeforeJoining, 4, 1, 1, 10s, ProgressSource::kCollectives}}));
  Feed(WorkerSpoke{.collectives = 0, .still = 0s}, 102s);
  EXPECT_EQ(LateRank(state), std::nullopt);
  Feed(WorkerSpoke{.collectives = 0, .in_collective = true, .still = 10s}, 103s);
  EXPECT_EQ(ReportOf(state, config).progress_groups.front().phase, kInCollective);
  Feed(WorkerSpoke{.collectives = 1, .world_collectives = 1}, 104s);
  EXPECT_EQ(LateRank(state), std::nullopt);
  EXPECT_EQ(NextLate(state, config), At(114s));
}

// --start-timeout, for a stale lock or a stalled download: threads run, but nothing happens.
struct Start : Health {
  void SetUp() override {
    config.start_timeout = 30s;
    config.start_spares_busy = false;
    Health::SetUp();
  }
  void Moves(std::uint32_t local_rank, Duration when, std::optional<Duration> idle = {}) {
    Feed(WorkerSpoke{.local_rank = local_rank, .collectives = 0, .still = 0s, .idle = idle}, when);
  }
};

TEST_F(Start, ARankThatBeginsNothingInItsTimeIsLate) {
  Moves(0, 5s);
  Moves(1, 30s);
  EXPECT_EQ(Late(), std::nullopt);
  EXPECT_EQ(StartJudgedAt(state, config), At(31s));
  Tick(31s);
  EXPECT_EQ(Late(), 4u);
  EXPECT_EQ(
      ReportOf(state, config).progress_groups,
      (std::vector<ProgressGroup>{{0, kNotBegun, 4, 2, 2, 30s, ProgressSource::kCollectives}}));
  Feed(WorkerSpoke{.collectives = 1, .world_collectives = 1}, 51s);
  Feed(WorkerSpoke{.local_rank = 1, .collectives = 1, .world_collectives = 1}, 51s);
  EXPECT_EQ(Late(), std::nullopt);
}

// Imports, compilers and the preparation of data may take long while they use a CPU.
TEST_F(Start, WithoutATimeOfItsOwnAStartIsLateOnceItIsIdle) {
  config.start_spares_busy = true;
  Moves(0, 25s, 24s);
  EXPECT_EQ(Late(), std::nullopt);
  Tick(31s);
  Moves(0, 32s, 9s);
  Moves(1, 100s, 0s);
  Moves(1, 100s);  // Not known.
  EXPECT_EQ(Late(), std::nullopt);
  Moves(0, 100s, 10s);
  EXPECT_EQ(Late(), 4u);
  EXPECT_EQ(ReportOf(state, config).progress_groups.front().phase, kNotBegun);
  Moves(0, 101s, 0s);
  EXPECT_EQ(Late(), std::nullopt);
}

TEST_F(Start, ARankThatWaitsForOthersToJoinIsNotToBlame) {
  for (const Duration when : {5s, 25s}) {
    Feed(WorkerSpoke{.collectives = 0, .in_collective = true, .still = 9s}, when);
    Moves(1, when);
  }
  Tick(31s);
  const auto groups = ReportOf(state, config).progress_groups;
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].phase, kInCollective);
  EXPECT_EQ(groups[0].late, 1u);
  EXPECT_EQ(groups[1].phase, kNotBegun);
}

TEST_F(Start, ARankThatHasBegunIsNotJudgedByIt) {
  Says(0, 0, 2s);
  Feed(WorkerSpoke{.local_rank = 1, .collectives = 3, .world_collectives = 3}, 25s);
  EXPECT_EQ(StartJudgedAt(state, config), std::nullopt);
  Tick(31s);
  EXPECT_EQ(ReportOf(state, config).progress_groups.back().late, 0u);
}

// Without --progress-from, silence proves nothing.
TEST_F(Start, AnUnseenRankIsLateOnlyWhereItsLinesAreRead) {
  Tick(31s);
  EXPECT_EQ(Late(), std::nullopt);
  config.judges_unseen = true;
  EXPECT_EQ(NextWake(state, config), At(31s));
  Tick(31s);
  EXPECT_EQ(Late(), 4u);
  EXPECT_EQ(ReportOf(state, config).progress_groups.front().late, 2u);
}

TEST_F(Start, AStartThatIsJudgedUnseenNeedsNoWarning) {
  config.hang_timeout = Duration{0};
  EXPECT_EQ(UnwatchedAt(state, config), At(31s));
  config.judges_unseen = true;
  EXPECT_EQ(UnwatchedAt(state, config), std::nullopt);
  Tick(31s);
  EXPECT_EQ(WarningsOf(effects), 0u);
  EXPECT_EQ(Late(), 4u);
}

TEST_F(Start, APauseOfThisAgentGivesTimeOnce) {
  Moves(0, 5s);
  Tick(50s);
  EXPECT_EQ(Late(), std::nullopt);
  Tick(51s);
  EXPECT_EQ(Late(), 4u);
}

TEST_F(Start, EachGenerationHasItsTime) {
  Moves(0, 5s);
  Tick(31s);
  EXPECT_EQ(Late(), 4u);
  Feed(AllGone{.generation = {1}, .store = {"h", 1}}, 32s);
  TellRun(2, 33s);
  Moves(0, 40s);
  Tick(62s);
  EXPECT_EQ(Late(), std::nullopt);
  Tick(63s);
  EXPECT_EQ(Late(), 4u);
}

// A progress bar moves while the step stands still: an evaluation.
TEST_F(Health, AnotherCountBesideAPrintedStepIsProgress) {
  Feed(WorkerSpoke{.printed = 1, .printed_step = 1200}, 2s);
  Feed(WorkerSpoke{.printed = 30, .printed_step = 1200}, 8s);
  EXPECT_EQ(NextLate(state, config), At(18s));
  EXPECT_EQ(RankDetailsOf(state, config).ranks[0].step, 1200u);
}

TEST_F(Health, ItsOwnWordIsTheOnlyOneOnceItSpeaks) {
  Feed(WorkerSpoke{.printed = 700}, 2s);
  Says(0, 5, 3s);
  Feed(WorkerSpoke{.printed = 701}, 8s);
  Feed(WorkerSpoke{.collectives = 9}, 8s);
  EXPECT_EQ(NextLate(state, config), At(13s));
  EXPECT_EQ(ReportOf(state, config).progress_groups,
            (std::vector<ProgressGroup>{{5, "", 4, 1, 0, Duration{0}}}));
}

TEST_F(Health, OnlyAnAbsoluteStepCountsBeyondItsGeneration) {
  Feed(WorkerSpoke{.printed = 70}, 2s);
  Feed(WorkerSpoke{.collectives = 90}, 2s);
  EXPECT_EQ(ReportOf(state, config).progress, 0u);
  Feed(WorkerSpoke{.printed = 71, .printed_step = 71}, 3s);
  EXPECT_EQ(ReportOf(state, config).progress, 71u);
}

TEST_F(Health, AWorkerWhoseCollectivesAreNoLongerCountedIsForgotten) {
  Feed(WorkerSpoke{.collectives = 3}, 2s);
  Feed(WorkerSpoke{.collectives = 0}, 3s);
  EXPECT_EQ(NextLate(state, config), std::nullopt);
  EXPECT_TRUE(ReportOf(state, config).progress_groups.empty());
}

TEST_F(Health, AStepBesideACountIsItsOwnWord) {
  Feed(WorkerSpoke{.step = 4, .collectives = 7}, 2s);
  EXPECT_EQ(ReportOf(state, config).progress_groups,
            (std::vector<ProgressGroup>{{4, "", 4, 1, 0, Duration{0}}}));
}

// Only the fifth worker waits in a collective. A report that merges groups must keep that.
TEST_F(Health, ThatOneOfManyWaitsIsNotLost) {
  config.workers = 8;
  state.alive = 8;
  for (std::uint32_t local = 0; local < 5; ++local) {
    Feed(WorkerSpoke{.local_rank = local,
                     .collectives = 10 + local,
                     .world_collectives = 10 + local,
                     .in_collective = local == 4},
         2s);
  }
  EXPECT_EQ(ReportOf(state, config).progress_groups.back().phase, kInCollective);
}

TEST_F(Health, StacksAreTakenOfThoseThatRun) {
  Says(1, 7, 2s);
  Ends(0, Exited{0}, 3s);
  TellStop(1, StopCause::kHang, 20s);
  EXPECT_EQ(Find<TakeStacks>()->local_ranks, (std::vector<std::uint32_t>{1}));
}

}  // namespace
}  // namespace ddprun
