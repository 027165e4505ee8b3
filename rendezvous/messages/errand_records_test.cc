#include "rendezvous/messages/errand_records.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

const ErrandRecord kPrinted{1'795'566'552'358, 3, 2, ErrandStream::kErr, "a line\nand \0 half"};
const ErrandRecord kStands{0, 4'294'967'295, std::uint64_t{1} << 63, ErrandStream::kStack, ""};

TEST(ErrandRecords, ComeBackAsTheyWent) {
  std::string piece;
  AppendRecord(kPrinted, piece);
  AppendRecord(kStands, piece);
  EXPECT_LE(piece.size(), 2 * kRecordHead + kPrinted.text.size());
  std::vector<ErrandRecord> read;
  ASSERT_TRUE(ReadRecords(piece, read));
  EXPECT_EQ(read, (std::vector{kPrinted, kStands}));
}

// Whoever runs a node may send anything.
TEST(ErrandRecords, WhatIsTornOrMadeUpIsRefusedAfterWhatIsGood) {
  std::string good;
  AppendRecord(kPrinted, good);
  for (const std::string& bad :
       {std::string("x"), std::string("1 2 3 o 5\nfour"), std::string("1 2 3 q 0\n"),
        std::string("1 -2 3 o 0\n"), std::string("1 2 3 o 99999999999999999999999\n"),
        std::string("1 2 3 o"), std::string("1 2 3 o 1x\nab"), std::string(1000, ' '),
        std::string("1 2 4294967296000 o 0")}) {
    std::vector<ErrandRecord> read;
    EXPECT_FALSE(ReadRecords(good + bad, read)) << bad;
    EXPECT_EQ(read, std::vector{kPrinted});
  }
  for (std::size_t size = 1; size < good.size(); ++size) {
    std::vector<ErrandRecord> read;
    EXPECT_FALSE(ReadRecords(good.substr(0, size), read)) << size;
  }
}

}  // namespace
}  // namespace ddprun
