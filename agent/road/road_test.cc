// A node's end of the road, against a server that says what the test says.
#include "agent/road/road.h"

#include <gtest/gtest.h>

#include "agent/road/stacks_job.h"
#include "common/asio_loop.h"

namespace ddprun {
namespace {

struct FakeServer final : SyncChannel {
  void Send(const NodeReport&, Duration, Done) override {}
  void Cancel() override {}
  void SendRoad(const RoadCall& call, RoadHeard hears) override {
    calls.push_back(call);
    heard = std::move(hears);
    if (on_call) {
      on_call(calls.back());
    }
  }
  void Answer(Result<RoadReply> reply) { std::exchange(heard, nullptr)(std::move(reply)); }

  std::vector<RoadCall> calls;
  RoadHeard heard;
  std::function<void(const RoadCall&)> on_call;
};

// Tells its number of pieces, and counts who is alive.
struct Counting final : ErrandJob {
  Counting(Loop& the_loop, int& alive) : loop(the_loop), jobs(alive) { ++jobs; }
  ~Counting() override { --jobs; }
  void Next(std::size_t most, std::function<void(JobPiece)> done) override {
    loop.Post([done, most, number = ++pieces] {
      done({std::to_string(number) + "/" + std::to_string(most), number == 3});
    });
  }
  Loop& loop;
  int& jobs;
  int pieces = 0;
};

struct RoadTest : testing::Test {
  AsioLoop loop;
  FakeServer server;
  int jobs = 0;
  Road road{loop, server,
            [] {
              return RoadName{"run", "n0", {9}};
            },
            [this](const ErrandWish&) { return std::make_unique<Counting>(loop, jobs); }};

  // Until the test stops the loop.
  void Run(std::function<void(const RoadCall&)> on_call) {
    server.on_call = [this, on_call = std::move(on_call)](const RoadCall& call) {
      loop.Post([on_call, call] { on_call(call); });
    };
    loop.Post([this] { road.Start(); });
    loop.Run();
  }
  static Errand Given(std::uint64_t taken) { return {50, {}, 4'096, taken}; }
};

TEST_F(RoadTest, ParksAndSendsEachPieceOnceTheLastWasTaken) {
  std::vector<std::string> pieces;
  std::uint64_t edition = 0;
  Run([&](const RoadCall& call) {
    EXPECT_EQ(call.incarnation, Incarnation{9});
    if (call.piece) {
      pieces.push_back(call.piece->bytes);
      EXPECT_EQ(call.piece->number, pieces.size());
      const bool last = call.piece->last;
      // Not taken yet: nothing more may come before that is said.
      server.Answer(last ? RoadReply{++edition, {}}
                         : RoadReply{++edition, {Given(pieces.size() - 1)}});
      return;
    }
    if (pieces.size() == 3) {
      loop.Stop();
      return;
    }
    server.Answer(RoadReply{++edition, {Given(pieces.size())}});
  });
  EXPECT_EQ(pieces, (std::vector<std::string>{"1/4096", "2/4096", "3/4096"}));
  EXPECT_EQ(jobs, 0);
}

// Whether it arrived is not known.
TEST_F(RoadTest, APieceIsSentAgainAfterAFailure) {
  int failures = 0;
  std::vector<std::uint64_t> numbers;
  Run([&](const RoadCall& call) {
    if (!call.piece) {
      EXPECT_TRUE(failures == 0 || call.edition == 0 || !numbers.empty());
      server.Answer(RoadReply{1, {Given(0)}});
      return;
    }
    numbers.push_back(call.piece->number);
    if (++failures < 2) {
      server.Answer(Error{ErrorKind::kUnavailable, "gone"});
      return;
    }
    loop.Stop();
  });
  EXPECT_EQ(numbers, (std::vector<std::uint64_t>{1, 1}));
}

TEST_F(RoadTest, WhatIsInNoListAnyMoreIsDropped) {
  bool given = false;
  Run([&](const RoadCall& call) {
    if (!std::exchange(given, true)) {
      server.Answer(RoadReply{1, {Given(0)}});
    } else if (call.piece) {
      EXPECT_EQ(jobs, 1);
      server.Answer(RoadReply{2, {}});
    } else {
      loop.Stop();
    }
  });
  EXPECT_EQ(jobs, 0);
}

// ---- Stacks ----
TEST(StacksJob, ALongTextComesInPieces) {
  AsioLoop loop;
  std::function<void(std::vector<ErrandRecord>)> found;
  const auto job = MakeStacksJob(loop,
                                 [&](const ErrandWish&, auto done) {
                                   found = std::move(done);
                                   return std::function<void()>();
                                 },
                                 {});
  std::vector<ErrandRecord> read;
  int pieces = 0;
  std::function<void(JobPiece)> take = [&](JobPiece piece) {
    ++pieces;
    EXPECT_LE(piece.bytes.size(), kLeastPieceBytes);
    EXPECT_TRUE(ReadRecords(piece.bytes, read));
    if (piece.last) {
      loop.Stop();
    } else {
      job->Next(kLeastPieceBytes, take);
    }
  };
  loop.Post([&] {
    job->Next(kLeastPieceBytes, take);
    found({{1, 0, 1, ErrandStream::kStack, std::string(10'000, 'a')},
           {1, 1, 1, ErrandStream::kStack, ""},
           {1, 2, 1, ErrandStream::kStack, "c"}});
  });
  loop.Run();
  std::string first;
  for (const ErrandRecord& record : read) {
    first += record.rank == 0 ? record.text : "";
  }
  EXPECT_EQ(first, std::string(10'000, 'a'));
  EXPECT_EQ(read.back().text, "c");
  EXPECT_GE(pieces, 3);
}

TEST(StacksJob, NothingRunsIsAnAnswer) {
  AsioLoop loop;
  const auto job = MakeStacksJob(loop,
                                 [&](const ErrandWish&, auto done) {
                                   loop.Post([done] { done({}); });
                                   return std::function<void()>();
                                 },
                                 {});
  bool last = false;
  loop.Post([&] {
    job->Next(kLeastPieceBytes, [&](const JobPiece& piece) {
      last = piece.last;
      loop.Stop();
    });
  });
  loop.Run();
  EXPECT_TRUE(last);
}

}  // namespace
}  // namespace ddprun
