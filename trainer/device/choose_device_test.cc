#include "trainer/device/choose_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using ::testing::HasSubstr;

WorkerEnv Local(std::uint32_t rank, std::uint32_t size) {
  WorkerEnv env;
  env.local_rank = env.rank = rank;
  env.local_world_size = env.world_size = size;
  return env;
}

GpusHere Gpus(int count) {
  GpusHere here;
  for (int i = 0; i < count; ++i) {
    here.driver_files.push_back("/dev/nvidia" + std::to_string(i));
  }
  here.devices.count = count;
  return here;
}

const DeviceSpec kAuto{};
const DeviceSpec kCuda{DeviceKind::kCuda, std::nullopt};

std::string Refusal(const Result<Device>& device) {
  EXPECT_FALSE(device);
  return device ? "" : device.error().message;
}

TEST(ChooseDevice, WithoutADriverItIsTheCpuAndNothingIsSaid) {
  const Result<Device> device = ChooseDevice(kAuto, BackendChoice::kAuto, Local(0, 2), GpusHere{});
  ASSERT_TRUE(device);
  EXPECT_EQ(device->kind, DeviceKind::kCpu);
  EXPECT_EQ(device->note, "");
}

TEST(ChooseDevice, EachLocalRankGetsItsOwnGpu) {
  for (const DeviceSpec& spec : {kAuto, kCuda}) {
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      const Result<Device> device =
          ChooseDevice(spec, BackendChoice::kAuto, Local(rank, 4), Gpus(8));
      ASSERT_TRUE(device);
      EXPECT_EQ(device->kind, DeviceKind::kCuda);
      EXPECT_EQ(device->index, static_cast<int>(rank));
    }
  }
}

// All of them, not only those that get none: a world of the others would wait for these.
TEST(ChooseDevice, MoreRanksThanGpusAreRefusedByEveryRank) {
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    const std::string refusal =
        Refusal(ChooseDevice(kAuto, BackendChoice::kAuto, Local(rank, 3), Gpus(2)));
    EXPECT_THAT(refusal, HasSubstr("3 ranks on this node, and 2 GPUs can be seen here"));
    EXPECT_THAT(refusal, HasSubstr("--nproc-per-node=2"));
  }
}

// --virtual-local-rank shows each of them one GPU and calls each local rank 0.
TEST(ChooseDevice, ARankWithAGpuOfItsOwnTakesIt) {
  GpusHere here = Gpus(1);
  here.visible = "3";
  WorkerEnv env = Local(0, 4);
  env.rank = 2;
  const Result<Device> device = ChooseDevice(kAuto, BackendChoice::kAuto, env, here);
  ASSERT_TRUE(device);
  EXPECT_EQ(device->index, 0);
  EXPECT_THAT(Refusal(ChooseDevice(kAuto, BackendChoice::kAuto, Local(1, 4), here)),
              HasSubstr("(CUDA_VISIBLE_DEVICES='3')"));
}

TEST(ChooseDevice, AGpuByNumberIsForOneRankOrForGloo) {
  const DeviceSpec one{DeviceKind::kCuda, 1};
  EXPECT_EQ(ChooseDevice(one, BackendChoice::kAuto, Local(0, 1), Gpus(2))->index, 1);
  EXPECT_EQ(ChooseDevice(one, BackendChoice::kGloo, Local(1, 2), Gpus(2))->index, 1);
  EXPECT_THAT(Refusal(ChooseDevice(one, BackendChoice::kNccl, Local(1, 2), Gpus(2))),
              HasSubstr("--device=cuda:1 puts all 2 ranks"));
  EXPECT_THAT(Refusal(ChooseDevice(one, BackendChoice::kAuto, Local(0, 1), Gpus(1))),
              HasSubstr("--device=cuda:1: 1 GPU can be seen here"));
}

TEST(ChooseDevice, AGpuThatCannotBeUsedIsReportedOrRefused) {
  GpusHere here = Gpus(1);
  here.devices = {0, "CUDA driver version is insufficient"};
  here.visible = "";
  const Result<Device> device = ChooseDevice(kAuto, BackendChoice::kAuto, Local(0, 1), here);
  ASSERT_TRUE(device);
  EXPECT_EQ(device->kind, DeviceKind::kCpu);
  EXPECT_THAT(device->note, HasSubstr("although the driver shows /dev/nvidia0"));
  EXPECT_THAT(device->note, HasSubstr("CUDA driver version is insufficient"));
  for (const std::string& refusal :
       {Refusal(ChooseDevice(kCuda, BackendChoice::kAuto, Local(0, 1), here)),
        Refusal(ChooseDevice(kAuto, BackendChoice::kNccl, Local(0, 1), here))}) {
    EXPECT_THAT(refusal, HasSubstr("needs a GPU: CUDA finds no GPU (CUDA_VISIBLE_DEVICES='')"));
  }
}

TEST(ChooseDevice, WithoutADriverAGpuThatWasAskedForIsRefusedWithAllThatIsKnown) {
  GpusHere here;
  here.trouble = Error{ErrorKind::kNotFound, "the GPU plug-in is not there"};
  EXPECT_THAT(Refusal(ChooseDevice(kCuda, BackendChoice::kAuto, Local(0, 1), here)),
              ::testing::AllOf(HasSubstr("--device=cuda needs a GPU: the GPU plug-in is not there"),
                               HasSubstr("no NVIDIA driver"), HasSubstr("--device=cpu")));
}

TEST(ChooseDevice, SharedMemoryIsForTheCpu) {
  EXPECT_EQ(ChooseDevice(kAuto, BackendChoice::kShm, Local(0, 2), Gpus(2))->kind, DeviceKind::kCpu);
}

TEST(ChooseDevice, NamesOfDevices) {
  EXPECT_EQ(ParseDevice("auto")->kind, DeviceKind::kAuto);
  EXPECT_EQ(ParseDevice("cpu")->kind, DeviceKind::kCpu);
  EXPECT_EQ(ParseDevice("cuda")->kind, DeviceKind::kCuda);
  EXPECT_EQ(ParseDevice("cuda:3")->index, 3);
  for (const char* const wrong : {"", "gpu", "cuda:", "cuda:-1", "cuda:x", "cuda:1x", "cuda3"}) {
    EXPECT_FALSE(ParseDevice(wrong)) << wrong;
  }
}

}  // namespace
}  // namespace ddprun
