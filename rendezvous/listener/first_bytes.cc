#include "rendezvous/listener/first_bytes.h"

namespace ddprun {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kHttp2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"sv;
static_assert(kHttp2Preface.size() == kMaxFirstBytes);
constexpr std::string_view kTlsHello = "\x16\x03"sv;                   // Handshake record, TLS 1.x.
constexpr std::string_view kStoreValidate = "\x00\xce\xf7\x85\x3c"sv;  // Query 0, magic 0x3c85f7ce.

bool IsUpper(char c) {
  return c >= 'A' && c <= 'Z';
}

}  // namespace

Protocol ProtocolOf(std::string_view first_bytes) {
  if (first_bytes.starts_with(kHttp2Preface)) {
    return Protocol::kGrpc;
  }
  if (first_bytes.starts_with(kTlsHello)) {
    return Protocol::kTls;
  }
  if (first_bytes.starts_with(kStoreValidate)) {
    return Protocol::kStore;
  }
  for (const std::string_view start : {kHttp2Preface, kTlsHello, kStoreValidate}) {
    if (start.starts_with(first_bytes)) {
      return Protocol::kUndecided;
    }
  }
  return IsUpper(first_bytes.front()) ? Protocol::kHttp : Protocol::kUnknown;
}

}  // namespace ddprun
