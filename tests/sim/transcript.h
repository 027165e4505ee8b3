// What happened, in words for people and as one number that tells two histories apart.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/time.h"

namespace ddprun::sim {

enum class TranscriptLevel {
  kHash,   // Only the number.
  kWords,  // Every line too.
};

class Transcript {
 public:
  explicit Transcript(TranscriptLevel level) : words_(level == TranscriptLevel::kWords) {}

  bool words() const { return words_; }
  std::uint64_t hash() const { return hash_; }
  const std::vector<std::string>& lines() const { return lines_; }

  // Something happened: counts in the hash.
  void Mark(Time now, std::uint64_t what);
  // "   1.250 n1         text"
  void Tell(Time now, std::string_view who, std::string_view text);

 private:
  bool words_;
  std::uint64_t hash_ = 0xcbf29ce484222325ULL;  // FNV-1a.
  std::vector<std::string> lines_;
};

}  // namespace ddprun::sim
