#include "agent/commands/logs_job.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "common/asio_loop.h"
#include "tests/support/scratch_directory.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

struct LogsJob : testing::Test {
  AsioLoop loop;
  std::shared_ptr<KeptOutput> kept = std::make_shared<KeptOutput>(2);
  std::vector<AnswerRecord> records;
  bool last = false;
  ScratchDirectory scratch;
  const fs::path directory = scratch.path();

  std::string Texts() const {
    std::string text;
    for (const AnswerRecord& record : records) {
      text += record.of == AnswerKind::kNote ? "" : record.text;
    }
    return text;
  }
  std::string Notes() const {
    std::string text;
    for (const AnswerRecord& record : records) {
      text += record.of == AnswerKind::kNote ? record.text + "\n" : "";
    }
    return text;
  }
  // Takes pieces until `until` says so, or the last one.
  void Take(
      const RequestSpec& spec, const std::function<bool()>& until = [] { return false; },
      const std::function<void()>& after_first = [] {}) {
    bool first = true;
    std::unique_ptr<RequestJob> job;
    std::function<void(JobPiece)> take = [&](JobPiece piece) {
      EXPECT_LE(piece.bytes.size(), kLeastPieceBytes);
      EXPECT_TRUE(ReadRecords(piece.bytes, records));
      last = piece.last;
      if (last || until()) {
        loop.Stop();
        return;
      }
      job->Next(kLeastPieceBytes, take);
      if (std::exchange(first, false)) {
        after_first();
      }
    };
    loop.Post([&] {
      job = MakeLogsJob(loop, kept, spec);
      job->Next(kLeastPieceBytes, take);
    });
    loop.Run();
  }
};

TEST_F(LogsJob, TellsWhatIsKeptAndEnds) {
  for (int i = 0; i < 20; ++i) {
    kept->Append(0, AnswerKind::kOut, std::string(1'000, static_cast<char>('a' + i)), 1'000 * i);
  }
  Take({});
  EXPECT_TRUE(last);
  EXPECT_EQ(Texts().size(), 20'000u);
  EXPECT_EQ(Notes(), "");
}

TEST_F(LogsJob, AFollowerHearsNewLines) {
  kept->Append(0, AnswerKind::kOut, "before ", 1);
  Take(
      {.follow = true}, [&] { return Texts() == "before after"; },
      [&] { loop.Post([&] { kept->Append(1, AnswerKind::kErr, "after", 2); }); });
  EXPECT_FALSE(last);
}

// Output that made room between two pieces is missed, and the gap is named where it is.
TEST_F(LogsJob, AReaderThatIsTooSlowHearsOfIt) {
  kept->Append(1, AnswerKind::kOut, "first\n", 1'000);
  const std::string much(KeptOutput::kMostOfRecord, 'x');
  Take(
      {.follow = true}, [&] { return Notes().find("rank 1 printed faster") != std::string::npos; },
      [&] {
        for (std::size_t bytes = 0; bytes < 2 * KeptOutput::kMostOfWorker; bytes += much.size()) {
          kept->Append(1, AnswerKind::kOut, much, 2'000);
        }
      });
  EXPECT_EQ(Notes(), "rank 1 printed faster than this was read: some of its lines are missing\n");
}

TEST_F(LogsJob, AWorkersOwnFileIsReadFromItsEndOn) {
  const fs::path file = directory / "stdout.log";
  std::ofstream(file) << std::string(KeptOutput::kMostOfWorker, 'x') << "the end";
  kept->GoesPast(1, AnswerKind::kOut, file);
  Take({.ranks = {{1, 1}}});
  EXPECT_EQ(Texts().size(), KeptOutput::kMostOfWorker);
  EXPECT_TRUE(Texts().ends_with("the end"));
  records.clear();
  Take({.ranks = {{0, 0}}});
  EXPECT_EQ(Texts(), "");
}

TEST_F(LogsJob, OfFilesTheLastLinesAreWantedAndThenAllThatFollows) {
  const fs::path file = directory / "stdout.log";
  std::ofstream(file) << "one\ntwo\nthree\n";
  kept->GoesPast(1, AnswerKind::kOut, file);
  kept->Append(0, AnswerKind::kOut, "first\nlast\n", 1);
  Take(
      {.follow = true, .lines = 1},
      [&] {
        return Texts().find("five") != std::string::npos &&
               Texts().find("more") != std::string::npos;
      },
      [&] {
        std::ofstream(file, std::ios::app) << "four\nfive\n";
        kept->Append(0, AnswerKind::kOut, "more\n", 2);
      });
  EXPECT_EQ(Texts().find("two"), std::string::npos) << Texts();
  EXPECT_EQ(Texts().find("first"), std::string::npos);
  for (const char* const line : {"three\n", "last\n", "four\nfive\n"}) {
    EXPECT_NE(Texts().find(line), std::string::npos) << line << Texts();
  }
}

// One worker writes faster than its reader reads; the other has printed one line.
struct GrowingFile : LogsJob {
  const fs::path file = directory / "stdout.log";
  const std::string much = std::string(100'000, 'x');

  GrowingFile() {
    Grow();
    std::ofstream(directory / "stderr.log") << "quiet";
    kept->GoesPast(0, AnswerKind::kOut, file);
    kept->GoesPast(1, AnswerKind::kErr, directory / "stderr.log");
  }
  void Grow() const { std::ofstream(file, std::ios::app) << much; }
};

TEST_F(GrowingFile, HidesNoOther) {
  std::size_t pieces = 0;
  Take({.follow = true}, [&] {
    Grow();
    return ++pieces == 3;
  });
  EXPECT_NE(Texts().find("quiet"), std::string::npos);
  EXPECT_FALSE(last);
}

TEST_F(GrowingFile, IsReportedAsItWasWhenItWasLookedAt) {
  Take({}, [&] {
    Grow();
    return false;
  });
  EXPECT_NE(Texts().find("quiet"), std::string::npos);
  EXPECT_TRUE(last);
  EXPECT_EQ(Texts().size(), much.size() + 5);
}

// Workers may put anything there; a FIFO would block whoever opens it.
TEST_F(LogsJob, AnotherEntryThanAFileIsSaid) {
  ASSERT_EQ(::mkfifo((directory / "fifo").c_str(), 0600), 0);
  kept->GoesPast(0, AnswerKind::kOut, directory / "fifo");
  kept->GoesPast(0, AnswerKind::kErr, directory / "nothing");
  kept->GoesPast(1, AnswerKind::kErr, "");
  kept->Append(1, AnswerKind::kOut, "kept", 1);
  Take({});
  EXPECT_TRUE(last);
  EXPECT_EQ(Texts(), "kept");
  EXPECT_NE(Notes().find("fifo"), std::string::npos) << Notes();
  EXPECT_NE(Notes().find("nothing"), std::string::npos);
  EXPECT_NE(Notes().find("rank 1 has ddprun's own terminal"), std::string::npos);
}

// Its end while a thread reads and a timer runs must touch nothing.
TEST_F(LogsJob, MayEndAtAnyMoment) {
  const fs::path file = directory / "stdout.log";
  std::ofstream(file) << "text";
  kept->GoesPast(0, AnswerKind::kOut, file);
  loop.Post([&] {
    auto job = MakeLogsJob(loop, kept, {.follow = true});
    job->Next(kLeastPieceBytes, [](const JobPiece&) { FAIL(); });
    job.reset();
    kept->Append(0, AnswerKind::kOut, "more", 1);
    loop.RunBounded(
        Duration{1'000}, [] {}, [&](bool) { loop.Stop(); });
  });
  loop.Run();
}

}  // namespace
}  // namespace ddprun
