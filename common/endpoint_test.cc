#include "common/endpoint.h"

#include <gtest/gtest.h>

#include "common/result_testing.h"

namespace ddprun {
namespace {

TEST(Endpoint, ReadsWhatPeopleWrite) {
  EXPECT_EQ(*ParseEndpoint("n0:29400", {}), (Endpoint{"n0", 29400}));
  EXPECT_EQ(*ParseEndpoint("[::1]:0", {}), (Endpoint{"::1", 0}));
  EXPECT_EQ(*ParseEndpoint("n0", 29400), (Endpoint{"n0", 29400}));
  EXPECT_EQ(*ParseEndpoint("[fe80::1]", 29400), (Endpoint{"fe80::1", 29400}));
}

TEST(Endpoint, RefusesTheRestAndNamesIt) {
  for (const char* text : {"", "n0", ":1", "n0:", "n0:x", "n0:65536", "::1", "[::1", "[::1]x",
                           "n0 :1", "~:1", "[[n0]:1", "n0]:1", "n 0:1", "n\x1b:1"}) {
    EXPECT_TRUE(Fails(ParseEndpoint(text, {}), ErrorKind::kInvalid, text)) << text;
  }
}

TEST(Endpoint, AHostHasAnEnd) {
  EXPECT_TRUE(ParseEndpoint(std::string(255, 'a') + ":1", {}));
  const auto refused = ParseEndpoint(std::string(1 << 20, 'a') + ":1", {});
  ASSERT_FALSE(refused);
  EXPECT_LT(refused.error().message.size(), 200u);
}

TEST(Endpoint, IsWrittenSoThatItCanBeRead) {
  for (const char* text : {"n0:29400", "[::1]:1"}) {
    EXPECT_EQ(ToString(*ParseEndpoint(text, {})), text);
  }
}

TEST(Endpoint, KnowsHowFarAnAddressReaches) {
  for (const char* host : {"0.0.0.0", "::", "0:0:0:0:0:0:0:0", "*", "", "0", "0x0", "0.0", "00",
                           "::ffff:0.0.0.0", "::ffff:0:0"}) {
    EXPECT_TRUE(IsWildcard(host)) << host;
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
  for (const char* host :
       {"127.0.0.1", "127.8.9.1", "::1", "localhost", "127.1", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
    EXPECT_FALSE(IsWildcard(host)) << host;
  }
  for (const char* host : {"n0", "10.0.0.1", "fe80::1", "127", "localhost.example"}) {
    EXPECT_FALSE(IsLoopback(host) || IsWildcard(host)) << host;
  }
}

}  // namespace
}  // namespace ddprun
