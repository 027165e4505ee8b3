#include "common/log.h"

#include <signal.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <new>

#include "common/check.h"
#include "common/files.h"
#include "common/line_writer.h"

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

// What is not caught is still at hand in a terminate handler. Only as long as the handler runs.
const char* WhatWasThrown(bool& memory) {
  try {
    throw;
  } catch (const std::bad_alloc& error) {
    memory = true;
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
  bool memory = false;
  const char* const what = std::current_exception() ? WhatWasThrown(memory) : "none";
  char line[1024];
  const int size = std::snprintf(
      line, sizeof line, "%s | %s (%.500s): ddprun ends with %d, and ends what it started; %s\n",
      who_said.empty() ? "ddprun" : who_said.c_str(),
      memory ? "out of memory" : "internal error, an exception that nothing expected", what,
      exit_code_of_exceptions,
      memory ? "is it limited (ulimit -v, memory.max of its cgroup)?"
             : "this is a defect of ddprun");
  (void)!::write(STDERR_FILENO, line, std::min(sizeof line - 1, static_cast<std::size_t>(size)));
  ::_exit(exit_code_of_exceptions);
}

}  // namespace

bool ColorsOnStderr() {
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
  std::shared_ptr<spdlog::sinks::sink> sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  if (LineWriter* const queue = writer) {
    queue->SetName(who);
    sink = std::make_shared<QueueSink>();
  }
  auto logger = std::make_shared<spdlog::logger>("ddprun", std::move(sink));
  logger->set_pattern("%v");
  who_said = who;
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

void Log(LogLevel level, std::string_view text) {
  spdlog::default_logger_raw()->log(ToSpdlog(level), "{} | {}", Colored(level, who_said),
                                    Printable(text));
}

void LogAsIs(std::string_view lines) {
  if (LineWriter* const queue = writer) {
    queue->Put(lines);
  } else {
    (void)WriteAll(STDERR_FILENO, lines, "standard error");
  }
}

void SetLiveLine(std::string_view text) {
  static const bool terminal = ::isatty(STDERR_FILENO) == 1;
  if (LineWriter* const queue = writer; queue != nullptr && terminal) {
    queue->SetLive(Printable(text));
  }
}

}  // namespace ddprun
