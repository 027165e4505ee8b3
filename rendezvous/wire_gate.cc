#include "rendezvous/wire_gate.h"

#include <string_view>
#include <utility>

#include "common/log.h"
#include "rendezvous/control_token.h"

namespace ddprun {
namespace {

constexpr const char* kHeader = "ddprun-token-bin";  // "-bin": any bytes.
constexpr Duration kTellAgainAfter{10'000};

}  // namespace

WireGate::WireGate(Loop& loop, std::string token) : loop_(loop), token_(std::move(token)) {}

grpc::Status WireGate::Check(const grpc::CallbackServerContext& context) {
  if (token_.empty()) {
    return grpc::Status::OK;
  }
  const auto found = context.client_metadata().find(kHeader);
  const bool has_one = found != context.client_metadata().end();
  if (has_one && SameToken({found->second.data(), found->second.size()}, token_)) {
    return grpc::Status::OK;
  }
  ++refused_;
  Tell(context.peer(), !has_one);
  return {grpc::StatusCode::UNAUTHENTICATED,
          has_one ? "this is not the server's token" : "the server wants a token"};
}

void WireGate::Tell(const std::string& peer, bool had_none) {
  loop_.Post([&loop = loop_, told = told_, peer, had_none, count = refused_.load()] {
    if (told->ever && loop.Now() - told->last < kTellAgainAfter) {
      return;
    }
    told->ever = true;
    told->last = loop.Now();
    Log(LogLevel::kWarning, "a call from " + peer.substr(0, 100) + " was refused: " +
                                (had_none ? "it shows no token" : "it shows a wrong token") + " (" +
                                std::to_string(count) + " refused so far)");
  });
}

void ShowToken(grpc::ClientContext& context, const std::string& token) {
  if (!token.empty()) {
    context.AddMetadata(kHeader, token);
  }
}

}  // namespace ddprun
