#include "common/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>

namespace ddprun {
namespace {

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

std::string who_said;  // Before the bar.

bool IsSet(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

// What is on the terminal's last line, without a newline.
struct LiveLine {
  std::mutex mutex;
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  std::string text;

  void Clear() const {
    if (!text.empty()) {
      std::fputs("\r\x1b[K", stderr);
      std::fflush(stderr);
    }
  }
  void Draw() const {
    if (!text.empty()) {
      winsize size{};
      const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
      const std::size_t width = known ? size.ws_col - 1u : 79u;
      const std::string line = Printable(text).substr(0, width);
      std::fputs(line.c_str(), stderr);
      std::fflush(stderr);
    }
  }
};

LiveLine& TheLiveLine() {
  static LiveLine line;
  return line;
}

}  // namespace

bool ColorsOnStderr() {
  static const bool colors = [] {
    if (IsSet("NO_COLOR")) {
      return false;
    }
    if (IsSet("CLICOLOR_FORCE") && std::string_view(std::getenv("CLICOLOR_FORCE")) != "0") {
      return true;
    }
    const char* const terminal = std::getenv("TERM");
    return ::isatty(STDERR_FILENO) == 1 && terminal != nullptr &&
           std::string_view(terminal) != "dumb";
  }();
  return colors;
}

std::string Colored(LogLevel level, const std::string& text) {
  if (level < LogLevel::kWarning || !ColorsOnStderr()) {
    return text;
  }
  return (level == LogLevel::kError ? "\033[31m" : "\033[33m") + text + "\033[0m";
}

std::string Printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      out.push_back(c);
    } else if (c == '\n' || c == '\t') {
      out.push_back(c == '\t' ? ' ' : c);
    } else {
      static constexpr char kHex[] = "0123456789abcdef";
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return out;
}

void StartLog(const std::string& who, LogLevel least) {
  auto logger =
      std::make_shared<spdlog::logger>("ddprun", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%v");
  who_said = who;
  logger->set_level(ToSpdlog(least));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

void Log(LogLevel level, std::string_view text) {
  const std::string visible = Printable(text);
  const std::lock_guard lock(TheLiveLine().mutex);
  const bool shown = spdlog::default_logger_raw()->should_log(ToSpdlog(level));
  if (shown) {
    TheLiveLine().Clear();
  }
  spdlog::default_logger_raw()->log(ToSpdlog(level), "{} | {}", Colored(level, who_said), visible);
  if (shown) {
    TheLiveLine().Draw();
  }
}

void SetLiveLine(std::string_view text) {
  LiveLine& line = TheLiveLine();
  const std::lock_guard lock(line.mutex);
  if (line.terminal && text != line.text) {
    line.Clear();
    line.text = text;
    line.Draw();
  }
}

}  // namespace ddprun
