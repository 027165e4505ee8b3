// A node's stream of commands, against a server that says what the test says.
#include "agent/commands/commands.h"

#include <gtest/gtest.h>

#include "agent/commands/stacks_job.h"
#include "common/asio_loop.h"
#include "rendezvous/testing/stream_testing.h"
#include "tests/support/instant_loop.h"

namespace ddprun {
namespace {

struct FakeServer final : SyncChannel {
  void Send(const NodeReport&, Duration, Done) override {}
  void Cancel() override {}
  std::unique_ptr<CommandStream> OpenCommands(const Membership& self) override {
    EXPECT_EQ(self.incarnation, Incarnation{9});
    ++opened;
    stream = std::make_shared<CommandLog>();
    return reachable ? StreamTo(stream) : nullptr;
  }

  bool reachable = true;
  int opened = 0;
  std::shared_ptr<CommandLog> stream;
};

// Reports its number of pieces, and counts the jobs that are alive.
struct Counting final : RequestJob {
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

struct CommandsTest : testing::Test {
  InstantLoop loop;
  FakeServer server;
  int jobs = 0;
  Commands commands{loop, server,
                    [] {
                      return Membership{"run", "n0", {9}};
                    },
                    [this](const RequestSpec&) { return std::make_unique<Counting>(loop, jobs); }};

  void Start() {
    commands.Start();
    Later(Commands::kBegin);
  }
  void Later(Duration time) { loop.GoTo(loop.Now() + time); }
  void Asks(std::uint64_t request) {
    server.stream->Say({.request = request});
    loop.RunPosted();
  }
};

TEST_F(CommandsTest, MakesAPieceForEachCommand) {
  Start();
  for (const char* const bytes : {"1/4096", "2/4096", "3/4096"}) {
    Asks(5);
    EXPECT_EQ(server.stream->sent.back().bytes, bytes);
  }
  EXPECT_TRUE(server.stream->sent.back().last);
  Asks(5);  // Nothing comes after the last one.
  EXPECT_EQ(server.stream->sent.size(), 3u);
  server.stream->Say({.request = 5, .over = true});
  EXPECT_EQ(jobs, 0);
}

TEST_F(CommandsTest, APieceThatIsAskedForTwiceAtOnceIsMadeOnce) {
  Start();
  server.stream->Say({.request = 5});
  Asks(5);
  EXPECT_EQ(server.stream->sent.size(), 1u);
}

TEST_F(CommandsTest, AServerThatGivesTooManyIsIgnored) {
  Start();
  for (std::uint64_t request = 1; request <= 2 * Commands::kMostJobs; ++request) {
    Asks(request);
  }
  EXPECT_EQ(jobs, static_cast<int>(Commands::kMostJobs));
}

TEST_F(CommandsTest, AnotherStreamBeginsWithoutJobs) {
  Start();
  server.stream->Say({.request = 5});
  EXPECT_EQ(jobs, 1);
  server.stream->Break();
  EXPECT_EQ(jobs, 0);
  loop.RunPosted();
  EXPECT_EQ(server.opened, 1);
  Later(Commands::kFirstRetry);
  EXPECT_EQ(server.opened, 2);
  EXPECT_TRUE(server.stream->sent.empty());
}

TEST_F(CommandsTest, TriesLessAndLessOftenWhileStreamsEnd) {
  Start();
  for (int second = 0; second < 600; ++second) {
    server.stream->Break();
    Later(Duration{1'000});
  }
  EXPECT_LT(server.opened, 30);
  Later(Commands::kLastRetry);
  server.stream->Say({.request = 5});
  server.stream->Break();
  const int before = server.opened;
  Later(Commands::kFirstRetry);
  EXPECT_EQ(server.opened, before + 1);
}

// An operator may ask as soon as there is a server.
TEST_F(CommandsTest, TriesAtOnceWhenThereIsAServerAgain) {
  server.reachable = false;
  Start();
  Later(Duration{600'000});
  const int before = server.opened;
  server.reachable = true;
  Later(Commands::kFirstRetry);
  EXPECT_EQ(server.opened, before + 1);
  EXPECT_TRUE(server.stream->open);
}

TEST_F(CommandsTest, TheEndWaitsForUnsentResults) {
  Start();
  Asks(5);
  bool finished = false;
  commands.Finish(Duration{2'000}, /*followed=*/false, [&] { finished = true; });
  EXPECT_FALSE(finished);
  server.stream->Say({.request = 5, .over = true});
  EXPECT_TRUE(finished);
}

TEST_F(CommandsTest, TheEndWaitsNoLongerThanItsLimit) {
  Start();
  Asks(5);
  bool finished = false;
  commands.Finish(Duration{2'000}, /*followed=*/false, [&] { finished = true; });
  Later(Duration{2'000});
  EXPECT_TRUE(finished);
  EXPECT_EQ(jobs, 0);
}

// ---- Stacks ----
TEST(StacksJob, ALongTextComesInPieces) {
  AsioLoop loop;
  std::function<void(std::vector<AnswerRecord>)> found;
  const auto job = MakeStacksJob(loop,
                                 [&](const RequestSpec&, auto done) {
                                   found = std::move(done);
                                   return std::function<void()>();
                                 },
                                 {});
  std::vector<AnswerRecord> read;
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
    found({{1, 0, 1, AnswerKind::kStack, std::string(10'000, 'a')},
           {1, 1, 1, AnswerKind::kStack, ""},
           {1, 2, 1, AnswerKind::kStack, "c"}});
  });
  loop.Run();
  std::string first;
  for (const AnswerRecord& record : read) {
    first += record.rank == 0 ? record.text : "";
  }
  EXPECT_EQ(first, std::string(10'000, 'a'));
  EXPECT_EQ(read.back().text, "c");
  EXPECT_GE(pieces, 3);
}

TEST(StacksJob, NothingRunsIsAnAnswer) {
  AsioLoop loop;
  const auto job = MakeStacksJob(loop,
                                 [&](const RequestSpec&, auto done) {
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
