#include <gtest/gtest.h>

#include "launcher/cli_testing.h"

namespace ddprun {
namespace {

TEST(CommandLine, ARunDirectoryIsForRunsOfSeveralNodes) {
  const LaunchConfig two = Launch({"--nnodes=2", "--rdzv-endpoint=n0", "--run-dir=d", "p"});
  EXPECT_EQ(two.run_dir, "d");
  EXPECT_TRUE(two.warnings.empty());
  const LaunchConfig one = Launch({"p"}, {{"DDPRUN_RUN_DIR", "d"}});
  EXPECT_EQ(one.run_dir, "");
  ASSERT_EQ(one.warnings.size(), 1u);
  EXPECT_NE(one.warnings.front().find("ignoring --run-dir"), std::string::npos);
}

// Each would wait for the others on its own loopback.
TEST(CommandLine, SeveralNodesWithoutAnEndpointAreWarned) {
  const std::string warning =
      "--nnodes=1:2 without --rdzv-endpoint: 127.0.0.1 is this machine only. Set "
      "--rdzv-endpoint=HOST:PORT on all nodes";
  EXPECT_EQ(Launch({"--nnodes=1:2", "p"}).warnings, std::vector<std::string>{warning});
  EXPECT_EQ(Launch({"--nnodes=1:2", "--master-port=1", "p"}).warnings,
            std::vector<std::string>{warning});
  for (const char* const known :
       {"--rdzv-endpoint=127.0.0.1:7", "--master-addr=n0", "--hosts=n0,n1", "--pool=n0"}) {
    EXPECT_TRUE(Launch({"--nnodes=2", known, "p"}).warnings.empty()) << known;
  }
  EXPECT_TRUE(Launch({"p"}).warnings.empty());
}

// Regardless of the other flags: a launch that counts on a takeover learns at once that none comes.
TEST(CommandLine, AListOfEndpointsIsRefusedWithWhatToUseInstead) {
  for (const std::string more : {"--nnodes=2:3", "--run-dir=d", "--rdzv-backend=static"}) {
    const std::string said = Refusal({"--nnodes=2", more, "--rdzv-endpoint=a:1,b,[::1]:3", "p"});
    EXPECT_NE(said.find("Set --run-dir=DIR to a directory that all nodes share, or run `ddprun "
                        "rendezvous` on a host that stays up"),
              std::string::npos)
        << said;
  }
}

// As torchrun's static rendezvous; its other ones know no such key, and users pass it all the same.
TEST(CommandLine, AStaticRendezvousKnowsItsJoinTimeoutAsTimeout) {
  const auto join = [](std::vector<std::string> args) {
    args.insert(args.begin(), "--nnodes=2");
    args.push_back("p");
    return Launch(args).spec.join_timeout;
  };
  EXPECT_EQ(join({"--master-addr=a", "--rdzv-conf=timeout=7"}), Duration{7'000});
  EXPECT_EQ(join({"--rdzv-backend=static", "--rdzv-endpoint=a", "--rdzv-conf=timeout=7"}),
            Duration{7'000});
  EXPECT_EQ(join({"--master-addr=a", "--rdzv-conf=join_timeout=8,timeout=7"}), Duration{8'000});
  EXPECT_EQ(join({"--rdzv-endpoint=a", "--rdzv-conf=timeout=7"}), Duration{600'000});
  EXPECT_NE(Refusal({"--nnodes=2", "--master-addr=a", "--rdzv-conf=timeout=-7", "p"})
                .find("--rdzv-conf timeout must be"),
            std::string::npos);
}

// PyTorch's own launcher tests pass the list with quotes inside, and keys that no backend knows.
TEST(CommandLine, RendezvousConfIsTakenWithQuotesAndUnknownKeys) {
  for (const char* quote : {"'", "\""}) {
    const std::string list = "join_timeout=5,last_call_timeout=1,timeout=5";
    const LaunchConfig config =
        Launch({"--rdzv-endpoint=n0", "--rdzv-conf=" + (quote + list) + quote, "p"});
    EXPECT_EQ(config.spec.join_timeout, Duration{5'000});
    EXPECT_EQ(config.spec.last_call, Duration{1'000});
    EXPECT_TRUE(config.warnings.empty());
  }
  const LaunchConfig config =
      Launch({"--rdzv-endpoint=n0", "--rdzv-conf=nonsense=1,join_timeout='6'", "p"});
  EXPECT_EQ(config.spec.join_timeout, Duration{6'000});
  ASSERT_EQ(config.warnings.size(), 1u);
  EXPECT_NE(config.warnings[0].find("unknown key 'nonsense'"), std::string::npos);
}

TEST(CommandLine, ValuesAreTakenAndRefusedAsByTorchrun) {
  EXPECT_EQ(Launch({"--nnodes=2", "--rdzv-endpoint= n0:7 ", "p"}).endpoint, (Endpoint{"n0", 7}));
  EXPECT_FALSE(Launch({"--run-path", "-m", "p.py"}).module);
  EXPECT_EQ(Launch({"--exit-barrier-timeout=5", "p"}).program, "p");
  EXPECT_NE(Refusal({"-r", "0:1,", "p"}).find("--redirects must be"), std::string::npos);
  EXPECT_NE(Refusal({"--nnodes=2", "--rdzv-endpoint=~:7", "p"}).find("host of an endpoint"),
            std::string::npos);
}

}  // namespace
}  // namespace ddprun
