#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trainer/group/process_group.h"

namespace ddprun {
namespace {

// With the plug-in that was built, on whatever machine this is: NCCL works with one rank, or is
// refused with a reason that has come through the plug-in's border.
TEST(NcclGroup, OneRankIsConnectedOrRefusedWithAReason) {
  const Result<const GpuPlugin*> plugin = GpuPlugin::Load(DDPRUN_CUDA_PLUGIN);
  ASSERT_TRUE(plugin) << plugin.error().message;
  GroupOptions options;
  options.backend = BackendChoice::kNccl;
  options.device = {.kind = DeviceKind::kCuda, .plugin = *plugin};
  const auto group = ProcessGroup::Join(WorkerEnv{}, options);
  const Result<DeviceCount> devices = (*plugin)->CountDevices();
  ASSERT_TRUE(devices);
  ASSERT_EQ(group.has_value(), devices->count > 0);
  if (group) {
    EXPECT_EQ((*group)->backend(), "nccl");
    return;
  }
  EXPECT_EQ(group.error().kind, ErrorKind::kSystem);
  EXPECT_THAT(group.error().message,
              ::testing::AllOf(::testing::HasSubstr("cannot connect rank 0 of 1 on GPU 0"),
                               ::testing::HasSubstr("libddprun_cuda.so"),
                               ::testing::HasSubstr("no GPUs found")));
}

}  // namespace
}  // namespace ddprun
