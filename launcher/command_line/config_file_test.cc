#include "launcher/command_line/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/command_line/raw_flags.h"

namespace ddprun {
namespace {

using ::testing::HasSubstr;

class ConfigFile : public ::testing::Test {
 protected:
  ConfigFile() {
    app_.set_help_flag();  // Ours are among the flags.
    AddFlags(app_, raw_);
  }

  std::vector<std::string> Read(const std::string& text) {
    std::vector<std::string> lines;
    const auto settings = ParseConfigFile(app_, "run.toml", text);
    EXPECT_TRUE(settings) << settings.error().message;
    for (const Setting& setting : *settings) {
      lines.push_back(setting.name + "=" + setting.value + " " + setting.origin);
    }
    return lines;
  }

  std::string Refusal(const std::string& text) {
    const auto settings = ParseConfigFile(app_, "run.toml", text);
    return settings ? "" : settings.error().message;
  }

  RawFlags raw_;
  CLI::App app_;
};

TEST_F(ConfigFile, AliasesAreNamesToo) {
  EXPECT_THAT(Read("shared-dir = d"), ::testing::ElementsAre("run-dir=d run.toml:1"));
}

TEST_F(ConfigFile, NamesAreThoseOfTheFlags) {
  EXPECT_THAT(Read("# a run\n\nnnodes = \"1:4\"  # elastic\nnproc_per_node=2\n"),
              ::testing::ElementsAre("nnodes=1:4 run.toml:3", "nproc-per-node=2 run.toml:4"));
}

TEST_F(ConfigFile, QuotesKeepWhatStandsInThem) {
  EXPECT_THAT(Read("rdzv-id = 'a#b'\nrole = \"say \\\"x\\\"\"\nno-python = true\n"),
              ::testing::ElementsAre("rdzv-id=a#b run.toml:1", "role=say \"x\" run.toml:2",
                                     "no-python=true run.toml:3"));
}

// A regular expression without its backslashes is another one, and its error would come late.
TEST_F(ConfigFile, NoBackslashAndNoQuoteIsLeftOut) {
  EXPECT_THAT(Read(R"(progress-from = 'step (\d+)')"),
              ::testing::ElementsAre(R"(progress-from=step (\d+) run.toml:1)"));
  EXPECT_THAT(Read(R"(role = "a\\b")"), ::testing::ElementsAre(R"(role=a\b run.toml:1)"));
  for (const char* const value : {R"("\d+")", R"("a\nb")", R"("a" "b")", R"('a' 'b')", R"('it's')",
                                  R"("a\")", R"('''a''')", R"(")", R"(')", R"("a')"}) {
    EXPECT_THAT(Refusal(std::string("role = ") + value + "\n"),
                HasSubstr("be in quotes (in single quotes, if it has a backslash)"))
        << value;
  }
}

TEST_F(ConfigFile, AFlagWhoseValuesAddUpMayStandInSeveralLines) {
  EXPECT_THAT(Read("env = 'A=1'\nenv = 'B=2'\n"),
              ::testing::ElementsAre("env=A=1 run.toml:1", "env=B=2 run.toml:2"));
}

TEST_F(ConfigFile, AByteOrderMarkIsNoPartOfTheFirstName) {
  EXPECT_THAT(Read("\xef\xbb\xbfrole = x\n"), ::testing::ElementsAre("role=x run.toml:1"));
}

TEST_F(ConfigFile, AnErrorIsNamedWithItsLine) {
  EXPECT_THAT(Refusal("nnodes = 1\nnode = 2\n"), HasSubstr("run.toml:2: unknown name 'node'"));
  EXPECT_THAT(Refusal("[run]\n"), HasSubstr("run.toml:1: expected `name = value`"));
  EXPECT_THAT(Refusal("nnodes\n"), HasSubstr("run.toml:1: expected"));
  EXPECT_THAT(Refusal("nnodes = [1, 2]\n"), HasSubstr("the value of 'nnodes'"));
  EXPECT_THAT(Refusal("nnodes =\n"), HasSubstr("the value of 'nnodes'"));
  EXPECT_THAT(Refusal("standalone = maybe\n"), HasSubstr("'standalone' must be true or false"));
  EXPECT_THAT(Refusal("config = 'x'\n"), HasSubstr("unknown name 'config'"));
  EXPECT_THAT(Refusal("run-dir = a\n\nshared_dir = b\n"),
              HasSubstr("run.toml:3: 'shared-dir' is set at run.toml:1 too"));
  EXPECT_THAT(Refusal(std::string("role = 'a\0b'\n", 13)),
              HasSubstr("run.toml:1: the line contains a zero byte"));
}

}  // namespace
}  // namespace ddprun
