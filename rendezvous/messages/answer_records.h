// The parts of an answer's pieces: records of a worker's output, or of where it stands, each with
// its time. A record is whole within a piece; a text that is too long for one comes as several.
//
// Reading trusts no byte: a piece that cannot be read gives what was read before, and an Error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/result.h"

namespace ddprun {

enum class AnswerKind : char {
  kOut = 'o',
  kErr = 'e',
  kStack = 's',
  kNote = 'n',  // The agent's own words.
  kDone = 'd',  // The order was carried out, for this rank.
};

struct AnswerRecord {
  std::int64_t unix_ms = 0;  // By the node's wall clock, for people alone; 0: not known.
  std::uint32_t rank = 0;
  std::uint64_t generation = 0;
  AnswerKind of = AnswerKind::kOut;
  std::string text;
  bool operator==(const AnswerRecord&) const = default;
};

// Bytes that a record takes beside its text, at most.
inline constexpr std::size_t kRecordHead = 80;

void AppendRecord(const AnswerRecord& record, std::string& piece);

// Appends those of `piece` to `records`.
Result<void> ReadRecords(std::string_view piece, std::vector<AnswerRecord>& records);

}  // namespace ddprun
