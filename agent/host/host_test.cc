// What a machine tells, and what follows: with the kernel's files and NVIDIA's library of a made-up
// machine.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "agent/fake_machine.h"
#include "agent/host/gpu_source.h"
#include "agent/host/host_judge.h"
#include "agent/host/machine_source.h"
#include "rendezvous/messages/limits.h"

namespace ddprun {
namespace {

using ::testing::HasSubstr;

HostFact FactOf(const HostView& view, const std::string& name) {
  for (const HostFact& fact : view.facts) {
    if (fact.name == name) {
      return fact;
    }
  }
  return {name, "absent", false};
}

double SampleOf(const HostView& view, const std::string& metric, const std::string& label = "") {
  for (const HostSample& sample : view.samples) {
    if (sample.metric == metric && (label.empty() || sample.labels.back().second == label)) {
      return sample.value;
    }
  }
  return -1;
}

// ---- Judgement ----
GpuReadings Gpus(std::vector<GpuReading> gpus) {
  GpuReadings readings{.present = true, .error = "", .gpus = std::move(gpus)};
  for (std::uint32_t i = 0; i < readings.gpus.size(); ++i) {
    readings.gpus[i].index = i;
    readings.gpus[i].uuid = "GPU-" + std::to_string(i);
  }
  return readings;
}

HostView Judge(const GpuReading& gpu) {
  HostReadings readings;
  readings.gpus = Gpus({{}, gpu});
  return HostJudge(1).Judge(readings);
}

TEST(HostJudge, WhatRefusesAMachineIsWhatNoTrainingSurvives) {
  EXPECT_EQ(Judge({.lost = true}).refuses,
            "GPU 1 (GPU-1): has fallen off the bus (host check; --gpus leaves it out)");
  EXPECT_THAT(Judge({.needs_reset = true}).refuses, HasSubstr("must be reset"));
  EXPECT_THAT(Judge({.recovery = GpuRecovery::kReset}).refuses, HasSubstr("asks for a reset"));
  EXPECT_THAT(Judge({.recovery = GpuRecovery::kReboot}).refuses, HasSubstr("asks for a reboot"));
  EXPECT_THAT(Judge({.recovery = GpuRecovery::kDrainAndReset}).refuses, HasSubstr("drained"));
  EXPECT_THAT(Judge({.xids = {{79, 1}}}).refuses, HasSubstr("Xid 79 (fallen off the bus)"));
  EXPECT_THAT(Judge({.uncorrected = 2, .rows = RemappedRows{.failed = true}}).refuses,
              HasSubstr("no spare rows"));
}

TEST(HostJudge, WhatMayBeLivedWithIsOnlyTold) {
  const std::vector<GpuReading> told = {
      {.error = "Error"},
      {.uncorrected = 2},
      {.rows = RemappedRows{.failed = true}},  // None was needed since the driver was loaded.
      {.rows = RemappedRows{.pending = true}},
      {.throttled = 0x40},
      {.recovery = GpuRecovery::kNone, .xids = {{79, 1}}},  // It was reset: the driver knows best.
      {.recovery = GpuRecovery::kDrainPeers, .xids = {{74, 1}}},
      {.xids = {{48, 1}, {94, 1}}},  // Contained: programs may be started again.
      {.xids = {{94, 2}}},
      {.xids = {{74, 1}}},
  };
  for (const GpuReading& gpu : told) {
    const HostView view = Judge(gpu);
    EXPECT_EQ(view.refuses, "");
    EXPECT_TRUE(FactOf(view, "gpu1").bad) << FactOf(view, "gpu1").value;
    EXPECT_EQ(FactOf(view, "gpus").value, "1 of 2 well");
  }
}

TEST(HostJudge, AProgramsOwnFaultSaysNothingOfTheGpu) {
  const HostView view = Judge({.xids = {{31, 1}, {45, 7}}});
  EXPECT_EQ(view.refuses, "");
  EXPECT_EQ(FactOf(view, "gpu1"), (HostFact{"gpu1", "Xid 31, Xid 45, 7 times", false}));
  EXPECT_EQ(SampleOf(view, "ddprun_node_xid_total", "45"), 7);
}

TEST(HostJudge, AnothersGpuRefusesNobody) {
  const HostView view = Judge({.mine = false, .lost = true});
  EXPECT_EQ(view.refuses, "");
  EXPECT_EQ(FactOf(view, "gpus"), (HostFact{"gpus", "1 of 1 well", false}));
}

TEST(HostJudge, OneIsNamedAndTheOthersAreCounted) {
  GpuReading lost;
  lost.lost = true;
  EXPECT_EQ(RefusalOf(Gpus({{}, lost, lost, lost})),
            "GPU 1 (GPU-1): has fallen off the bus; 2 more GPUs are bad (host check; --gpus leaves "
            "it out)");
}

// Clocks fall for a moment at each step's end.
TEST(HostJudge, WhatComesAndGoesCountsOnceItStays) {
  HostJudge judge(3);
  HostReadings readings;
  std::vector<bool> bad;
  for (const int hot : {1, 0, 1, 1, 1, 0, 0, 1, 0, 0, 0}) {
    readings.gpus = Gpus({{.throttled = hot != 0 ? 0x20u : 0x4u}});  // Else a power cap.
    bad.push_back(FactOf(judge.Judge(readings), "gpu0").bad);
  }
  EXPECT_EQ(bad, (std::vector<bool>{0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 0}));
}

TEST(HostJudge, ALinkThatIsLostIsBadAndOneThatNeverWasIsNot) {
  HostJudge judge(3);
  HostReadings readings;
  readings.kernel.links = {{"eth0", true, "up", false}, {"eth1", false, "no carrier", false}};
  HostView view = judge.Judge(readings);
  EXPECT_EQ(FactOf(view, "links"), (HostFact{"links", "1 up, down: eth1", false}));
  readings.kernel.links[0] = {"eth0", false, "no carrier", false};
  view = judge.Judge(readings);
  EXPECT_EQ(FactOf(view, "link.eth0"), (HostFact{"link.eth0", "lost its link: no carrier", true}));
  EXPECT_EQ(view.facts.front().name, "link.eth0");  // What is bad comes first.
  EXPECT_EQ(view.refuses, "");
  readings.kernel.links = {{"mlx5_0/1", false, "2: INIT", true}};
  EXPECT_TRUE(FactOf(judge.Judge(readings), "link.mlx5_0/1").bad);
}

TEST(HostJudge, LinksThatComeAndGoPushNoOtherOut) {
  HostJudge judge(3);
  HostReadings readings;
  for (int i = 0; i < 1'000; ++i) {
    readings.kernel.links = {{"eth0", true, "up", false},
                             {"veth" + std::to_string(i), true, "up", false}};
    judge.Judge(readings);
  }
  readings.kernel.links = {{"eth0", false, "no carrier", false}};
  EXPECT_TRUE(FactOf(judge.Judge(readings), "link.eth0").bad);
}

// A server refuses names that cannot be printed, and with them the node.
TEST(HostJudge, NamesOfDevicesArePlain) {
  HostReadings readings;
  readings.kernel.links.push_back(
      {.name = "mlx\n5\xff 1", .up = false, .state = "1: D\xc3\xa4WN\n", .cabled_in_vain = true});
  const HostView view = HostJudge(1).Judge(readings);
  ASSERT_FALSE(view.facts.empty());
  EXPECT_EQ(view.facts[0].name, "link.mlx?5?_1");
  EXPECT_EQ(view.facts[0].value, "has a wire, but is not active: 1: D??WN?");
  for (const HostSample& sample : view.samples) {
    for (const auto& [label, value] : sample.labels) {
      EXPECT_EQ(value, "mlx?5?_1");
    }
  }
}

TEST(HostJudge, DisksAreToldOnceAndAFullOneIsBad) {
  HostReadings readings;
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  readings.disks = {{"run", "/run/7", {"", 1, 10 * kGiB, 100 * kGiB, false}, {}},
                    {"logs", "/logs", {"", 1, 10 * kGiB, 100 * kGiB, false}, {}},
                    {"tmp", "/tmp", {"", 2, 1 << 20, kGiB, false}, {}}};
  HostView view = HostJudge(3).Judge(readings);
  EXPECT_EQ(FactOf(view, "disk.run").value, "10.0 GiB free of 100 GiB");
  EXPECT_EQ(FactOf(view, "disk.logs").value, "absent");
  EXPECT_EQ(FactOf(view, "disk.tmp"),
            (HostFact{"disk.tmp", "1.0 MiB free of 1.0 GiB: /tmp", true}));
  EXPECT_EQ(SampleOf(view, "ddprun_node_disk_free_bytes", "run"), 10.0 * kGiB);
  readings.disks = {{"run", "/run/7", {}, Duration{12'000}},
                    {"tmp", "/tmp", {.free = kGiB, .size = kGiB, .no_files_left = true}, {}}};
  view = HostJudge(3).Judge(readings);
  EXPECT_EQ(FactOf(view, "disk.run").value, "/run/7 has not answered for 12.0 s");
  EXPECT_TRUE(FactOf(view, "disk.tmp").bad);
  EXPECT_EQ(view.refuses, "");
}

TEST(HostJudge, ADriverThatHangsIsSaidAndRefusesNobody) {
  HostReadings readings;
  readings.gpus = Gpus({{}});
  readings.gpus_silent = Duration{13'000};
  const HostView view = HostJudge(3).Judge(readings);
  EXPECT_EQ(FactOf(view, "gpus"),
            (HostFact{"gpus", "their driver has not answered for 13.0 s", true}));
  EXPECT_EQ(view.refuses, "");
}

TEST(HostJudge, AllFactsFitIntoAReport) {
  HostReadings readings;
  readings.disks = {{"run", std::string(4'000, 'x'), {.error = "gone"}, {}}};
  readings.kernel.links = {{std::string(200, 'y'), false, "2: INIT", true}};
  for (const HostFact& fact : HostJudge(3).Judge(readings).facts) {
    EXPECT_LE(fact.name.size(), kMaxFactName);
    EXPECT_LE(fact.value.size(), kMaxFactValue);
  }
}

// ---- Sources ----
TEST(MachineSource, TellsCardsPortsAndPressure) {
  FakeMachine machine;
  for (const char* card : {"eth0", "eth1", "off"}) {
    const std::string base = std::string("sys/class/net/") + card + "/";
    machine.Write(base + "device/vendor", "0x15b3");
    machine.Write(base + "flags", std::string(card) == "off" ? "0x1002" : "0x1003");
    machine.Write(base + "carrier", std::string(card) == "eth0" ? "1" : "0");
  }
  machine.Write("sys/class/net/lo/flags", "0x9");
  machine.Write("sys/class/net/lo/carrier", "1");
  machine.Write("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE");
  machine.Write("sys/class/infiniband/mlx5_0/ports/1/phys_state", "5: LinkUp");
  machine.Write("sys/class/infiniband/mlx5_1/ports/1/state", "2: INIT");
  machine.Write("sys/class/infiniband/mlx5_1/ports/1/phys_state", "5: LinkUp");
  machine.Write("proc/pressure/memory",
                "some avg10=9.00 avg60=8.00 avg300=7.00 total=6\n"
                "full avg10=3.00 avg60=2.50 avg300=1.00 total=5");
  const KernelReadings readings = ReadKernel(machine.roots());
  EXPECT_EQ(readings.links, (std::vector<LinkReading>{
                                {"eth0", true, "up", false},
                                {"eth1", false, "no carrier", false},
                                {"mlx5_0/1", true, "4: ACTIVE", false},
                                {"mlx5_1/1", false, "2: INIT", true},
                            }));
  EXPECT_DOUBLE_EQ(readings.memory_pressure.value_or(-1), 0.025);
}

TEST(MachineSource, AnEmptyMachineTellsNothing) {
  FakeMachine machine;
  EXPECT_EQ(ReadKernel(machine.roots()), KernelReadings{});
  machine.Write("proc/pressure/memory", "full avg60=no number");
  EXPECT_EQ(ReadKernel(machine.roots()).memory_pressure, 0);
  EXPECT_EQ(ReadDisk(machine.roots().sys / "nowhere").error, "No such file or directory");
  EXPECT_GT(ReadDisk("/").size, 0u);
}

// A driver of anybody's making may put there what it likes.
TEST(MachineSource, FilesThatAreNoneOfTheKernelsAreLeftAlone) {
  FakeMachine machine;
  const std::string port = "sys/class/infiniband/mlx5_0/ports/1/";
  const std::string information = "proc/driver/nvidia/gpus/0000:01:00.0/information";
  machine.Write(port + "state", "2: INIT" + std::string(5'000, 'x'));
  machine.Write(information, "Model: H100\n" + std::string(5'000, 'x'));
  EXPECT_TRUE(ReadKernel(machine.roots()).links.empty());
  EXPECT_EQ(ListGpus(machine.roots()).at(0).model, "");
  const std::filesystem::path root = machine.roots().sys.parent_path();
  for (const std::string& name : {port + "state", information}) {
    std::filesystem::remove(root / name);
    ASSERT_EQ(::mkfifo((root / name).c_str(), 0600), 0);  // Its reader would wait for ever.
  }
  EXPECT_TRUE(ReadKernel(machine.roots()).links.empty());
  EXPECT_EQ(ListGpus(machine.roots()).at(0).model, "");
}

// With the library of tests/support/fake_nvml.cc, which takes the real one's place by its name.
struct Driver : testing::Test {
  FakeMachine machine;
  std::string state = machine.roots().dev.parent_path() / "state";

  Driver() {
    EXPECT_NE(::dlopen(FAKE_NVML, RTLD_NOW | RTLD_LOCAL), nullptr) << ::dlerror();
    machine.Write("dev/nvidiactl", "");
    ::setenv("FAKE_NVML", state.c_str(), 1);
  }
  void Say(const std::string& text) { machine.Write("state", text); }
  std::string Calls() const {
    std::ifstream log(state + ".log");
    std::string calls;
    for (std::string line; std::getline(log, line);) {
      calls += line + " ";
    }
    return calls;
  }
  GpuSource Source(std::optional<std::string> visible = {}) const {
    return GpuSource(machine.roots(), std::move(visible));
  }
};

TEST_F(Driver, TellsAllThatIsLookedAt) {
  Say("count 2\ngpu 1 ecc 3\ngpu 1 rows 4 5 1 0\ngpu 1 throttle 64\ngpu 1 recovery 0");
  GpuSource source = Source();
  const GpuReadings readings = source.Read();
  ASSERT_EQ(readings.gpus.size(), 2u);
  GpuReading well{.index = 0, .uuid = "GPU-0000", .uncorrected = 0, .rows = RemappedRows{}};
  EXPECT_EQ(readings.gpus[0], well);
  GpuReading other{.index = 1, .uuid = "GPU-1000", .uncorrected = 3};
  other.rows = RemappedRows{4, 5, true, false};
  other.throttled = 64;
  other.recovery = GpuRecovery::kNone;
  EXPECT_EQ(readings.gpus[1], other);
}

TEST_F(Driver, XidsAreCountedFromItsFirstReadingOn) {
  GpuSource source = Source();
  Say("count 2");
  EXPECT_TRUE(source.Read().gpus[1].xids.empty());
  Say("count 2\nxid 1 31\nxid 1 31\nxid 0 94");
  const GpuReadings readings = source.Read();
  EXPECT_EQ(readings.gpus[1].xids, (std::map<std::uint64_t, std::uint64_t>{{31, 2}}));
  EXPECT_EQ(readings.gpus[0].xids, (std::map<std::uint64_t, std::uint64_t>{{94, 1}}));
  EXPECT_EQ(source.Read().gpus[1].xids.at(31), 2u);
}

// A GPU that is held cannot be reset.
TEST_F(Driver, IsLetGoWhileAResetIsDueAndHeldElse) {
  GpuSource source = Source();
  Say("count 1");
  source.Read();
  source.Read();
  EXPECT_EQ(Calls(), "init ");
  Say("count 1\ngpu 0 recovery 1");
  source.Read();
  EXPECT_EQ(Calls(), "init shutdown ");
  Say("count 1\ngpu 0 recovery 0");
  EXPECT_EQ(RefusalOf(source.Read()), "");
  EXPECT_EQ(Calls(), "init shutdown init ");
}

TEST_F(Driver, OneThatHasFallenOffTheBusIsLost) {
  GpuSource source = Source();
  Say("count 2");
  source.Read();
  Say("count 2\ngpu 1 answer 15");  // Its handle is still given out.
  EXPECT_THAT(RefusalOf(source.Read()), HasSubstr("GPU 1 (GPU-1000): has fallen off the bus"));
  Say("count 2\ngpu 0 handle 15");
  EXPECT_THAT(RefusalOf(source.Read()), HasSubstr("GPU 0 (GPU-0000): has fallen off the bus"));
  Say("count 1\ngpu 0 uuid GPU-1000");  // It is not even counted: the other has its number.
  EXPECT_THAT(RefusalOf(source.Read()), HasSubstr("GPU 0 (GPU-0000): has fallen off the bus"));
  Say("count 2");
  EXPECT_EQ(RefusalOf(source.Read()), "");
}

TEST_F(Driver, ThatCannotBeAskedIsSaid) {
  GpuSource source = Source();
  Say("init 18");
  EXPECT_EQ(source.Read().error, "its driver cannot be asked: Driver/library version mismatch");
  Say("count 1");
  EXPECT_EQ(source.Read().error, "");
}

TEST_F(Driver, AMachineWithoutOneIsNotAsked) {
  FakeMachine without;
  Say("count 1");
  GpuSource source(without.roots(), {});
  EXPECT_EQ(source.Read(), GpuReadings{});
  EXPECT_EQ(Calls(), "");
}

TEST_F(Driver, WhichAreTheRunsOwn) {
  Say("count 3\ngpu 2 handle 4");  // Not this user's.
  std::vector<bool> mine;
  GpuSource source = Source("GPU-1");
  for (const GpuReading& gpu : source.Read().gpus) {
    mine.push_back(gpu.mine);
  }
  EXPECT_EQ(mine, (std::vector<bool>{false, true, false}));
  EXPECT_TRUE(IsVisibleGpu(std::nullopt, 3, ""));
  EXPECT_FALSE(IsVisibleGpu("", 0, ""));
  EXPECT_TRUE(IsVisibleGpu("1, 3", 3, "GPU-7"));
  EXPECT_FALSE(IsVisibleGpu("1,3", 2, "GPU-7"));
  EXPECT_TRUE(IsVisibleGpu("GPU-8f", 0, "GPU-8f2a"));
  EXPECT_TRUE(IsVisibleGpu("MIG-GPU-8f2a/1/0", 0, "GPU-8f2a"));
  EXPECT_FALSE(IsVisibleGpu("MIG-77", 0, "GPU-8f2a"));  // Which one has it only the driver knows.
  EXPECT_TRUE(IsVisibleGpu("GPU-8f", 0, ""));
  EXPECT_FALSE(IsVisibleGpu("0,-1,1", 1, "GPU-7"));  // What names nothing hides the rest.
}

}  // namespace
}  // namespace ddprun
