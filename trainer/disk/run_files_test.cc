#include "trainer/disk/run_files.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

TEST(RunFiles, ALookThatHangsIsNotWaitedForTwice) {
  auto answer = std::make_shared<std::promise<void>>();
  const auto disk = std::make_shared<std::shared_future<void>>(answer->get_future());
  const auto looks = std::make_shared<std::atomic<int>>(0);
  RunFiles files([disk, looks] {
    ++*looks;
    disk->wait();
    return RunFiles::Asked{.stop = true, .save = true};
  });
  for (int poll = 0; poll < 100'000; ++poll) {  // Would last for minutes if each waited.
    const RunFiles::Asked asked = files.Poll();
    ASSERT_FALSE(asked.stop || asked.save);
  }
  EXPECT_LE(*looks, 1);
  answer->set_value();
  const auto give_up = std::chrono::steady_clock::now() + 60s;
  RunFiles::Asked asked;
  while (!asked.stop && std::chrono::steady_clock::now() < give_up) {
    asked = files.Poll();
  }
  EXPECT_TRUE(asked.stop && asked.save);
}

TEST(RunFiles, ASaveIsToldOnceAndAStopForAsLongAsItIsThere) {
  const auto first = std::make_shared<std::atomic<bool>>(true);
  RunFiles files([first] { return RunFiles::Asked{.stop = true, .save = first->exchange(false)}; });
  const auto give_up = std::chrono::steady_clock::now() + 60s;
  int saves = 0;
  int stops = 0;
  while (stops < 100 && std::chrono::steady_clock::now() < give_up) {
    const RunFiles::Asked asked = files.Poll();
    saves += asked.save ? 1 : 0;
    stops += asked.stop ? 1 : 0;
  }
  EXPECT_EQ(saves, 1);
  EXPECT_EQ(stops, 100);
}

}  // namespace
}  // namespace ddprun
