#include "agent/workers/worker_gpu.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

using Variables = std::map<std::string, std::string>;

TEST(AloneOnItsGpu, WithoutAListTheGpuIsTheLocalRank) {
  EXPECT_EQ(AloneOnItsGpu(2, {}).value(),
            (Variables{{"LOCAL_RANK", "0"}, {"CUDA_VISIBLE_DEVICES", "2"}}));
}

TEST(AloneOnItsGpu, TheGpuIsTakenFromTheAgentsOwnList) {
  EXPECT_EQ(AloneOnItsGpu(1, {{"CUDA_VISIBLE_DEVICES", "4, GPU-8f2a"}}).value(),
            (Variables{{"LOCAL_RANK", "0"}, {"CUDA_VISIBLE_DEVICES", "GPU-8f2a"}}));
}

TEST(AloneOnItsGpu, OnRocmBothListsNameIt) {
  EXPECT_EQ(AloneOnItsGpu(0, {{"HIP_VISIBLE_DEVICES", "7"}, {"CUDA_VISIBLE_DEVICES", "1"}}).value(),
            (Variables{
                {"LOCAL_RANK", "0"}, {"CUDA_VISIBLE_DEVICES", "7"}, {"HIP_VISIBLE_DEVICES", "7"}}));
}

TEST(AloneOnItsGpu, TooShortAListIsRefused) {
  EXPECT_FALSE(AloneOnItsGpu(1, {{"CUDA_VISIBLE_DEVICES", "0"}}));
  EXPECT_FALSE(AloneOnItsGpu(0, {{"CUDA_VISIBLE_DEVICES", ""}}));
}

}  // namespace
}  // namespace ddprun
