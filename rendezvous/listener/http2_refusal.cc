#include "rendezvous/listener/http2_refusal.h"

#include <cstdint>

#include "rendezvous/listener/first_bytes.h"

namespace ddprun {
namespace {

constexpr std::size_t kHead = 9;  // Length in 3 bytes, type, flags, stream in 4.
constexpr std::uint8_t kHeaders = 1, kSettings = 4, kGoAway = 7;
constexpr std::uint8_t kAck = 1, kEndOfAll = 5;  // END_STREAM and END_HEADERS.
constexpr std::size_t kMaxFrame = 16'384;        // No peer may send larger ones unasked.

std::uint32_t BigEndian(std::string_view bytes) {
  std::uint32_t number = 0;
  for (const char byte : bytes) {
    number = number << 8 | static_cast<std::uint8_t>(byte);
  }
  return number;
}

std::string InBytes(std::uint32_t number, int count) {
  std::string bytes;
  for (int shift = 8 * (count - 1); shift >= 0; shift -= 8) {
    bytes += static_cast<char>(number >> shift);
  }
  return bytes;
}

std::string Frame(std::uint8_t type, std::uint8_t flags, std::uint32_t stream,
                  const std::string& payload) {
  return InBytes(static_cast<std::uint32_t>(payload.size()), 3) + static_cast<char>(type) +
         static_cast<char>(flags) + InBytes(stream, 4) + payload;
}

// Literal, not indexed, no Huffman code (RFC 7541, 6.2.2); of at most 126 bytes each.
std::string Header(std::string_view name, std::string_view value) {
  std::string header(1, '\0');
  for (const std::string_view text : {name, value.substr(0, 126)}) {
    header += static_cast<char>(text.size());
    header += text;
  }
  return header;
}

}  // namespace

std::optional<std::string> RefuseHttp2Call(std::string_view received, std::string_view why) {
  std::size_t at = kMaxFirstBytes;  // The preface.
  while (received.size() >= at + kHead) {
    const std::string_view head = received.substr(at, kHead);
    const std::size_t length = BigEndian(head.substr(0, 3));
    const std::uint32_t stream = BigEndian(head.substr(5)) & 0x7fff'ffff;
    if (length > kMaxFrame) {
      return "";
    }
    if (static_cast<std::uint8_t>(head[3]) == kHeaders) {
      if (stream % 2 == 0) {  // Not a caller's.
        return "";
      }
      return Frame(kSettings, kAck, 0, "") +
             Frame(kHeaders, kEndOfAll, stream,
                   Header(":status", "200") + Header("content-type", "application/grpc") +
                       Header("grpc-status", "16") + Header("grpc-message", why)) +
             Frame(kGoAway, 0, 0, InBytes(stream, 4) + InBytes(0, 4));
    }
    at += kHead + length;
  }
  return std::nullopt;
}

}  // namespace ddprun
