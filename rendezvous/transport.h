// How a node's Sync call reaches a server's driver and its answer comes back, whatever carries it.
//
// Two ways exist: gRPC between machines, and a direct one where the agent carries the server
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
#include "rendezvous/messages/errand.h"
#include "rendezvous/messages/messages.h"

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

// Likewise, of the calls by which errands travel (messages/errand.h). `key` names one for as long
// as its connection may close.
template <class Reply>
class PendingCall {
 public:
  explicit PendingCall(std::shared_ptr<const void> key) : key_(std::move(key)) {}
  virtual ~PendingCall() = default;
  PendingCall(const PendingCall&) = delete;
  PendingCall& operator=(const PendingCall&) = delete;
  virtual void Answer(const Reply& reply) = 0;
  virtual void Refuse(const Error& error) = 0;
  const void* key() const { return key_.get(); }

 private:
  const std::shared_ptr<const void> key_;
};
using PendingRoad = PendingCall<RoadReply>;
using PendingAsk = PendingCall<AskReply>;

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

// What an operator asks, and the proof that he may.
struct ControlRequest {
  RunId run_id;  // Empty: the server's only run.
  ControlVerb verb = ControlVerb::kStop;
  NodeId node;  // Of kDrain.
  std::string token;
};

// What a server's owner does with what arrives. The first three must be set.
struct RendezvousHandlers {
  std::function<void(NodeReport, std::shared_ptr<PendingSync>)> sync;
  // The call's connection closed, or its client gave it up: before an answer had left, or since
  // then, with no newer call. The node's next report may have arrived before this. Always comes
  // after the call's own `sync`.
  std::function<void(const CallName&)> cancel;
  // An empty run id: all runs.
  std::function<Result<std::vector<RunStatus>>(const RunId&)> status;
  // What follows, in words.
  std::function<Result<std::string>(const ControlRequest&)> control;
  // A node's second call, and an operator's who asks nodes something. None: no errand is carried.
  std::function<void(const RoadCall&, std::shared_ptr<PendingRoad>)> road;
  std::function<void(const Asking&, std::shared_ptr<PendingAsk>)> ask;
  // A call of these two was given up, or its connection closed.
  std::function<void(const void* key)> gone;
};

// A node's side: at most one report is open, and one second call.
class SyncChannel {
 public:
  // The report's sequence number, so that the receiver can drop what is not its newest.
  using Done = std::function<void(std::uint64_t sequence, Result<SyncReply> reply)>;

  virtual ~SyncChannel() = default;
  // Cancels the call in flight, whose `done` never comes. Every failure is an Error:
  // kUnavailable (nobody there, or no answer within `deadline`), kInvalid (the report was
  // malformed), kRefused (another kind of server answers there).
  virtual void Send(const NodeReport& report, Duration deadline, Done done) = 0;
  // Gives up the call in flight; `done` never comes. Destroying the channel does the same.
  virtual void Cancel() = 0;
  // Called once reports go to another server than before, where no call is open. Most channels have
  // one for ever.
  virtual void OnAnotherServer(std::function<void()> /*changed*/) {}

  // The second call; an earlier one is given up. `heard` comes once, but not where the channel ends
  // meanwhile. It has no deadline. Where a channel carries none, nothing comes.
  using RoadHeard = std::function<void(Result<RoadReply> reply)>;
  virtual void SendRoad(const RoadCall& /*call*/, RoadHeard /*heard*/) {}
};

}  // namespace ddprun
