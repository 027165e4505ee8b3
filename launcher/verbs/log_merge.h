// The output of workers of several nodes, from pieces as they come, as whole lines in order of
// time.
//
// Pure. By each node's own clock; a node's own order is kept. Without `follow` a line comes once
// every node has sent something later, or has no more; with it, 0.3 s after it has arrived, since a
// node that prints nothing sends nothing. Bounded: a piece of each node, and lines that have not
// ended, kMostOpen bytes of kMostStreams streams: the rest is cut there.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "common/time.h"
#include "rendezvous/messages/answer_records.h"
#include "rendezvous/messages/operator_request.h"

namespace ddprun {

struct LogLine {
  NodeId node;
  std::int64_t unix_ms = 0;  // When its end was read; 0: not known.
  std::uint32_t rank = 0;
  std::uint64_t generation = 0;
  AnswerKind of = AnswerKind::kOut;
  std::string text;  // Without its end.
  bool operator==(const LogLine&) const = default;
};

class LogMerge {
 public:
  static constexpr Duration kHeld{300};
  static constexpr std::size_t kMostOfLine = 64 * 1024;
  static constexpr std::size_t kMostOpen = std::size_t{64} << 20;
  static constexpr std::size_t kMostStreams = 65'536;

  explicit LogMerge(bool follow) : follow_(follow) {}

  void Expect(const NodeId& node) { nodes_[node].ended = false; }
  // Another server sends the pieces from here on. Records that have come stay, and no node's next
  // piece is wanted. A node that the new server does not ask has ended.
  void BeginAgain();
  void Add(const NodeId& node, std::vector<AnswerRecord> records, Time now);
  void End(const NodeId& node);  // Nothing more comes.
  bool Expects() const;          // Some node has more.
  bool Ended() const;            // And all is taken.
  bool Holds() const;            // Records that wait for others.

  // The lines that are certain.
  std::vector<LogLine> Take(Time now);
  // Nodes whose piece is used up, each named once for it.
  std::vector<NodeId> Used();

 private:
  struct Node {
    std::deque<AnswerRecord> records;
    Time arrived;
    bool has_piece = false;  // One that was not named as used.
    bool ended = false;
  };
  using Stream = std::tuple<NodeId, std::uint32_t, AnswerKind>;
  struct Open {
    std::string text;
    std::int64_t unix_ms = 0;
    std::uint64_t generation = 0;
  };
  Node* Next(Time now);
  void Print(const NodeId& node, const AnswerRecord& record, std::vector<LogLine>& lines);
  void EndLine(const Stream& stream, Open& open, std::vector<LogLine>& lines);

  const bool follow_;
  std::map<NodeId, Node> nodes_;
  std::map<Stream, Open> open_;  // Those that have something.
  std::size_t open_bytes_ = 0;
};

}  // namespace ddprun
