// Calls of an operator to a rendezvous server over gRPC: status, orders, requests to nodes. They
// block, on a connection of their own.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/endpoint.h"
#include "common/result.h"
#include "rendezvous/listener/tls.h"
#include "rendezvous/transport.h"

namespace ddprun {

// Where an operator reaches a server: over the network, or at the control socket of a run on this
// machine that opens no port.
struct ServerAddress {
  Endpoint endpoint;
  Access access;                         // An empty token: none was found.
  std::filesystem::path control_socket;  // In this run directory; empty: use `endpoint`.
};

// The status of a run, or of all runs for an empty id. Blocks for `timeout` at most, plus a
// look-up.
Result<std::vector<RunStatus>> AskStatus(const ServerAddress& server, const RunId& run_id,
                                         Duration timeout);

// Asks for a drain or stop, and returns what follows, in words. Blocks likewise. The request's own
// token is shown.
Result<std::string> AskControl(const ServerAddress& server, const ControlRequest& request,
                               Duration timeout);

// An operator's request to nodes, by a stream on a connection of its own.
class NodeQuery {
 public:
  // Opens it, and waits until the server has named the nodes that it asks. Looks up the host first.
  static Result<NodeQuery> Open(const ServerAddress& server, const AskStart& start,
                                Duration timeout);
  NodeQuery(NodeQuery&& other) noexcept;
  ~NodeQuery();  // Ends the request.

  const std::vector<NodeId>& nodes() const { return nodes_; }
  // The next piece, or none if none comes within `wait`. An error: the server ended the stream, or
  // is gone.
  Result<std::optional<AskReply>> Next(Duration wait);
  // The next piece of this node is wanted. The first one of each node comes unasked.
  void Want(const NodeId& node);

 private:
  class State;
  explicit NodeQuery(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
  std::vector<NodeId> nodes_;
};

}  // namespace ddprun
