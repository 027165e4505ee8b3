// HTTP/2's frames and a Sync call's headers as one node's client writes them, by hand.
#pragma once

#include <openssl/evp.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/check.h"

namespace ddprun {

inline constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
inline constexpr std::size_t kFrameHeader = 9;
enum FrameType : char {
  kData = 0,
  kHeaders = 1,
  kReset = 3,
  kSettings = 4,
  kPing = 6,
  kGoAway = 7,
  kWindow = 8
};
inline constexpr char kAck = 1, kEndStream = 1, kEndHeaders = 4;

inline std::string Octets(std::uint32_t value, int bytes) {
  std::string text;
  for (int i = bytes - 1; i >= 0; --i) {
    text += static_cast<char>(value >> (8 * i));
  }
  return text;
}

inline std::uint32_t NumberOf(std::string_view bytes) {
  std::uint32_t value = 0;
  for (const char byte : bytes) {
    value = value << 8 | static_cast<unsigned char>(byte);
  }
  return value;
}

inline std::string Frame(FrameType type, char flags, std::uint32_t stream,
                         std::string_view payload) {
  return Octets(static_cast<std::uint32_t>(payload.size()), 3) + static_cast<char>(type) + flags +
         Octets(stream, 4) + std::string(payload);
}

inline std::string Greeting() {
  return std::string(kPreface) + Frame(kSettings, 0, 0, "");
}

// HPACK's strings, neither compressed nor remembered; none here is longer than 126 bytes.
inline std::string Text(std::string_view text) {
  CHECK(text.size() < 127);
  return static_cast<char>(text.size()) + std::string(text);
}

// As gRPC shows a "-bin" header: base64 without its filling.
inline std::string Base64(const std::string& bytes) {
  std::string text(4 * (bytes.size() + 2) / 3 + 4, '\0');
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                   reinterpret_cast<const unsigned char*>(bytes.data()),
                                   static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(size));
  return text.substr(0, text.find('='));
}

inline std::string CallHeaders(const std::string& token) {
  std::string block = "\x83";                // :method POST
  block += token.empty() ? '\x86' : '\x87';  // :scheme
  block += '\x04' + Text("/ddprun.v1.Rendezvous/Sync");
  block += '\x01' + Text("rendezvous");
  block += std::string(1, '\0') + Text("te") + Text("trailers");
  block += std::string(1, '\0') + Text("content-type") + Text("application/grpc");
  if (!token.empty()) {
    block += std::string(1, '\0') + Text("ddprun-token-bin") + Text(Base64(token));
  }
  return block;
}

}  // namespace ddprun
