#include "tests/sim/transcript.h"

#include <cstdio>

namespace ddprun::sim {

void Transcript::Mark(Time now, std::uint64_t what) {
  for (const std::uint64_t value :
       {static_cast<std::uint64_t>(now.time_since_epoch().count()), what}) {
    for (int shift = 0; shift < 64; shift += 8) {
      hash_ = (hash_ ^ ((value >> shift) & 0xff)) * 0x100000001b3ULL;
    }
  }
}

void Transcript::Tell(Time now, std::string_view who, std::string_view text) {
  if (!words_) {
    return;
  }
  char head[64];
  const double seconds = std::chrono::duration<double>(now.time_since_epoch()).count();
  std::snprintf(head, sizeof head, "%9.3f  %-8.*s  ", seconds, static_cast<int>(who.size()),
                who.data());
  lines_.push_back(head + std::string(text));
}

}  // namespace ddprun::sim
