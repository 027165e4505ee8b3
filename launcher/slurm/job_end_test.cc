#include "launcher/slurm/job_end.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

using std::chrono_literals::operator""h;
using std::chrono_literals::operator""min;
using std::chrono_literals::operator""s;

// As squeue prints %L.
TEST(JobEnd, ReadsTheTimeThatIsLeft) {
  EXPECT_EQ(ParseTimeLeft("1-02:03:04"), Duration(26h + 3min + 4s));
  EXPECT_EQ(ParseTimeLeft("23:59:59"), Duration(24h - 1s));
  EXPECT_EQ(ParseTimeLeft("59:30"), Duration(59min + 30s));
  EXPECT_EQ(ParseTimeLeft("0:07"), Duration(7s));
  EXPECT_EQ(ParseTimeLeft("365-00:00:00"), Duration(365 * 24h));
}

TEST(JobEnd, OtherWordsSayNothing) {
  for (const char* text :
       {"UNLIMITED", "INVALID", "NOT_SET", "", "1-", "1-02:03", "-1:00", ":", "1:2:3:4",
        "slurm_load_jobs error: Unable to contact slurm controller"}) {
    EXPECT_FALSE(ParseTimeLeft(text)) << text;
  }
}

}  // namespace
}  // namespace ddprun
