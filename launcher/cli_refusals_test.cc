// The messages for a wrong command line, and for options that are ignored.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "launcher/cli.h"
#include "launcher/cli_testing.h"
#include "launcher/command_line/raw_flags.h"
#include "rendezvous/messages/lease.h"

namespace ddprun {
namespace {

// Its path.
std::string SettingsFile(const std::string& text) {
  std::string path =
      testing::TempDir() + "/cli_refusals_test." + std::to_string(::getpid()) + ".toml";
  std::ofstream(path) << text;
  return path;
}

TEST(CommandLine, AProblemNamesTheSourceOfTheFlag) {
  EXPECT_EQ(Refusal({"p"}, {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "-3"}}),
            "--shutdown-timeout must be a time such as 30, 500ms, 90s, 5m, 1h30m, 1d or 01:30:00: "
            "'-3' (--shutdown-timeout is from TORCH_ELASTIC_SHUTDOWN_TIMEOUT=-3)");
  EXPECT_EQ(Refusal({"--shutdown-timeout=-3", "p"}),
            "--shutdown-timeout must be a time such as 30, 500ms, 90s, 5m, 1h30m, 1d or 01:30:00: "
            "'-3'");
  const std::string two = Refusal({"p"}, {{"PET_NNODES", "2:1"}, {"DDPRUN_MAX_RESTARTS", "x"}});
  EXPECT_NE(two.find("'2:1' (--nnodes is from PET_NNODES=2:1)"), std::string::npos) << two;
  EXPECT_NE(two.find("'x' (--max-restarts is from DDPRUN_MAX_RESTARTS=x)\n"), std::string::npos);
  EXPECT_NE(Refusal({"--nnodes=2", "p"}, {{"PET_RDZV_ENDPOINT", "a:b"}})
                .find("(--rdzv-endpoint is from PET_RDZV_ENDPOINT=a:b)"),
            std::string::npos);
  EXPECT_NE(Refusal({"p"}, {{"DDPRUN_CONFIG", "/no/such"}}).find("DDPRUN_CONFIG=/no/such)"),
            std::string::npos);
}

TEST(CommandLine, AProblemTellsTheLineOfAFile) {
  const std::string path = SettingsFile("# mine\nshutdown-timeout = -3\n");
  EXPECT_NE(Refusal({"--config=" + path, "p"}).find("(--shutdown-timeout is from " + path + ":2)"),
            std::string::npos);
  std::filesystem::remove(path);
}

TEST(CommandLine, AnIgnoredFlagIsReported) {
  EXPECT_TRUE(Launch({"--master-addr=n0", "p"}).warnings.empty());
  EXPECT_TRUE(
      Launch({"--nnodes=2", "--rdzv-backend=c10d", "--master-addr=n0", "p"}).warnings.empty());
  EXPECT_EQ(Launch({"--rdzv-endpoint=n0:1", "--master-addr=n0", "--master-port=1", "p"}).warnings,
            (std::vector<std::string>{"ignoring --master-addr=n0 because --rdzv-endpoint is set",
                                      "ignoring --master-port=1 because --rdzv-endpoint is set"}));
  EXPECT_EQ(Launch({"--rdzv-backend=c10d", "--master-port=1", "p"}).warnings.size(), 1u);
}

TEST(CommandLine, AFilterThatHidesEveryRankIsReported) {
  EXPECT_TRUE(Launch({"--nproc-per-node=2", "--local-ranks-filter=1,7", "p"}).warnings.empty());
  EXPECT_EQ(Launch({"--nproc-per-node=2", "--local-ranks-filter=7", "p"}).warnings,
            (std::vector<std::string>{"--local-ranks-filter hides all output of this node, whose "
                                      "local ranks are below 2"}));
}

TEST(CommandLine, ANameThatIsNoVariableOfAWorkerIsRefused) {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"A", "--env must be NAME=VALUE: 'A'"},
      {"A=1\nB=2", "the value of --env must have no line break: 'A=1\\nB=2'"},
      {"A B=1", "--env must be NAME=VALUE"},
      {"RANK=0", "--env cannot set what ddprun itself sets for a worker: 'RANK'"},
      {"DDPRUN_X=0", "--env cannot set what ddprun itself sets"},
      {"CUDA_VISIBLE_DEVICES=0", "--env does not choose GPUs: use --gpu-ids"},
      {"A=" + std::string(128 << 10, 'x'),
       "--env: Linux allows no variable of more than 128 KiB: 'A'"},
  };
  for (const auto& [value, why] : table) {
    EXPECT_NE(Refusal({"--env=" + value, "p"}).find(why), std::string::npos) << value;
  }
}

// One clear message that names what is wrong, for every bad input.
TEST(CommandLine, BadInputIsNamed) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> table = {
      {{"--bogus", "p"}, "unknown option --bogus"},
      {{"--trainjob-progress=on", "p"}, "--trainjob-progress was removed. A program reports"},
      {{"--nnode", "2", "p"}, ""},
      {{"--max-restart=1", "p"}, ""},
      {{"--nprocpernode=2", "p"}, "did you mean --nproc-per-node=2?"},
      {{"-z", "p"}, "unknown option -z"},
      {{"--rdzv", "x", "p"}, "ambiguous"},
      {{"--nnodes"}, "--nnodes needs a value"},
      {{"--nnodes=0", "p"}, "--nnodes must be"},
      {{"--nnodes=2:1", "p"}, "'2:1'"},
      {{"--nnodes=1:2:3", "p"}, "'1:2:3'"},
      {{"--nnodes=x", "p"}, "'x'"},
      {{"--nproc-per-node=0", "p"}, "--nproc-per-node must be"},
      {{"--nproc-per-node=two", "p"}, "'two'"},
      {{"--node-rank=2", "--nnodes=2", "p"}, "--node-rank must be from 0 to 1"},
      {{"--node-rank=1", "p"}, "--node-rank must be 0 with --nnodes=1, its default: '1'"},
      {{"--rdzv-endpoint=::1:9", "--nnodes=2", "p"}, "brackets"},
      {{"--rdzv-backend=etcd", "p"}, "'etcd' is not supported"},
      {{"--rdzv-conf=x", "p"}, "key=value"},
      {{"--fence-after=1", "p"}, " for 1 node, twice"},
      {{"--fence-after=5", "--nnodes=2", "p"},
       "--fence-after must be 0 or at least " + FormatDuration(2 * kLongLease)},
      {{"--fence-after=2m", "--nnodes=10000", "p"}, "--fence-after must be 0 or at least 3 min"},
      {{"--rdzv-conf=read_timeout=x", "p"}, "--rdzv-conf read_timeout must be"},
      {{"--rdzv-conf=join_timeout=1,", "p"}, "key=value"},
      {{"--use-env", "--pass-local-rank", "p"}, "exclude each other"},
      {{"completion"}, "takes one shell"},
      {{"completion", "tcsh"}, "'tcsh'"},
      {{"env", "more"}, "unexpected argument: 'more'"},
      {{"--redirects=4", "p"}, "--redirects must be"},
      {{"--tee=0:9", "p"}, "--tee must be"},
      {{"--standalone", "--nnodes=2", "p"}, "--standalone is for one node"},
      {{"-m", "--no-python", "p"}, "exclude each other"},
      {{"--master-port=x", "p"}, "--master-port must be a port"},
      {{"--master-port=70000", "p"}, "'70000'"},
      {{"--master-port=0", "--nnodes=2", "p"}, "--master-port must be a port"},
      {{"--event-log-handler=mine", "p"}, "--event-log-handler must be null or console"},
      {{"--logs-specs=mine", "p"}, "--logs-specs='mine' would be a Python plug-in"},
      {{"--rdzv-id=a/b", "p"}, "--rdzv-id must be"},
      {{}, "no program given"},
      {{""}, "no program given"},
      {{"rendezvous", "--listen=nowhere:x"}, "port of an endpoint"},
      {{"rendezvous", "more"}, "unexpected argument: 'more'"},
      {{"rendezvous", "--state-dir="}, "--state-dir must name a directory"},
      {{"rendezvous", "--state-dir=a", "--run-dir=b"}, "exclude each other"},
      {{"rendezvous", "--rdzv-endpoint=a:1,b,c:3"}, "Set --run-dir=DIR"},
      {{"rendezvous", "--journal=a"}, "--journal was removed. Use --state-dir=DIR"},
      {{"--nnodes=2", "--run-dir=d", "--master-addr=n0", "p"}, "excludes a static rendezvous"},
  };
  for (const auto& [args, expected] : table) {
    if (expected.empty()) {
      EXPECT_TRUE(ParseCommandLine(args, Environment({}))) << args.front();
    } else {
      EXPECT_NE(Refusal(args).find(expected), std::string::npos)
          << (args.empty() ? "" : args.front()) << " -> " << Refusal(args);
    }
  }
}

// A settings file or the environment may say how hosts are reached if a launch has some.
TEST(CommandLine, FlagsOfHostsAreRefusedWithoutHosts) {
  EXPECT_EQ(Refusal({"--copy", "--launch-agent=ssh -p 2222", "p"}),
            "--copy needs --hosts or --hostfile\n"
            "--launch-agent needs --hosts or --hostfile");
  EXPECT_TRUE(Launch({"p"}, {{"DDPRUN_COPY", "1"}, {"DDPRUN_LAUNCH_AGENT", "ssh"}}).hosts.empty());
}

TEST(Flags, RefuseWhatIsNotOfTheirForm) {
  for (const FlagRow& row : FlagTable()) {
    const bool words = std::ranges::count(row.form, '|') + 1 == std::ssize(row.choices);
    const bool is_time = row.form == "DURATION";
    if (row.group == "Help" || (!words && !is_time && row.form != "N")) {
      continue;
    }
    for (const std::string bad : {"-1", "soon", "nan"}) {
      const std::string refusal = Refusal({"--" + row.name + "=" + bad, "p"});
      const std::string begins = "--" + row.name + (is_time ? " must be a time" : "");
      EXPECT_TRUE(refusal.starts_with(begins)) << refusal;
      EXPECT_NE(refusal.find("'" + bad + "'"), std::string::npos) << refusal;
    }
  }
}

TEST(CommandLine, AValueThatCannotBeIsNamed) {
  const std::vector<std::pair<std::string, std::string>> table = {
      {"--no", "ambiguous: it could be --no"},
      {"--nnodes=1:", "'1:'"},
      {"--nnodes=:2", "':2'"},
      {"--nnodes=0:3", "'0:3'"},
      {"--nnodes=99999999999", "'99999999999'"},
      {"--nproc-per-node=99999", "'99999'"},
      {"--rdzv-conf=rank=", "key=value"},
      {"--rdzv-conf==1", "key=value"},
      {"--rdzv-conf=keep_alive_max_attempt=x", "keep_alive_max_attempt must be a number"},
      {"--rdzv-conf=is_host=maybe", "is_host must be true or false: 'maybe'"},
      {"--give-up-code=75", "--give-up-code must be"},
      {"--give-up-code=256", "--give-up-code must be"},
  };
  for (const auto& [word, expected] : table) {
    EXPECT_NE(Refusal({word, "p"}).find(expected), std::string::npos) << word;
  }
}

// Other launchers' names, some words of a flag, and typing errors.
TEST(CommandLine, TheNameThatWasMeantIsSuggested) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> table = {
      {{"--nprocs=2", "p"}, "did you mean --nproc-per-node=2?"},
      {{"--num_processes=2", "p"}, "did you mean --nproc-per-node=2?"},
      {{"--num-gpus=2", "p"}, "did you mean --nproc-per-node=2?"},
      {{"--num-gpus=all", "p"}, "did you mean --nproc-per-node?"},
      {{"--copi=3", "p"}, "did you mean --copy?"},
      {{"--num-gpus", "2", "p"}, "did you mean --nproc-per-node?"},
      {{"--restarts=2", "p"}, "did you mean --max-restarts=2?"},
      {{"--max-retries=2", "p"}, "did you mean --max-restarts=2?"},
      {{"--retries=2", "p"}, "did you mean --max-restarts=2?"},
      {{"-N", "2", "p"}, "did you mean --nnodes=2?"},
      {{"-n", "8", "p"}, "did you mean --nproc-per-node=8?"},
      {{"-n8", "p"}, "did you mean --nproc-per-node=8?"},
      {{"-np", "8", "p"}, "did you mean --nproc-per-node=8?"},
      {{"-np=8", "p"}, "did you mean --nproc-per-node=8?"},
      {{"-n", "train.py"}, "did you mean --nproc-per-node?"},
      {{"--ntasks-per-node=4", "p"}, "did you mean --nproc-per-node=4?"},
      {{"-ppn", "4", "p"}, "unknown option -ppn; did you mean --nproc-per-node?"},
      {{"--host", "n0,n1", "p"}, "did you mean --hosts?"},
      {{"-hostfile", "h", "p"}, "unknown option -hostfile; did you mean --hostfile?"},
      {{"-H", "n0,n1", "p"}, "unknown option -H; did you mean --hosts?"},
      {{"-x", "A=1", "p"}, "unknown option -x; did you mean --env NAME=VALUE?"},
      {{"--partition=gpu", "p"}, "options of srun go before ddprun: srun --partition=... ddprun"},
      {{"--mca", "btl", "tcp", "p"}, "ddprun needs no option of mpirun: leave it out"},
      {{"-version"}, "did you mean --version?"},
      {{"--bind-to", "core", "p"}, "did you mean --numa-binding?"},
      {{"help", "statsu"}, "did you mean `ddprun help status`?"},
      {{"help", ""}, "is named ''. The topics are "},
      {{"help", "restart"}, "restart is not a command of ddprun"},
      {{"help", "ddprun-train"}, "Use `ddprun-train --help`"},
      {{"help", "train"}, "`ddprun help run` describes a launch"},
  };
  for (const auto& [args, expected] : table) {
    EXPECT_NE(Refusal(args).find(expected), std::string::npos)
        << args.front() << " -> " << Refusal(args);
  }
}

TEST(CommandLine, AValueOfASwitchIsRefusedInOurWords) {
  const auto words = [](const std::string& flag, const std::string& value) {
    return flag + " does not take the value '" + value + "' (use " + flag + " or " + flag +
           "=false)";
  };
  EXPECT_EQ(Refusal({"--standalone=maybe", "p"}), words("--standalone", "maybe"));
  EXPECT_EQ(Refusal({"-m=train", "p"}), words("--module", "train"));
  for (const char* const value : {"", "-5s", "5 s", "1,2", "1e400", "0x10", "+1", " 1", "1."}) {
    EXPECT_EQ(Refusal({std::string("--quiet=") + value, "p"}), words("--quiet", value));
  }
  EXPECT_EQ(Refusal({"rendezvous", "--insecure=no-way"}), words("--insecure", "no-way"));
  EXPECT_EQ(Refusal({"p"}, {{"PET_STANDALONE", "x"}}),
            words("--standalone", "x") + " (--standalone is from PET_STANDALONE=x)");
  for (const char* const good : {"--standalone=false", "--use-env=1", "-v", "--verbose=yes"}) {
    EXPECT_TRUE(ParseCommandLine({good, "p"}, Environment({}))) << good;
  }
}

// Its reader has a terminal, and a line for each problem.
TEST(CommandLine, ARefusalIsOneLineForAnyText) {
  const std::string where = " (--on-hang is from PET_ON_HANG=";
  const std::vector<std::pair<std::string, std::string>> table = {{"a\nb", "a\\nb"},
                                                                  {"x\r\n", "x\\x0d\\n"},
                                                                  {"\x1b[31m\a", "\\x1b[31m\\x07"},
                                                                  {"\xff", "\\xff"},
                                                                  {"ä", "ä"}};
  for (const auto& [said, shown] : table) {
    const std::string must = "--on-hang must be restart, fail or observe: '" + shown + "'";
    EXPECT_EQ(Refusal({"--on-hang=" + said, "p"}), must);
    EXPECT_EQ(Refusal({"p"}, {{"PET_ON_HANG", said}}), must + where + shown + ")");
    for (const std::string option : {"--x", "-x"}) {
      EXPECT_TRUE(Refusal({option + said, "p"}).starts_with("unknown option " + option + shown));
    }
    EXPECT_NE(Refusal({"--standalone=" + said, "p"}).find(shown), std::string::npos);
  }
}

TEST(CommandLine, ARefusalOfAVerbIsOneLineToo) {
  const std::string said = "no/a\nb\x1b[31m";
  const std::vector<std::vector<std::string>> table = {
      {"rendezvous", "--listen=" + said},
      {"rendezvous", "--http-listen=" + said},
      {"rendezvous", "--log-format=" + said},
      {"rendezvous", said},
      {"logs", "--rank=" + said},
      {"logs", "--node=," + said},
      {"logs", "--output=" + said},
      {"logs", "--since=" + said},
      {"status", "-o", said},
      {"stacks", said},
      {"stacks", "--limit=" + said, "1"},
      {"stacks", "--keep", said},
      {"save", "--rank=" + said},
      {"stop", said},
      {"stop", "--soon", "--output=" + said},
      {"drain", "n0", said},
      {"check", "--output=" + said},
      {"check", "--" + said},
      {"check", "--nnodes=" + said},
      {"env", said},
      {"completion", said},
      {"slurm-script", "--nodes=" + said, "p"},
      {"k8s-manifest", "--nodes=" + said, "p"},
  };
  for (const std::vector<std::string>& words : table) {
    const std::string refusal = Refusal(words);
    EXPECT_NE(refusal.find("a\\nb\\x1b[31m"), std::string::npos) << words[0] << ": " << refusal;
    EXPECT_EQ(refusal.find_first_of("\n\x1b"), std::string::npos) << words[0] << ": " << refusal;
  }
  EXPECT_LT(Refusal({"logs", "--rank=" + std::string(1'000'000, 'x')}).size(), 4'000u);
}

TEST(CommandLine, OfAMegabyteThatIsRefusedBothEndsAreShown) {
  const std::string said = "begin" + std::string(1'000'000, 'x') + "end";
  for (const std::string flag :
       {"--on-hang", "--scale-up", "--rdzv-id", "--standalone", "--rdzv-conf"}) {
    const std::string refusal = Refusal({flag + "=" + said, "p"});
    EXPECT_LT(refusal.size(), 4'000u) << flag;
    for (const std::string& part : {flag, std::string("begin"), std::string("end")}) {
      EXPECT_NE(refusal.find(part), std::string::npos) << flag << " " << part;
    }
  }
  EXPECT_LT(Refusal({"p"}, {{"PET_ON_HANG", said}}).size(), 8'000u);
  EXPECT_LT(Refusal({"--" + said, "p"}).size(), 4'000u);
  const std::string path = SettingsFile(said + " = 1\n");
  EXPECT_LT(Refusal({"--config=" + path, "p"}).size(), 8'000u);
  std::filesystem::remove(path);
}

TEST(CommandLine, EveryProblemIsReportedAtOnce) {
  const std::string message = Refusal({"--nnodes=0", "--nproc-per-node=0", "--max-restarts=x"});
  for (const char* part : {"--nnodes", "--nproc-per-node", "--max-restarts"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(message.find("no program"), std::string::npos) << message;
}

TEST(CommandLine, AServerWithoutATokenIsNotOpenedOnEveryAddress) {
  const std::string server = Refusal({"rendezvous", "--listen=0.0.0.0:1"});
  EXPECT_TRUE(server.starts_with("--listen=0.0.0.0:1 would let any peer join")) << server;
  const std::string launch = Refusal({"--nnodes=2", "--rdzv-endpoint=0.0.0.0:1", "p"});
  EXPECT_TRUE(launch.starts_with("--rdzv-endpoint=0.0.0.0:1 would let any peer join")) << launch;
}

}  // namespace
}  // namespace ddprun
