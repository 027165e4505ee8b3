#include "launcher/command_line/gpus.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "launcher/cli_fixture.h"

namespace ddprun {
namespace {

TEST(Gpus, AreCountedAsCudaCountsThem) {
  ::setenv("CUDA_VISIBLE_DEVICES", "0,GPU-8f2a,-1,3", 1);
  EXPECT_EQ(CountGpus(), 2u);
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  EXPECT_EQ(CountGpus(), 0u);
  ::unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(Gpus, ANumberWithoutAGpuHidesThoseBehindIt) {
  EXPECT_EQ(CountVisible("99", 1), 0u);
  EXPECT_EQ(CountVisible("1,9,0", 2), 1u);
  EXPECT_EQ(CountVisible("GPU-8f2a,0", 1), 2u);
  EXPECT_EQ(CountVisible("7", 0), 1u);  // How many there are is not known.
  EXPECT_EQ(CountVisible(std::nullopt, 4), 4u);
}

TEST(Gpus, DevicesAreCountedWhateverTheirNumbers) {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) / ("gpus" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  for (const char* name : {"nvidia3", "nvidia11", "nvidiactl", "nvidia-uvm", "nvidia"}) {
    std::ofstream(folder / name) << "";
  }
  EXPECT_EQ(CountDevices(folder), 2u);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(CountDevices(folder), 0u);
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
}

TEST(Gpus, UuidsAreTakenAsTheyAre) {
  EXPECT_EQ(Chosen("GPU-8f2a,MIG-77", "0,1", 2), "GPU-8f2a,MIG-77");
}

TEST(Gpus, WhatIsNotThereIsRefusedWithWhatIs) {
  EXPECT_NE(Chosen("8", std::nullopt, 8).find("there is no GPU 8 here: this node has 8"),
            std::string::npos);
  EXPECT_NE(Chosen("2", "4,5", 8).find("'4,5', has 2"), std::string::npos);
  EXPECT_NE(Chosen("2", "4,-1,5", 8).find("has 1"), std::string::npos);  // CUDA hides the rest.
  EXPECT_NE(Chosen("0", "", 8).find("there is no GPU 0"), std::string::npos);
}

TEST(Gpus, WhatIsNoListOfGpusIsRefused) {
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
  EXPECT_NE(why({"--attach-rank=1", "--hang-timeout=30"}).find("exclude each other"),
            std::string::npos);
  EXPECT_EQ(why({"--attach-rank=9", "--nnodes=8", "--rdzv-endpoint=127.0.0.1:29400"}), "");
}

}  // namespace
}  // namespace ddprun
