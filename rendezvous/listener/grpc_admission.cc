#include "rendezvous/listener/grpc_admission.h"

#include <string_view>
#include <utility>

#include "rendezvous/listener/control_token.h"

namespace ddprun {
namespace {

constexpr const char* kTokenHeader = "ddprun-token-bin";  // "-bin": any bytes.

constexpr const char* kTokenWanted = "the server wants a token";

}  // namespace

CallAdmission::CallAdmission(Loop& loop, std::string token, bool tls)
    : loop_(loop),
      token_(std::move(token)),
      tls_(tls),
      lines_(std::make_shared<RateLimitedLog>(loop)) {}

grpc::Status CallAdmission::Check(const grpc::CallbackServerContext& context) {
  if (token_.empty()) {
    return grpc::Status::OK;
  }
  const auto found = context.client_metadata().find(kTokenHeader);
  const bool has_one = found != context.client_metadata().end();
  if (has_one && SameToken({found->second.data(), found->second.size()}, token_)) {
    return grpc::Status::OK;
  }
  ++refused_;
  Tell(context.peer(), has_one ? "its token is wrong" : "it has no token");
  return {grpc::StatusCode::UNAUTHENTICATED,
          has_one ? "this is not the server's token" : kTokenWanted};
}

std::string CallAdmission::RefusalInTheClear() const {
  return tls_ ? kTlsWanted : token_.empty() ? "" : kTokenWanted;
}

void CallAdmission::NoteInTheClear(const std::string& peer) {
  ++refused_;
  Tell(peer, tls_ ? "it did not use TLS" : "it has no token");
}

void CallAdmission::Tell(const std::string& peer, const char* why) {
  loop_.Post([lines = lines_, peer, why, count = refused_.load()] {
    lines->Say(LogLevel::kWarning, std::string("a call was refused: ") + why,
               "a call from " + peer.substr(0, 100) + " was refused: " + why + " (" +
                   std::to_string(count) + " refused so far)");
  });
}

void ShowToken(grpc::ClientContext& context, const std::string& token) {
  if (!token.empty()) {
    context.AddMetadata(kTokenHeader, token);
  }
}

}  // namespace ddprun
