#include "rendezvous/grpc_proof.h"

#include <functional>
#include <utility>

#include "rendezvous/listener/token_proof.h"

namespace ddprun {
namespace {

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

}  // namespace

std::shared_ptr<grpc::experimental::CertificateVerifier> VerifierOf(const std::string& token) {
  return grpc::experimental::ExternalCertificateVerifier::Create<ProofOfToken>(token);
}

}  // namespace ddprun
