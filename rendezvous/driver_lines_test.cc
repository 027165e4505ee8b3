// Lines that unauthenticated clients make a server write: a few, however often they come.
#include <gtest/gtest.h>

#include <algorithm>

#include "rendezvous/testing/driver_testing.h"

namespace ddprun {
namespace {

struct Flooded : DriverTest {
  CoordinatorDriver driver{loop, CoordinatorConfig{.term = {1}}};

  static NodeReport ReportOf(int i, std::uint32_t nodes) {
    return FirstReportOf("n" + std::to_string(i), {.min_nodes = nodes, .max_nodes = nodes});
  }
  // The lines logged while the loop runs `work` to its end.
  std::string LinesOf(const std::function<void()>& work) {
    testing::internal::CaptureStderr();
    testing::internal::CaptureStdout();
    OnLoop(work);
    return testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr();
  }
};

TEST_F(Flooded, ByWrongTokens) {
  driver.SetToken("the right one, of this server");
  const std::string lines = LinesOf([&] {
    for (int i = 0; i < 250; ++i) {
      EXPECT_FALSE(driver.OnControl({"run", ControlVerb::kStop, "", "a guess"}));
    }
  });
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 5) << lines.substr(0, 1'000);
}

TEST_F(Flooded, ByNodesThatAreRefused) {
  std::vector<RunStatus> runs;
  const std::string lines = LinesOf([&] {
    driver.OnReport(ReportOf(0, 2), std::make_shared<AskedSync>());
    for (int i = 1; i <= 250; ++i) {
      driver.OnReport(ReportOf(i, 3), std::make_shared<AskedSync>());
    }
    runs = driver.StatusOfRuns("run").value();
  });
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 5) << lines.substr(0, 1'000);
  EXPECT_EQ(runs.at(0).events.size(), 5u);  // Its other words stay there too.
}

}  // namespace
}  // namespace ddprun
