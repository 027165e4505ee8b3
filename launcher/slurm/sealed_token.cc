#include "launcher/slurm/sealed_token.h"

#include <string_view>

#include "common/slug.h"
#include "launcher/slurm/munge.h"
#include "rendezvous/listener/control_token.h"
#include "rendezvous/listener/hello.h"

namespace ddprun {
namespace {

constexpr std::string_view kPurpose = "ddprun token 2\n";

Result<std::string> OpenSealedToken(const std::string& sealed) {
  ASSIGN_OR_RETURN(const std::string text, OpenByMunge(sealed));
  if (!text.starts_with(kPurpose) || text.size() < kPurpose.size() + kLeastToken) {
    return Error{ErrorKind::kInvalid, "the sealed text is not a token"};
  }
  return text.substr(kPurpose.size());
}

}  // namespace

SealedToken DrawSealedToken() {
  const std::string token = DrawToken();
  const Result<std::string> sealed = SealByMunge(std::string(kPurpose) + token);
  if (!sealed) {
    return {"", "", WithoutSlug(sealed.error().message)};
  }
  // In a container with users of its own MUNGE knows this process by another number.
  const Result<std::string> opened = OpenSealedToken(*sealed);
  if (!opened) {
    return {"", "",
            "MUNGE cannot open here what it has sealed: " + WithoutSlug(opened.error().message)};
  }
  return {token, *sealed, ""};
}

Result<std::string> TokenSealedAt(const Endpoint& endpoint, Duration patience) {
  const Result<std::string> sealed = AskSealed(endpoint, patience);
  if (!sealed || sealed->empty()) {
    return std::string();
  }
  Result<std::string> token = OpenSealedToken(*sealed);
  if (!token) {
    return Error{token.error().kind,
                 "the rendezvous at " + ToString(endpoint) + " wants a token: " +
                     Continue(token.error().message, ". Set --token-file=FILE or DDPRUN_TOKEN")};
  }
  return token;
}

}  // namespace ddprun
