// The token is the only proof that either side has of its own: in the handshake each wants to see
// the other's, before anything is said.
#pragma once

#include <grpcpp/security/tls_certificate_verifier.h>

#include <memory>
#include <string>

namespace ddprun {

inline constexpr const char* kUnproven = "the certificate does not prove the token";

// Lets pass whose certificate proves it; others' handshakes end with kUnproven.
std::shared_ptr<grpc::experimental::CertificateVerifier> VerifierOf(const std::string& token);

}  // namespace ddprun
