// The readings of a machine's GPU driver, unchanged. Values; host_judge decides what they mean.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

struct RemappedRows {
  std::uint32_t correctable = 0;  // Rows that were replaced, by why.
  std::uint32_t uncorrectable = 0;
  bool pending = false;  // More will be with the next reset.
  bool failed = false;   // One could not be.
  bool operator==(const RemappedRows&) const = default;
};

// The action that the driver asks for about a GPU (NVML_FI_DEV_GET_GPU_RECOVERY_ACTION).
enum class GpuRecovery : std::uint32_t {
  kNone = 0,
  kReset = 1,
  kReboot = 2,
  kDrainPeers = 3,
  kDrainAndReset = 4,
};

struct GpuReading {
  std::uint32_t index = 0;                   // As nvidia-smi counts.
  std::string uuid;                          // Empty: not known.
  bool mine = true;                          // The run may use it.
  bool lost = false;                         // The driver cannot reach it any more.
  bool needs_reset = false;                  // The driver cannot use it before a reset.
  std::string error;                         // Else why there was no reading; empty: there was one.
  std::optional<std::uint64_t> uncorrected;  // ECC errors since the driver was loaded.
  std::optional<RemappedRows> rows;
  std::uint64_t throttled = 0;                  // Why its clocks are low, NVML's bits.
  std::optional<GpuRecovery> recovery;          // None: the driver is older than that.
  std::map<std::uint64_t, std::uint64_t> xids;  // How often each came since ddprun's start.
  bool operator==(const GpuReading&) const = default;
};

struct GpuReadings {
  bool present = false;  // There is a driver.
  std::string error;     // Why it tells nothing; empty: it does.
  std::vector<GpuReading> gpus;
  bool operator==(const GpuReadings&) const = default;
};

}  // namespace ddprun
