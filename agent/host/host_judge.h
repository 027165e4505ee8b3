// The meaning of a machine's readings: facts for people, numbers for monitoring, and whether the
// machine must not be used.
//
// Pure: the same readings in the same order give the same words. A machine is refused for a fault
// that breaks every training on it, until something is reset or repaired; the table stands in
// docs/node-checks.md ("What is looked at on every node"). All other faults are only reported.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/host/host_readings.h"
#include "common/time.h"
#include "rendezvous/messages/host_fact.h"

namespace ddprun {

// The effect of the check (--host-check): it decides, it is only reported, or it is off.
enum class HostCheck { kOn, kObserve, kOff };

struct HostReadings {
  GpuReadings gpus;
  Duration gpus_silent{0};
  std::optional<ClockOffset> clock;
};

// One series of a metric (launcher/watching/metrics).
struct HostSample {
  std::string metric;
  std::vector<std::pair<std::string, std::string>> labels;
  double value = 0;
};

struct HostView {
  HostFacts facts;      // All of them, the bad ones first.
  std::string refuses;  // Why this machine must not be used; empty: it may be.
  std::vector<HostSample> samples;
};

// Of its GPUs alone: nothing else refuses a machine.
std::string RefusalOf(const GpuReadings& gpus);

// The reset or reboot that NVIDIA's catalogue asks for after this Xid; "" where it asks for none.
const char* FatalXid(std::uint64_t xid);

// Whether a program's own fault, or its end, raises this Xid, which then says nothing about the
// GPU.
bool IsProgramsXid(std::uint64_t xid);

// As a report may carry it: printable, and not too long.
HostFact Clipped(HostFact fact);

class HostJudge {
 public:
  // A fault that comes and goes counts once it was seen `steady` times in a row; the same for its
  // absence.
  explicit HostJudge(int steady) : steady_(steady) {}

  HostView Judge(const HostReadings& readings);

 private:
  bool Steady(const std::string& name, bool bad);
  void JudgeGpus(const HostReadings& readings, HostView& view);

  struct Streak {
    bool bad = false;
    int others = 0;
  };
  const int steady_;
  std::map<std::string, Streak> streaks_;
};

}  // namespace ddprun
