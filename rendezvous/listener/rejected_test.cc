#include "rendezvous/listener/rejected.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "common/asio_loop.h"

namespace ddprun {
namespace {

TEST(RejectedConnections, CountsAllAndLogsAFew) {
  AsioLoop loop;
  RejectedConnections rejected(loop, "store");
  testing::internal::CaptureStdout();
  for (int i = 0; i < 1000; ++i) {
    rejected.Note("10.0.0.1:" + std::to_string(i), "it said nothing");
  }
  const std::string log = testing::internal::GetCapturedStdout();
  EXPECT_EQ(rejected.count(), 1000u);
  EXPECT_NE(log.find("store: closed the connection of 10.0.0.1:4: it said nothing (5 so far)"),
            std::string::npos)
      << log;
  EXPECT_EQ(log.find("10.0.0.1:5:"), std::string::npos);
}

TEST(LeavesRoom, KeepsDescriptorsFree) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit small{400, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &small), 0);
  EXPECT_TRUE(LeavesRoom(299));
  EXPECT_FALSE(LeavesRoom(300));
  const rlimit large{2000, before.rlim_max};
  if (before.rlim_max >= 2000) {
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &large), 0);
    EXPECT_TRUE(LeavesRoom(2000 - kSpareDescriptors - 1));
    EXPECT_FALSE(LeavesRoom(2000 - kSpareDescriptors));
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace ddprun
