#include "launcher/hosts/control_stream.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

TEST(ControlStream, AnOrderArrivesAsItWasInPieces) {
  const NodeOrder order{"word", "token", "1 n2 n1,n2", "/a b", {"", "$(x)", "a\nb", "'\"\\"}};
  const std::string bytes = Encode(order) + std::string("\x0f\0", 2);
  OrderReader reader;
  for (std::size_t i = 0; i + 3 < bytes.size(); ++i) {
    ASSERT_FALSE(reader.Feed(bytes.substr(i, 1)).value()) << i;
  }
  ASSERT_TRUE(reader.Feed(bytes.substr(bytes.size() - 3)).value());
  EXPECT_EQ(reader.order(), order);
  EXPECT_EQ(reader.rest(), std::string("\x0f\0", 2));
}

TEST(ControlStream, BytesThatAreStillThereBeforeTheOrderAreNoPartOfIt) {
  OrderReader reader;
  ASSERT_FALSE(reader.Feed(std::string("\0\0", 2)).value());
  ASSERT_TRUE(reader.Feed('\0' + Encode({"w", "", "", "/", {}})).value());
  EXPECT_EQ(reader.order().word, "w");
}

TEST(ControlStream, OtherBytesAreNoOrder) {
  for (const std::string& bytes :
       {std::string("hello\n"), std::string("ddprun order 1 99999999999\n"), std::string(100, 'd'),
        std::string("ddprun order 1 2\na\0", 19), std::string("ddprun order 1 4\nabcd"),
        std::string("ddprun order 1 0\n")}) {
    OrderReader reader;
    EXPECT_FALSE(reader.Feed(bytes)) << bytes;
  }
}

TEST(ControlStream, TextThatAShellPrintsBeforeTheGreetingIsNotShown) {
  MarkReader reader("w0rd");
  EXPECT_EQ(reader.Feed("welcome to n1\n"), "");
  EXPECT_EQ(reader.Feed(EndMark("w0rd", 0)), "");  // No program can have ended yet.
  EXPECT_FALSE(reader.exit_code());
  EXPECT_EQ(reader.Feed("x" + Greeting() + "step 1\n"), "step 1\n");
  EXPECT_TRUE(reader.greeted());
}

TEST(ControlStream, ARunsEndIsSaidBeforeTheNodes) {
  MarkReader reader("w0rd");
  reader.Feed(Greeting());
  EXPECT_EQ(reader.Feed("half a " + RunEndMark("other", 3) + RunEndMark("w0rd", 3) + "line\n"),
            "half a " + RunEndMark("other", 3) + "line\n");
  EXPECT_EQ(reader.run_code(), 3);
  EXPECT_FALSE(reader.exit_code());
  EXPECT_EQ(reader.Feed(EndMark("w0rd", 3)), "");
  EXPECT_EQ(reader.exit_code(), 3);
}

TEST(ControlStream, FilesAreAskedForOnceEachBeforeTheGreeting) {
  MarkReader reader("w0rd");
  EXPECT_EQ(reader.Feed("hello\x1e"
                        "ddprun lacks x\x1e"),
            "");
  EXPECT_FALSE(reader.lacks());
  reader.Feed(
      "\x1e"
      "ddprun lacks 0\x1e\x1e"
      "ddprun la");
  EXPECT_EQ(reader.lacks(), 0u);
  reader.Feed(
      "cks 1\x1e\x1e"
      "ddprun lacks 0\x1e");
  EXPECT_EQ(reader.lacks(), 1u);
  EXPECT_NE(reader.Feed(Greeting() + "\x1e"
                                     "ddprun lacks 2\x1e"),
            "");
  EXPECT_EQ(reader.lacks(), 1u);
}

TEST(ControlStream, AMarkMayComeInPiecesAndBetweenOtherBytes) {
  MarkReader reader("w0rd");
  std::string shown;
  for (const char byte : Greeting() +
                             "a\x1e"
                             "b" +
                             EndMark("w0rd", 3) + "c") {
    shown += reader.Feed(std::string(1, byte));
  }
  EXPECT_EQ(shown,
            "a\x1e"
            "bc");
  EXPECT_EQ(reader.exit_code(), 3);
}

TEST(ControlStream, AnExitCodeWithAnotherWordIsOutput) {
  MarkReader reader("w0rd");
  const std::string other =
      EndMark("word", 0) + EndMark("w0rd", 300).substr(0, 6) + "x\x1e" + std::string(100, 'y');
  EXPECT_EQ(reader.Feed(Greeting() + other), other);
  EXPECT_FALSE(reader.exit_code());
}

// Text that may begin a mark is held back, but never for long.
TEST(ControlStream, HoldsBackOnlyWhatMayBeAMark) {
  MarkReader reader("w0rd");
  reader.Feed(Greeting());
  const std::string edges(100'000, '\x1e');
  EXPECT_GE(reader.Feed(edges).size(), edges.size() - 2);
  EXPECT_EQ(reader.Feed("y" + std::string(200, 'z')).size(), 202u);
}

}  // namespace
}  // namespace ddprun
