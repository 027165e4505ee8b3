// Answers a call in the clear where only calls over TLS are accepted: it was refused, and why.
//
// Apart from gRPC, whose reader of headers does much work for a client that sends few bytes
// (CVE-2023-33953): an unauthenticated peer's headers are not read here at all. Pure. Understands
// no more of HTTP/2 (RFC 9113) than the heads of frames.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun {

// Sent first: the caller waits for it. SETTINGS, with none.
inline constexpr std::string_view kHttp2Greeting("\0\0\0\4\0\0\0\0\0", 9);
// Of what a caller says, until its call begins.
inline constexpr std::size_t kMaxHttp2Beginning = 4096;

// `received`: from the preface on. nullopt: no call has begun yet. Empty: none will, this is no
// HTTP/2. Else what is sent last: the call's end with UNAUTHENTICATED and `why`, and the
// connection's.
std::optional<std::string> RefuseHttp2Call(std::string_view received, std::string_view why);

}  // namespace ddprun
