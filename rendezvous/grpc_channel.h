// gRPC's side of a client: where to connect, how, and a failed call in words.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/support/status.h>

#include <functional>
#include <memory>
#include <string>

#include "common/endpoint.h"
#include "common/files.h"
#include "common/loop.h"
#include "common/result.h"
#include "common/time.h"
#include "rendezvous/listener/tls.h"

namespace ddprun {

enum class Lookup { kAddressOnly, kMayBlock };

// gRPC's own resolver skips the system's name service switch, so names are looked up here. An empty
// target: the host is a name, and Lookup::kAddressOnly forbids to ask for it.
Result<std::string> GrpcTarget(const Endpoint& endpoint, Lookup lookup);
// The same for a name, for ten seconds at most: a thread that is still looking then is abandoned.
// `done` is called on the loop.
void LookUpTarget(Loop& loop, const Endpoint& endpoint,
                  std::function<void(const Result<std::string>& target)> done);

// A channel of its own: connections are shared with no other channel of the process. With an
// authority the server's certificate must name `host`, else with a token it must prove that.
// `silence`: the connection ends if the server answers no ping for so long; 0: it is not asked.
std::shared_ptr<grpc::Channel> OpenChannel(const std::string& target, const std::string& host,
                                           const Access& access, Duration silence = Duration{0});

// A channel over a connected socket of this machine, in the clear. It ends with the connection.
std::shared_ptr<grpc::Channel> ChannelOver(UniqueFd socket, Duration silence);

// kUnavailable, with where and why.
Error Unreachable(const Endpoint& endpoint, const std::string& why);

// Of a server, for a caller.
grpc::Status StatusOf(const Error& error);

// For a status that is not OK. `waited`: the call's deadline; `access`: that of the call.
Error ErrorOf(const grpc::Status& status, const Endpoint& endpoint, Duration waited,
              const Access& access);

}  // namespace ddprun
