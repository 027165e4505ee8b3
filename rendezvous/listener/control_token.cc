#include "rendezvous/listener/control_token.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "common/files.h"
#include "common/ids.h"

namespace ddprun {
namespace {

constexpr std::size_t kMaxTokenFile = 4096;

Error CannotReadToken(const std::filesystem::path& path, int error_number) {
  Error error = SystemError("read the token file", path.native(), error_number);
  error.kind = ErrorKind::kInvalid;
  return error;
}

Result<std::string> TokenIn(int fd, const std::filesystem::path& path) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    return CannotReadToken(path, errno);
  }
  if (!S_ISREG(info.st_mode)) {
    return Invalid(
        "a token file must be an ordinary file, because ddprun reads it more than once (or set "
        "DDPRUN_TOKEN to the token)",
        path.native());
  }
  if ((info.st_mode & 077) != 0) {
    Error error =
        Invalid("a token file must be readable by its owner alone (chmod 600)", path.native());
    error.message += " [token-permissions]";
    return error;
  }
  if (info.st_uid != ::geteuid() && info.st_uid != 0) {
    return Invalid("a token file must belong to this user or to root", path.native());
  }
  ASSIGN_OR_RETURN(std::string token, ReadToEnd(fd, path, kMaxTokenFile));
  token.erase(std::min(token.find_first_of("\r\n"), token.size()));
  if (token.size() < kLeastToken) {
    return Invalid("the token in the file must have at least 16 characters", path.native());
  }
  return token;
}

}  // namespace

bool SameToken(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) {
    return false;
  }
  volatile unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = difference | static_cast<unsigned char>(a[i] ^ b[i]);
  }
  return difference == 0;
}

std::string DrawToken() {
  std::string token;
  for (int i = 0; i < 4; ++i) {
    token += Hex(RandomBits());
  }
  return token;
}

Result<std::string> ReadTokenFile(const std::filesystem::path& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!fd) {
    return CannotReadToken(path, errno);
  }
  return TokenIn(fd.get(), path);
}

Result<std::string> ReadOrdinaryTokenFile(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const UniqueFd fd, OpenOrdinary(path, O_RDONLY, 0));
  return TokenIn(fd.get(), path);
}

Result<void> WriteTokenFile(const std::filesystem::path& path, const std::string& token) {
  const UniqueFd fd(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd) {
    return SystemError("make the token file", path.native(), errno);
  }
  return WriteAll(fd.get(), token + "\n", path);
}

Result<void> ControlToken::Check(std::string_view given) {
  if (!enabled()) {
    return Error{ErrorKind::kRefused,
                 "this server refuses drain and stop, because it has no token. Start it with "
                 "--token-file=FILE or DDPRUN_TOKEN [no-control-verbs]"};
  }
  if (SameToken(given, token_)) {
    return {};
  }
  ++refused_;
  return Error{ErrorKind::kRefused,
               given.empty() ? "this needs a token. Set --token-file=FILE or DDPRUN_TOKEN (the "
                               "node that hosts the server has it in its run directory)"
                             : "this is not the server's token"};
}

}  // namespace ddprun
