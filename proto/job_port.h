// A port that every process of a job finds alike, without a word between them, and another job
// hardly.
#pragma once

#include <cstdint>
#include <string_view>

namespace ddprun {

inline constexpr std::uint16_t kFirstJobPort = 20'000;  // Below Linux' own range, 32768 and up.
inline constexpr std::uint16_t kJobPorts = 10'000;

// By FNV-1a, which is the same whatever the library.
inline std::uint16_t PortOfJob(std::string_view job) {
  std::uint32_t hash = 2'166'136'261u;
  for (const char c : job) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 16'777'619u;
  }
  return static_cast<std::uint16_t>(kFirstJobPort + hash % kJobPorts);
}

}  // namespace ddprun
