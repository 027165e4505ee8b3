#include "launcher/slurm/job_rescue.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

using Fields = std::map<std::string, std::string>;

// As Slurm 22.05 prints it, shortened.
constexpr const char* kJob =
    "JobId=7 JobName=train UserId=me(1000) JobState=RUNNING Reason=None Requeue=1 Restarts=1 "
    "BatchFlag=1 Reboot=0 NodeList=n[01-04] BatchHost=n01 Command=a b=c.sh\n";

struct Rescue : testing::Test {
  Surroundings around{.node = "n02", .job = "7", .requeues = 1};
  Fields job = ReadFields(kJob);

  std::string Why(const Fields& node) { return WhyLeaveAlone(around, job, node); }
};

TEST_F(Rescue, ActsWhereTheBatchHostIsAway) {
  EXPECT_EQ(job["BatchHost"], "n01");
  EXPECT_EQ(job["Reboot"], "0");
  EXPECT_EQ(Why({}), "") << "the host is worth asking for";
  for (const char* state : {"DOWN*", "ALLOCATED*", "DOWN", "DOWN+CLOUD", "MIXED+NOT_RESPONDING"}) {
    EXPECT_EQ(Why({{"State", state}}), "") << state;
  }
}

TEST_F(Rescue, NeverWhereTheScriptLives) {
  for (const char* state : {"ALLOCATED", "MIXED", "IDLE", "IDLE+DRAIN", ""}) {
    EXPECT_NE(Why({{"State", state}}), "") << state;
  }
  around.node = "n01";
  EXPECT_EQ(Why({}), "its batch script is on this host");
}

// Another agent was first: what runs now, or will, is not this step's.
TEST_F(Rescue, NeverTwice) {
  job["JobState"] = "PENDING";
  EXPECT_EQ(Why({{"State", "DOWN*"}}), "it is PENDING");
  job["JobState"] = "RUNNING";
  job["Restarts"] = "2";
  EXPECT_EQ(Why({{"State", "DOWN*"}}), "it was started again meanwhile (Restarts=2)");
}

TEST_F(Rescue, NeverWithoutAScript) {
  job["BatchFlag"] = "0";
  EXPECT_EQ(Why({}), "it has no batch script");
  EXPECT_EQ(WhyLeaveAlone(around, {}, {}), "it is unknown to Slurm");
}

}  // namespace
}  // namespace ddprun
