#include "rendezvous/messages/answer_records.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

const AnswerRecord kPrinted{1'795'566'552'358, 3, 2, AnswerKind::kErr, "a line\nand \0 half"};
const AnswerRecord kStands{0, 4'294'967'295, std::uint64_t{1} << 63, AnswerKind::kStack, ""};

TEST(AnswerRecords, ComeBackAsTheyWent) {
  std::string piece;
  AppendRecord(kPrinted, piece);
  AppendRecord(kStands, piece);
  EXPECT_LE(piece.size(), 2 * kRecordHead + kPrinted.text.size());
  std::vector<AnswerRecord> read;
  ASSERT_TRUE(ReadRecords(piece, read));
  EXPECT_EQ(read, (std::vector{kPrinted, kStands}));
}

// The owner of a node may send anything.
TEST(AnswerRecords, TornOrMadeUpRecordsAreRefusedAfterGoodOnes) {
  std::string good;
  AppendRecord(kPrinted, good);
  for (const std::string& bad :
       {std::string("x"), std::string("1 2 3 o 5\nfour"), std::string("1 2 3 q 0\n"),
        std::string("1 -2 3 o 0\n"), std::string("1 2 3 o 99999999999999999999999\n"),
        std::string("1 2 3 o"), std::string("1 2 3 o 1x\nab"), std::string(1000, ' '),
        std::string("1 2 4294967296000 o 0")}) {
    std::vector<AnswerRecord> read;
    EXPECT_FALSE(ReadRecords(good + bad, read)) << bad;
    EXPECT_EQ(read, std::vector{kPrinted});
  }
  for (std::size_t size = 1; size < good.size(); ++size) {
    std::vector<AnswerRecord> read;
    EXPECT_FALSE(ReadRecords(good.substr(0, size), read)) << size;
  }
}

}  // namespace
}  // namespace ddprun
