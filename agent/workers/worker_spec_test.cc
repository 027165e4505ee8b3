#include "agent/workers/worker_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/environment_testing.h"

namespace ddprun {
namespace {

using ::testing::ElementsAre;

const Command kCommand{.file = "/bin/echo", .argv = {"echo", "data-${local_rank}/${local_rank}"}};

TEST(FindCommand, ModulesRunWithUnbufferedPython) {
  const auto command = FindCommand({.program = "pkg.train", .args = {"--lr=1"}, .module = true},
                                   Environment({{"PYTHON_EXEC", "/bin/sh"}}));
  EXPECT_EQ(command.value().file, "/bin/sh");
  EXPECT_THAT(command.value().argv, ElementsAre("/bin/sh", "-u", "-m", "pkg.train", "--lr=1"));
}

TEST(MakeWorkerSpec, TheMacroIsReplacedEverywhereInTheArguments) {
  const WorkerSpec spec = MakeWorkerSpec(kCommand, {.local_rank = 3}, {}, {});
  EXPECT_THAT(spec.command.argv, ElementsAre("echo", "data-3/3"));
}

TEST(MakeWorkerSpec, RedirectsAndTeesFollowTorchrun) {
  const OutputRequest request{.directory = "/logs",
                              .redirects = 1,
                              .tee = 0,
                              .redirects_of = {{1, 0}},
                              .tee_of = {{1, 3}},
                              .console_ranks = std::vector<std::uint32_t>{0}};
  const WorkerSpec first = MakeWorkerSpec(kCommand, {.local_rank = 0}, {}, request);
  EXPECT_EQ(first.out.file, "/logs/0/stdout.log");
  EXPECT_FALSE(first.out.console);
  EXPECT_EQ(first.err.file, "");
  EXPECT_TRUE(first.err.console);
  const WorkerSpec second = MakeWorkerSpec(kCommand, {.local_rank = 1}, {}, request);
  EXPECT_EQ(second.err.file, "/logs/1/stderr.log");
  EXPECT_FALSE(second.err.console);  // Filtered, but its file is written.
}

TEST(MakeWorkerSpec, WithoutADirectoryThereAreNoFiles) {
  const WorkerSpec spec = MakeWorkerSpec(kCommand, {}, {}, {.redirects = 3, .tee = 3});
  EXPECT_TRUE(spec.out.console);
  EXPECT_EQ(spec.out.file, "");
}

TEST(Templates, AreExpandedAsPythonsAre) {
  const std::map<std::string, std::string> values = {{"rank", "3"}, {"role_name", "${rank}"}};
  const std::vector<std::pair<std::string, std::string>> table = {
      {"${rank}:$rank:$$rank", "3:3:$rank"},
      {"${role_name}", "${rank}"},
      {"$ranks ${ranks} ${rank", "$ranks ${ranks} ${rank"},
      {"$", "$"},
      {"$$ $$$rank $$$ranks", "$ $3 $$ranks"},
      {"${}$", "${}$"},
      {"a$rank-b", "a3-b"},
      {"", ""}};
  for (const auto& [text, expected] : table) {
    EXPECT_EQ(ExpandTemplate(text, values, DollarPairs::kAreOne), expected) << text;
  }
}

// Of a variable's value, which may be any text.
TEST(Templates, WithoutAKnownNameATextStaysAsItIs) {
  const std::map<std::string, std::string> values = {{"rank", "3"}};
  const std::vector<std::pair<std::string, std::string>> table = {
      {"a$$b$", "a$$b$"},         {"$$$ $$ranks ${$$", "$$$ $$ranks ${$$"},
      {"$rank ${rank}x", "3 3x"}, {"$$rank $${rank}", "$rank ${rank}"},
      {"$$$rank", "$3"},          {"$$$$rank$$", "$$rank$$"}};
  for (const auto& [text, expected] : table) {
    EXPECT_EQ(ExpandTemplate(text, values, DollarPairs::kAreOneBeforeNames), expected) << text;
  }
}

// They are of whoever started ddprun, and what they speak of is not handed on.
TEST(HandOn, ALauncherVariablesAreNotTheWorkers) {
  WorkerSpec spec;
  spec.environment = {
      {"LISTEN_FDS", "2"}, {"LISTEN_FDNAMES", "x:y"}, {"LISTEN_PID", "7"}, {"A", "b"}};
  WorkerSpec found = spec;
  HandOn({}, spec);
  EXPECT_EQ(spec.environment, (std::map<std::string, std::string>{{"A", "b"}}));
  HandOn({{"model", nullptr}, {"state", nullptr}, {"z", nullptr}}, found);
  EXPECT_EQ(found.environment,
            (std::map<std::string, std::string>{
                {"A", "b"}, {"LISTEN_FDS", "3"}, {"LISTEN_FDNAMES", "model:state:z"}}));
}

// torchrun says 1, which leaves most of a CPU node idle; a user's own number always stands.
TEST(OmpThreads, ShareOfTheAllowedCpus) {
  EXPECT_EQ(OmpThreads({}, 4, 16), 4U);
  EXPECT_EQ(OmpThreads({}, 4, 2), 1U);
  EXPECT_EQ(OmpThreads({}, 1, 16), std::nullopt);
  EXPECT_EQ(OmpThreads({{"OMP_NUM_THREADS", "7"}}, 4, 16), std::nullopt);
  EXPECT_GE(AllowedCpus(), 1U);
}

}  // namespace
}  // namespace ddprun
