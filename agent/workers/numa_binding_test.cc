#include "agent/workers/numa_binding.h"

#include <gtest/gtest.h>

#include "agent/fake_machine_testing.h"
#include "common/text.h"

namespace ddprun {
namespace {

// Two sockets, a NUMA node each, 4 cores with 2 threads per socket: node 0 has CPUs 0-3 and 8-11,
// node 1 has 4-7 and 12-15. Eight GPUs, four by four.
void MakeTwoSockets(FakeMachine& machine) {
  machine.AddNode(0, "0-3,8-11");
  machine.AddNode(1, "4-7,12-15");
  for (int core = 0; core < 8; ++core) {
    const int socket = core / 4;
    const std::string both = std::to_string(core) + "," + std::to_string(core + 8);
    const std::string cache = socket == 0 ? "0-3,8-11" : "4-7,12-15";
    machine.AddCpu(core, socket, both, cache);
    machine.AddCpu(core + 8, socket, both, cache);
  }
  for (int gpu = 0; gpu < 8; ++gpu) {
    machine.AddNvidia("0000:" + std::to_string(gpu + 1) + "0:00.0", "GPU-" + std::to_string(gpu),
                      gpu / 4);
  }
}

// One socket, two NUMA nodes, four last-level caches of 2 cores without threads: node 0 has 0-3 in
// caches 0-1 and 2-3, node 1 has 4-7 in 4-5 and 6-7.
void MakeAmd(FakeMachine& machine) {
  machine.AddNode(0, "0-3");
  machine.AddNode(1, "4-7");
  for (int cpu = 0; cpu < 8; ++cpu) {
    const int first = cpu / 2 * 2;
    machine.AddCpu(cpu, 0, std::to_string(cpu),
                   std::to_string(first) + "-" + std::to_string(first + 1));
  }
}

std::string Plan(const FakeMachine& machine, NumaMode mode, std::uint32_t workers,
                 const std::string& allowed, const std::optional<std::string>& visible = {}) {
  NumaRequest request{mode, workers, VisibleGpus(ListGpus(machine.roots()), visible),
                      ParseCpuList(allowed)};
  const Result<NumaPlan> plan = PlanNumaBinding(request, machine.roots());
  if (!plan) {
    return plan.error().message;
  }
  std::string text;
  for (const CpuSet& cpus : plan->cpus) {
    text += (text.empty() ? "" : " | ") + (cpus.empty() ? "-" : RangesOf(cpus, ","));
  }
  for (const std::string& warning : plan->warnings) {
    text += " ! " + warning;
  }
  return text;
}

TEST(CpuLists, AreTheKernels) {
  EXPECT_EQ(RangesOf(ParseCpuList("0-2,4,6-7"), ","), "0-2,4,6-7");
  EXPECT_EQ(RangesOf(ParseCpuList("7"), ","), "7");
  EXPECT_EQ(RangesOf(ParseCpuList(""), ","), "");
  EXPECT_EQ(RangesOf(ParseCpuList("1,x"), ","), "1");
}

struct NumaBindingTest : testing::Test {
  FakeMachine machine;
};

TEST_F(NumaBindingTest, TwoSocketsEightGpus) {
  MakeTwoSockets(machine);
  const std::string zero = "0-3,8-11";
  const std::string one = "4-7,12-15";
  EXPECT_EQ(Plan(machine, NumaMode::kNode, 2, "0-15", "0,4"), zero + " | " + one);
  EXPECT_EQ(Plan(machine, NumaMode::kNode, 2, "0-15", "7,3"), one + " | " + zero);
  EXPECT_EQ(Plan(machine, NumaMode::kSocket, 2, "0-15", "0,4"), zero + " | " + one);
  EXPECT_EQ(Plan(machine, NumaMode::kExclusive, 8, "0-15"),
            "0,8 | 1,9 | 2,10 | 3,11 | 4,12 | 5,13 | 6,14 | 7,15");
  EXPECT_EQ(Plan(machine, NumaMode::kCoreComplex, 2, "0-15", "0,4"), zero + " | " + one);
  EXPECT_EQ(Plan(machine, NumaMode::kNone, 2, "0-15"), "- | -");
}

TEST_F(NumaBindingTest, ExclusiveGivesTheRestToTheFirst) {
  MakeTwoSockets(machine);
  EXPECT_EQ(Plan(machine, NumaMode::kExclusive, 3, "0-15", "0,1,2"), "0-1,8-9 | 2,10 | 3,11");
}

// The other GPUs' share stays free for whoever uses them.
TEST_F(NumaBindingTest, ExclusiveCountsGpusAndWhereThereAreMoreWorkers) {
  MakeTwoSockets(machine);
  EXPECT_EQ(Plan(machine, NumaMode::kExclusive, 1, "0-15", "0,1"), "0-1,8-9");
  EXPECT_EQ(Plan(machine, NumaMode::kExclusive, 4, "0-15", "0,1"), "0,8 | 1,9 | 2,10 | 3,11");
}

TEST_F(NumaBindingTest, NothingOutsideTheGivenMask) {
  MakeTwoSockets(machine);
  EXPECT_EQ(Plan(machine, NumaMode::kNode, 2, "1-2,5", "0,4"), "1-2 | 5");
  const std::string alone = Plan(machine, NumaMode::kNode, 2, "0-3", "0,4");
  EXPECT_EQ(alone.substr(0, 7), "0-3 | -");
  EXPECT_NE(alone.find("GPU 0000:50:00.0 of local rank 1 is on NUMA node 1, but none of its CPUs"),
            std::string::npos);
}

TEST_F(NumaBindingTest, TooFewCoresForExclusiveIsRefused) {
  MakeTwoSockets(machine);
  EXPECT_NE(Plan(machine, NumaMode::kExclusive, 8, "0-1,4-7").find("has 2 allowed cores"),
            std::string::npos);
}

TEST_F(NumaBindingTest, CoreComplexesGoRound) {
  MakeAmd(machine);
  machine.AddNvidia("0000:01:00.0", "GPU-0", 0);
  machine.AddNvidia("0000:02:00.0", "GPU-1", 0);
  machine.AddNvidia("0000:03:00.0", "GPU-2", 0);
  machine.AddNvidia("0000:04:00.0", "GPU-3", 1);
  EXPECT_EQ(Plan(machine, NumaMode::kCoreComplex, 4, "0-7"), "0-1 | 2-3 | 0-1 | 4-5");
  EXPECT_EQ(Plan(machine, NumaMode::kCoreComplex, 1, "1-3"), "2-3") << "the larger part first";
  EXPECT_EQ(Plan(machine, NumaMode::kSocket, 1, "0-7"), "0-7") << "both nodes of the socket";
}

TEST_F(NumaBindingTest, WithoutGpusWorkersAreSpread) {
  MakeAmd(machine);
  EXPECT_EQ(Plan(machine, NumaMode::kNode, 1, "0-7"), "4-7");
  EXPECT_EQ(Plan(machine, NumaMode::kNode, 2, "0-7"), "0-3 | 4-7");
  EXPECT_EQ(Plan(machine, NumaMode::kNode, 4, "0-7"), "0-3 | 0-3 | 4-7 | 4-7");
  EXPECT_EQ(Plan(machine, NumaMode::kExclusive, 4, "0-7"), "0-1 | 2-3 | 4-5 | 6-7");
  EXPECT_EQ(Plan(machine, NumaMode::kCoreComplex, 4, "0-7"), "0-1 | 2-3 | 4-5 | 6-7");
  EXPECT_EQ(Plan(machine, NumaMode::kNode, 3, "0-3,4"), "0-3 | 0-3 | 4") << "by allowed CPUs";
}

TEST_F(NumaBindingTest, WithoutNumaInformationItSaysSo) {
  for (const NumaMode mode : {NumaMode::kNode, NumaMode::kExclusive}) {
    const std::string plan = Plan(machine, mode, 2, "0-3");
    EXPECT_EQ(plan.substr(0, 9), mode == NumaMode::kNode ? "0-3 | 0-3" : "0-1 | 2-3");
    EXPECT_NE(plan.find("the kernel reports no NUMA nodes"), std::string::npos);
  }
}

TEST_F(NumaBindingTest, AMigDeviceCannotBePlaced) {
  MakeTwoSockets(machine);
  const std::string plan = Plan(machine, NumaMode::kNode, 2, "0-15", "MIG-1,MIG-2");
  EXPECT_EQ(plan.substr(0, 20), "0-3,8-11 | 4-7,12-15");
  EXPECT_NE(plan.find("MIG device"), std::string::npos);
}

}  // namespace
}  // namespace ddprun
