#include "trainer/disk/read_watch.h"

#include <gtest/gtest.h>

#include <future>

#include "common/log.h"

namespace ddprun {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

// Given up with, once.
class Watched {
 public:
  ReadWatchOptions Options() {
    return {.what = "samples of x are being read",
            .limit = {},
            .asked_to_stop = [] { return false; },
            .alive = [] {},
            .give_up =
                [this](const Error& error) {
                  if (!given_up_.exchange(true)) {
                    reason_.set_value(error);
                  }
                },
            .look = 1ms};
  }
  Error Reason() { return reason_.get_future().get(); }

 private:
  std::atomic<bool> given_up_ = false;
  std::promise<Error> reason_;
};

TEST(ReadWatch, EndsARankBeforeItsPeersTakeItForGone) {
  StartLog("test", LogLevel::kError);
  Watched watched;
  ReadWatchOptions options = watched.Options();
  options.limit = 1s;
  ReadWatch watch(options);
  const ReadWatch::Reading reading(watch);
  const Error error = watched.Reason();
  EXPECT_EQ(error.kind, ErrorKind::kSystem);
  EXPECT_NE(error.message.find(
                "samples of x are being read for 1 s, and the file system is not responding"),
            std::string::npos)
      << error.message;
}

// As a rank that was stopped for most of the time between two looks: a second of it counts. It said
// that its disk did not answer, and the launcher took that for a failure.
TEST(ReadWatch, CountsNoTimeInWhichTheRankStoodStill) {
  StartLog("test", LogLevel::kError);
  Watched watched;
  ReadWatchOptions options = watched.Options();
  options.limit = 1100ms;
  options.look = 1200ms;
  ReadWatch watch(options);
  const ReadWatch::Reading reading(watch);
  EXPECT_NE(watched.Reason().message.find("for 2 s"), std::string::npos);
}

}  // namespace
}  // namespace ddprun
