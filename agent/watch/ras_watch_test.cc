#include "agent/watch/ras_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <mutex>

#include "common/asio_loop.h"

namespace ddprun {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

// Two ranks, both of this node; how many each has begun.
RasReading Begun(std::uint64_t first, std::uint64_t second, const std::string& version = "2.29.7") {
  const RasRank one{.rank = 0, .process = {"n0", 100}, .counts = {{"AllReduce", first}}};
  const RasRank two{.rank = 1, .process = {"n0", 101}, .counts = {{"AllReduce", second}}};
  return {{version, {{"0xa", 2, {one, two}}}}, {{0, {one.process}}, {1, {two.process}}}};
}

std::map<std::uint32_t, RasProgress> AfterSame(RasJudge& judge, const RasReading& reading) {
  for (int i = 0; i + 1 < RasJudge::kSame; ++i) {
    EXPECT_THAT(judge.Take(reading, 2), IsEmpty());
  }
  return judge.Take(reading, 2);
}

TEST(RasJudge, WhatStandsAndDiffersIsProven) {
  RasJudge judge;
  const auto proven = AfterSame(judge, Begun(641, 640));
  ASSERT_THAT(proven, SizeIs(2));
  EXPECT_EQ(proven.at(0), (RasProgress{641, 641, true}));
  EXPECT_EQ(proven.at(1), (RasProgress{640, 640, false}));
}

// In a run that goes well most answers differ somewhere.
TEST(RasJudge, WhatMovesIsNot) {
  RasJudge judge;
  for (std::uint64_t step = 1; step < 20; ++step) {
    EXPECT_THAT(judge.Take(Begun(step + 1, step), 2), IsEmpty());
  }
  EXPECT_THAT(AfterSame(judge, Begun(30, 29)), SizeIs(2));
  EXPECT_THAT(judge.Take(Begun(31, 29), 2), IsEmpty()) << "one moves";
  EXPECT_THAT(AfterSame(judge, Begun(32, 29)), SizeIs(2));
}

TEST(RasJudge, EqualOnesAreNot) {
  RasJudge judge;
  EXPECT_THAT(AfterSame(judge, Begun(5, 5)), IsEmpty());
  EXPECT_THAT(AfterSame(judge, Begun(0, 0)), IsEmpty()) << "one node, from 2.27 on";
}

TEST(RasJudge, WhoHasBegunNoneMayPrepareTheData) {
  RasJudge judge;
  EXPECT_THAT(AfterSame(judge, Begun(1, 0)), SizeIs(1));
}

TEST(RasJudge, AnAnswerThatFailedBeginsAnew) {
  RasJudge judge;
  judge.Take(Begun(2, 1), 2);
  judge.Take(Begun(2, 1), 2);
  judge.Forget();
  EXPECT_THAT(AfterSame(judge, Begun(2, 1)), SizeIs(2));
}

TEST(RasTimes, AreSlowAndFitIntoTheTimeOut) {
  const RasPlace place = RasPlaceIn({});
  EXPECT_FALSE(RasTimesFor(place, 0s, 0, 1));
  EXPECT_FALSE(RasTimesFor(place, 29s, 0, 1));
  EXPECT_EQ(RasTimesFor(place, 30s, 0, 1)->each, 5s);
  EXPECT_EQ(RasTimesFor(place, 1800s, 0, 512)->each, 300s);
  EXPECT_EQ(RasTimesFor(place, 1800s, 0, 512)->first, 60s);
  EXPECT_EQ(RasTimesFor(place, 1800s, 256, 512)->first, 210s);
  EXPECT_FALSE(RasTimesFor(place, 30s, 0, 21)) << "too many ask";
}

TEST(RasTimes, WhereThePlaceIsTheUsersThereAreNone) {
  const RasPlace chosen = RasPlaceIn({{"NCCL_RAS_ADDR", "127.0.0.1:28028"}});
  EXPECT_EQ(chosen.address, "127.0.0.1:28028") << "it is asked for evidence";
  EXPECT_FALSE(RasTimesFor(chosen, 1800s, 0, 1));
  EXPECT_FALSE(RasTimesFor(RasPlaceIn({{"NCCL_RAS_ENABLE", "0"}}), 1800s, 0, 1));
}

// Answers in this order, the last one again and again.
struct Watch : testing::Test {
  struct Script {
    std::mutex mutex;
    std::deque<Result<RasReading>> answers;
    int asked = 0;
  };
  AsioLoop loop;
  std::shared_ptr<Script> script = std::make_shared<Script>();
  std::vector<std::string> told;  // "0:641 waits"
  std::function<void()> after;    // Each word.
  std::function<bool()> until;
  RasWatch watch{loop, [this](std::uint32_t local_rank, const Notification& said) {
                   told.push_back(std::to_string(local_rank) + ":" +
                                  std::to_string(*said.collectives) +
                                  (said.in_collective ? " waits" : ""));
                   if (after) {
                     after();
                   }
                 }};
  LoopTimer look{loop};

  void Begin(std::deque<Result<RasReading>> answers) {
    {
      const std::lock_guard lock(script->mutex);
      script->answers = std::move(answers);
    }
    watch.Begin({.size = 2, .workers = 2, .says = true}, {1ms, 1ms},
                [script = script]() -> Result<RasReading> {
                  const std::lock_guard lock(script->mutex);
                  ++script->asked;
                  Result<RasReading> answer = script->answers.front();
                  if (script->answers.size() > 1) {
                    script->answers.pop_front();
                  }
                  return answer;
                });
  }
  int Asked() const {
    const std::lock_guard lock(script->mutex);
    return script->asked;
  }
  void Look() {
    look.ArmAt(loop.Now() + 1ms, [this] { until() ? loop.Stop() : Look(); });
  }
  void RunUntil(std::function<bool()> condition) {
    until = std::move(condition);
    Look();
    loop.Run();
  }
  int AskedInTwoWorlds(const Result<RasReading>& answer) {
    Begin({answer});
    RunUntil([this, turns = 0, worlds = 1]() mutable {
      if (Asked() == 0 || ++turns <= 20) {
        return false;
      }
      if (worlds == 1) {
        Begin({Begun(6, 4)});
        turns = 0;
      }
      return ++worlds > 2;
    });
    return Asked();
  }
};

const Result<RasReading> kNone = Error{ErrorKind::kUnavailable, "nobody there"};

TEST_F(Watch, TellsWhatIsProvenAndTakesItBack) {
  Begin({Begun(5, 4), Begun(6, 4), Begun(6, 4), Begun(6, 4), Begun(7, 7)});
  RunUntil([this] { return told.size() >= 4; });
  EXPECT_THAT(told, ElementsAre("0:6 waits", "1:4", "0:0", "1:0"));
}

TEST_F(Watch, AnAnswerThatFailsTakesItBack) {
  Begin({Begun(6, 4), Begun(6, 4), Begun(6, 4), kNone});
  RunUntil([this] { return told.size() >= 4; });
  EXPECT_THAT(told, ElementsAre("0:6 waits", "1:4", "0:0", "1:0"));
}

TEST_F(Watch, WhoSpeaksForItselfIsNotToldOf) {
  Begin({Begun(6, 4)});
  watch.LeaveOut(1);
  RunUntil([this] { return told.size() >= 2; });
  EXPECT_THAT(told, ElementsAre("0:6 waits", "0:6 waits"));
  watch.LeaveOut(0);
  EXPECT_EQ(told.back(), "0:0");
}

// Whoever is told may stop the workers at once.
TEST_F(Watch, APauseTakesItBackLaterAndNobodyIsAskedAgain) {
  Begin({Begun(6, 4)});
  after = [this] {
    if (told.size() == 1) {
      watch.Pause();
    }
  };
  RunUntil([this, turns = 0]() mutable { return told.size() >= 3 && ++turns > 20; });
  EXPECT_THAT(told, ElementsAre("0:6 waits", "0:0", "1:0"));
  EXPECT_EQ(Asked(), RasJudge::kSame);
}

TEST_F(Watch, ItMayBeEndedByWhoIsTold) {
  Begin({Begun(6, 4)});
  after = [this] { watch.End(); };
  RunUntil([this, turns = 0]() mutable { return !told.empty() && ++turns > 20; });
  EXPECT_THAT(told, ElementsAre("0:6 waits"));
  EXPECT_EQ(Asked(), RasJudge::kSame);
}

TEST_F(Watch, WhoDoesNotAnswerIsLeft) {
  Begin({kNone});
  RunUntil([this, turns = 0]() mutable { return Asked() >= 3 && ++turns > 20; });
  EXPECT_EQ(Asked(), 3);
  EXPECT_THAT(told, IsEmpty());
}

// Data is prepared for an hour, and NCCL begins then.
TEST_F(Watch, WhereNobodyListensYetItGoesOn) {
  const Result<RasReading> nobody = Error{ErrorKind::kSystem, "connection refused"};
  Begin({nobody, nobody, nobody, nobody, nobody, Begun(6, 4)});
  RunUntil([this] { return told.size() >= 2; });
  EXPECT_THAT(told, ElementsAre("0:6 waits", "1:4"));
}

// By the next workers neither.
TEST_F(Watch, AVersionThatMayDieOfItIsAskedOnce) {
  EXPECT_EQ(AskedInTwoWorlds(Begun(6, 4, "2.28.9")), 1);
  EXPECT_THAT(told, IsEmpty());
}

TEST_F(Watch, AVersionThatWasNotEvenAskedIsRemembered) {
  EXPECT_EQ(AskedInTwoWorlds(Error{ErrorKind::kRefused, "not asked"}), 1);
}

TEST_F(Watch, WhoDidNotAnswerMayBeAskedByTheNextWorkers) {
  EXPECT_GT(AskedInTwoWorlds(kNone), 3);
}

}  // namespace
}  // namespace ddprun
