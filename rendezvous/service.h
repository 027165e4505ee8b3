// The gRPC service: converts, posts, returns. Knows nothing about runs and nodes.
//
// Its methods run on gRPC's threads and touch no state. Posts to the loop reach the handlers until
// Close. If a call is cancelled, by its client or by the server's shutdown, gRPC's thread ends it
// at once, so gRPC never waits for the loop.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/loop.h"
#include "proto/rendezvous.grpc.pb.h"
#include "rendezvous/listener/grpc_admission.h"
#include "rendezvous/transport.h"

namespace ddprun {

// Of a gRPC server that ends: so that answers already given leave before their connections close.
inline constexpr std::chrono::milliseconds kShutdownGrace{200};

class RendezvousService final : public v1::Rendezvous::CallbackService {
 public:
  // `token`: every call must show it; empty: none is needed. `tls`: calls without TLS are refused.
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
  grpc::ServerBidiReactor<v1::NodeMessage, v1::Command>* Observe(
      grpc::CallbackServerContext* context) override;
  grpc::ServerBidiReactor<v1::AskMessage, v1::AskReply>* AskNodes(
      grpc::CallbackServerContext* context) override;

  grpc::ServerBidiReactor<v1::PoolReport, v1::PoolReply>* Pool(
      grpc::CallbackServerContext* context) override;

  CallAdmission& admission() { return admission_; }

  // Sets it before the first connection: called on the loop when a call of a connection is
  // accepted.
  void OnAuthenticated(std::function<void(const std::string& peer)> callback);
  // On the loop: a connection, named by its other end ("1.2.3.4:5"), has begun, or was closed
  // there. A connection for which these are not called is known only by its open calls.
  void OnOpened(const std::string& peer);
  void OnClosed(const std::string& peer);
  // On the loop: refuses every parked call. The handlers are not called any more.
  void Close();

 private:
  struct Inbox;
  CallAdmission admission_;
  std::shared_ptr<Inbox> inbox_;  // Shared with work that is posted to the loop.
};

}  // namespace ddprun
