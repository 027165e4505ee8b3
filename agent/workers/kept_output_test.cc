#include "agent/workers/kept_output.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

constexpr std::size_t kPiece = 256 << 10;

std::vector<AnswerRecord> All(KeptOutput& kept, const RequestSpec& spec = {},
                              std::int64_t since = 0, std::size_t most = kPiece) {
  const KeptOutput::Starts starts =
      spec.lines ? kept.StartsOfLastLines(spec, *spec.lines) : KeptOutput::Starts();
  std::vector<AnswerRecord> records;
  std::uint64_t after = 0;
  for (bool more = true; more;) {
    std::string piece;
    more = kept.Read(spec, since, starts, after, most, piece);
    EXPECT_LE(piece.size(), most);
    EXPECT_TRUE(ReadRecords(piece, records));
  }
  return records;
}

std::string Texts(const std::vector<AnswerRecord>& records) {
  std::string text;
  for (const AnswerRecord& record : records) {
    text += std::to_string(record.rank) + static_cast<char>(record.of) + ":" + record.text + " ";
  }
  return text;
}

TEST(KeptOutput, IsReadInTheOrderInWhichItCame) {
  KeptOutput kept(2);
  kept.Begin(4, 1);
  kept.Append(0, AnswerKind::kOut, "a", 1'000);
  kept.Append(1, AnswerKind::kErr, "b", 1'001);
  kept.Append(0, AnswerKind::kOut, "c", 1'002);
  kept.Append(0, AnswerKind::kOut, "d", 1'003);  // With the one before it.
  EXPECT_EQ(Texts(All(kept)), "4o:a 5e:b 4o:cd ");
  EXPECT_EQ(Texts(All(kept, {.ranks = {{5, 9}}})), "5e:b ");
  EXPECT_EQ(Texts(All(kept, {}, 1'001)), "5e:b 4o:cd ");
}

// Else whoever follows would miss it.
TEST(KeptOutput, ARecordThatWasReadGrowsNoMore) {
  KeptOutput kept(1);
  kept.Append(0, AnswerKind::kOut, "a", 1);
  std::uint64_t after = 0;
  std::string piece;
  EXPECT_FALSE(kept.Read({}, 0, {}, after, kPiece, piece));
  kept.Append(0, AnswerKind::kOut, "b", 2);
  piece.clear();
  EXPECT_FALSE(kept.Read({}, 0, {}, after, kPiece, piece));
  std::vector<AnswerRecord> records;
  ASSERT_TRUE(ReadRecords(piece, records));
  EXPECT_EQ(Texts(records), "0o:b ");
}

TEST(KeptOutput, TheLastLinesOfEachWorkerAreOfBothItsStreams) {
  KeptOutput kept(2);
  kept.Begin(0, 1);
  const auto last = [&](std::uint32_t lines) { return Texts(All(kept, {.lines = lines})); };
  EXPECT_EQ(last(3), "");
  kept.Append(0, AnswerKind::kOut, "a\nb\nc ", 0);
  kept.Append(0, AnswerKind::kErr, "x\ny\n", 100);
  kept.Append(0, AnswerKind::kOut, "c\n", 200);  // Ends a line that began before stderr's.
  kept.Append(1, AnswerKind::kOut, "one\ntwo", 300);
  EXPECT_EQ(last(0), "");
  EXPECT_EQ(last(1), "0o:c  0o:c\n 1o:two ");
  EXPECT_EQ(last(2), "0o:c  0e:y\n 0o:c\n 1o:one\ntwo ");
  EXPECT_EQ(last(3), "0o:c  0e:x\ny\n 0o:c\n 1o:one\ntwo ");
  EXPECT_EQ(last(4), "0o:b\nc  0e:x\ny\n 0o:c\n 1o:one\ntwo ");
  EXPECT_EQ(last(9), "0o:a\nb\nc  0e:x\ny\n 0o:c\n 1o:one\ntwo ");
  EXPECT_EQ(Texts(All(kept, {.ranks = {{1, 1}}, .lines = 1})), "1o:two ");
  kept.Begin(0, 2);
  kept.Append(1, AnswerKind::kOut, "three\n", 400);  // A worker's line ends with the worker.
  EXPECT_EQ(Texts(All(kept, {.ranks = {{1, 1}}, .lines = 1})), "1o:three\n ");
  EXPECT_EQ(Texts(All(kept, {.ranks = {{1, 1}}, .lines = 2})), "1o:two 1o:three\n ");
}

TEST(KeptOutput, OutputAfterTheLastLinesIsWhole) {
  KeptOutput kept(1);
  kept.Append(0, AnswerKind::kOut, "a\nb\n", 1);
  for (const std::uint32_t lines : {0u, 1u}) {
    const KeptOutput::Starts starts = kept.StartsOfLastLines({}, lines);
    kept.Append(0, AnswerKind::kOut, "more\n", 2);  // May be of the same record.
    std::uint64_t after = 0;
    std::string piece;
    kept.Read({}, 0, starts, after, kPiece, piece);
    std::vector<AnswerRecord> records;
    ASSERT_TRUE(ReadRecords(piece, records));
    EXPECT_EQ(Texts(records), lines == 0 ? "0o:more\n " : "0o:more\n 0o:more\n ");
  }
}

TEST(KeptOutput, EarlierGenerationsStay) {
  KeptOutput kept(1);
  kept.Begin(0, 1);
  kept.Append(0, AnswerKind::kOut, "old", 1);
  kept.Begin(7, 2);
  kept.Append(0, AnswerKind::kOut, "new", 2);
  const auto all = All(kept);
  EXPECT_EQ(Texts(all), "0o:old 7o:new ");
  EXPECT_EQ(all.back().generation, 2u);
}

// A worker that prints for ever costs its share, and the newest is what is left.
TEST(KeptOutput, TheOldestMakesRoom) {
  for (const std::uint32_t workers : {1u, 64u}) {
    KeptOutput kept(workers);
    const std::string line(1'000, 'x');
    for (int i = 0; i < 20'000; ++i) {
      kept.Append(0, AnswerKind::kOut, line + std::to_string(i) + "\n", i);
    }
    EXPECT_EQ(kept.ForgottenAfter(0, {}), std::set<std::uint32_t>{0});
    EXPECT_TRUE(kept.ForgottenAfter(0, {.ranks = {{1, 99}}}).empty());
    EXPECT_TRUE(kept.ForgottenAfter(20'000, {}).empty());
    std::size_t bytes = 0;
    const auto all = All(kept, {}, 0, kLeastPieceBytes);
    for (const AnswerRecord& record : all) {
      bytes += record.text.size();
    }
    const std::size_t share =
        workers == 1 ? KeptOutput::kMostOfWorker : KeptOutput::kMostOfNode / 64;
    EXPECT_LE(bytes, share);
    EXPECT_GT(bytes, share * 8 / 10);
    ASSERT_FALSE(all.empty());
    EXPECT_TRUE(all.back().text.ends_with("19999\n"));
  }
}

// A program that writes a byte at a time costs some sixty times that, and no more than its share.
TEST(KeptOutput, SingleBytesAreBounded) {
  KeptOutput kept(1);
  for (int i = 0; i < 1'000'000; ++i) {
    kept.Append(0, i % 2 == 0 ? AnswerKind::kOut : AnswerKind::kErr, "x", i);
  }
  EXPECT_LT(All(kept).size(), KeptOutput::kMostOfWorker / 60);
}

TEST(KeptOutput, OutputThatGoesPastTheAgentIsKnown) {
  KeptOutput kept(2);
  kept.Begin(2, 1);
  kept.GoesPast(1, AnswerKind::kErr, "/logs/1/stderr.log");
  EXPECT_TRUE(kept.PastOnes({.ranks = {{2, 2}}}).empty());
  ASSERT_EQ(kept.PastOnes({}).size(), 1u);
  EXPECT_EQ(kept.PastOnes({})[0].rank, 3u);
  kept.Begin(2, 2);
  EXPECT_TRUE(kept.PastOnes({}).empty());
}

}  // namespace
}  // namespace ddprun
