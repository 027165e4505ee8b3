// The gRPC service: converts, posts, returns. Knows nothing about runs and nodes.
//
// Its methods run on gRPC's threads and touch no state; what they post to the loop reaches the
// handlers until Close. A call that its client or the server's shutdown cancels is ended at once by
// the thread that hears of it, so gRPC never waits for the loop.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/loop.h"
#include "proto/rendezvous.grpc.pb.h"
#include "rendezvous/door/wire_gate.h"
#include "rendezvous/transport.h"

namespace ddprun {

class RendezvousService final : public v1::Rendezvous::CallbackService {
 public:
  // `token`: what every call must show; empty: nothing. `tls`: refuse who does not speak it.
  RendezvousService(Loop& loop, RendezvousHandlers handlers, std::string token = "",
                    bool tls = false);

  grpc::ServerUnaryReactor* Sync(grpc::CallbackServerContext* context,
                                 const v1::SyncRequest* request, v1::SyncReply* reply) override;
  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context,
                                     const v1::DescribeRequest* request,
                                     v1::DescribeReply* reply) override;
  grpc::ServerUnaryReactor* Control(grpc::CallbackServerContext* context,
                                    const v1::ControlRequest* request,
                                    v1::ControlReply* reply) override;
  grpc::ServerUnaryReactor* Road(grpc::CallbackServerContext* context,
                                 const v1::RoadRequest* request, v1::RoadReply* reply) override;
  grpc::ServerUnaryReactor* Ask(grpc::CallbackServerContext* context, const v1::AskRequest* request,
                                v1::AskReply* reply) override;

  WireGate& gate() { return gate_; }

  // Before the first connection: called on the loop at a connection's first call that may be made
  // here.
  void OnLetIn(std::function<void(const std::string& peer)> callback);
  // On the loop: a connection, by its other end ("1.2.3.4:5"), has begun or has been closed there.
  // Those that nobody tells of are known by their open calls alone.
  void OnOpened(const std::string& peer);
  void OnClosed(const std::string& peer);
  // Connections that have lasted so long without a call that was let in, and when to look again.
  std::vector<std::string> Silent(Duration patience);
  std::optional<Time> NextSilent(Duration patience) const;

  // On the loop: refuses every parked call; the handlers hear nothing from here on.
  void Close();

 private:
  struct Inbox;
  WireGate gate_;
  std::shared_ptr<Inbox> inbox_;  // Shared with what is posted and not delivered yet.
};

}  // namespace ddprun
