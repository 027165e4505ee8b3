// A driver's readings and the verdicts on them, with NVIDIA's library of a made-up machine.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "agent/fake_machine_testing.h"
#include "agent/host/gpu_source.h"
#include "agent/host/host_judge.h"
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

TEST(HostJudge, FactsThatNoTrainingSurvivesRefuseAMachine) {
  EXPECT_EQ(Judge({.lost = true}).refuses,
            "GPU 1 (GPU-1): has fallen off the bus (host check; leave it out with --gpu-ids)");
  EXPECT_THAT(Judge({.needs_reset = true}).refuses, HasSubstr("must be reset"));
  EXPECT_THAT(Judge({.recovery = GpuRecovery::kReset}).refuses, HasSubstr("asks for a reset"));
  EXPECT_THAT(Judge({.recovery = GpuRecovery::kReboot}).refuses, HasSubstr("asks for a reboot"));
  EXPECT_THAT(Judge({.recovery = GpuRecovery::kDrainAndReset}).refuses,
              HasSubstr("asks to drain its peers"));
  EXPECT_THAT(Judge({.xids = {{79, 1}}}).refuses, HasSubstr("Xid 79 (fallen off the bus)"));
  EXPECT_THAT(Judge({.uncorrected = 2, .rows = RemappedRows{.failed = true}}).refuses,
              HasSubstr("no spare rows"));
}

TEST(HostJudge, ABearableFactIsOnlyReported) {
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

TEST(HostJudge, AnothersGpuRefusesNoNode) {
  const HostView view = Judge({.mine = false, .lost = true});
  EXPECT_EQ(view.refuses, "");
  EXPECT_EQ(FactOf(view, "gpus"), (HostFact{"gpus", "1 of 1 well", false}));
}

TEST(HostJudge, OneIsNamedAndTheOthersAreCounted) {
  GpuReading lost;
  lost.lost = true;
  EXPECT_EQ(RefusalOf(Gpus({{}, lost, lost, lost})),
            "GPU 1 (GPU-1): has fallen off the bus; 2 more GPUs are bad (host check; leave it out "
            "with --gpu-ids)");
}

// Clocks fall for a moment at each step's end.
TEST(HostJudge, AFactThatComesAndGoesCountsOnceItStays) {
  HostJudge judge(3);
  HostReadings readings;
  std::vector<bool> bad;
  for (const int hot : {1, 0, 1, 1, 1, 0, 0, 1, 0, 0, 0}) {
    readings.gpus = Gpus({{.throttled = hot != 0 ? 0x20u : 0x4u}});  // Else a power cap.
    bad.push_back(FactOf(judge.Judge(readings), "gpu0").bad);
  }
  EXPECT_EQ(bad, (std::vector<bool>{0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 0}));
}

// A server refuses words that cannot be printed, and with them the node. Bad facts come first.
TEST(HostJudge, WordsOfADriverArePlain) {
  const HostView view = Judge({.error = "1: D\xc3\xa4WN\n"});
  ASSERT_FALSE(view.facts.empty());
  EXPECT_EQ(view.facts[0], (HostFact{"gpu1", "1: D??WN?", true}));
}

TEST(HostJudge, ADriverThatHangsIsSaidAndRefusesNoNode) {
  HostReadings readings;
  readings.gpus = Gpus({{}});
  readings.gpus_silent = Duration{13'000};
  const HostView view = HostJudge(3).Judge(readings);
  EXPECT_EQ(FactOf(view, "gpus"),
            (HostFact{"gpus", "their driver has not answered for 13.0 s", true}));
  EXPECT_EQ(view.refuses, "");
}

TEST(HostJudge, AllFactsFitIntoAReport) {
  for (const HostFact& fact : Judge({.error = std::string(4'000, 'x')}).facts) {
    EXPECT_LE(fact.name.size(), kMaxFactName);
    EXPECT_LE(fact.value.size(), kMaxFactValue);
  }
}

// ---- The driver ----
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
  EXPECT_EQ(source.Read().error, "cannot query the driver: Driver/library version mismatch");
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
  EXPECT_FALSE(IsVisibleGpu("0,-1,1", 1, "GPU-7"));  // An entry that names no GPU hides the rest.
}

}  // namespace
}  // namespace ddprun
