// Requests to the store as the bytes that a client sends, where ddprun is a client itself. Written
// apart from the parser, field by field, so that both cannot share one mistake.
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
inline std::string Get(std::string_view key) {
  return Op(3) + Text(key);
}
inline std::string Wait(const std::vector<std::string>& keys) {
  return Keys(6, keys);
}
inline std::string Ping(std::uint32_t nonce) {
  return Op(13) + Raw(nonce);
}

inline std::string Barrier(std::string_view key, std::int64_t world_size) {
  return Op(18) + Text(key) + Raw(world_size);
}

}  // namespace ddprun::wire
