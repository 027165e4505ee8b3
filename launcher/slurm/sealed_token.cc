#include "launcher/slurm/sealed_token.h"

#include <unistd.h>

#include <chrono>
#include <functional>
#include <string_view>
#include <utility>

#include "common/log.h"
#include "launcher/slurm/munge.h"
#include "rendezvous/door/control_token.h"
#include "rendezvous/door/hello.h"

namespace ddprun {
namespace {

constexpr std::string_view kPurpose = "ddprun token 1\n";
constexpr Duration kHungPatience{12'000};

// A daemon that hangs, as one does while its disk or its name service does, is asked again: nodes
// whose own answers call no server without a token.
template <class T>
Result<T> AskPatiently(const std::function<Result<T>()>& ask) {
  const auto begin = std::chrono::steady_clock::now();
  for (bool told = false;;) {
    Result<T> answer = ask();
    if (answer || answer.error().kind != ErrorKind::kUnavailable) {
      return answer;
    }
    if (std::chrono::steady_clock::now() >= begin + kHungPatience) {
      return Error{ErrorKind::kUnavailable,
                   "MUNGE does not answer within " + FormatDuration(kHungPatience)};
    }
    if (!std::exchange(told, true)) {
      Log(LogLevel::kWarning, answer.error().message + ": trying for " +
                                  FormatDuration(kHungPatience) + " (a token of yours, " +
                                  "--token-file=FILE, or --insecure does without)");
    }
  }
}

SealedToken DrawSealedFor(const RunId& run) {
  SealedToken drawn{DrawToken(), "", ""};
  const std::string text = std::string(kPurpose) + run + "\n" + drawn.token + "\n";
  const Result<std::string> sealed = AskPatiently<std::string>([&] { return SealByMunge(text); });
  if (!sealed) {
    return {"", "", sealed.error().message};
  }
  // In a container with users of its own MUNGE knows this process by another number.
  const Result<std::string> opened =
      AskPatiently<std::string>([&] { return OpenSealedToken(*sealed, run); });
  if (!opened || *opened != drawn.token) {
    return {"", "",
            opened ? "MUNGE opens another text than it has sealed"
                   : "what it sealed does not open here: " + opened.error().message};
  }
  drawn.sealed = *sealed;
  return drawn;
}

template <class Config>
bool WantsSealedToken(const Config& config, const Access& access) {
  return config.in_slurm_job && access.token.empty() && !config.tls.any() && !config.insecure;
}

}  // namespace

SealedToken DrawSealedToken(const LaunchConfig& config, const Access& access) {
  return WantsSealedToken(config, access) ? DrawSealedFor(config.run_id) : SealedToken{};
}

SealedToken DrawSealedToken(const ServerConfig& config, const Access& access) {
  return WantsSealedToken(config, access) ? DrawSealedFor("") : SealedToken{};
}

Result<std::string> OpenSealedToken(const std::string& sealed, const RunId& run) {
  ASSIGN_OR_RETURN(const MungeText opened, OpenByMunge(sealed));
  if (opened.sealed_by != ::geteuid()) {
    return Error{ErrorKind::kRefused, "user " + std::to_string(opened.sealed_by) +
                                          " has sealed the token, not user " +
                                          std::to_string(::geteuid()) + " as here"};
  }
  std::string_view text = opened.text;
  const std::size_t end = text.find('\n', kPurpose.size());
  if (!text.starts_with(kPurpose) || end == text.npos || !text.ends_with('\n')) {
    return Error{ErrorKind::kInvalid, "what was sealed is no token"};
  }
  const std::string_view of = text.substr(kPurpose.size(), end - kPurpose.size());
  if (!of.empty() && !run.empty() && of != run) {
    return Error{ErrorKind::kRefused,
                 "the token that was sealed is of the run '" + std::string(of) + "'"};
  }
  text.remove_prefix(end + 1);
  text.remove_suffix(1);
  if (text.size() < kLeastToken) {
    return Error{ErrorKind::kInvalid, "what was sealed is no token"};
  }
  return std::string(text);
}

Result<std::string> TokenSealedAt(const Endpoint& endpoint, const RunId& run, Duration patience) {
  const Result<std::string> sealed = AskSealed(endpoint, patience);
  if (!sealed || sealed->empty()) {
    return std::string();
  }
  Result<std::string> token = OpenSealedToken(*sealed, run);
  if (!token) {
    const bool later = token.error().kind == ErrorKind::kUnavailable;
    return Error{later ? ErrorKind::kUnavailable : ErrorKind::kInvalid,
                 "the rendezvous at " + ToString(endpoint) + " wants a token: " +
                     token.error().message + "; give it with --token-file=FILE or DDPRUN_TOKEN"};
  }
  return token;
}

}  // namespace ddprun
