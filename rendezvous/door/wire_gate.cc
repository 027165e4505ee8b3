#include "rendezvous/door/wire_gate.h"

#include <grpc/grpc_security_constants.h>

#include <string_view>
#include <utility>

#include "rendezvous/door/control_token.h"

namespace ddprun {
namespace {

constexpr const char* kTokenHeader = "ddprun-token-bin";  // "-bin": any bytes.

bool IsEncrypted(const grpc::CallbackServerContext& context) {
  const auto context_of_peer = context.auth_context();
  if (!context_of_peer) {
    return false;
  }
  const auto kind = context_of_peer->FindPropertyValues(GRPC_TRANSPORT_SECURITY_TYPE_PROPERTY_NAME);
  return kind.size() == 1 && kind.front() == GRPC_SSL_TRANSPORT_SECURITY_TYPE;
}

}  // namespace

WireGate::WireGate(Loop& loop, std::string token, bool tls)
    : loop_(loop),
      token_(std::move(token)),
      tls_(tls),
      lines_(std::make_shared<FewLogLines>(loop)) {}

grpc::Status WireGate::Check(const grpc::CallbackServerContext& context) {
  const bool encrypted = IsEncrypted(context);
  if (tls_ && !encrypted) {
    ++refused_;
    Tell(context.peer(), "it came in the clear");
    return {grpc::StatusCode::UNAUTHENTICATED, kTlsWanted};
  }
  if (token_.empty()) {
    return grpc::Status::OK;
  }
  const auto found = context.client_metadata().find(kTokenHeader);
  // Who shows one in the clear, to whoever listens, has not seen that this server has it.
  const bool has_one = encrypted && found != context.client_metadata().end();
  if (has_one && SameToken({found->second.data(), found->second.size()}, token_)) {
    return grpc::Status::OK;
  }
  ++refused_;
  Tell(context.peer(), has_one ? "it shows a wrong token" : "it shows no token");
  return {grpc::StatusCode::UNAUTHENTICATED,
          has_one ? "this is not the server's token" : "the server wants a token"};
}

void WireGate::Tell(const std::string& peer, const char* why) {
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
