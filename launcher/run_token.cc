#include "launcher/run_token.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/files.h"
#include "launcher/node_slot.h"
#include "rendezvous/door/control_token.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "token";

// `flag`: where the place is from; empty: from this user.
Error Explained(Error error, const char* flag) {
  error.message += std::string(" (") + flag +
                   "for a token that this run's nodes share; --token-file=FILE gives them one, and "
                   "--insecure goes without)";
  error.kind = ErrorKind::kInvalid;
  return error;
}

// A file beside its place, with the token in it.
Result<std::string> WriteBeside(const fs::path& file, const std::string& token) {
  std::string name = (file.parent_path() / ".token-XXXXXX").native();
  const UniqueFd fd(::mkostemp(name.data(), O_CLOEXEC));  // Mode 0600.
  if (!fd) {
    return SystemError("make a file for the run's token", name, errno);
  }
  Result<void> written = WriteAll(fd.get(), token + "\n", name);
  if (written && ::fsync(fd.get()) != 0) {
    written = SystemError("write the run's token to", name, errno);
  }
  if (!written) {
    ::unlink(name.c_str());
    return written.error();
  }
  return name;
}

template <class Config>
Result<void> FindTokenOf(Config& config, const Endpoint& meet) {
  const bool given = !config.token.empty() || !config.token_file.empty() || config.tls.any();
  if (given || config.insecure || (config.run_dir.empty() && !IsLoopback(meet.host))) {
    return {};
  }
  const bool own = config.run_dir.empty();
  const Result<fs::path> directory = own ? UserDirectory() : fs::path(config.run_dir);
  const Result<std::string> shared =
      directory ? ShareToken(*directory / kName) : Result<std::string>(directory.error());
  if (!shared) {
    return Explained(shared.error(), own ? "" : "--run-dir, ");
  }
  config.token_file = *shared;
  return {};
}

}  // namespace

Result<std::string> ShareToken(const fs::path& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) == 0) {
    return S_ISREG(info.st_mode)  // Else reading it might never end.
               ? Result<std::string>(file.native())
               : Invalid("what lies in the place of the run's token is no file", file.native());
  }
  RETURN_IF_ERROR(MakeDirectories(file.parent_path(), 0700));
  ASSIGN_OR_RETURN(const std::string beside, WriteBeside(file, DrawToken()));
  const int failed = ::link(beside.c_str(), file.c_str()) == 0 || errno == EEXIST ? 0 : errno;
  ::unlink(beside.c_str());
  if (failed != 0) {
    return SystemError("give the run's token its name", file.native(), failed);
  }
  return file.native();
}

Result<void> FindToken(LaunchConfig& config) {
  if (config.standalone) {
    return {};
  }
  return FindTokenOf(config, config.endpoint);
}

Result<void> FindToken(ServerConfig& config) {
  return FindTokenOf(config, config.listen);
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
