#include "launcher/verbs/seen_records.h"

#include <algorithm>

namespace ddprun {

bool SeenRecords::IsNew(const NodeId& node, const AnswerRecord& record) {
  if (record.of == AnswerKind::kNote) {
    return true;
  }
  const Stream stream{node, record.rank, record.generation, record.of};
  newest_ = std::max(newest_.value_or(record.unix_ms), record.unix_ms);
  if (now_.size() >= kMostStreams && !now_.contains(stream)) {
    return true;
  }
  Told& now = now_[stream];
  now = {record.unix_ms, now.unix_ms == record.unix_ms ? now.count + 1 : 1};
  const auto before = before_.find(stream);
  if (before == before_.end()) {
    return true;
  }
  const bool same = record.unix_ms == before->second.unix_ms && record.unix_ms != 0;
  return record.unix_ms > before->second.unix_ms || (same && now.count > before->second.count);
}

void SeenRecords::BeginAgain() {
  for (auto& [stream, told] : now_) {
    if (before_.size() >= kMostStreams && !before_.contains(stream)) {
      continue;
    }
    Told& before = before_[stream];
    const bool further = told.unix_ms > before.unix_ms ||
                         (told.unix_ms == before.unix_ms && told.count > before.count);
    before = further ? told : before;
  }
  now_.clear();
}

}  // namespace ddprun
