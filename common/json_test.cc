#include "common/json.h"

#include <gtest/gtest.h>

#include <string>

namespace ddprun {
namespace {

std::string Nested(std::size_t depth, char open, char close) {
  const std::string between = open == '{' ? "\"\":" : "";
  std::string text;
  for (std::size_t i = 0; i < depth; ++i) {
    text += i == 0 ? "" : between;
    text += open;
  }
  return text + std::string(depth, close);
}

TEST(Json, AsDeepAsMayBeAndNoDeeper) {
  EXPECT_TRUE(ParseJson(Nested(kMaxJsonDepth, '[', ']')).is_array());
  EXPECT_TRUE(ParseJson(Nested(kMaxJsonDepth, '{', '}')).is_object());
  for (const std::size_t deeper : {kMaxJsonDepth + 1, std::size_t{100'000}}) {
    EXPECT_TRUE(ParseJson(Nested(deeper, '[', ']')).is_discarded());
    EXPECT_TRUE(ParseJson(Nested(deeper, '{', '}')).is_discarded());
    EXPECT_TRUE(ParseJson<nlohmann::ordered_json>(Nested(deeper, '{', '}')).is_discarded());
  }
}

TEST(Json, BesideEachOtherIsNotDeep) {
  std::string text = "[";
  for (int i = 0; i < 1000; ++i) {
    text += "[{}],";
  }
  EXPECT_EQ(ParseJson(text + "0]").size(), 1001u);
}

TEST(Json, BracketsInTextAreText) {
  const std::string brackets = std::string(1000, '[') + R"(\"\\)" + std::string(1000, '{');
  EXPECT_EQ(ParseJson("[\"" + brackets + "\"]").size(), 1u);
}

TEST(Json, ATextThatIsNoJsonIsDiscarded) {
  for (const char* const text : {"", "{", "]", "\"", "\"\\", "}}}}", "[1,]", "\xff"}) {
    EXPECT_TRUE(ParseJson(text).is_discarded()) << text;
  }
}

}  // namespace
}  // namespace ddprun
