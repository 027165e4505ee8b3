// TCP for the workers of a check: bytes, and objects of JSON behind their length, each with a
// deadline. Blocks, so only for threads that have nothing else to do.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>

#include "common/endpoint.h"
#include "common/files.h"
#include "common/json.h"

namespace ddprun {

using CheckClock = std::chrono::steady_clock;
using CheckTime = CheckClock::time_point;

inline constexpr std::size_t kMostCheckMessage = std::size_t{64} << 10;

struct CheckMessage {
  nlohmann::json json;  // An object.
};

// What is at that key, if it is of this kind. Who knows a check's number may still say anything.
template <class Value>
Value ValueOr(const nlohmann::json& object, const char* key, Value otherwise) {
  const auto found = object.find(key);
  if (found == object.end()) {
    return otherwise;
  }
  if constexpr (std::is_same_v<Value, bool>) {
    return found->is_boolean() ? found->get<bool>() : otherwise;
  } else if constexpr (std::is_floating_point_v<Value>) {
    return found->is_number() ? found->get<Value>() : otherwise;
  } else if constexpr (std::is_unsigned_v<Value>) {
    const auto number = found->is_number_unsigned() ? found->get<std::uint64_t>() : otherwise;
    return number <= std::numeric_limits<Value>::max() ? static_cast<Value>(number) : otherwise;
  } else {
    return found->is_string() ? found->get<std::string>() : otherwise;
  }
}

Result<UniqueFd> ConnectTo(const Endpoint& endpoint, CheckTime deadline);
// Of those that have come; none: errno says why.
UniqueFd AcceptNow(int listener);

// This side's address.
std::string OwnAddressOf(int socket);

Result<void> SendBytes(int socket, std::string_view bytes, CheckTime deadline);
Result<std::string> ReceiveBytes(int socket, std::size_t size, CheckTime deadline);

Result<void> SendJson(int socket, const nlohmann::json& json, CheckTime deadline);
Result<CheckMessage> ReceiveJson(int socket, CheckTime deadline);

}  // namespace ddprun
