#include "launcher/run_token.h"

#include <sys/stat.h>

#include "common/files.h"
#include "common/slug.h"
#include "launcher/node_slot.h"
#include "rendezvous/listener/control_token.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "token";

// `flag`: where the place is from; empty: from this user.
Error Explained(Error error, const char* flag) {
  error.message =
      Continue(error.message, std::string(" (") + flag +
                                  "for a token that this run's nodes share). Set "
                                  "--token-file=FILE, or --insecure for a run without a token");
  error.kind = ErrorKind::kInvalid;
  return error;
}

}  // namespace

Result<std::string> ShareToken(const fs::path& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) == 0) {
    return S_ISREG(info.st_mode)  // Else reading it might never end.
               ? Result<std::string>(file.native())
               : Invalid("the path of the run's token is not a file", file.native());
  }
  RETURN_IF_ERROR(MakeDirectories(file.parent_path(), 0700));
  ASSIGN_OR_RETURN(const fs::path made, WriteTemporary(file.parent_path(), DrawToken() + "\n"));
  RETURN_IF_ERROR(LinkTemporary(made, file));  // Taken: another node's token is there.
  return file.native();
}

Result<void> FindToken(AccessFlags& flags, const Endpoint& meet) {
  const bool given = !flags.token.empty() || !flags.token_file.empty() || flags.tls.any();
  if (given || flags.insecure || (flags.run_dir.empty() && !IsLoopback(meet.host))) {
    return {};
  }
  const bool own = flags.run_dir.empty();
  const Result<fs::path> directory = own ? UserDirectory() : fs::path(flags.run_dir);
  const Result<std::string> shared =
      directory ? ShareToken(*directory / kName) : Result<std::string>(directory.error());
  if (!shared) {
    return Explained(shared.error(), own ? "" : "--run-dir, ");
  }
  flags.token_file = *shared;
  return {};
}

std::string TokenSharedAt(const Endpoint& endpoint) {
  if (!IsLoopback(endpoint.host)) {
    return "";
  }
  const Result<fs::path> directory = UserDirectory();
  const Result<std::string> token = directory ? ReadOrdinaryTokenFile(*directory / kName)
                                              : Result<std::string>(directory.error());
  return token ? *token : "";
}

}  // namespace ddprun
