#include "common/log.h"

#include <signal.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/system/system_error.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <system_error>

#include "common/check.h"
#include "common/files.h"
#include "common/line_writer.h"
#include "common/wall_clock.h"

namespace ddprun {
namespace {

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  static_assert(static_cast<int>(LogLevel::kError) + 1 == spdlog::level::err);
  return static_cast<spdlog::level::level_enum>(static_cast<int>(level) + 1);
}

std::string who_said;  // Before the bar.
LogFormat log_format = LogFormat::kText;
bool shows_live_line = true;

const char* WordOf(LogLevel level) {
  constexpr const char* kWords[] = {"debug", "info", "warning", "error"};
  return kWords[static_cast<int>(level)];
}

// "warning: " before a line's text.
std::string MarkOf(LogLevel level) {
  return level < LogLevel::kWarning ? "" : std::string(WordOf(level)) + ": ";
}

std::string InJson(LogLevel level, std::string_view text) {
  using Json = nlohmann::ordered_json;
  const Json line{{"unix_time", static_cast<double>(UnixMilliseconds()) / 1000.0},
                  {"level", WordOf(level)},
                  {"who", who_said.empty() ? "ddprun" : who_said},
                  {"text", text}};
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool IsSet(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

constexpr std::size_t kRoom = 1024 * 1024;  // Ten thousand lines.

// Set once, and never destroyed: its thread may be stuck when the process ends.
std::atomic<LineWriter*> writer = nullptr;

class QueueSink final : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    writer.load()->Put({line.data(), line.size()});
  }
  void flush_() override {}
};

constexpr Duration kLastFlush{500};
int exit_code_of_exceptions = 1;

// An exception that is not caught can still be read in a terminate handler. Only as long as the
// handler runs.
struct Thrown {
  const char* what = "none";
  const char* kind = "internal error, an exception that nothing expected";
  const char* hint = "this is a defect of ddprun";
};

void Explain(const std::error_code& code, Thrown& thrown) {
  if (code == std::errc::resource_unavailable_try_again) {
    thrown.kind = "cannot start a thread";
    thrown.hint = "are processes limited (ulimit -u, pids.max of its cgroup)? [process-limit]";
  } else if (code == std::errc::too_many_files_open) {
    thrown.kind = "too many open files";
    thrown.hint =
        "raise the limit (ulimit -n), or start fewer workers on this node [descriptor-limit]";
  }
}

const char* WhatWasThrown(Thrown& thrown) {
  try {
    throw;
  } catch (const std::bad_alloc& error) {
    thrown.kind = "out of memory";
    thrown.hint = "is it limited (ulimit -v, memory.max of its cgroup)?";
    return error.what();
  } catch (const std::system_error& error) {
    Explain(error.code(), thrown);
    return error.what();
  } catch (const boost::system::system_error& error) {  // No std::system_error: Asio throws it.
    Explain(error.code(), thrown);
    return error.what();
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "of an unknown type";
  }
}

[[noreturn]] void SayWhatWasThrown() {
  static std::atomic_flag begun;
  while (begun.test_and_set()) {
    ::pause();  // Another thread is at it.
  }
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGALRM, [](int) { ::_exit(exit_code_of_exceptions); });
  sigset_t alarm;
  ::sigemptyset(&alarm);
  ::sigaddset(&alarm, SIGALRM);
  ::pthread_sigmask(SIG_UNBLOCK, &alarm, nullptr);
  ::alarm(2);
  FlushLog(kLastFlush);
  Thrown thrown;
  if (std::current_exception()) {
    thrown.what = WhatWasThrown(thrown);
  }
  char line[1024];
  const int size =
      std::snprintf(line, sizeof line,
                    "%s | error: %s (%.500s): ddprun ends with %d, and ends what it started; %s\n",
                    who_said.empty() ? "ddprun" : who_said.c_str(), thrown.kind, thrown.what,
                    exit_code_of_exceptions, thrown.hint);
  (void)!::write(STDERR_FILENO, line, std::min(sizeof line - 1, static_cast<std::size_t>(size)));
  ::_exit(exit_code_of_exceptions);
}

// Of Unicode's controls those that make a line look like another one, in pages too: directions
// (UAX 9) and line separators.
bool Reorders(std::string_view character) {
  const auto last = static_cast<unsigned char>(character.back());
  if (character.starts_with("\xe2\x80")) {
    return last == 0x8e || last == 0x8f || (last >= 0xa8 && last <= 0xae);
  }
  return (character.starts_with("\xe2\x81") && last >= 0xa6 && last <= 0xa9) ||
         character == "\xd8\x9c";
}

// Bytes of the character of UTF-8 that `text` begins with, beyond ASCII; 0: it is none, or a
// control character that terminals obey (C1) or that reorders the line.
std::size_t CharacterAt(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t size = at(0) < 0xc2   ? 0
                           : at(0) < 0xe0 ? 2
                           : at(0) < 0xf0 ? 3
                           : at(0) < 0xf5 ? 4
                                          : 0;
  if (size == 0 || text.size() < size) {
    return 0;
  }
  for (std::size_t i = 1; i < size; ++i) {
    if ((at(i) & 0xc0) != 0x80) {
      return 0;
    }
  }
  return (at(0) == 0xc2 && at(1) < 0xa0) || Reorders(text.substr(0, size)) ? 0 : size;
}

}  // namespace

bool ColorsOnStderr() {
  if (log_format == LogFormat::kJson) {
    return false;
  }
  static const bool colors = [] {
    if (IsSet("NO_COLOR")) {
      return false;
    }
    const char* const forced = std::getenv("CLICOLOR_FORCE");
    if (forced != nullptr && *forced != '\0' && std::string_view(forced) != "0") {
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

std::string Heading(LogLevel level, const std::string& name) {
  const bool plain = level < LogLevel::kWarning;
  return Colored(level, name + (plain ? ":" : std::string(": ") + WordOf(level) + ":"));
}

std::string Printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const std::size_t size = byte < 0x80 ? 1 : CharacterAt(text.substr(at));
    if (size > 0 && byte >= 0x20 && byte != 0x7f) {
      out += text.substr(at, size);
    } else if (byte == '\n' || byte == '\t') {
      out.push_back(byte == '\t' ? ' ' : '\n');
    } else {
      static constexpr char kHex[] = "0123456789abcdef";
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
    at += std::max<std::size_t>(size, 1);
  }
  return out;
}

std::string PrintableLine(std::string_view text) {
  std::string line = Printable(text);
  for (std::size_t at = 0; (at = line.find('\n', at)) != std::string::npos;) {
    line.replace(at, 1, "\\n");
  }
  return line;
}

std::string InOneLine(std::string_view text) {
  constexpr std::size_t kMostHead = 2000;
  constexpr std::size_t kMostTail = 1000;  // The work to do stands there.
  if (text.size() <= kMostHead + kMostTail) {
    return PrintableLine(text);
  }
  const std::size_t cut = text.size() - kMostHead - kMostTail;
  return PrintableLine(text.substr(0, kMostHead)) + " ... (" + std::to_string(cut) +
         " bytes more) ... " + PrintableLine(text.substr(text.size() - kMostTail));
}

void StartLog(const std::string& who, LogLevel least) {
  std::shared_ptr<spdlog::sinks::sink> sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  if (LineWriter* const queue = writer) {
    queue->SetWording([who](const std::string& text) {
      const LogLevel level = LogLevel::kWarning;
      return InLogFormat(level, text, who + " | " + MarkOf(level) + text + "\n");
    });
    sink = std::make_shared<QueueSink>();
  }
  auto logger = std::make_shared<spdlog::logger>("ddprun", std::move(sink));
  logger->set_pattern("%v");
  who_said = who;
  shows_live_line = least <= LogLevel::kInfo;
  logger->set_level(ToSpdlog(least));
  logger->flush_on(spdlog::level::trace);
  logger->set_error_handler([](const std::string&) { throw; });  // Memory that cannot be had.
  spdlog::set_default_logger(std::move(logger));
}

void QueueLog() {
  CHECK(writer == nullptr);
  writer = new LineWriter(STDERR_FILENO, kRoom);
}

void EndOnException(int exit_code) {
  exit_code_of_exceptions = exit_code;
  std::set_terminate(SayWhatWasThrown);
}

bool FlushLog(Duration limit) {
  LineWriter* const queue = writer;
  return queue == nullptr || queue->Flush(limit);
}

void SetLogFormat(LogFormat format) {
  log_format = format;
}

void Log(LogLevel level, std::string_view text) {
  spdlog::logger* const logger = spdlog::default_logger_raw();
  if (log_format == LogFormat::kText) {
    logger->log(ToSpdlog(level), "{} | {}{}", Colored(level, who_said), MarkOf(level),
                PrintableLine(text));
  } else if (logger->should_log(ToSpdlog(level))) {
    logger->log(ToSpdlog(level), "{}", InJson(level, text));
  }
}

void LogReport(LogLevel level, std::string_view lines) {
  LogAsIs(InLogFormat(level, lines, std::string(lines)));
}

std::string InLogFormat(LogLevel level, std::string_view text, const std::string& plain) {
  return log_format == LogFormat::kText ? plain : InJson(level, text) + "\n";
}

void Announce(LogLevel level, std::string_view text) {
  const std::string before = level < LogLevel::kWarning ? "ddprun |" : Heading(level, "ddprun");
  LogAsIs(InLogFormat(level, text, before + " " + Printable(text) + "\n"));
}

void LogAsIs(std::string_view lines) {
  if (LineWriter* const queue = writer) {
    queue->Put(lines);
  } else {
    (void)WriteAll(STDERR_FILENO, lines, "standard error");
  }
}

void EraseBelowLog() {
  if (LineWriter* const queue = writer; queue != nullptr && ::isatty(STDERR_FILENO) == 1) {
    queue->EraseBelow();
  }
}

void SetLiveLine(std::string_view text) {
  static const bool terminal = ::isatty(STDERR_FILENO) == 1;
  if (LineWriter* const queue = writer;
      queue != nullptr && terminal && shows_live_line && log_format == LogFormat::kText) {
    queue->SetLive(PrintableLine(text));
  }
}

}  // namespace ddprun
