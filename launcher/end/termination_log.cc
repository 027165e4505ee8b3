#include "launcher/end/termination_log.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "common/files.h"
#include "common/log.h"

namespace ddprun {
namespace {

Result<void> Write(const std::filesystem::path& file, const std::string& text) {
  const UniqueFd fd(::open(file.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0) {
    return SystemError("open", file.native(), errno);
  }
  if (!S_ISREG(info.st_mode)) {
    return Invalid("the termination log is not an ordinary file", file.native());
  }
  if (::ftruncate(fd.get(), 0) != 0) {
    return SystemError("empty", file.native(), errno);
  }
  return WriteAll(fd.get(), text, file);
}

}  // namespace

std::string TerminationText(const Finish& finish) {
  std::string text = finish.text + "\n";
  if (finish.root) {
    const FailureDetails& details = finish.root->details;
    text += details.message + (details.message.empty() ? "" : "\n");
    const std::string& end =
        details.traceback.empty() ? finish.root->last_lines : details.traceback;
    const std::size_t room = kMaxTerminationLog - std::min(text.size(), kMaxTerminationLog);
    text += end.substr(end.size() - std::min(end.size(), room));  // The cause comes last.
  }
  return text.substr(0, kMaxTerminationLog);
}

std::function<void()> TerminationLogWriter(const std::string& text, const GetEnv& get_env,
                                           const std::filesystem::path& file) {
  if (text.empty() || !get_env("KUBERNETES_SERVICE_HOST") ||
      get_env("TORCHELASTIC_ERROR_FILE") == file.native()) {
    return nullptr;
  }
  return [text, file] {
    std::error_code none;
    if (!std::filesystem::exists(file, none)) {
      return;
    }
    if (const Result<void> written = Write(file, text); !written) {
      Log(LogLevel::kWarning, written.error().message);
    }
  };
}

void SayTerminationLogHangs() {
  Log(LogLevel::kWarning,
      "cannot write '" + std::string(kTerminationLog) + "': its file system is not responding");
}

}  // namespace ddprun
