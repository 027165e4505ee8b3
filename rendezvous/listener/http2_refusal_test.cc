#include "rendezvous/listener/http2_refusal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using testing::HasSubstr;

const std::string kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const std::string kSettings("\0\0\6\4\0\0\0\0\0\0\1\0\0\0\1", 15);
const std::string kUpdate("\0\0\4\x8\0\0\0\0\0\0\0\1\0", 13);

std::string CallOn(char stream) {
  return std::string("\0\0\3\1\4\0\0\0", 8) + stream + "abc";
}

TEST(Http2Refusal, EndsTheFirstCallWithItsReason) {
  const auto end = RefuseHttp2Call(kPreface + kSettings + kUpdate + CallOn(5), "no token");
  ASSERT_TRUE(end);
  EXPECT_TRUE(end->starts_with(std::string("\0\0\0\4\1\0\0\0\0", 9)));  // SETTINGS are heard.
  const std::string status(
      "\0\xbgrpc-status\x2"
      "16",
      15);
  EXPECT_THAT(*end, HasSubstr(status));
  const std::string message("\0\xcgrpc-message\x8no token", 22);
  EXPECT_THAT(*end, HasSubstr(message));
  const std::string last("\0\0\x8\7\0\0\0\0\0\0\0\0\5\0\0\0\0", 17);  // Nothing after stream 5.
  EXPECT_TRUE(end->ends_with(last));
}

TEST(Http2Refusal, WaitsForTheHeadOfACall) {
  const std::string whole = kPreface + kSettings + kUpdate + CallOn(1);
  for (std::size_t size = 0; size + 3 < whole.size(); ++size) {
    EXPECT_EQ(RefuseHttp2Call(whole.substr(0, size), "no"), std::nullopt) << size;
  }
  EXPECT_EQ(RefuseHttp2Call(whole.substr(0, whole.size() - 3), "no"), RefuseHttp2Call(whole, "no"));
}

TEST(Http2Refusal, KnowsWhatIsNoCall) {
  EXPECT_EQ(RefuseHttp2Call(kPreface + std::string("\xff\xff\xff\4\0\0\0\0\0", 9), "no"), "");
  EXPECT_EQ(RefuseHttp2Call(kPreface + CallOn(0), "no"), "");
  EXPECT_EQ(RefuseHttp2Call(kPreface + CallOn(2), "no"), "");
}

}  // namespace
}  // namespace ddprun
