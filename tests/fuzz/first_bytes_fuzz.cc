// The first bytes on a new connection, one by one, and the little HTTP, of both kinds, that the
// port answers.
#include <algorithm>

#include "rendezvous/listener/first_bytes.h"
#include "rendezvous/listener/http.h"
#include "rendezvous/listener/http2_refusal.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ddprun;
  const std::string_view bytes = FuzzInput(data, size).Rest();
  Protocol decided = Protocol::kUndecided;
  for (std::size_t length = 1; length <= std::min(bytes.size(), kMaxFirstBytes); ++length) {
    const Protocol protocol = ProtocolOf(bytes.substr(0, length));
    // No connection is handed over on bytes that more bytes would have given another meaning.
    CHECK(decided == Protocol::kUndecided || protocol == decided);
    decided = protocol;
  }
  CHECK(bytes.size() < kMaxFirstBytes || decided != Protocol::kUndecided);

  bool ended = false;
  for (std::size_t length = 0; length <= std::min<std::size_t>(bytes.size(), 512); ++length) {
    const auto end = RefuseHttp2Call(bytes.substr(0, length), "why");
    CHECK(!ended || end);
    CHECK(!end || end->empty() || (end->size() < 256 && end->find("why") != std::string::npos));
    ended = end.has_value();
  }

  const std::string_view request = bytes.substr(0, kMaxHttpRequest);
  for (const Health& health : {Health{"run", false}, Health{"run", true}}) {
    const std::optional<std::string> reply = HttpReply(request, health);
    CHECK(reply || request.size() < kMaxHttpRequest);
    CHECK(!reply || (reply->starts_with("HTTP/1.0 ") && reply->size() < 1024));
    CHECK(!reply || !health.wants_token || reply->find("run run") == std::string::npos);
  }
  return 0;
}
