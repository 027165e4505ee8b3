#include "agent/watch/error_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "common/files.h"
#include "common/json.h"

namespace ddprun {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxBytes = 1024 * 1024;
constexpr double kMostSeconds = 1e15;
constexpr std::size_t kEscape = 6;  // Characters: \\uXXXX.
constexpr unsigned kHigh = 0xD800;  // The first half of a UTF-16 pair.
constexpr unsigned kLow = 0xDC00;   // The second half of a UTF-16 pair.

// A number, or the decimal text of one.
std::optional<std::int64_t> Seconds(const json& value) {
  if (value.is_number_float()) {
    const double seconds = value.get<double>();
    const bool possible = std::abs(seconds) <= kMostSeconds;  // Else the conversion is undefined.
    return possible ? std::optional(static_cast<std::int64_t>(seconds)) : std::nullopt;
  }
  if (value.is_number()) {
    return value.get<std::int64_t>();
  }
  if (value.is_string()) {
    const std::string& text = value.get_ref<const std::string&>();
    std::int64_t seconds = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (error == std::errc{} && end != text.data()) {
      return seconds;
    }
  }
  return std::nullopt;
}

// 0: none that could be.
std::int64_t LastMoment(std::int64_t seconds, const std::filesystem::path& path) {
  constexpr std::int64_t kLatest = std::int64_t{1} << 40;
  struct stat info {};
  if (seconds <= 0 || seconds > kLatest || ::stat(path.c_str(), &info) != 0) {
    return 0;
  }
  // Up to a tick of the kernel's clock too early, so that a recorded error comes before an end that
  // was seen in the same moment.
  const std::int64_t written =
      std::int64_t{info.st_mtim.tv_sec} * 1000 + info.st_mtim.tv_nsec / 1'000'000;
  return std::clamp(written, seconds * 1000, seconds * 1000 + 999);
}

// Of the escape at `at`; 0: there is none.
unsigned Utf16At(const std::string& text, std::size_t at) {
  unsigned value = 0;
  if (text.compare(at, 2, "\\u") != 0 || at + kEscape > text.size()) {
    return 0;
  }
  const char* const last = text.data() + at + kEscape;
  const auto [end, error] = std::from_chars(text.data() + at + 2, last, value, 16);
  return error == std::errc{} && end == last ? value : 0;
}

bool IsSurrogate(unsigned value, unsigned first) {
  return value >= first && value < first + 0x400;
}

// Python writes a file's name that is no UTF-8 as halves of a pair (PEP 383), which no JSON may
// hold: they become U+FFFD.
std::string WithoutLoneSurrogates(std::string text) {
  for (std::size_t at = text.find('\\'); at != std::string::npos; at = text.find('\\', at)) {
    const unsigned value = Utf16At(text, at);
    if (IsSurrogate(value, kHigh) && IsSurrogate(Utf16At(text, at + kEscape), kLow)) {
      at += kEscape;
    } else if (IsSurrogate(value, kHigh) || IsSurrogate(value, kLow)) {
      text.replace(at + 2, 4, "fffd");
    }
    at += value != 0 ? kEscape : 2;
  }
  return text;
}

}  // namespace

std::optional<WorkerError> ParseErrorFile(const std::string& text) {
  json file = ParseJson(text);
  if (!file.is_object()) {
    file = ParseJson(WithoutLoneSurrogates(text));
  }
  if (!file.is_object() || !file.contains("message")) {
    return std::nullopt;
  }
  WorkerError error;
  const json& message = file["message"];
  if (message.is_string()) {
    error.message = message.get<std::string>();
    error.timestamp = file.contains("timestamp") ? Seconds(file["timestamp"]) : std::nullopt;
    return error;
  }
  if (!message.is_object()) {
    return std::nullopt;
  }
  error.message = TextIn(message, "message");
  if (const auto extra = message.find("extraInfo"); extra != message.end() && extra->is_object()) {
    error.traceback = TextIn(*extra, "py_callstack");
    error.timestamp = extra->contains("timestamp") ? Seconds((*extra)["timestamp"]) : std::nullopt;
  }
  return error;
}

std::optional<std::string> WithErrorCode(const std::string& text, std::optional<int> exit_code) {
  auto file = ParseJson<nlohmann::ordered_json>(text);
  if (!file.is_object()) {
    return std::nullopt;
  }
  if (exit_code && file.contains("message") && file["message"].is_object()) {
    file["message"]["errorCode"] = *exit_code;
  }
  return file.dump();
}

std::optional<std::string> MakeErrorFile(const FailureDetails& details,
                                         std::optional<int> exit_code) {
  if (details.message.empty() && details.traceback.empty()) {
    return std::nullopt;
  }
  nlohmann::ordered_json message;
  message["message"] = details.message;
  message["extraInfo"]["py_callstack"] = details.traceback;
  message["extraInfo"]["timestamp"] = std::to_string(details.unix_ms / 1000);
  if (exit_code) {
    message["errorCode"] = *exit_code;
  }
  const nlohmann::ordered_json file = {{"message", message}};
  return file.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string ReadErrorFile(const std::filesystem::path& path) {
  const Result<std::string> text = ReadOrdinary(path, kMaxBytes);
  return text ? *text : "";
}

FailureDetails ReadDetails(const std::filesystem::path& path, bool stays) {
  FailureDetails details;
  const std::string text = ReadErrorFile(path);
  if (text.empty()) {
    return details;
  }
  if (stays && path.native().size() <= kMaxPath) {
    details.error_file = path.native();
  }
  const std::optional<WorkerError> error = ParseErrorFile(text);
  if (!error) {
    details.message = "(its error file is not the JSON of @record)";
    return details;
  }
  details.message = error->message.substr(0, kMaxErrorMessage);
  details.unix_ms = error->timestamp ? LastMoment(*error->timestamp, path) : 0;
  details.traceback = error->traceback;
  if (details.traceback.size() > kMaxTraceback) {  // It says the cause last.
    constexpr std::string_view kCut = "...";
    const std::size_t kept = kMaxTraceback - kCut.size();
    details.traceback.replace(0, details.traceback.size() - kept, kCut);
  }
  return details;
}

}  // namespace ddprun
