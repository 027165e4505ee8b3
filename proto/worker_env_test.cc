#include "proto/worker_env.h"

#include <gtest/gtest.h>

#include "proto/environment_testing.h"

namespace ddprun {
namespace {

TEST(WorkerEnv, TheTrainerReadsTheVariablesThatTheAgentWrites) {
  WorkerEnv env{.rank = 5, .local_rank = 1, .world_size = 8, .local_world_size = 2};
  env.group_rank = 2;
  env.group_world_size = 4;
  env.master = {"n0", 41231};
  env.restart_count = 3;
  env.max_restarts = 7;
  env.run_id = "demo";
  env.term = {99};
  env.generation = {12};
  env.world_id = {0xfeedfacecafef00d};
  env.notify_socket = "/tmp/x";
  const Result<WorkerEnv> back = FromEnvironment(Environment(ToEnvironment(env)));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(ToEnvironment(*back), ToEnvironment(env));
}

TEST(WorkerEnv, WithoutRankAProcessIsAlone) {
  const Result<WorkerEnv> env = FromEnvironment(Environment({}));
  ASSERT_TRUE(env);
  EXPECT_EQ(env->world_size, 1u);
  EXPECT_EQ(env->master.host, "");
}

TEST(WorkerEnv, PlainTorchrunIsEnough) {
  const Result<WorkerEnv> env = FromEnvironment(Environment({{"RANK", "1"},
                                                             {"WORLD_SIZE", "2"},
                                                             {"MASTER_ADDR", "h"},
                                                             {"MASTER_PORT", "1"},
                                                             {"TORCHELASTIC_RESTART_COUNT", "4"}}));
  ASSERT_TRUE(env);
  EXPECT_EQ(env->generation, Generation{5});
  EXPECT_EQ(env->world_id, WorldId{0});
}

TEST(WorkerEnv, NamesTheVariableThatIsWrong) {
  const auto message = [](std::map<std::string, std::string> values) {
    const Result<WorkerEnv> env = FromEnvironment(Environment(std::move(values)));
    return env ? std::string() : env.error().message;
  };
  EXPECT_NE(message({{"RANK", "0"}}).find("WORLD_SIZE"), std::string::npos);
  EXPECT_NE(message({{"RANK", "x"}, {"WORLD_SIZE", "1"}}).find("RANK"), std::string::npos);
  EXPECT_NE(message({{"RANK", "2"},
                     {"WORLD_SIZE", "2"},
                     {"MASTER_PORT", "1"},
                     {"LOCAL_RANK", "0"},
                     {"LOCAL_WORLD_SIZE", "1"}})
                .find("below WORLD_SIZE"),
            std::string::npos);
  EXPECT_NE(
      message({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_PORT", "70000"}}).find("MASTER_PORT"),
      std::string::npos);
}

}  // namespace
}  // namespace ddprun
