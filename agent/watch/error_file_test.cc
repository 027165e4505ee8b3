#include "agent/watch/error_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/support/scratch_directory.h"

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
  for (const char* const beyond :
       {"1e300", "-1e300", "1e18"}) {  // Of what a count of seconds holds.
    EXPECT_EQ(ParseErrorFile(std::string(R"({"message": "m", "timestamp": )") + beyond + "}"),
              (WorkerError{"m", {}, {}}));
  }
  EXPECT_EQ(ParseErrorFile(R"({"message": "m", "timestamp": 12.5})"), (WorkerError{"m", {}, 12}));
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

// Copying and writing such values took more stack than the agent has.
TEST(ErrorFile, OneThatNestsWithoutEndIsNone) {
  constexpr int kDepth = 100'000;
  std::string objects;
  for (int i = 0; i < kDepth; ++i) {
    objects += R"({"message":)";
  }
  objects += "1" + std::string(kDepth, '}');
  const std::string arrays =
      R"({"message":)" + std::string(kDepth, '[') + std::string(kDepth, ']') + "}";
  for (const std::string& text : {objects, arrays}) {
    EXPECT_FALSE(ParseErrorFile(text));
    EXPECT_FALSE(WithErrorCode(text, 3));
  }
}

TEST(ErrorFile, TheParentsCopyHasTheExitCode) {
  EXPECT_EQ(WithErrorCode(R"({"message":{"message":"m"}})", 3),
            R"({"message":{"message":"m","errorCode":3}})");
  EXPECT_EQ(WithErrorCode(R"({"message":"m"})", -9), R"({"message":"m"})");
  EXPECT_EQ(WithErrorCode(R"({"message":{"message":"m"}})", std::nullopt),
            R"({"message":{"message":"m"}})");
  EXPECT_FALSE(WithErrorCode("half a fi", 1));
}

TEST(ErrorFile, AnotherNodesErrorBecomesTheSameForm) {
  const auto text =
      MakeErrorFile({1'795'263'336'999, "/n1/error.json", "ValueError: boom", "at x"}, -9);
  ASSERT_TRUE(text);
  EXPECT_EQ(ParseErrorFile(*text), (WorkerError{"ValueError: boom", "at x", 1795263336}));
  EXPECT_NE(text->find(R"("errorCode":-9)"), text->npos) << *text;
  EXPECT_TRUE(MakeErrorFile({0, "", "\xff not UTF-8", ""}, 1));
  EXPECT_FALSE(MakeErrorFile({1, "/n1/error.json", "", ""}, 1));
}

class ErrorFileDetails : public testing::Test {
 protected:
  void Write(const std::string& text) { std::ofstream(path_) << text; }

  ScratchDirectory scratch_;
  const std::filesystem::path path_ = scratch_.path() / "error.json";
};

TEST_F(ErrorFileDetails, AreBoundedAndEndWithTheCause) {
  Write(R"({"message": {"message": ")" + std::string(kMaxErrorMessage + 1, 'm') +
        R"(", "extraInfo": {"py_callstack": ")" + std::string(kMaxTraceback, 't') + R"(cause"}}})");
  const FailureDetails details = ReadDetails(path_, true);
  EXPECT_EQ(details.error_file, path_.native());
  EXPECT_EQ(details.message.size(), kMaxErrorMessage);
  EXPECT_EQ(details.traceback.size(), kMaxTraceback);
  EXPECT_TRUE(details.traceback.starts_with("...ttt"));
  EXPECT_TRUE(details.traceback.ends_with("tttcause"));
}

TEST_F(ErrorFileDetails, AFileThatGoesWithTheRunIsNotNamed) {
  Write(R"({"message": "m"})");
  EXPECT_EQ(ReadDetails(path_, false), (FailureDetails{0, "", "m", ""}));
}

TEST_F(ErrorFileDetails, TheTimeIsTheLastMomentThatTheFileCanMean) {
  Write(R"({"message": "m", "timestamp": 1000})");
  EXPECT_EQ(ReadDetails(path_, false).unix_ms, 1'000'999);  // Written much later.
  const timespec before[2] = {{500, 0}, {500, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path_.c_str(), before, 0), 0);
  EXPECT_EQ(ReadDetails(path_, false).unix_ms, 1'000'000);
  for (const char* const impossible : {"-3", "0", "9e14"}) {
    Write(std::string(R"({"message": "m", "timestamp": )") + impossible + "}");
    EXPECT_EQ(ReadDetails(path_, false).unix_ms, 0) << impossible;
  }
}

TEST_F(ErrorFileDetails, NoFileNoDetailsAndABrokenOneIsSaid) {
  EXPECT_EQ(ReadDetails(path_, true), FailureDetails{});
  Write("{");
  EXPECT_EQ(ReadDetails(path_, true).message, "(its error file is not the JSON of @record)");
}

// As json.dump writes a name that is no UTF-8.
TEST(ErrorFile, HalvesOfPairsCostNoMessage) {
  const auto error = ParseErrorFile(
      R"({"message": "no \\udcff, \ud83d\ude00 \ud800x \udcff\udcff\ud83d", "timestamp": 5})");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->message, "no \\udcff, \U0001F600 \uFFFDx \uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(error->timestamp, 5);
  EXPECT_TRUE(ParseErrorFile("{\"message\": \"a\\udcff\"}"));
  EXPECT_FALSE(ParseErrorFile("{\"message\": \"a\\udc"));
}

}  // namespace
}  // namespace ddprun
