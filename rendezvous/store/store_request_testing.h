// For tests: the requests that only workers send.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/store/store_request.h"

namespace ddprun::wire {

inline std::string CompareSet(std::string_view key, std::string_view expected,
                              std::string_view desired) {
  return Op(2) + Text(key) + Text(expected) + Text(desired);
}
inline std::string Add(std::string_view key, std::int64_t delta) {
  return Op(4) + Text(key) + Raw(delta);
}
inline std::string Check(const std::vector<std::string>& keys) {
  return Keys(5, keys);
}
inline std::string GetNumKeys() {
  return Op(7);
}
inline std::string DeleteKey(std::string_view key) {
  return Op(8) + Text(key);
}
inline std::string Append(std::string_view key, std::string_view value) {
  return Op(9) + Text(key) + Text(value);
}
inline std::string MultiGet(const std::vector<std::string>& keys) {
  return Keys(10, keys);
}
inline std::string MultiSet(const std::vector<std::string>& keys_and_values) {
  std::string bytes = Op(11) + Raw(std::uint64_t{keys_and_values.size() / 2});
  for (const std::string& text : keys_and_values) {
    bytes += Text(text);
  }
  return bytes;
}
inline std::string CancelWait() {
  return Op(12);
}
inline std::string QueuePush(std::string_view key, std::string_view value) {
  return Op(14) + Text(key) + Text(value);
}
inline std::string QueuePop(std::string_view key) {
  return Op(15) + Text(key);
}
inline std::string QueueLen(std::string_view key) {
  return Op(16) + Text(key);
}
inline std::string ListKeys() {
  return Op(17);
}

}  // namespace ddprun::wire
