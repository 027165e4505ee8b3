#include "launcher/cli.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <map>
#include <set>

#include "common/text.h"
#include "launcher/cli_testing.h"
#include "launcher/command_line/flags.h"
#include "launcher/command_line/help.h"
#include "launcher/command_line/message_help.h"
#include "launcher/command_line/raw_flags.h"
#include "launcher/hosts/host_orders.h"
#include "launcher/scrub.h"

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(CommandLine, ArgumentsAfterTheProgramAreItsOwn) {
  const LaunchConfig config =
      Launch({"--nproc-per-node=2", "--max-restarts", "3", "train", "--nnodes=7", "-v", "--", "x"});
  EXPECT_EQ(config.workers, 2u);
  EXPECT_EQ(config.spec.max_restarts, 3u);
  EXPECT_EQ(config.program, "train");
  EXPECT_EQ(config.args, (std::vector<std::string>{"--nnodes=7", "-v", "--", "x"}));
}

TEST(CommandLine, TorchrunsSpellingsAreOurs) {
  const LaunchConfig config = Launch({"--nproc_per_node", "4", "--rdzv_endpoint=n0:1", "--nnod=2:3",
                                      "--rdzv_id=a", "-r=3", "-t", "1", "-m", "--", "pkg"});
  EXPECT_EQ(config.workers, 4u);
  EXPECT_EQ(config.endpoint, (Endpoint{"n0", 1}));
  EXPECT_EQ(config.spec.min_nodes, 2u);
  EXPECT_EQ(config.spec.max_nodes, 3u);
  EXPECT_EQ(config.run_id, "a");
  EXPECT_EQ(config.output.redirects, 3u);
  EXPECT_EQ(config.output.tee, 1u);
  EXPECT_TRUE(config.module);
  EXPECT_EQ(config.program, "pkg");
}

TEST(CommandLine, FlagBeatsOwnVariableBeatsTorchruns) {
  const std::map<std::string, std::string> env = {{"PET_NNODES", "5"},
                                                  {"DDPRUN_NNODES", "4"},
                                                  {"PET_MAX_RESTARTS", "9"},
                                                  {"PET_REDIRECTS", "2"}};
  EXPECT_EQ(Launch({"p"}, env).spec.max_nodes, 4u);
  EXPECT_EQ(Launch({"--nnodes=3", "p"}, env).spec.max_nodes, 3u);
  EXPECT_EQ(Launch({"p"}, env).spec.max_restarts, 9u);
  EXPECT_EQ(Launch({"-r", "1", "p"}, env).output.redirects, 1u);
}

TEST(CommandLine, HostsSayHowManyNodes) {
  const LaunchConfig config = Launch({"--hosts=n1,n2:4", "--nproc-per-node=gpu", "p"});
  EXPECT_EQ(config.hosts.size(), 2u);
  EXPECT_EQ(config.spec.min_nodes, 2u);
  EXPECT_FALSE(config.standalone);
  EXPECT_EQ(config.cannot_start, "");  // A GPU is looked for on each host.
  EXPECT_EQ(Launch({"--hosts=n1,n2,n3", "--nnodes=1:8", "p"}).spec.max_nodes, 8u);
  EXPECT_EQ(Launch({"--hosts=n1", "p"}, {{"SLURM_JOB_ID", "5"}}).spec.max_nodes, 1u);
}

// It is a node of that run, whatever its environment or file say of hosts.
TEST(CommandLine, ANodeThatHostsStartedStartsNoHosts) {
  const std::map<std::string, std::string> env = {
      {"DDPRUN_LAUNCH_PLACE", "1 n2 n1,n2"}, {"DDPRUN_HOSTS", "n1,n2"}, {"SLURM_JOB_ID", "5"}};
  const LaunchConfig config =
      Launch({"--nnodes=2", "--node-rank=1", "--rdzv-endpoint=n1:20001", "p"}, env);
  EXPECT_TRUE(config.hosts.empty());
  EXPECT_EQ(config.context.node, "n2");
  EXPECT_EQ(config.context.index, 1u);
  EXPECT_EQ(config.node_rank, 1u);
}

// A scheduler's value counts less than any that a person has set, and more than a default.
TEST(CommandLine, ASchedulersWordIsBelowEveryOther) {
  const std::map<std::string, std::string> step = {
      {"SLURM_JOB_ID", "5"},         {"SLURM_STEP_ID", "0"},
      {"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_STEP_NUM_TASKS", "2"},
      {"SLURM_NODEID", "1"},         {"SLURM_PROCID", "1"},
      {"SLURM_LOCALID", "0"},        {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
      {"SLURM_GPUS_ON_NODE", "3"},   {"SLURM_STEP_NODELIST", "n[1-2]"},
      {"SLURMD_NODENAME", "n2"},     {"PET_ROLE", "a"}};
  const LaunchConfig config = Launch({"p"}, step);
  EXPECT_EQ(config.spec.max_nodes, 2u);
  EXPECT_EQ(config.node_rank, 1u);
  EXPECT_EQ(config.endpoint.host, "n1");
  EXPECT_EQ(config.run_id, "5.0.0");
  EXPECT_EQ(config.workers, 3u);
  EXPECT_EQ(config.context.node, "n2");
  EXPECT_EQ(Launch({"--nproc-per-node=2", "p"}, step).workers, 2u);
  EXPECT_FALSE(Launch({"--nnodes=1", "p"}, step).context.IsPlaced());
  EXPECT_TRUE(Launch({"--nnodes=1", "p"}, step).standalone);
  EXPECT_NE(Refusal({"--nnodes=3", "p"}, step).find("Slurm step 5.0 has 2"), std::string::npos);
  const auto as_torchrun = ParseCommandLine({"p"}, Environment(step), "torchrun");
  ASSERT_TRUE(as_torchrun);
  EXPECT_TRUE(std::get<LaunchConfig>(*as_torchrun).standalone);
  EXPECT_TRUE(std::holds_alternative<Print>(
      *ParseCommandLine({"--help"}, Environment({{"PALS_RANKID", "0"}}))));
  EXPECT_EQ(Launch({"p"}, {{"PET_N_PROC_PER_NODE", "4"}}).workers, 4u);
}

// Of a flag given twice the later counts.
TEST(CommandLine, EverySettingHasItsOrigin) {
  const LaunchConfig config = Launch({"-r", "1", "--nnodes=2", "--nnodes=3", "-m", "-mv", "p"},
                                     {{"PET_NNODES", "5"},
                                      {"PET_ROLE", "a"},
                                      {"DDPRUN_TEE", "0"},
                                      {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "7"}});
  std::map<std::string, std::string> found;
  for (const Setting& setting : config.settings) {
    found[setting.name] = setting.value + " " + setting.origin;
  }
  EXPECT_EQ(found["redirects"], "1 command line");
  EXPECT_EQ(found["nnodes"], "3 command line");
  EXPECT_EQ(config.spec.max_nodes, 3u);
  EXPECT_EQ(found["module"], "true command line");
  EXPECT_EQ(found["verbose"], "true command line");
  EXPECT_EQ(found["role"], "a PET_ROLE");
  EXPECT_EQ(found["tee"], "0 DDPRUN_TEE");
  EXPECT_EQ(found["shutdown-timeout"], "7 TORCH_ELASTIC_SHUTDOWN_TIMEOUT");
  EXPECT_EQ(found["max-restarts"], "0 default");
  EXPECT_EQ(found.count("help"), 0u);
  EXPECT_EQ(config.spec.shutdown_timeout, Duration{7000});
}

TEST(CommandLine, AsTorchrunNoWordIsAVerb) {
  EXPECT_EQ(ProgramName("/usr/bin/torchrun"), "torchrun");
  EXPECT_EQ(ProgramName("torchrun2"), "ddprun");
  for (const char* verb : {"env", "completion", "rendezvous"}) {
    EXPECT_FALSE(
        std::holds_alternative<LaunchConfig>(*ParseCommandLine({verb, "-h"}, Environment({}))))
        << verb;
    const auto line = ParseCommandLine({verb, "-h"}, Environment({}), "torchrun");
    ASSERT_TRUE(line);
    EXPECT_EQ(std::get<LaunchConfig>(*line).program, verb);
  }
}

TEST(Environment, AVariableThatIsNearlyAFlagsIsNamedAndDdprunsOwnAreNot) {
  const auto warned = [](const char* variable) { return MisspeltVariables({{variable, "3"}}); };
  EXPECT_THAT(warned("DDPRUN_MAX_RESTART"),
              ElementsAre("ignoring the variable DDPRUN_MAX_RESTART; did you mean "
                          "DDPRUN_MAX_RESTARTS?"));
  EXPECT_THAT(warned("PET_NPROC_PER_NOD"), ElementsAre(HasSubstr(" PET_NPROC_PER_NODE?")));
  const WorkerEnv worker{.term = {1}, .notify_socket = "s", .life_lock = "l"};
  EXPECT_THAT(MisspeltVariables(ToEnvironment(worker)), IsEmpty());
  for (const char* const variable : {"DDPRUN_MAX_RESTARTS",
                                     "PET_MAX_RESTARTS",
                                     "PET_N_PROC_PER_NODE",
                                     "DDPRUN_GPUS",
                                     "DDPRUN_TOKEN",
                                     "DDPRUN_LAUNCH_PLACE",
                                     "DDPRUN_WATCH",
                                     "DDPRUN_PRELOAD_HOOK",
                                     "DDPRUN_PYTHON_HOOK",
                                     "DDPRUN_ENDPOINT",
                                     "DDPRUN_OUTPUT",
                                     "DDPRUN_MUNGE_SOCKET",
                                     "DDPRUN_HOST_ROOT",
                                     "DDPRUN_CHECK_CAUSE",
                                     "DDPRUN_CHECK_VERDICT",
                                     "DDPRUN_KEPT",
                                     "DDPRUN_MINE",
                                     "MAX_RESTART",
                                     "PET_NAME",
                                     "DDPRUN_"}) {
    EXPECT_THAT(warned(variable), IsEmpty()) << variable;
  }
}

// The description of the flags is made of this table.
TEST(Flags, SayWhatTheirValuesAre) {
  for (const FlagRow& row : FlagTable()) {
    EXPECT_FALSE(row.help.empty()) << row.name;
    EXPECT_NE(row.form, "TEXT") << row.name;  // CLI11's word where no value was given.
    EXPECT_FALSE(row.group.empty()) << row.name;
  }
}

TEST(CommandLine, VariablesAddUp) {
  const LaunchConfig config =
      Launch({"--env=A=1", "--env", "B=x=y", "--env=A=2", "p"}, {{"DDPRUN_ENV", "B=0\nC="}});
  EXPECT_EQ(config.variables,
            (std::map<std::string, std::string>{{"A", "2"}, {"B", "x=y"}, {"C", ""}}));
}

// torchrun's static rendezvous: what is named is what the workers get.
TEST(CommandLine, AMasterPortIsLiteral) {
  const LaunchConfig two = Launch({"--nnodes=2", "--master-addr=n0", "--master-port=29511", "p"});
  EXPECT_TRUE(two.literal_master);
  EXPECT_EQ(two.endpoint, (Endpoint{"n0", 29511}));
  EXPECT_EQ(two.node_rank, 0u);
  EXPECT_EQ(Launch({"--nnodes=2", "--master-addr=::1", "p"}).endpoint, (Endpoint{"::1", 29500}));
  EXPECT_TRUE(Launch({"p"}, {{"PET_MASTER_PORT", "29511"}}).literal_master);
  EXPECT_FALSE(Launch({"--master-addr=n0", "p"}).literal_master);
  EXPECT_FALSE(Launch({"--standalone", "--master-port=29511", "p"}).literal_master);
  EXPECT_FALSE(Launch({"--rdzv-endpoint=n0:1", "--master-port=29511", "p"}).literal_master);
  EXPECT_TRUE(Launch({"--rdzv-backend=static", "--rdzv-endpoint=n0:1", "p"}).literal_master);
  EXPECT_FALSE(Launch({"--rdzv-backend=static", "--rdzv-endpoint=n0:0", "p"}).literal_master);
}

TEST(CommandLine, SignalsAreNamed) {
  EXPECT_EQ(Launch({"p"}).signals.numbers,
            (std::set<int>{SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}));
  const HandledSignals some = Launch({"--signals-to-handle=SIGTERM, SIGFOO", "p"}).signals;
  EXPECT_EQ(some.numbers, std::set<int>{SIGTERM});
  EXPECT_EQ(some.unknown, std::vector<std::string>{"SIGFOO"});
}

TEST(CommandLine, OneNodeOpensNoSocket) {
  EXPECT_TRUE(Launch({"p"}).standalone);
  EXPECT_TRUE(Launch({"--nnodes=1", "--rdzv-endpoint=n0:1", "p"}).standalone);
  EXPECT_FALSE(Launch({"--nnodes=1:2", "p"}).standalone);
  EXPECT_EQ(Launch({"--nnodes=2", "p"}).endpoint, (Endpoint{"127.0.0.1", 29400}));
}

// A line of a paragraph ends because the next word has no room.
void ExpectFullLines(const std::string& page) {
  constexpr std::size_t kWidth = 100;
  bool code = false;
  std::string last;  // Of the same paragraph or item.
  for (const std::string& line : Split(page, '\n')) {
    const std::string_view text = Trimmed(line);
    code = code != line.starts_with("```");
    const bool other = code || text.empty() || line.find_first_of("|#`") == 0;
    const bool item = text.starts_with("- ") || (text.find(". ") == 1 && text.front() <= '9');
    if (!other && !item && !last.empty()) {
      EXPECT_GT(last.size() + 1 + text.substr(0, text.find(' ')).size(), kWidth) << last;
    }
    last = other ? "" : line;
  }
}

// A page that a flag or a message names must be there: packages have no docs/.
TEST(CommandLine, HelpShowsTheTopicsThatItNames) {
  const std::string before = "ddprun help ";
  std::set<std::string> named;
  for (const FlagRow& row : FlagTable()) {
    EXPECT_EQ(row.help.find("docs/"), std::string::npos) << row.help;
    if (const std::size_t at = row.help.find(before); at != std::string::npos) {
      const std::size_t begin = at + before.size();
      named.insert(row.help.substr(begin, row.help.find(')', begin) - begin));
    }
  }
  EXPECT_GE(named.size(), 5u);
  for (const std::string& topic : named) {
    EXPECT_TRUE(TopicHelp(topic)) << topic;
  }
  EXPECT_NE(ShortHelp("ddprun").find("\n  " + Joined(Topics(), "  ") + "\n"), std::string::npos);
  for (const std::string& topic : Topics()) {
    const Result<CommandLine> line = ParseCommandLine({"help", topic}, Environment({}));
    ASSERT_TRUE(line) << line.error().message;
    const std::string& page = std::get<Print>(*line).text;
    EXPECT_TRUE(page.starts_with("# ")) << page;
    EXPECT_EQ(page.find("]("), std::string::npos) << page;
    EXPECT_EQ(page.find("!["), std::string::npos) << page;
    ExpectFullLines(page);
  }
}

TEST(CommandLine, AFlagMayHaveAliases) {
  const LaunchConfig config =
      Launch({"--nodes=2:3", "--endpoint=n0:7", "--shared-dir=d", "--gpus=1,0", "p"});
  EXPECT_EQ(config.spec.max_nodes, 3u);
  EXPECT_EQ(config.endpoint, (Endpoint{"n0", 7}));
  EXPECT_EQ(config.run_dir, "d");
  EXPECT_EQ(ValueOf(config.settings, "gpu-ids"), "1,0");
  EXPECT_EQ(Launch({"--gpus=1", "--gpu-ids=2", "p"}).gpus, "2");  // The later one counts.
  EXPECT_EQ(Launch({"p"}, {{"DDPRUN_GPUS", "3"}}).gpus, "3");
  EXPECT_EQ(Launch({"--gpu=4", "p"}).gpus, "4");  // torchrun's abbreviations, of one name alone.
}

// One reading of time, whatever the flag: torchrun's own take plain seconds alone.
TEST(CommandLine, EveryTimeMayHaveUnits) {
  const LaunchConfig config =
      Launch({"--shutdown-timeout=1m30s",
              "--rdzv-conf=join_timeout=1h30m,last_call_timeout=0.25,read_timeout=60",
              "--monitor-interval=100ms", "--exit-barrier-timeout=00:05:00", "p"});
  EXPECT_EQ(config.spec.shutdown_timeout, Duration{90'000});
  EXPECT_EQ(config.spec.join_timeout, Duration{5'400'000});
  EXPECT_EQ(config.spec.last_call, Duration{250});
}

// A flag has the name of its field, but for four fields that --nnodes and --rdzv-conf set.
TEST(Flags, SetTheirFieldsOfTheRun) {
  std::map<std::string, FlagRow> rows;
  for (const FlagRow& row : FlagTable()) {
    rows[row.name] = row;
  }
  const RunSpec plain = Launch({"p"}).spec;
  std::set<std::string> others;
  ForEach(kSpecFields, [&](const auto& field) {
    std::string name = field.name;
    std::ranges::replace(name, '_', '-');
    const auto row = rows.find(name);
    if (row == rows.end()) {
      others.insert(name);
      return;
    }
    const FlagRow& flag = row->second;
    const std::string value = flag.choices.empty() ? "3600" : flag.choices.at(1);
    RunSpec spec = Launch({"--" + name + "=" + value, "p"}).spec;
    EXPECT_NE(spec.*field.member, plain.*field.member) << name;
    spec.*field.member = plain.*field.member;
    EXPECT_EQ(spec, plain) << name;
  });
  EXPECT_EQ(others, (std::set<std::string>{"join-timeout", "last-call", "max-nodes", "min-nodes"}));
}

TEST(CommandLine, WithoutAHangTimeoutAHangOfTenMinutesIsOnlyReported) {
  struct Case {
    std::vector<std::string> flags;
    int timeout_s;
    std::uint32_t on_hang;
    bool by_default;
  };
  for (const Case& one : std::vector<Case>{
           {{}, 600, kHangIsReported, true},
           {{"--hang-timeout=5m"}, 300, kHangRestarts, false},
           {{"--hang-timeout=0"}, 0, kHangRestarts, false},
           {{"--hang-timeout=600"}, 600, kHangRestarts, false},
           {{"--on-hang=fail"}, 600, kHangFails, false},
           {{"--on-hang=restart"}, 600, kHangRestarts, false},
           {{"--start-timeout=5m"}, 0, kHangRestarts, false},
           {{"--start-timeout=0"}, 600, kHangIsReported, true},  // Once it turned all off.
           {{"--attach-rank=0"}, 0, kHangRestarts, false},
       }) {
    std::vector<std::string> line = one.flags;
    line.emplace_back("p");
    const LaunchConfig config = Launch(line);
    EXPECT_EQ(config.hang_timeout, std::chrono::seconds(one.timeout_s)) << line[0];
    EXPECT_EQ(config.spec.on_hang, one.on_hang) << line[0];
    EXPECT_EQ(config.hang_by_default, one.by_default) << line[0];
    // As --dry-run shows them.
    const std::string on_hang = WordsOf("restart|fail|observe")[one.on_hang];
    EXPECT_EQ(ValueOf(config.settings, "on-hang"), on_hang) << line[0];
    EXPECT_EQ(*ParseDuration("", *ValueOf(config.settings, "hang-timeout")), config.hang_timeout);
  }
}

TEST(CommandLine, TheStartTimeoutThatIsInForceIsShown) {
  const auto shown = [](std::vector<std::string> flags) {
    flags.emplace_back("p");
    return ValueOf(Launch(flags).settings, "start-timeout").value_or("");
  };
  EXPECT_EQ(shown({}), "three times --hang-timeout");
  EXPECT_EQ(shown({"--hang-timeout=5m"}), "three times --hang-timeout");
  EXPECT_EQ(shown({"--hang-timeout=0"}), "0");
  EXPECT_EQ(shown({"--attach-rank=0"}), "0");
  EXPECT_EQ(shown({"--hang-timeout=5m", "--start-timeout=20m"}), "20m");
  EXPECT_EQ(shown({"--start-timeout=0"}), "0");
}

TEST(CommandLine, ALogDirectoryAloneKeepsAllOutput) {
  const auto copies = [](std::vector<std::string> flags) {
    flags.emplace_back("p");
    return Launch(flags).output.copy;
  };
  EXPECT_TRUE(copies({"--log-dir=d"}));
  EXPECT_TRUE(Launch({"p"}, {{"PET_LOG_DIR", "d"}}).output.copy);
  EXPECT_FALSE(copies({"--nnodes=1"}));
  EXPECT_FALSE(copies({"--log-dir=/dev/null"}));
  EXPECT_FALSE(copies({"--log-dir=d", "-r=1"}));
  EXPECT_FALSE(copies({"--log-dir=d", "-t=0:1"}));
  for (const char* const flag : {"-r=0", "-t=0", "--attach-rank=0"}) {
    EXPECT_FALSE(Launch({"--log-dir=d", flag, "p"}).KeepsOutput()) << flag;
  }
  const LaunchConfig job = Launch({"p"}, {{"SLURM_JOB_ID", "5"},
                                          {"SLURM_JOB_NUM_NODES", "1"},
                                          {"SLURM_JOB_NODELIST", "n0"},
                                          {"SLURMD_NODENAME", "n0"}});
  EXPECT_EQ(job.log_dir, "ddprun_logs");
  EXPECT_FALSE(job.KeepsOutput());  // The scheduler's files have the output.
  std::vector<std::string> flags;   // As a pool's daemon reads them.
  for (const Setting& setting : SettingsThatTravel(job)) {
    flags.push_back("--" + setting.name + "=" + setting.value);
  }
  flags.emplace_back("p");
  EXPECT_EQ(Launch(flags).log_dir, "ddprun_logs");
  EXPECT_FALSE(Launch(flags).KeepsOutput());
}

TEST(CommandLine, TheHangTimeoutIsATime) {
  const std::map<std::string, int> milliseconds = {
      {"0.0001", 1},           {"0.57", 570},
      {"30", 30'000},          {"0.5", 500},
      {"90s", 90'000},         {"250ms", 250},
      {"5m", 300'000},         {"2min", 120'000},
      {"1.5h", 5'400'000},     {"1h30m", 5'400'000},
      {"1m0.5s", 60'500},      {"1d", 86'400'000},
      {"01:30:00", 5'400'000}, {"1d2h3m4s5ms", 93'784'005},
      {"1e3", 1'000'000}};
  for (const auto& [text, expected] : milliseconds) {
    EXPECT_EQ(Launch({"--hang-timeout=" + text, "p"}).hang_timeout, Duration{expected}) << text;
  }
  EXPECT_EQ(Launch({"p"}, {{"PET_HANG_TIMEOUT", "7"}}).hang_timeout, Duration{7'000});
  for (const char* bad : {"-1", "x", "5 s", "3w", "s", ".", "1h30", "1m1h", "1s1s", "90:00",
                          "01:60:00", "1:2:3:4", "1e12"}) {
    EXPECT_NE(Refusal({"--hang-timeout", bad, "p"}).find("--hang-timeout must be a time"),
              std::string::npos)
        << bad;
  }
}

TEST(CommandLine, TheTokenComesFromAFileOrTheEnvironmentNeverFromAFlag) {
  const LaunchConfig config = Launch({"--token-file=t", "p"}, {{"DDPRUN_TOKEN", "secret"}});
  EXPECT_EQ(config.token_file, "t");
  EXPECT_EQ(config.token, "secret");
  const auto server = ParseCommandLine({"rendezvous"}, Environment({{"DDPRUN_TOKEN_FILE", "f"}}));
  EXPECT_EQ(std::get<ServerConfig>(*server).token_file, "f");
}

TEST(CommandLine, AVerbIsTheFirstWordUnlessDashesSayItIsAProgram) {
  EXPECT_TRUE(std::holds_alternative<VerbRequest>(*ParseCommandLine({"status"}, Environment({}))));
  EXPECT_EQ(Launch({"--", "status"}).program, "status");
}

// Or why nothing is.
std::string Printed(const std::vector<std::string>& args) {
  const Result<CommandLine> line = ParseCommandLine(args, Environment({}));
  const Print* const print = line ? std::get_if<Print>(&*line) : nullptr;
  return print != nullptr ? print->text : line ? "another request" : line.error().message;
}

TEST(CommandLine, HelpAndVersionNeedNoProgramAndAreWordsToo) {
  EXPECT_EQ(Printed({"help"}), Printed({"-h"}));
  EXPECT_EQ(Printed({"help", "-h"}), Printed({"-h"}));
  EXPECT_EQ(Printed({"help", "--help"}), Printed({"-h"}));
  EXPECT_NE(Printed({"help", "-V"}).find("`ddprun --version`"), std::string::npos);
  EXPECT_EQ(Printed({"help", "run"}), Printed({"--help"}));
  EXPECT_NE(Printed({"--help"}).find("--rdzv-conf"), std::string::npos);
  EXPECT_EQ(Printed({"help", "rendezvous"}), Printed({"rendezvous", "--help"}));
  for (const char* const part :
       {"ddprun PROGRAM:", "  129-131, 143  stopped by", "ddprun-train and"}) {
    EXPECT_NE(Printed({"help", "exit-codes"}).find(part), std::string::npos) << part;
  }
  EXPECT_EQ(Printed({"version"}), Printed({"--version"}));
  EXPECT_EQ(Printed({"-V"}), Printed({"--version"}));
  EXPECT_TRUE(Printed({"--version"}).starts_with("ddprun " DDPRUN_VERSION));
  EXPECT_TRUE(
      std::holds_alternative<VerbRequest>(*ParseCommandLine({"help", "status"}, Environment({}))));
  // The first screen names every command.
  for (const std::string& verb : VerbNames()) {
    EXPECT_TRUE(verb == "run" || Printed({"help"}).find(verb) != std::string::npos) << verb;
  }
}

TEST(CommandLine, HelpShowsAFlagWithAndWithoutItsDashes) {
  const std::string help = Printed({"help", "max-restarts"});
  EXPECT_TRUE(help.starts_with("  --max-restarts N  ")) << help;
  EXPECT_NE(Printed({"--help"}).find("\n" + help), std::string::npos) << help;
  for (const char* const word : {"--max-restarts", "max_restarts"}) {
    EXPECT_EQ(Printed({"help", word}), help);
  }
  EXPECT_EQ(Printed({"help", "nodes"}), Printed({"help", "nnodes"}));  // An alias.
  EXPECT_NE(Printed({"help", "hang-timeot"}).find("did you mean `ddprun help hang-timeout`?"),
            std::string::npos);
}

TEST(CommandLine, HelpExplainsAMessageByTheWordItEndsIn) {
  const auto printed = [](const std::string& word) { return Printed({"help", word}); };
  const std::string help = printed("no-restarts-left");
  EXPECT_TRUE(help.starts_with("`no restarts are allowed (--max-restarts)`")) << help;
  for (const char* const part : {"\n\nCause: ", "\n\nConfirm: ", "\n\nDo: "}) {
    EXPECT_NE(help.find(part), std::string::npos) << help;
  }
  EXPECT_EQ(printed("[no-restarts-left]"), help);
  EXPECT_NE(printed("no-restart-left").find("did you mean `ddprun help no-restarts-left`?"),
            std::string::npos);
  EXPECT_NE(printed("mesages").find("did you mean `ddprun help messages`?"), std::string::npos);
  for (const char* const word : {"[]", "security"}) {
    EXPECT_NE(printed(word).find("The topics are "), std::string::npos);
    EXPECT_NE(printed(word).find("node-checks, "), std::string::npos);
  }
  for (const std::string& slug : ExplainedSlugs()) {
    EXPECT_NE(printed("messages").find("\n" + slug + "\n  `"), std::string::npos) << slug;
    // No markup is left: neither a link nor bold text.
    EXPECT_EQ(printed(slug).find("]("), std::string::npos) << printed(slug);
    EXPECT_EQ(printed(slug).find("**"), std::string::npos) << printed(slug);
  }
}

TEST(CommandLine, RunIsALaunch) {
  const LaunchConfig config = Launch({"run", "--nproc-per-node=2", "train.py", "run"});
  EXPECT_EQ(config.program, "train.py");
  EXPECT_EQ(config.args, std::vector<std::string>{"run"});
  EXPECT_EQ(config.workers, 2U);
}

TEST(Secrets, AreKnownByTheirNames) {
  for (const char* name :
       {"DDPRUN_TOKEN", "token-file", "AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY"}) {
    EXPECT_TRUE(IsSecret(name)) << name;
  }
  for (const char* name : {"NCCL_DEBUG", "SLURM_JOB_ID", "nnodes", ""}) {
    EXPECT_FALSE(IsSecret(name)) << name;
  }
}

TEST(OutputFlags, FiltersAndRanks) {
  EXPECT_EQ(*ParseFilters(""), std::vector<std::string>{});
  EXPECT_EQ(*ParseFilters("apple,o,,r"), (std::vector<std::string>{"apple", "o,r"}));
  EXPECT_EQ(*ParseFilters(",a,"), (std::vector<std::string>{"a"}));
  EXPECT_EQ(*ParseRanks("--x", "0, 2"), (std::vector<std::uint32_t>{0, 2}));
  EXPECT_FALSE(ParseRanks("--x", "")->has_value());
  EXPECT_FALSE(ParseRanks("--x", "0,-1"));
}

}  // namespace
}  // namespace ddprun
