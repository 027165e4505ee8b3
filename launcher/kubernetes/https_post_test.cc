#include "launcher/kubernetes/https_post.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

TEST(HttpsUrl, IsAHostAPortAndAPath) {
  const auto place = ParseHttpsUrl("https://trainer.test:8082/apis/train?x=1#part");
  ASSERT_TRUE(place);
  EXPECT_EQ(place->server, (Endpoint{"trainer.test", 8082}));
  EXPECT_EQ(place->path, "/apis/train?x=1");
  EXPECT_EQ(ParseHttpsUrl("https://trainer")->server, (Endpoint{"trainer", 443}));
  EXPECT_EQ(ParseHttpsUrl("https://trainer")->path, "/");
  EXPECT_EQ(ParseHttpsUrl("https://[::1]:1/")->server, (Endpoint{"::1", 1}));
  EXPECT_EQ(ParseHttpsUrl(std::string("https://") + "a?x")->path, "/?x");
}

// What is in it stands in a request: a line of its own must not be smuggled in.
TEST(HttpsUrl, RefusesAllElse) {
  for (const char* const url : {"", "http://trainer/", "HTTPS://trainer/"}) {
    EXPECT_FALSE(ParseHttpsUrl(url)) << url;
  }
  for (const char* const rest : {"", "/path", "a:0/", "a:x/", "a/ b", "a/\r\nX: y", "user@a/",
                                 "a:70000/", "a/\xc3\xa4", "a\n/"}) {
    EXPECT_FALSE(ParseHttpsUrl(std::string("https://") + rest)) << rest;
  }
}

TEST(HttpsUrl, IsShownByItsBeginning) {
  for (const char* const scheme : {"https://a/", "http://a/"}) {
    const Result<void> posted =
        PostOverTls({scheme + std::string(100'000, 'x'), "", "", ""}, Duration{1'000});
    ASSERT_FALSE(posted);
    EXPECT_LT(posted.error().message.size(), 400u);
    EXPECT_NE(posted.error().message.find("https://<host>"), std::string::npos);
  }
  EXPECT_EQ(ShownUrl("https://a/"), "https://a/");
}

}  // namespace
}  // namespace ddprun
