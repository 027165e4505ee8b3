// What an operator wants fetched from a run's nodes, and how that travels: errands.
//
// Agents listen nowhere, so each parks a second call beside its Sync (RoadCall). All of it is
// level-triggered: a RoadReply lists every errand that the node has now, with how many of its
// pieces were taken; what is not in the list is over. A node sends piece n + 1 of an errand only
// once n was taken. The operator's call (Asking) is parked too, and says what it has taken in its
// next one. So whoever stands still holds up nobody but himself, and one piece per errand and node
// is all that a server keeps. Values; nothing is decided here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/time.h"

namespace ddprun {

// ---- Limits ----
inline constexpr std::size_t kMaxPieceBytes = std::size_t{256} << 10;
inline constexpr std::size_t kLeastPieceBytes = std::size_t{4} << 10;  // Of a run of many nodes.
// What one operator's pieces may take in the server's memory, beside the least for each node; and
// what all of a server's may.
inline constexpr std::size_t kMostPieceBytesOfAsk = std::size_t{4} << 20;
inline constexpr std::size_t kMostPieceBytes = std::size_t{64} << 20;
inline constexpr std::size_t kMostAsks = 8;  // Of a run at a time; so many errands has a node.
inline constexpr std::size_t kMostAskedNodes = 1'000;  // By name, in one question: as status lists.
inline constexpr std::size_t kMostRankSpans = 64;
inline constexpr std::size_t kMostReplyBytes = std::size_t{512} << 10;  // Of pieces, in one reply.
inline constexpr Duration kLongestWait{2'000};                          // Of an operator's call.
inline constexpr std::size_t kMaxRefusal = 512;                         // A sentence.

enum class ErrandKind {
  kLogs,      // What workers printed.
  kStacks,    // Where their threads stand.
  kSave,      // Tells workers to save, by the signal that they have said.
  kStopSoon,  // Tells a node to save and end, with "start me again".
  kEvidence,  // Keeps what is known of workers that go on, in their generation's bundle.
};

struct RankSpan {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  bool operator==(const RankSpan&) const = default;
};

struct ErrandWish {
  ErrandKind kind = ErrandKind::kLogs;
  std::vector<RankSpan> ranks;        // None: all.
  std::optional<Duration> back = {};  // Logs: no older than this; none: all that are kept.
  bool follow = false;                // Logs: goes on when all is told.
  bool operator==(const ErrandWish&) const = default;
};

inline bool Wants(const ErrandWish& wish, std::uint32_t rank) {
  for (const RankSpan& span : wish.ranks) {
    if (rank >= span.first && rank <= span.last) {
      return true;
    }
  }
  return wish.ranks.empty();
}

// ---- Between a node and its server ----
// As one node is told. Numbers of errands are never used twice by a server.
struct Errand {
  std::uint64_t id = 0;
  ErrandWish wish;
  std::uint32_t piece_bytes = 0;  // No piece may be larger.
  std::uint64_t taken = 0;        // Pieces.
  bool operator==(const Errand&) const = default;
};

struct ErrandPiece {
  std::uint64_t errand = 0;
  std::uint64_t number = 0;  // From 1.
  std::string bytes;         // Records: errand_records.h.
  bool last = false;
  std::string refusal = {};  // Of a last one: why there is no more.
  bool operator==(const ErrandPiece&) const = default;
};

struct RoadCall {
  RunId run_id;
  NodeId node;
  Incarnation incarnation;
  std::uint64_t edition = 0;  // Of the reply that it follows; 0: none yet.
  std::optional<ErrandPiece> piece = {};
  bool operator==(const RoadCall&) const = default;
};

// Which second call of which membership.
struct RoadName {
  RunId run_id;
  NodeId node;
  Incarnation incarnation;
};

struct RoadReply {
  std::uint64_t edition = 0;
  std::vector<Errand> errands;
  bool operator==(const RoadReply&) const = default;
};

// ---- Between an operator and a server ----
struct TakenPiece {
  NodeId node;
  std::uint64_t number = 0;
  bool operator==(const TakenPiece&) const = default;
};

struct Asking {
  RunId run_id;            // Empty: the server's only run.
  std::uint64_t ask = 0;   // A number that the caller has drawn. The first call begins it.
  std::uint64_t call = 0;  // From 1.
  std::string token;
  ErrandWish wish;            // Of the first call.
  std::vector<NodeId> nodes;  // Likewise; none: all of the run.
  std::vector<TakenPiece> taken;
  Duration wait = kLongestWait;  // For anything to tell.
  bool operator==(const Asking&) const = default;
};

struct AnsweredPiece {
  NodeId node;
  ErrandPiece piece;
  bool operator==(const AnsweredPiece&) const = default;
};

struct AskReply {
  std::vector<NodeId> asked;  // In the first reply: who was.
  std::vector<AnsweredPiece> pieces;
  bool operator==(const AskReply&) const = default;
};

}  // namespace ddprun
