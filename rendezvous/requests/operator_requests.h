// Relays operators' requests, and the server's own, to nodes, and the pieces that come back. This
// folder's README has the table.
//
// Lives on the loop. Keeps no piece: it knows only which node owes one. Its owner decides which
// callers may ask, and which memberships there are.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/loop.h"
#include "rendezvous/transport.h"

namespace ddprun {

// For all runs of one server.
class OperatorRequests {
 public:
  static constexpr Duration kNoStream{5'000};  // For a node that has not opened its stream yet.
  static constexpr Duration kOfOwn{60'000};    // For the server's own requests.
  static constexpr Duration kUnread{10'000};   // After this, another operator gets the place.

  // `is_member`: whether it is a membership of that run that has reported.
  OperatorRequests(Loop& loop, std::function<bool(const Membership&)> is_member);

  // A node has opened its stream. It takes the place of an earlier one.
  void OnNode(const Membership& name, std::unique_ptr<NodeStream> stream);
  // An authorized operator has asked. `members`: the nodes of its run that are meant; `grows`: and
  // those that come later.
  void OnOperator(const RunId& run_id, const RequestSpec& spec, const std::vector<NodeId>& members,
                  std::unique_ptr<OperatorStream> stream, bool grows = false);
  // The server's own request. Its pieces are dropped, and it is over after kOfOwn.
  void Send(const RunId& run_id, const RequestSpec& spec, const std::vector<NodeId>& members);

  // Whether this node can be asked now.
  bool HasStream(const RunId& run_id, const NodeId& node) const {
    return nodes_.contains({run_id, node});
  }
  bool asked() const;  // Whether an operator's stream is open.

  void ForgetRun(const RunId& run_id);
  // Ends all streams.
  void Close();

 private:
  using Place = std::pair<RunId, NodeId>;
  struct Part {
    bool begun = false;  // The node knows of the request.
    bool owed = true;    // The node has been asked, or is to be asked, for a piece.
  };
  struct Request {
    RunId run_id;
    RequestSpec spec;
    std::uint32_t piece_bytes = 0;
    std::map<NodeId, Part> parts{};            // Of nodes that may have more.
    std::size_t nodes = 0;                     // That were asked.
    std::unique_ptr<OperatorStream> stream{};  // None: the server's own request.
    bool grows = false;
    Time since{};
    Time heard{};  // When its operator last asked for a piece.
  };

  std::size_t BytesOfOperators() const;
  void MakeRoom(const RunId& run_id, bool follow);
  std::size_t OwnOf(const RunId& run_id) const;
  std::size_t AskedOf(const RunId& run_id, bool follow) const;
  Result<void> MayBegin(const RunId& run_id, bool follow, std::size_t nodes) const;
  std::uint64_t Begin(Request request, const std::vector<NodeId>& members);
  void AskForPiece(std::uint64_t number, Request& request, const NodeId& node, Part& part);
  void OnPiece(const Place& place, AnswerPiece piece);
  void OnNext(std::uint64_t number, const NodeId& node);
  void OnNodeEnded(const Place& place, const std::string& why);
  // Passes the last piece of this node on.
  void EndPart(std::uint64_t number, const NodeId& node, AnswerPiece piece);
  void Refuse(std::uint64_t number, const NodeId& node, const std::string& why);
  void TellOver(const Place& place, std::uint64_t number);
  void Drop(std::uint64_t number);
  void OnTime();
  void Arm();

  Loop& loop_;
  const std::function<bool(const Membership&)> is_member_;
  std::map<Place, std::unique_ptr<NodeStream>> nodes_;
  std::map<std::uint64_t, Request> requests_;
  std::uint64_t last_request_ = 0;
  LoopTimer timer_;
};

}  // namespace ddprun
