// Decides which callers a server hears: with a token asked for, only those that show it in a call's
// metadata. Calls in the clear do not come this far where there is a token or a certificate: the
// acceptor refuses them, in the words that this says.
//
// Checked on gRPC's threads before anything of a call is looked at. Refusals are counted and logged
// on the loop, a few times only, however often a peer calls (log_rate_limiter.h).
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>

#include <atomic>
#include <memory>
#include <string>

#include "rendezvous/listener/log_rate_limiter.h"

namespace ddprun {

class CallAdmission {
 public:
  // An empty token: none is asked for. `tls`: there is a certificate of the user's.
  CallAdmission(Loop& loop, std::string token, bool tls);

  // OK, or UNAUTHENTICATED with what the caller can do about it.
  grpc::Status Check(const grpc::CallbackServerContext& context);

  // The answer to a call in the clear; empty: it is accepted.
  std::string RefusalInTheClear() const;
  void NoteInTheClear(const std::string& peer);  // That one was refused.

 private:
  void Tell(const std::string& peer, const char* why);

  Loop& loop_;
  const std::string token_;
  const bool tls_;
  std::atomic<std::uint64_t> refused_{0};
  std::shared_ptr<RateLimitedLog> lines_;  // The loop's.
};

// The answer to a call in the clear from a server that speaks TLS.
inline constexpr const char* kTlsWanted = "it speaks TLS alone";

// The client's side. Empty: none.
void ShowToken(grpc::ClientContext& context, const std::string& token);

}  // namespace ddprun
