#include "rendezvous/core/bytes.h"

namespace ddprun {

std::size_t HeapOf(const std::string& text) {
  constexpr std::size_t kInPlace = 15;
  return text.size() > kInPlace ? text.size() + 1 : 0;
}

std::size_t BytesOf(const WorkerFailure& failure) {
  return sizeof failure + HeapOf(failure.host) + HeapOf(failure.last_lines) + HeapOf(failure.hang) +
         HeapOf(failure.details.error_file) + HeapOf(failure.details.message) +
         HeapOf(failure.details.traceback);
}

void DropTexts(WorkerFailure& failure) {
  Drop(failure.last_lines);
  Drop(failure.hang);
  Drop(failure.details.error_file);
  Drop(failure.details.message);
  Drop(failure.details.traceback);
}

}  // namespace ddprun
