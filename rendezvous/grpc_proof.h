// The token is the only proof that either side has of its own: in the handshake each wants to see
// the other's, before anything is said.
#pragma once

#include <grpcpp/security/tls_certificate_verifier.h>

#include <functional>
#include <string>
#include <utility>

#include "rendezvous/door/token_proof.h"

namespace ddprun {

inline constexpr const char* kUnproven = "the certificate does not prove the token";

class ProofOfToken final : public grpc::experimental::ExternalCertificateVerifier {
 public:
  explicit ProofOfToken(std::string token) : token_(std::move(token)) {}

  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)>, grpc::Status* result) override {
    const grpc::string_ref certificate = request->peer_cert();
    if (!ProvesToken({certificate.data(), certificate.size()}, token_)) {
      *result = {grpc::StatusCode::UNAUTHENTICATED, kUnproven};
    }
    return true;
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {}

 private:
  const std::string token_;
};

}  // namespace ddprun
