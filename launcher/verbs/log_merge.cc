#include "launcher/verbs/log_merge.h"

#include <algorithm>
#include <utility>

namespace ddprun {

void LogMerge::Add(const NodeId& name, std::vector<AnswerRecord> records, Time now) {
  Node& node = nodes_[name];
  node.records.insert(node.records.end(), std::make_move_iterator(records.begin()),
                      std::make_move_iterator(records.end()));
  node.has_piece = true;
  node.arrived = now;
}

void LogMerge::BeginAgain() {
  for (auto& [name, node] : nodes_) {
    node.has_piece = false;
    node.ended = true;
  }
}

void LogMerge::End(const NodeId& node) {
  nodes_[node].ended = true;
}

bool LogMerge::Expects() const {
  return std::ranges::any_of(nodes_, [](const auto& node) { return !node.second.ended; });
}

bool LogMerge::Ended() const {
  return std::ranges::all_of(
      nodes_, [](const auto& node) { return node.second.ended && node.second.records.empty(); });
}

bool LogMerge::Holds() const {
  return std::ranges::any_of(nodes_, [](const auto& node) { return !node.second.records.empty(); });
}

// The node whose record comes next; nullptr: that is not certain yet.
LogMerge::Node* LogMerge::Next(Time now) {
  Node* next = nullptr;
  for (auto& [name, node] : nodes_) {
    if (node.records.empty()) {
      if (!node.ended && !follow_) {
        return nullptr;
      }
      continue;
    }
    if (next == nullptr || node.records.front().unix_ms < next->records.front().unix_ms) {
      next = &node;
    }
  }
  return next == nullptr || !follow_ || now >= next->arrived + kHeld ? next : nullptr;
}

std::vector<LogLine> LogMerge::Take(Time now) {
  std::vector<LogLine> lines;
  for (Node* next = Next(now); next != nullptr; next = Next(now)) {
    const auto of =
        std::ranges::find_if(nodes_, [&](const auto& node) { return &node.second == next; });
    const AnswerRecord record = std::move(next->records.front());
    next->records.pop_front();
    Print(of->first, record, lines);
    if (next->records.empty() && next->has_piece) {
      break;  // Its next piece may have what comes next.
    }
  }
  if (Ended()) {
    for (auto& [stream, open] : open_) {
      EndLine(stream, open, lines);
    }
    open_.clear();
    open_bytes_ = 0;
  }
  return lines;
}

std::vector<NodeId> LogMerge::Used() {
  std::vector<NodeId> used;
  for (auto& [name, node] : nodes_) {
    if (node.has_piece && node.records.empty()) {
      node.has_piece = false;
      used.push_back(name);
    }
  }
  return used;
}

void LogMerge::Print(const NodeId& node, const AnswerRecord& record, std::vector<LogLine>& lines) {
  const Stream stream{node, record.rank, record.of};
  Open& open = open_[stream];
  open_bytes_ -= open.text.size();
  if (open.generation != record.generation) {
    EndLine(stream, open, lines);  // A worker that is no more.
  }
  open.generation = record.generation;
  open.unix_ms = record.unix_ms;
  std::size_t begin = 0;
  for (std::size_t end = record.text.find('\n'); end != std::string::npos;
       end = record.text.find('\n', begin)) {
    open.text += record.text.substr(begin, end - begin);
    if (open.text.empty()) {
      lines.push_back({node, record.unix_ms, record.rank, record.generation, record.of, ""});
    }
    EndLine(stream, open, lines);
    begin = end + 1;
  }
  open.text += record.text.substr(begin);
  if (open.text.size() >= kMostOfLine || record.of == AnswerKind::kNote ||
      open_bytes_ + open.text.size() > kMostOpen || open_.size() > kMostStreams) {
    EndLine(stream, open, lines);
  }
  open_bytes_ += open.text.size();
  if (open.text.empty()) {
    open_.erase(stream);
  }
}

// Of what a progress bar wrote over itself, the last.
void LogMerge::EndLine(const Stream& stream, Open& open, std::vector<LogLine>& lines) {
  if (open.text.empty()) {
    return;
  }
  std::string text = std::exchange(open.text, {});
  text.erase(text.find_last_not_of('\r') + 1);
  text.erase(0, text.rfind('\r') + 1);
  const auto& [node, rank, of] = stream;
  lines.push_back({node, open.unix_ms, rank, open.generation, of, std::move(text)});
}

}  // namespace ddprun
