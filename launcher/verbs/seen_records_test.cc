#include "launcher/verbs/seen_records.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

AnswerRecord At(std::int64_t ms, AnswerKind of = AnswerKind::kOut) {
  return {ms, 3, 1, of, "text"};
}

struct SeenRecordsTest : testing::Test {
  SeenRecords records;
};

TEST_F(SeenRecordsTest, OfOneServerAllAreNew) {
  for (const std::int64_t ms : {10, 10, 11, 9}) {  // Its clock was put back.
    EXPECT_TRUE(records.IsNew("n0", At(ms)));
  }
  EXPECT_EQ(records.newest(), 11);
}

// Three of one millisecond, of which the first server reported two.
TEST_F(SeenRecordsTest, TheNextOneContinuesWithinAMillisecond) {
  for (const std::int64_t ms : {10, 11, 11}) {
    EXPECT_TRUE(records.IsNew("n0", At(ms)));
  }
  records.BeginAgain();
  EXPECT_FALSE(records.IsNew("n0", At(10)));
  EXPECT_FALSE(records.IsNew("n0", At(11)));
  EXPECT_FALSE(records.IsNew("n0", At(11)));
  EXPECT_TRUE(records.IsNew("n0", At(11)));
  EXPECT_TRUE(records.IsNew("n0", At(12)));
}

// The second server went before it reported all that the first one had.
TEST_F(SeenRecordsTest, AReportedRecordStaysReported) {
  EXPECT_TRUE(records.IsNew("n0", At(20)));
  records.BeginAgain();
  EXPECT_FALSE(records.IsNew("n0", At(5)));
  records.BeginAgain();
  EXPECT_FALSE(records.IsNew("n0", At(20)));
  EXPECT_TRUE(records.IsNew("n0", At(21)));
}

TEST_F(SeenRecordsTest, StreamsNodesAndNotesAreApart) {
  EXPECT_TRUE(records.IsNew("n0", At(20)));
  records.BeginAgain();
  EXPECT_TRUE(records.IsNew("n0", At(20, AnswerKind::kErr)));
  EXPECT_TRUE(records.IsNew("n1", At(20)));
  EXPECT_TRUE(records.IsNew("n0", At(0, AnswerKind::kNote)));
}

TEST_F(SeenRecordsTest, OfMoreStreamsThanThereCanBeAllIsNew) {
  AnswerRecord record = At(20);
  for (record.rank = 0; record.rank < SeenRecords::kMostStreams + 10; ++record.rank) {
    EXPECT_TRUE(records.IsNew("n0", record));
  }
  records.BeginAgain();
  record.rank = 0;
  EXPECT_FALSE(records.IsNew("n0", record));
  record.rank = SeenRecords::kMostStreams + 5;
  EXPECT_TRUE(records.IsNew("n0", record));
}

TEST_F(SeenRecordsTest, ARecordIsNotReportedTwice) {
  EXPECT_TRUE(records.IsNew("n0", At(0)));
  EXPECT_TRUE(records.IsNew("n0", At(0)));
  records.BeginAgain();
  EXPECT_FALSE(records.IsNew("n0", At(0)));
  EXPECT_FALSE(records.IsNew("n0", At(0)));
  EXPECT_FALSE(records.IsNew("n0", At(0)));
}

}  // namespace
}  // namespace ddprun
