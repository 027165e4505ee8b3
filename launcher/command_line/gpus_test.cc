#include "launcher/command_line/gpus.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <map>

#include "agent/fake_machine_testing.h"
#include "launcher/cli_testing.h"

namespace ddprun {
namespace {

// As a program would see them: "2 NVIDIA".
std::string Counted(const FakeMachine& machine, std::map<std::string, std::string> variables = {}) {
  const GpusCounted found = CountGpus(machine.roots(), Environment(std::move(variables)));
  return std::to_string(found.count) + " " + found.maker;
}

TEST(Gpus, NvidiasAreCountedAsCudaShowsThem) {
  FakeMachine machine;
  EXPECT_EQ(Counted(machine, {{"CUDA_VISIBLE_DEVICES", "0,GPU-8f2a,-1,3"}}), "2 listed");
  EXPECT_EQ(Counted(machine), "0 listed");
  machine.AddNvidia("0000:19:00.0", "GPU-aaaa", 0);
  machine.AddNvidia("0000:dc:00.0", "GPU-bbbb", 1);
  EXPECT_EQ(Counted(machine), "2 NVIDIA");
  EXPECT_EQ(Counted(machine, {{"CUDA_VISIBLE_DEVICES", "99"}}), "0 NVIDIA");
  EXPECT_EQ(Counted(machine, {{"CUDA_VISIBLE_DEVICES", "1,9,0"}}), "1 NVIDIA");
  EXPECT_EQ(Counted(machine, {{"CUDA_VISIBLE_DEVICES", "GPU-bbbb,0"}}), "2 NVIDIA");
  EXPECT_EQ(Counted(machine, {{"CUDA_VISIBLE_DEVICES", ""}}), "0 NVIDIA");
}

// A container may have /dev/nvidia3 alone, and none of the driver's other files.
TEST(Gpus, NvidiasDevicesAreCountedWhateverTheirNumbers) {
  FakeMachine machine;
  for (const char* name : {"nvidia3", "nvidia11", "nvidiactl", "nvidia-uvm"}) {
    machine.Write(std::string("dev/") + name, "");
  }
  EXPECT_EQ(Counted(machine), "2 NVIDIA");
}

TEST(Gpus, AmdsAreTheNodesOfKfdWhoseRenderNodesCanBeOpened) {
  FakeMachine machine;
  const auto add = [&](int node, int simds, int minor, const std::string& id) {
    machine.Write("sys/class/kfd/kfd/topology/nodes/" + std::to_string(node) + "/properties",
                  "cpu_cores_count 0\nsimd_count " + std::to_string(simds) + "\nlocation_id " +
                      std::to_string((node << 8)) + "\ndomain 0\nunique_id " + id +
                      "\ndrm_render_minor " + std::to_string(minor));
  };
  machine.Write("dev/kfd", "");
  add(0, 0, 0, "0");  // A CPU.
  for (int node = 1; node <= 10; ++node) {
    add(node, 304, 127 + node, std::to_string(160 + node));
    if (node <= 8) {  // A job that may use eight of ten.
      machine.Write("dev/dri/renderD" + std::to_string(127 + node), "");
    }
  }
  EXPECT_EQ(Counted(machine), "8 AMD");
  EXPECT_EQ(Counted(machine, {{"ROCR_VISIBLE_DEVICES", "4,5,6"}}), "3 AMD");
  EXPECT_EQ(Counted(machine, {{"ROCR_VISIBLE_DEVICES", "4,5,6"}, {"HIP_VISIBLE_DEVICES", "2,0"}}),
            "2 AMD");
  EXPECT_EQ(Counted(machine, {{"ROCR_VISIBLE_DEVICES", "GPU-00000000000000a2"}}), "1 AMD");
  EXPECT_EQ(Counted(machine, {{"HIP_VISIBLE_DEVICES", ""}, {"CUDA_VISIBLE_DEVICES", "0,1"}}),
            "2 AMD");
  EXPECT_EQ(Counted(machine, {{"HIP_VISIBLE_DEVICES", "-1"}}), "0 AMD");
  EXPECT_EQ(ListGpus(machine.roots()).at(0).pci, "0000:01:00.0");
  EXPECT_EQ(ListGpus(machine.roots()).at(7).pci, "0000:08:00.0");  // Not "10" before "2".
}

TEST(Gpus, IntelsAreThoseOfDataCentres) {
  FakeMachine machine;
  machine.AddOnBus("0000:00:02.0", "0x8086", "0x030000", 0);  // Part of a CPU.
  for (const char* pci : {"0000:4d:00.0", "0000:9a:00.0"}) {
    machine.AddOnBus(pci, "0x8086", "0x038000", 0);
    const std::string render = std::string("renderD") + (pci[5] == '4' ? "129" : "130");
    machine.Write(std::string("sys/bus/pci/devices/") + pci + "/drm/" + render + "/dev", "226");
    machine.Write("dev/dri/" + render, "");
  }
  EXPECT_EQ(Counted(machine), "2 Intel");
  EXPECT_EQ(Counted(machine, {{"ZE_AFFINITY_MASK", "0.0,0.1"}}), "1 Intel");
  EXPECT_EQ(Counted(machine, {{"ZE_AFFINITY_MASK", "1"}, {"CUDA_VISIBLE_DEVICES", ""}}), "1 Intel");
}

std::string Chosen(const std::string& text, const std::optional<std::string>& visible,
                   std::uint32_t devices) {
  const Result<std::string> list = ChooseGpus(text, visible, devices);
  return list ? *list : list.error().message;
}

// Under a scheduler number 0 is the first of those that it gave.
TEST(Gpus, NumbersCountThoseThatDdprunMaySee) {
  EXPECT_EQ(Chosen("1,3", std::nullopt, 8), "1,3");
  EXPECT_EQ(Chosen("1,3", "4,5,6,7", 8), "5,7");
  EXPECT_EQ(Chosen("1", "GPU-8f2a,GPU-77", 8), "GPU-77");
  EXPECT_EQ(Chosen("3,1", std::nullopt, 8), "3,1");  // Local rank 0 has the first.
  EXPECT_EQ(Chosen("5", std::nullopt, 0), "5");      // How many there are is not known.
  EXPECT_EQ(Chosen("GPU-8f2a,MIG-77", "0,1", 2), "GPU-8f2a,MIG-77");
}

TEST(Gpus, AGpuThatIsNotThereIsRefusedWithThoseThatAre) {
  EXPECT_NE(Chosen("8", std::nullopt, 8).find("there is no GPU 8 here: this node has 8"),
            std::string::npos);
  EXPECT_NE(Chosen("2", "4,5", 8).find("'4,5', has 2"), std::string::npos);
  EXPECT_NE(Chosen("2", "4,-1,5", 8).find("has 1"), std::string::npos);  // CUDA hides the rest.
  EXPECT_NE(Chosen("0", "", 8).find("there is no GPU 0"), std::string::npos);
}

TEST(Gpus, OneNumberMayHaveBeenMeantAsACount) {
  EXPECT_TRUE(Chosen("8", std::nullopt, 8)
                  .ends_with("this node has 8, counted from 0; for 8 workers set "
                             "--nproc-per-node=8 [no-such-gpu]"));
  EXPECT_TRUE(
      Chosen("1", std::nullopt, 1).ends_with("for 1 worker set --nproc-per-node=1 [no-such-gpu]"));
  EXPECT_TRUE(Chosen("7,8", std::nullopt, 8).ends_with("counted from 0 [no-such-gpu]"));
  EXPECT_TRUE(Chosen("0", "", 8).ends_with("counted from 0 [no-such-gpu]"));
}

TEST(Gpus, ATextThatIsNoListOfGpusIsRefused) {
  for (const char* text : {"", ",", "1,", ",1", "1,,2", "-1", "x", "1 2", "99999999999", "GPU-",
                           "GPU-8 f", "MIG-8f\n"}) {
    EXPECT_FALSE(ChooseGpus(text, std::nullopt, 0)) << text;
  }
  EXPECT_NE(Chosen("1,1", std::nullopt, 8).find("twice"), std::string::npos);
  EXPECT_NE(Chosen("1,01", std::nullopt, 8).find("twice"), std::string::npos);
  EXPECT_NE(Chosen("0,1", "3,3", 8).find("twice"), std::string::npos);
}

Result<CommandLine> Parse(std::vector<std::string> args) {
  args.emplace_back("prog");
  return ParseCommandLine(args, Environment({}));
}

TEST(Gpus, WorkersFollowTheListThatWasChosen) {
  ::setenv("CUDA_VISIBLE_DEVICES", "4,5,6,7", 1);
  const Result<CommandLine> line = Parse({"--gpus=1,3", "--nproc-per-node=gpu"});
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  ASSERT_TRUE(line) << line.error().message;
  EXPECT_EQ(std::get<LaunchConfig>(*line).gpus, "5,7");
  EXPECT_EQ(std::get<LaunchConfig>(*line).workers, 2u);
}

TEST(Gpus, AMachineThatShowsNoneIsBelievedWithAWarning) {
  if (CountDevices() > 0) {
    GTEST_SKIP() << "this machine has GPUs";
  }
  const auto warnings = [](const std::string& gpus) {
    const Result<CommandLine> line = Parse({"--gpus=" + gpus});
    return line ? std::get<LaunchConfig>(*line).warnings : std::vector{line.error().message};
  };
  EXPECT_EQ(warnings("8"),
            std::vector<std::string>{
                "--gpu-ids=8: no GPU was found here, and workers get CUDA_VISIBLE_DEVICES=8; for 8 "
                "workers set --nproc-per-node=8"});
  EXPECT_EQ(warnings("0,1"),
            std::vector<std::string>{
                "--gpu-ids=0,1: no GPU was found here, and workers get CUDA_VISIBLE_DEVICES=0,1"});
  ::setenv("CUDA_VISIBLE_DEVICES", "4,5", 1);
  EXPECT_TRUE(warnings("1").empty());
  ::unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(Gpus, AnEmptyListIsNotAllOfThem) {
  EXPECT_FALSE(Parse({"--gpus="}));
  EXPECT_TRUE(Parse({}));
}

TEST(AttachRank, IsRefusedWhereItMakesNoSense) {
  const auto why = [](std::vector<std::string> args) {
    args.push_back("--nproc-per-node=2");
    const Result<CommandLine> line = Parse(args);
    return line ? "" : line.error().message;
  };
  EXPECT_EQ(why({"--attach-rank=1"}), "");
  EXPECT_NE(why({"--attach-rank=2"}).find("ranks 0 to 1"), std::string::npos);
  EXPECT_NE(why({"--attach-rank=x"}).find("number of a rank"), std::string::npos);
  EXPECT_NE(why({"--attach-rank=1", "--tee=3"}).find("--redirects, --tee"), std::string::npos);
  EXPECT_NE(why({"--attach-rank=1", "--hang-timeout=30"}).find("excludes --hang-timeout"),
            std::string::npos);
  EXPECT_EQ(why({"--attach-rank=9", "--nnodes=8", "--rdzv-endpoint=127.0.0.1:29400"}), "");
}

}  // namespace
}  // namespace ddprun
