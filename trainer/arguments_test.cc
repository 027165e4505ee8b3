#include "trainer/arguments.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

constexpr ArgumentEntry kKnown[] = {{"layers", 6, 1, 100}, {"dropout", 0.1, 0, 0.9, false}};

TEST(Arguments, DefaultsAndValues) {
  const Arguments plain = *Arguments::Parse("", kKnown);
  EXPECT_EQ(plain.Whole("layers"), 6);
  EXPECT_DOUBLE_EQ(plain.Number("dropout"), 0.1);
  const Arguments given = *Arguments::Parse("dropout=0.5,layers=2", kKnown);
  EXPECT_EQ(given.Whole("layers"), 2);
  EXPECT_EQ(given.Text(), "dropout=0.5,layers=2");
}

TEST(Arguments, AnErrorIsSaidWithTheKnownChoices) {
  const auto message = [](const char* text) {
    const Result<Arguments> read = Arguments::Parse(text, kKnown);
    return read ? "accepted" : read.error().message;
  };
  for (const char* text : {"depth=3", "layers", "=3", ",", "layers=1,,dropout=0"}) {
    EXPECT_NE(message(text).find("the arguments and their defaults: layers (6), dropout (0.1)"),
              std::string::npos)
        << text << ": " << message(text);
  }
  for (const char* text : {"layers=0", "layers=101", "layers=1.5", "layers=", "layers=x",
                           "layers=1x", "layers=nan", "layers=inf"}) {
    EXPECT_NE(message(text).find("layers must be a whole number from 1 to 100"), std::string::npos)
        << text << ": " << message(text);
  }
  EXPECT_EQ(message("layers=1,layers=2"), "layers is given twice");
}

}  // namespace
}  // namespace ddprun
