#include "rendezvous/listener/control_token.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/support/scratch_directory.h"

namespace ddprun {
namespace {

struct TokenFile : testing::Test {
  ScratchDirectory scratch;
  const std::filesystem::path directory = scratch.path();
};

TEST(ControlToken, OpensOnlyForItsToken) {
  ControlToken token;
  EXPECT_FALSE(token.Check(""));  // A server without a token cannot be controlled.
  EXPECT_FALSE(token.Check("x"));
  EXPECT_EQ(token.refused(), 0u);
  token.SetToken("0123456789abcdef");
  EXPECT_TRUE(token.Check("0123456789abcdef"));
  EXPECT_FALSE(token.Check("0123456789abcdeF"));
  EXPECT_FALSE(token.Check("0123456789abcde"));
  EXPECT_FALSE(token.Check(""));
  EXPECT_EQ(token.refused(), 3u);
}

TEST(ControlToken, NoTokenIsInAMessage) {
  ControlToken token;
  token.SetToken("0123456789abcdef");
  EXPECT_EQ(token.Check("fedcba9876543210").error().message.find("fedc"), std::string::npos);
}

TEST(Token, IsLongAndNeverTheSame) {
  EXPECT_EQ(DrawToken().size(), 64u);
  EXPECT_NE(DrawToken(), DrawToken());
}

TEST_F(TokenFile, IsWrittenForItsOwnerAloneAndReadBack) {
  const auto path = directory / "token";
  ASSERT_TRUE(WriteTokenFile(path, "0123456789abcdef"));
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(*ReadTokenFile(path), "0123456789abcdef");
  EXPECT_FALSE(WriteTokenFile(path, "0123456789abcdef"));  // Never over another's.
}

TEST_F(TokenFile, OneThatOthersCanReadOrThatIsShortIsRefused) {
  const auto path = directory / "token";
  std::ofstream(path) << "0123456789abcdef\n";
  ::chmod(path.c_str(), 0644);
  EXPECT_NE(ReadTokenFile(path).error().message.find("chmod 600"), std::string::npos);
  std::ofstream(path) << "short\n";
  ::chmod(path.c_str(), 0600);
  EXPECT_NE(ReadTokenFile(path).error().message.find("16"), std::string::npos);
  EXPECT_FALSE(ReadTokenFile(directory / "none"));
}

// It is read again by whoever takes over, and a FIFO would be waited for.
TEST_F(TokenFile, AnotherEntryThanAFileIsRefusedAtOnce) {
  const auto fifo = directory / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_NE(ReadTokenFile(fifo).error().message.find("must be an ordinary file"),
            std::string::npos);
  std::ofstream(directory / "token") << "0123456789abcdef\n";
  ::chmod((directory / "token").c_str(), 0600);
  std::filesystem::create_symlink("token", directory / "link");  // As Kubernetes mounts secrets.
  EXPECT_EQ(*ReadTokenFile(directory / "link"), "0123456789abcdef");
}

}  // namespace
}  // namespace ddprun
