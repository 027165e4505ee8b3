#include "launcher/termination_log.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cerrno>
#include <future>
#include <memory>

#include "common/files.h"
#include "common/log.h"

namespace ddprun {
namespace {

constexpr Duration kLimit{500};

Result<void> Write(const std::filesystem::path& file, const std::string& text) {
  const UniqueFd fd(::open(file.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0) {
    return SystemError("open", file.native(), errno);
  }
  if (!S_ISREG(info.st_mode)) {
    return Invalid("the termination log is no ordinary file", file.native());
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

void WriteTerminationLog(const std::string& text, const GetEnv& get_env,
                         const std::filesystem::path& file) {
  std::error_code none;
  if (text.empty() || !get_env("KUBERNETES_SERVICE_HOST") ||
      get_env("TORCHELASTIC_ERROR_FILE") == file.native() || !std::filesystem::exists(file, none)) {
    return;
  }
  // A thread of its own, left behind where the disk does not answer.
  auto thread = std::make_unique<boost::asio::thread_pool>(1);
  const auto written = std::make_shared<std::promise<Result<void>>>();
  std::future<Result<void>> outcome = written->get_future();
  boost::asio::post(*thread, [written, text, file] { written->set_value(Write(file, text)); });
  if (outcome.wait_for(kLimit) != std::future_status::ready) {
    (void)thread.release();
    Log(LogLevel::kWarning, "cannot write '" + file.native() + "': its disk does not answer");
  } else if (const Result<void> result = outcome.get(); !result) {
    Log(LogLevel::kWarning, result.error().message);
  }
}

}  // namespace ddprun
