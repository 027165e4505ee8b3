#include "launcher/end/termination_log.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>

#include "launcher/cli_testing.h"
#include "tests/support/scratch_directory.h"

namespace ddprun {
namespace {

Finish Failed() {
  WorkerFailure root;
  root.rank = 1;
  root.last_lines = "loading\ncannot read the data\n";
  return {Ending::kFailed, 3, "rank 1 ended with exit code 3; no restarts are allowed", root, true};
}

void WriteTerminationLog(const std::string& text, const GetEnv& get_env,
                         const std::filesystem::path& file) {
  if (const auto write = TerminationLogWriter(text, get_env, file)) {
    write();
  }
}

class TerminationLog : public testing::Test {
 protected:
  std::string Text() const {
    std::stringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

  ScratchDirectory scratch_;
  const std::filesystem::path path_ = scratch_.path() / "termination-log";
  const GetEnv in_pod_ = Environment({{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}});
};

TEST_F(TerminationLog, TellsTheCauseAndWhatItSaidLast) {
  EXPECT_EQ(
      TerminationText(Failed()),
      "rank 1 ended with exit code 3; no restarts are allowed\nloading\ncannot read the data\n");
  Finish finish = Failed();
  finish.root->details.message = "ValueError: boom";
  finish.root->details.traceback = std::string(3 * kMaxTerminationLog, 't') + "the cause";
  const std::string text = TerminationText(finish);
  EXPECT_EQ(text.size(), kMaxTerminationLog);
  EXPECT_NE(text.find("\nValueError: boom\nttt"), text.npos);
  EXPECT_TRUE(text.ends_with("the cause"));
}

TEST_F(TerminationLog, IsWrittenInAPodThatHasOneAlone) {
  WriteTerminationLog("why\n", in_pod_, path_);
  EXPECT_FALSE(std::filesystem::exists(path_));
  std::ofstream(path_) << "an older and longer text";
  WriteTerminationLog("why\n", Environment({}), path_);
  EXPECT_EQ(Text(), "an older and longer text");
  WriteTerminationLog("why\n",
                      Environment({{"KUBERNETES_SERVICE_HOST", "10.0.0.1"},
                                   {"TORCHELASTIC_ERROR_FILE", path_.native()}}),
                      path_);
  EXPECT_EQ(Text(), "an older and longer text");
  WriteTerminationLog("why\n", in_pod_, path_);
  EXPECT_EQ(Text(), "why\n");
}

// It has no reader: an open for writing would wait for ever.
TEST_F(TerminationLog, AFifoInItsPlaceHoldsNoProcess) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  WriteTerminationLog("why\n", in_pod_, path_);
  EXPECT_TRUE(std::filesystem::is_fifo(path_));
}

}  // namespace
}  // namespace ddprun
