// Requests to the store as the bytes that a client sends: of tests, and of ddprun where it is a
// client itself. Written apart from the parser, field by field, so that both cannot share one
// mistake.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/store/store_protocol.h"

namespace ddprun::wire {

template <class T>
std::string Raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

inline std::string Text(std::string_view text) {
  return Raw(std::uint64_t{text.size()}) + std::string(text);
}

inline std::string Op(std::uint8_t op) {
  return std::string(1, static_cast<char>(op));
}

inline std::string Keys(std::uint8_t op, const std::vector<std::string>& keys) {
  std::string bytes = Op(op) + Raw(std::uint64_t{keys.size()});
  for (const std::string& key : keys) {
    bytes += Text(key);
  }
  return bytes;
}

inline std::string Validate() {
  return Op(0) + Raw(kStoreMagic);
}
inline std::string Set(std::string_view key, std::string_view value) {
  return Op(1) + Text(key) + Text(value);
}
inline std::string CompareSet(std::string_view key, std::string_view expected,
                              std::string_view desired) {
  return Op(2) + Text(key) + Text(expected) + Text(desired);
}
inline std::string Get(std::string_view key) {
  return Op(3) + Text(key);
}
inline std::string Add(std::string_view key, std::int64_t delta) {
  return Op(4) + Text(key) + Raw(delta);
}
inline std::string Check(const std::vector<std::string>& keys) {
  return Keys(5, keys);
}
inline std::string Wait(const std::vector<std::string>& keys) {
  return Keys(6, keys);
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
inline std::string Ping(std::uint32_t nonce) {
  return Op(13) + Raw(nonce);
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
inline std::string Barrier(std::string_view key, std::int64_t world_size) {
  return Op(18) + Text(key) + Raw(world_size);
}

}  // namespace ddprun::wire
