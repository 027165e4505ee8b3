#include "common/task_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>

namespace ddprun {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kRoom = 100;

TEST(TaskQueue, RunsTasksInOrder) {
  const auto seen = std::make_shared<std::string>();
  TaskQueue queue;
  for (const char letter : {'a', 'b', 'c'}) {
    EXPECT_TRUE(queue.Post([seen, letter] { *seen += letter; }));
  }
  ASSERT_TRUE(queue.Drain(60s));
  EXPECT_EQ(*seen, "abc");
}

TEST(TaskQueue, ATaskThatHangsKeepsNoCallerAndIsLeftBehind) {
  auto answer = std::make_shared<std::promise<void>>();
  const auto disk = std::make_shared<std::shared_future<void>>(answer->get_future());
  const auto ran = std::make_shared<std::atomic<std::size_t>>(0);
  {
    TaskQueue queue(kRoom);
    ASSERT_TRUE(queue.Post([disk] { disk->wait(); }));
    EXPECT_FALSE(queue.Drain(1ms));
    std::size_t queued = 0;
    while (queue.Post([ran] { ++*ran; })) {
      ASSERT_LE(++queued, kRoom);
    }
    EXPECT_GE(queued, kRoom - 1);
  }
  EXPECT_EQ(*ran, 0u);
  answer->set_value();  // The disk is back: nothing that its calls use has gone.
}

}  // namespace
}  // namespace ddprun
