// How a node's Sync call reaches a server's driver and its answer comes back, over any transport.
//
// Two ways exist: gRPC between machines, and a direct one where the agent hosts the server
// itself. Neither knows what a report means. Everything here is used, and calls back, on the loop;
// nothing calls back from inside the call that caused it.
//
//   SyncChannel::Send --report--> RendezvousHandlers::sync --parked--> PendingSync::Answer --> done
//                     --closed--> RendezvousHandlers::cancel
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/result.h"
#include "common/time.h"
#include "rendezvous/core/control.h"
#include "rendezvous/core/status.h"
#include "rendezvous/messages/messages.h"
#include "rendezvous/messages/operator_request.h"
#include "rendezvous/messages/pool_messages.h"

namespace ddprun {

// One open call of a node, waiting for its directive to change. Answered or refused at most once;
// one that is dropped is refused ("superseded"), so no agent ever hangs on a forgotten reply.
// Answering a call that the client has given up does nothing.
class PendingSync {
 public:
  virtual ~PendingSync() = default;
  virtual void Answer(const SyncReply& reply) = 0;
  virtual void Refuse(const Error& error) = 0;
};

// One end of a stream of messages between two processes. Its destruction ends the stream. Messages
// sent after the stream has ended are lost.
template <class In, class Out>
class MessageStream {
 public:
  virtual ~MessageStream() = default;
  // Once. Messages come in their order, and `ended` last, once, if the stream ends without this
  // end.
  virtual void Listen(std::function<void(const In&)> heard, std::function<void()> ended) = 0;
  virtual void Send(const Out& message) = 0;
  // Tells the other end why it ends, once it has what was sent before. A server's end has this.
  virtual void End(const Error& why) = 0;
};
// The handlers of such an end; empty ones once it has gone.
template <class In>
struct StreamHandlers {
  std::function<void(const In&)> heard;
  std::function<void()> ended;
};

using NodeStream = MessageStream<AnswerPiece, NodeCommand>;  // A server's end of a node's stream.
using CommandStream = MessageStream<NodeCommand, AnswerPiece>;  // The node's end of it.
using OperatorStream = MessageStream<NodeId, AskReply>;   // A server's end of an operator's stream.
using PoolStream = MessageStream<PoolReport, PoolReply>;  // A server's end of a pool's stream.

// Which call of which membership.
struct CallName {
  RunId run_id;
  NodeId node;
  Incarnation incarnation;
  std::uint64_t sequence = 0;
  bool operator==(const CallName&) const = default;
};
inline CallName NameOf(const NodeReport& report) {
  return {report.run_id, report.node, report.incarnation, report.sequence};
}

// An operator's request, and the proof that it is allowed.
struct ControlRequest {
  RunId run_id;  // Empty: the server's only run.
  ControlVerb verb = ControlVerb::kStop;
  NodeId node;  // Of kDrain.
  std::string token;
};

// The functions of a server's owner for what arrives. The first three must be set.
struct RendezvousHandlers {
  std::function<void(NodeReport, std::shared_ptr<PendingSync>)> sync;
  // The call's connection closed, or its client gave it up: before an answer had left, or since
  // then, with no newer call. The node's next report may have arrived before this. Always comes
  // after the call's own `sync`.
  std::function<void(const CallName&)> cancel;
  // An empty run id: all runs.
  std::function<Result<std::vector<RunStatus>>(const RunId&)> status;
  // Returns the consequence, in words.
  std::function<Result<std::string>(const ControlRequest&)> control;
  // A node has opened its stream, or an operator has asked something of nodes. None: no request of
  // operators is carried.
  std::function<void(const Membership&, std::unique_ptr<NodeStream>)> observe;
  std::function<void(const AskStart&, std::unique_ptr<OperatorStream>)> ask;
  // A daemon, a launch or a question has opened a stream to the pool. None: there is no pool.
  std::function<void(const PoolReport&, std::unique_ptr<PoolStream>)> pool;
};

// A node's side: at most one report is open, and one stream of commands.
class SyncChannel {
 public:
  // The report's sequence number, so that the receiver can drop what is not its newest.
  using Done = std::function<void(std::uint64_t sequence, Result<SyncReply> reply)>;

  virtual ~SyncChannel() = default;
  // Cancels the call in flight, whose `done` never comes. Every failure is an Error: kUnavailable
  // (no server there, or no answer within `deadline`), kInvalid (the report was malformed),
  // kRefused (another kind of server answers there).
  virtual void Send(const NodeReport& report, Duration deadline, Done done) = 0;
  // Gives up the call in flight; `done` never comes. Destroying the channel does the same.
  virtual void Cancel() = 0;
  // Called once reports go to another server than before, where no call is open. Most channels have
  // one for ever.
  virtual void OnAnotherServer(std::function<void()> /*changed*/) {}

  // Opens this node's stream of commands. None: the server cannot be reached now, or the channel
  // has no streams.
  virtual std::unique_ptr<CommandStream> OpenCommands(const Membership& /*self*/) {
    return nullptr;
  }
};

}  // namespace ddprun
