#include "agent/host/host_judge.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "rendezvous/messages/limits.h"

namespace ddprun {
namespace {

constexpr std::uint64_t kContained = 94;
constexpr std::uint64_t kDoubleBit = 48;

// The bits that mean heat or power, not a limit that an administrator has set.
constexpr std::array<std::pair<std::uint64_t, const char*>, 4> kThrottles{{
    {0x8, "hw_slowdown"},
    {0x20, "sw_thermal"},
    {0x40, "hw_thermal"},
    {0x80, "power_brake"},
}};

// A driver's words may have any bytes: they must not make a report that a server refuses.
std::string Plain(std::string text, std::size_t most, char space) {
  text.resize(std::min(text.size(), most));
  for (char& byte : text) {
    byte = byte == ' ' ? space : byte > ' ' && byte <= '~' ? byte : '?';
  }
  return text;
}

std::string Silent(Duration silent) {
  return "has not answered for " + FormatDuration(silent);
}

std::string NameOf(const GpuReading& gpu) {
  return "gpu" + std::to_string(gpu.index);
}

void Join(std::string& list, const std::string& next) {
  list += (list.empty() ? "" : ", ") + next;
}

// ---- GPUs ----
std::string RecoveryInWords(GpuRecovery recovery) {
  switch (recovery) {
    case GpuRecovery::kNone:
    case GpuRecovery::kDrainPeers:
      return "";
    case GpuRecovery::kReset:
      return "its driver asks for a reset of the GPU";
    case GpuRecovery::kReboot:
      return "its driver asks for a reboot";
    case GpuRecovery::kDrainAndReset:
      return "its driver asks to drain its peers and to reset the GPU";
  }
  return "";
}

// Why it must not be used; empty: it may be.
std::string RefusalOfOne(const GpuReading& gpu) {
  if (gpu.lost) {
    return "has fallen off the bus";
  }
  if (gpu.needs_reset) {
    return "must be reset before it can be used";
  }
  if (gpu.recovery) {  // The driver knows better than any table.
    if (const std::string words = RecoveryInWords(*gpu.recovery); !words.empty()) {
      return words;
    }
  } else {
    for (const auto& [xid, count] : gpu.xids) {
      const bool contained = xid == kDoubleBit && gpu.xids.contains(kContained);
      if (*FatalXid(xid) != '\0' && !contained) {
        return "Xid " + std::to_string(xid) + " (" + FatalXid(xid) + ")";
      }
    }
  }
  if (gpu.rows && gpu.rows->failed && gpu.uncorrected.value_or(0) > 0) {
    return "has memory errors (" + std::to_string(*gpu.uncorrected) +
           " uncorrected) and no spare rows left for them";
  }
  return "";
}

// Everything else that is wrong with it.
std::string TroubleOf(const GpuReading& gpu, bool throttled) {
  std::string trouble;
  for (const auto& [xid, count] : gpu.xids) {
    Join(trouble,
         "Xid " + std::to_string(xid) + (count > 1 ? ", " + std::to_string(count) + " times" : ""));
  }
  if (gpu.uncorrected.value_or(0) > 0) {
    Join(trouble, std::to_string(*gpu.uncorrected) + " uncorrected memory errors");
  }
  if (gpu.rows && gpu.rows->failed) {
    Join(trouble, "no spare rows left");
  } else if (gpu.rows && gpu.rows->pending) {
    Join(trouble, "rows will be replaced at the next reset");
  }
  if (throttled) {
    std::string why;
    for (const auto& [bit, name] : kThrottles) {
      if ((gpu.throttled & bit) != 0) {
        Join(why, name);
      }
    }
    Join(trouble, "throttled" + (why.empty() ? "" : " (" + why + ")"));
  }
  if (!gpu.error.empty()) {
    Join(trouble, gpu.error);
  }
  return trouble;
}

bool IsBad(const GpuReading& gpu, bool throttled) {
  const bool xids =
      std::ranges::any_of(gpu.xids, [](const auto& xid) { return !IsProgramsXid(xid.first); });
  return xids || throttled || gpu.uncorrected.value_or(0) > 0 || !gpu.error.empty() ||
         (gpu.rows && (gpu.rows->failed || gpu.rows->pending));
}

void AddSamples(const GpuReading& gpu, std::vector<HostSample>& samples) {
  const std::string number = std::to_string(gpu.index);
  const auto add = [&](const char* metric, double value,
                       std::vector<std::pair<std::string, std::string>> more = {}) {
    more.insert(more.begin(), {"gpu", number});
    samples.push_back({metric, std::move(more), value});
  };
  add("ddprun_node_gpu_lost", gpu.lost ? 1 : 0);
  for (const auto& [xid, count] : gpu.xids) {
    add("ddprun_node_xid_total", static_cast<double>(count), {{"xid", std::to_string(xid)}});
  }
  if (gpu.uncorrected) {
    add("ddprun_node_gpu_uncorrected_errors", static_cast<double>(*gpu.uncorrected));
  }
  if (gpu.rows) {
    add("ddprun_node_gpu_remapped_rows", gpu.rows->correctable, {{"why", "correctable"}});
    add("ddprun_node_gpu_remapped_rows", gpu.rows->uncorrectable, {{"why", "uncorrectable"}});
    add("ddprun_node_gpu_remap", gpu.rows->pending ? 1 : 0, {{"state", "pending"}});
    add("ddprun_node_gpu_remap", gpu.rows->failed ? 1 : 0, {{"state", "failed"}});
  }
  for (const auto& [bit, name] : kThrottles) {
    add("ddprun_node_gpu_throttled", (gpu.throttled & bit) != 0 ? 1 : 0, {{"why", name}});
  }
}

// ---- The rest ----
void AddClock(const ClockOffset& clock, HostView& view) {
  char text[64];
  std::snprintf(text, sizeof text, "the server's clock differs by %+.1f ms (within %.1f ms)",
                static_cast<double>(clock.microseconds) / 1e3,
                static_cast<double>(clock.within) / 1e3);
  view.facts.push_back({"clock", text, false});
  view.samples.push_back(
      {"ddprun_node_clock_offset_seconds", {}, static_cast<double>(clock.microseconds) / 1e6});
  view.samples.push_back(
      {"ddprun_node_clock_uncertainty_seconds", {}, static_cast<double>(clock.within) / 1e6});
}

}  // namespace

// NVIDIA's Xid catalogue, "Resolution bucket (immediate action)": RESET_GPU and RESTART_BM, and 48,
// which "a GPU reset or node reboot" clears. Not those that an application's own fault or a peer
// raises too (74, 109, 136, 155), nor those after which a program may be started again (94, 156).
const char* FatalXid(std::uint64_t xid) {
  switch (xid) {
    case 46:
      return "the GPU stopped processing";
    case kDoubleBit:
      return "uncorrectable memory error";
    case 62:
      return "internal micro-controller halt";
    case 64:
      return "memory remapping failed";
    case 79:
      return "fallen off the bus";
    case 95:
      return "uncontained memory error";
    case 110:
      return "security fault";
    case 119:
      return "its system processor does not answer";
    case 120:
      return "its system processor failed";
    case 140:
      return "unrecovered memory error";
    case 143:
      return "it cannot be initialised";
    case 158:
      return "fatal timeout";
    default:
      return "";
  }
}

bool IsProgramsXid(std::uint64_t xid) {
  return xid == 13 || xid == 31 || xid == 43 || xid == 45;
}

std::string RefusalOf(const GpuReadings& gpus) {
  std::string first;
  std::size_t more = 0;
  for (const GpuReading& gpu : gpus.gpus) {
    const std::string why = gpu.mine ? RefusalOfOne(gpu) : "";
    if (!why.empty() && first.empty()) {
      first = "GPU " + std::to_string(gpu.index) + (gpu.uuid.empty() ? "" : " (" + gpu.uuid + ")") +
              ": " + why;
    } else if (!why.empty()) {
      ++more;
    }
  }
  return first + (more == 0 ? "" : "; " + std::to_string(more) + " more GPUs are bad") +
         (first.empty() ? "" : " (host check; leave it out with --gpu-ids)");
}

bool HostJudge::Steady(const std::string& name, bool bad) {
  Streak& streak = streaks_[name];
  streak.others = bad == streak.bad ? 0 : streak.others + 1;
  if (streak.others >= steady_) {
    streak = {bad, 0};
  }
  return streak.bad;
}

HostFact Clipped(HostFact fact) {
  return {Plain(std::move(fact.name), kMaxFactName, '_'),
          Plain(std::move(fact.value), kMaxFactValue, ' '), fact.bad};
}

HostView HostJudge::Judge(const HostReadings& readings) {
  HostView view;
  view.refuses = RefusalOf(readings.gpus);
  JudgeGpus(readings, view);
  if (readings.clock) {
    AddClock(*readings.clock, view);
  }
  std::stable_partition(view.facts.begin(), view.facts.end(),
                        [](const HostFact& fact) { return fact.bad; });
  for (HostFact& fact : view.facts) {
    fact = Clipped(std::move(fact));
  }
  for (HostSample& sample : view.samples) {
    for (auto& [label, value] : sample.labels) {
      value = Plain(std::move(value), kMaxFactName, '_');
    }
  }
  const auto bad = std::ranges::count_if(view.facts, &HostFact::bad);
  view.samples.push_back({"ddprun_node_facts_bad", {}, static_cast<double>(bad)});
  return view;
}

void HostJudge::JudgeGpus(const HostReadings& readings, HostView& view) {
  const GpuReadings& gpus = readings.gpus;
  if (readings.gpus_silent.count() > 0) {
    view.facts.push_back({"gpus", "their driver " + Silent(readings.gpus_silent), true});
    return;
  }
  if (!gpus.present) {
    return;
  }
  if (!gpus.error.empty()) {
    view.facts.push_back({"gpus", gpus.error, true});
    return;
  }
  std::size_t mine = 0;
  std::size_t well = 0;
  for (const GpuReading& gpu : gpus.gpus) {
    std::uint64_t hot = 0;
    for (const auto& [bit, name] : kThrottles) {
      hot |= gpu.throttled & bit;
    }
    const bool throttled = Steady(NameOf(gpu), hot != 0);
    if (!gpu.mine) {
      continue;  // Another run's.
    }
    ++mine;
    const std::string refusal = RefusalOfOne(gpu);
    std::string trouble = TroubleOf(gpu, throttled);
    if (!refusal.empty()) {
      trouble = refusal + (refusal.starts_with("Xid") || trouble.empty() ? "" : ", " + trouble);
    }
    AddSamples(gpu, view.samples);
    const bool bad = !refusal.empty() || IsBad(gpu, throttled);
    well += bad ? 0 : 1;
    if (!trouble.empty()) {
      view.facts.push_back({NameOf(gpu), trouble, bad});
    }
  }
  view.facts.push_back(
      {"gpus", std::to_string(well) + " of " + std::to_string(mine) + " well", false});
}

}  // namespace ddprun
