// An operator's request to the nodes of a run, and the messages that carry it.
//
// Agents listen on no port, so each keeps a stream open to its server (Membership, then Piece up,
// Command down). An operator has a stream of its own for each request (AskStart, then names of
// nodes up, AskReply down). Both say the same: the next piece, please. A node makes a piece only
// when it is asked for, and a server keeps none. So at most one piece of each request and node is
// under way, and a slow reader delays only itself. Values; nothing is decided here.
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
// The bytes that one operator's pieces may take in the server's memory, beside the least for each
// node; and those of all of a server's.
inline constexpr std::size_t kMostPieceBytesOfAsk = std::size_t{4} << 20;
inline constexpr std::size_t kMostPieceBytes = std::size_t{64} << 20;
inline constexpr std::size_t kMostAsks = 8;            // Of a run: followers, others, its server.
inline constexpr std::size_t kMostAskedNodes = 1'000;  // By name, in one question: as status lists.
inline constexpr std::size_t kMostRankSpans = 64;
inline constexpr std::size_t kMaxRefusal = 512;           // A sentence.
inline constexpr std::uint32_t kMostLastLines = 100'000;  // An agent counts them on its loop.

enum class RequestKind {
  kLogs = 1,  // The output of workers.
  kStacks,    // Where their threads stand.
  kSave,      // Tells workers to save, by the signal that they have said.
  kStopSoon,  // Tells a node to save and end, with "start me again".
  kEvidence,  // Keeps what is known of workers that continue, in their generation's bundle.
};

struct RankSpan {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  bool operator==(const RankSpan&) const = default;
};

struct RequestSpec {
  RequestKind kind = RequestKind::kLogs;
  std::vector<RankSpan> ranks;        // None: all.
  std::optional<Duration> back = {};  // Logs: no older than this; none: all that are kept.
  bool follow = false;                // Logs: continues when all is sent.
  // Logs: of what is kept already, only the last lines of each worker; none: all.
  std::optional<std::uint32_t> lines = {};
  bool operator==(const RequestSpec&) const = default;
};

inline bool Wants(const RequestSpec& spec, std::uint32_t rank) {
  for (const RankSpan& span : spec.ranks) {
    if (rank >= span.first && rank <= span.last) {
      return true;
    }
  }
  return spec.ranks.empty();
}

// ---- Between a node and its server ----
// The membership that the stream belongs to.
struct Membership {
  RunId run_id;
  NodeId node;
  Incarnation incarnation;
  bool operator==(const Membership&) const = default;
};

// Make the next piece of this request; the first of these begins it. Or: it is over.
struct NodeCommand {
  std::uint64_t request = 0;  // Its number. A server gives none twice.
  bool over = false;
  RequestSpec spec = {};
  std::uint32_t piece_bytes = kLeastPieceBytes;  // No piece may be larger.
  bool operator==(const NodeCommand&) const = default;
};

struct AnswerPiece {
  std::uint64_t request = 0;
  std::string bytes;  // Records: answer_records.h.
  bool last = false;
  std::string refusal = {};  // Of a last one: why there is no more.
  bool operator==(const AnswerPiece&) const = default;
};

// ---- Between an operator and a server ----
struct AskStart {
  RunId run_id;  // Empty: the server's only run.
  std::string token;
  RequestSpec spec;
  std::vector<NodeId> nodes;  // None: all of the run.
  bool operator==(const AskStart&) const = default;
};

// The first one says which nodes are asked; each later one is a piece. The first piece of each node
// comes unasked; for the next one the operator names the node.
struct AskReply {
  std::vector<NodeId> asked;
  NodeId node;  // The node whose piece it is; empty: there is none.
  AnswerPiece piece;
  bool operator==(const AskReply&) const = default;
};

}  // namespace ddprun
