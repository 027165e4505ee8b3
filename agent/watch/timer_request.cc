#include "agent/watch/timer_request.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "common/json.h"

namespace ddprun {
namespace {

constexpr std::size_t kMaxScope = 1024;
constexpr int kLastSignal = 64;

}  // namespace

std::optional<TimerRequest> ParseTimerRequest(std::string_view line) {
  const nlohmann::json json = ParseJson(line);
  if (!json.is_object()) {
    return std::nullopt;
  }
  const auto field = [&](const char* name) {
    const auto found = json.find(name);
    return found == json.end() ? nlohmann::json() : *found;
  };
  const nlohmann::json pid = field("pid");
  const nlohmann::json scope = field("scope_id");
  const nlohmann::json expires = field("expiration_time");
  const nlohmann::json signal = field("signal");
  if (!pid.is_number_integer() || !scope.is_string() || !expires.is_number() ||
      !signal.is_number_integer()) {
    return std::nullopt;
  }
  TimerRequest request{pid.get<std::int64_t>(), scope.get<std::string>(), expires.get<double>(), 0};
  const auto number = signal.get<std::int64_t>();
  if (request.pid <= 0 || request.scope.size() > kMaxScope || !std::isfinite(request.expires) ||
      number > kLastSignal) {
    return std::nullopt;
  }
  request.signal = number > 0 ? static_cast<int>(number) : 0;
  return request;
}

}  // namespace ddprun
