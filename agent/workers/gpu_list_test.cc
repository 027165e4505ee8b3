#include "agent/workers/gpu_list.h"

#include <gtest/gtest.h>

#include "agent/fake_machine_testing.h"

namespace ddprun {
namespace {

std::string Addresses(const std::vector<Gpu>& gpus) {
  std::string text;
  for (const Gpu& gpu : gpus) {
    text += (text.empty() ? "" : " ") + (gpu.pci.empty() ? "?" + gpu.uuid : gpu.pci);
  }
  return text;
}

TEST(Gpus, TheDriversFilesNameThem) {
  FakeMachine machine;
  machine.AddNvidia("0000:dc:00.0", "GPU-bbbb", 1);
  machine.AddNvidia("0000:19:00.0", "GPU-aaaa", -1);
  const std::vector<Gpu> gpus = ListGpus(machine.roots());
  ASSERT_EQ(Addresses(gpus), "0000:19:00.0 0000:dc:00.0");
  EXPECT_EQ(gpus[0].uuid, "GPU-aaaa");
  EXPECT_EQ(gpus[0].model, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(gpus[0].numa_node, 0);
  EXPECT_EQ(gpus[1].numa_node, 1);
}

// A card without its driver computes nothing.
TEST(Gpus, TheBusIsAskedWhereADriverIs) {
  FakeMachine machine;
  machine.AddOnBus("0000:02:00.0", "0x10de", "0x060400", 1);
  machine.AddOnBus("0000:03:00.0", "0x10de", "0x030200", 0);
  EXPECT_EQ(Addresses(ListGpus(machine.roots())), "");
  machine.Write("dev/nvidiactl", "");
  EXPECT_EQ(Addresses(ListGpus(machine.roots())), "0000:03:00.0");
}

// An unknown driver may put there any text.
TEST(Gpus, FilesThatAreNoneOfTheKernelsAreLeftAlone) {
  FakeMachine machine;
  const std::string information = "proc/driver/nvidia/gpus/0000:01:00.0/information";
  machine.Write(information, "Model: H100\n" + std::string(5'000, 'x'));
  EXPECT_EQ(ListGpus(machine.roots()).at(0).model, "");
  const std::filesystem::path file = machine.roots().sys.parent_path() / information;
  std::filesystem::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);  // Its reader would wait for ever.
  EXPECT_EQ(ListGpus(machine.roots()).at(0).model, "");
}

TEST(Gpus, AListChoosesAsCudasDoes) {
  const std::vector<Gpu> all = {{"a", "GPU-11aa"}, {"b", "GPU-22bb"}, {"c", "GPU-33cc"}};
  const std::vector<std::pair<std::optional<std::string>, std::string>> table = {
      {std::nullopt, "a b c"},
      {"", ""},
      {"2,0", "c a"},
      {"-1,0", ""},
      {"0,7,1", "a"},
      {" 1 , 2", "b c"},
      {"GPU-22,GPU-1", "b a"},
      {"GPU-99,0", ""},
      {"1x,0", ""},
      {"MIG-GPU-33cc/1/0", "c"},
      {"MIG-77,0", "?MIG-77 a"}};
  for (const auto& [list, expected] : table) {
    EXPECT_EQ(Addresses(VisibleGpus(all, list)), expected) << list.value_or("(none)");
  }
}

}  // namespace
}  // namespace ddprun
