// The protocol of a new connection, known by its first bytes: several protocols share one port.
//
// Pure. Looks at no more than kMaxFirstBytes, and answers as soon as one protocol is left.
#pragma once

#include <cstddef>
#include <string_view>

namespace ddprun {

enum class Protocol {
  kUndecided,  // More bytes are needed.
  kGrpc,       // The HTTP/2 preface.
  kTls,        // A TLS hello.
  kStore,      // A c10d TCPStore client's VALIDATE query.
  kHttp,       // A request line of HTTP/1.
  kUnknown,
};
inline constexpr std::size_t kMaxFirstBytes = 24;

Protocol ProtocolOf(std::string_view first_bytes);

}  // namespace ddprun
