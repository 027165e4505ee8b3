#include "rendezvous/messages/answer_records.h"

#include <optional>

#include "common/text.h"

namespace ddprun {
namespace {

// The number before `end`, which is taken off as well.
template <class T>
bool TakeNumber(std::string_view& text, char end, T& number) {
  const std::size_t stop = text.find(end);
  if (stop == std::string_view::npos) {
    return false;
  }
  const auto parsed = ParseNumber<T>(text.substr(0, stop));
  text.remove_prefix(stop + 1);
  number = parsed.value_or(number);
  return parsed.has_value();
}

std::optional<AnswerKind> KindOf(char letter) {
  for (const AnswerKind kind : {AnswerKind::kOut, AnswerKind::kErr, AnswerKind::kStack,
                                AnswerKind::kNote, AnswerKind::kDone}) {
    if (static_cast<char>(kind) == letter) {
      return kind;
    }
  }
  return std::nullopt;
}

bool TakeRecord(std::string_view& piece, AnswerRecord& record) {
  std::size_t size = 0;
  if (!TakeNumber(piece, ' ', record.unix_ms) || !TakeNumber(piece, ' ', record.rank) ||
      !TakeNumber(piece, ' ', record.generation) || piece.size() < 2 || piece[1] != ' ') {
    return false;
  }
  const std::optional<AnswerKind> kind = KindOf(piece.front());
  piece.remove_prefix(2);
  if (!kind || !TakeNumber(piece, '\n', size) || size > piece.size()) {
    return false;
  }
  record.of = *kind;
  record.text = piece.substr(0, size);
  piece.remove_prefix(size);
  return true;
}

}  // namespace

void AppendRecord(const AnswerRecord& record, std::string& piece) {
  piece += std::to_string(record.unix_ms) + ' ' + std::to_string(record.rank) + ' ' +
           std::to_string(record.generation) + ' ' + static_cast<char>(record.of) + ' ' +
           std::to_string(record.text.size()) + '\n';
  piece += record.text;
}

Result<void> ReadRecords(std::string_view piece, std::vector<AnswerRecord>& records) {
  while (!piece.empty()) {
    AnswerRecord record;
    if (!TakeRecord(piece, record)) {
      return Error{ErrorKind::kInvalid, "a piece of an answer has bytes that are not a record"};
    }
    records.push_back(std::move(record));
  }
  return {};
}

}  // namespace ddprun
