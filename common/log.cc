#include "common/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <unistd.h>

#include <cstdlib>
#include <memory>

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
  spdlog::default_logger_raw()->log(ToSpdlog(level), "{} | {}", Colored(level, who_said), visible);
}

}  // namespace ddprun
