// The events, in words for people and as one number that tells two histories apart.
#pragma once

#include <cstdint>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/time.h"
#include "tests/sim/event_queue.h"

namespace ddprun::sim {

template <class Part>
const Part& InWords(const Part& part) {
  return part;
}
template <class Tag>
std::uint64_t InWords(const Number<Tag>& number) {
  return number.value;
}
// Texts and numbers, one after the other.
template <class... Parts>
std::string Words(const Parts&... parts) {
  std::ostringstream words;
  (words << ... << InWords(parts));
  return words.str();
}

class Transcript {
 public:
  explicit Transcript(bool words) : words_(words) {}

  bool words() const { return words_; }
  std::uint64_t hash() const { return hash_; }
  const std::vector<std::string>& lines() const { return lines_; }

  // Something happened: counts in the hash.
  void Mark(Time now, std::uint64_t what) {
    for (const std::uint64_t value :
         {static_cast<std::uint64_t>(now.time_since_epoch().count()), what}) {
      for (int shift = 0; shift < 64; shift += 8) {
        hash_ = (hash_ ^ ((value >> shift) & 0xff)) * 0x100000001b3ULL;
      }
    }
  }

  // "   1.250 n1         text"
  template <class... Parts>
  void Tell(Time now, const std::string& who, const Parts&... parts) {
    if (words_) {
      char head[64];
      const double seconds = std::chrono::duration<double>(now - kBegin).count();
      std::snprintf(head, sizeof head, "%9.3f  %-8s  ", seconds, who.c_str());
      lines_.push_back(Words(head, parts...));
    }
  }

 private:
  const bool words_;
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;  // FNV-1a.
  std::vector<std::string> lines_;
};

}  // namespace ddprun::sim
