#include "agent/error_file.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

TEST(ErrorFile, TheFormOfRecord) {
  const auto error = ParseErrorFile(
      R"({"message": {"message": "ValueError: boom", "extraInfo": {"py_callstack": "Traceback\n x",)"
      R"( "timestamp": "1795263336"}}})");
  ASSERT_TRUE(error);
  EXPECT_EQ(*error, (WorkerError{"ValueError: boom", "Traceback\n x", 1795263336}));
}

TEST(ErrorFile, TheFlatForm) {
  EXPECT_EQ(ParseErrorFile(R"({"message": "out of luck", "timestamp": 12})"),
            (WorkerError{"out of luck", "", 12}));
  EXPECT_EQ(ParseErrorFile(R"({"message": "no time"})"), (WorkerError{"no time", "", {}}));
}

// A worker that dies while it writes, or writes something of its own, must not cost the report.
TEST(ErrorFile, NothingElseIsAnError) {
  for (const char* text : {"", "{", "null", "[]", "3", R"({"message": )", R"({"message": 3})",
                           R"({"error": "x"})", "\xff\xfe"}) {
    EXPECT_FALSE(ParseErrorFile(text)) << text;
  }
  EXPECT_EQ(ParseErrorFile(R"({"message": {"message": 1, "extraInfo": []}})"),
            (WorkerError{"", "", {}}));
}

TEST(ErrorFile, TheParentsCopyHasTheExitCode) {
  EXPECT_EQ(WithErrorCode(R"({"message":{"message":"m"}})", 3),
            R"({"message":{"message":"m","errorCode":3}})");
  EXPECT_EQ(WithErrorCode(R"({"message":"m"})", -9), R"({"message":"m"})");
  EXPECT_FALSE(WithErrorCode("half a fi", 1));
}

}  // namespace
}  // namespace ddprun
