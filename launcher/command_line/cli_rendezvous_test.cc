#include <gtest/gtest.h>

#include "launcher/cli_fixture.h"

namespace ddprun {
namespace {

TEST(CommandLine, ARunDirectoryIsForRunsOfSeveralNodes) {
  const LaunchConfig two = Launch({"--nnodes=2", "--run-dir=d", "p"});
  EXPECT_EQ(two.run_dir, "d");
  EXPECT_TRUE(two.remarks.empty());
  const LaunchConfig one = Launch({"p"}, {{"DDPRUN_RUN_DIR", "d"}});
  EXPECT_EQ(one.run_dir, "");
  ASSERT_EQ(one.remarks.size(), 1u);
  EXPECT_NE(one.remarks.front().find("--run-dir does not count"), std::string::npos);
}

TEST(CommandLine, ThreeEndpointsAreAListWhoseNodesTakeOver) {
  const LaunchConfig three = Launch({"--nnodes=2:3", "--rdzv-endpoint=a:1,b,[::1]:3", "p"});
  EXPECT_EQ(three.endpoint, (Endpoint{"a", 1}));
  EXPECT_EQ(three.candidates, (std::vector<Endpoint>{{"a", 1}, {"b", 29400}, {"::1", 3}}));
  const auto remark = [](const std::vector<std::string>& args) {
    const LaunchConfig config = Launch(args);
    EXPECT_TRUE(config.candidates.empty());
    EXPECT_EQ(config.endpoint.host, "a");
    return config.remarks.empty() ? "" : config.remarks.front();
  };
  EXPECT_NE(remark({"--nnodes=2", "--rdzv-endpoint=a,b", "p"}).find("of two nodes"),
            std::string::npos);
  EXPECT_NE(remark({"--nnodes=2", "--run-dir=d", "--rdzv-endpoint=a,b,c", "p"}).find("--run-dir"),
            std::string::npos);
  for (const auto& [list, words] :
       {std::pair("a,b,a", "names an endpoint twice: 'a'"), std::pair("a,b:0,c", "'b:0'"),
        std::pair("a,0.0.0.0:1,c", "'0.0.0.0:1'"),
        std::pair("a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,q", "at most 15")}) {
    const std::string said = Refusal({"--nnodes=2", std::string("--rdzv-endpoint=") + list, "p"});
    EXPECT_NE(said.find(words), std::string::npos) << said;
  }
}

// As torchrun's static rendezvous; its other ones know no such key, and users pass it all the same.
TEST(CommandLine, AStaticRendezvousKnowsItsJoinTimeoutAsTimeout) {
  const auto join = [](std::vector<std::string> args) {
    args.insert(args.begin(), "--nnodes=2");
    args.push_back("p");
    return Launch(args).shape.join_timeout;
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
        Launch({"--nnodes=1:2", "--rdzv-conf=" + (quote + list) + quote, "p"});
    EXPECT_EQ(config.shape.join_timeout, Duration{5'000});
    EXPECT_EQ(config.shape.last_call, Duration{1'000});
    EXPECT_TRUE(config.remarks.empty());
  }
  const LaunchConfig config =
      Launch({"--nnodes=2", "--rdzv-conf=nonsense=1,join_timeout='6'", "p"});
  EXPECT_EQ(config.shape.join_timeout, Duration{6'000});
  ASSERT_EQ(config.remarks.size(), 1u);
  EXPECT_NE(config.remarks[0].find("unknown key 'nonsense'"), std::string::npos);
}

TEST(CommandLine, WhatTorchrunTakesIsTakenAndWhatItRefusesIsRefused) {
  EXPECT_EQ(Launch({"--nnodes=2", "--rdzv-endpoint= n0:7 ", "p"}).endpoint, (Endpoint{"n0", 7}));
  EXPECT_FALSE(Launch({"--run-path", "-m", "p.py"}).module);
  EXPECT_EQ(Launch({"--exit-barrier-timeout=5", "p"}).program, "p");
  EXPECT_NE(Refusal({"-r", "0:1,", "p"}).find("--redirects must be"), std::string::npos);
  EXPECT_NE(Refusal({"--nnodes=2", "--rdzv-endpoint=~:7", "p"}).find("host of an endpoint"),
            std::string::npos);
}

// torchrun's static rendezvous has one master, which cannot be a list.
TEST(CommandLine, AStaticRendezvousHasOneEndpoint) {
  const std::string said =
      Refusal({"--nnodes=3", "--rdzv-backend=static", "--rdzv-endpoint=a,b,c", "p"});
  EXPECT_NE(said.find("--rdzv-backend=static has one endpoint"), std::string::npos) << said;
  EXPECT_NE(said.find("a,b,c"), std::string::npos) << said;
}

}  // namespace
}  // namespace ddprun
