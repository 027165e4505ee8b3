#include "trainer/device/gpu_plugin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "common/result_testing.h"

namespace ddprun {
namespace {

using ::testing::HasSubstr;

TEST(GpuPlugin, AFileThatIsNotThereIsNamed) {
  EXPECT_TRUE(Fails(GpuPlugin::Load("/nowhere/libddprun_cuda.so"), ErrorKind::kNotFound,
                    "'/nowhere/libddprun_cuda.so' is not there"));
}

TEST(GpuPlugin, AFileThatIsOnNoPathOfLibrariesIsNotThere) {
  EXPECT_TRUE(Fails(GpuPlugin::Load("libddprun_nowhere.so"), ErrorKind::kNotFound,
                    "'libddprun_nowhere.so' is not there"));
}

TEST(GpuPlugin, TheAnswerOfTheLoaderIsSaid) {
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) /
                                     ("not_a_library" + std::to_string(::getpid()) + ".so");
  std::ofstream(path) << "text";
  const Result<const GpuPlugin*> plugin = GpuPlugin::Load(path);
  std::filesystem::remove(path);
  EXPECT_TRUE(Fails(plugin, ErrorKind::kSystem, "file too short"));
}

#ifdef DDPRUN_CUDA_PLUGIN
// The one that was built, on whatever machine this is.
TEST(GpuPlugin, LoadsAndCountsAlsoWithoutAGpu) {
  const Result<const GpuPlugin*> plugin = GpuPlugin::Load(DDPRUN_CUDA_PLUGIN);
  ASSERT_TRUE(plugin) << plugin.error().message;
  EXPECT_THAT((*plugin)->NcclVersion(), HasSubstr("2."));
  const Result<DeviceCount> devices = (*plugin)->CountDevices();
  ASSERT_TRUE(devices) << devices.error().message;
  EXPECT_EQ(devices->count == 0, !devices->why_none.empty()) << devices->why_none;
  // One more than there are: refused with a reason, and nothing thrown through the border.
  EXPECT_TRUE(Fails((*plugin)->SetDevice(devices->count), "cannot use GPU"));
  EXPECT_TRUE(Fails((*plugin)->Describe(devices->count), "cannot ask about GPU"));
  const std::unique_ptr<StepGraph> graph = (*plugin)->MakeStepGraph();
  if (devices->count == 0) {
    bool ran = false;
    const Result<void> recorded = graph->Record([&] { ran = true; });
    ASSERT_FALSE(recorded);
    EXPECT_FALSE(ran);
    EXPECT_THAT(recorded.error().message, HasSubstr("cannot record the step as a CUDA graph"));
  }
  if (devices->count > 0) {
    ASSERT_TRUE((*plugin)->SetDevice(0));
    const Result<DeviceFacts> first = (*plugin)->Describe(0);
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(first->identity.size(), 32U);
    EXPECT_GT(first->total_bytes, first->free_bytes);
  }
}
#endif

}  // namespace
}  // namespace ddprun
