#include "agent/error_file.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "common/files.h"

namespace ddprun {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxBytes = 1024 * 1024;

// A number, or the decimal text of one.
std::optional<std::int64_t> Seconds(const json& value) {
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

std::string Text(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

std::optional<WorkerError> ParseErrorFile(const std::string& text) {
  const json file = json::parse(text, nullptr, false);
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
  error.message = Text(message, "message");
  if (const auto extra = message.find("extraInfo"); extra != message.end() && extra->is_object()) {
    error.traceback = Text(*extra, "py_callstack");
    error.timestamp = extra->contains("timestamp") ? Seconds((*extra)["timestamp"]) : std::nullopt;
  }
  return error;
}

std::optional<std::string> WithErrorCode(const std::string& text, int exit_code) {
  nlohmann::ordered_json file = nlohmann::ordered_json::parse(text, nullptr, false);
  if (!file.is_object()) {
    return std::nullopt;
  }
  if (file.contains("message") && file["message"].is_object()) {
    file["message"]["errorCode"] = exit_code;
  }
  return file.dump();
}

std::string ReadErrorFile(const std::filesystem::path& path) {
  const Result<std::string> text = ReadFile(path, kMaxBytes);
  return text ? *text : "";
}

}  // namespace ddprun
