#include "launcher/verbs/verbs.h"

#include <gtest/gtest.h>

#include <map>

#include "common/result_testing.h"
#include "proto/environment_testing.h"

namespace ddprun {
namespace {

using std::chrono_literals::operator""ms;

Result<VerbRequest> Parsed(const std::vector<std::string>& args,
                           const std::map<std::string, std::string>& environment = {}) {
  return ParseVerb(args, Environment(environment));
}

std::string Problem(const std::vector<std::string>& args) {
  const auto parsed = Parsed(args);
  return parsed ? "" : parsed.error().message;
}

TEST(Verbs, StatusTakesItsServerFromFlagsOrEnvironment) {
  const auto by_flag = Parsed({"status", "--endpoint=n0:1", "--rdzv-id", "demo", "-o", "json"});
  ASSERT_TRUE(by_flag) << by_flag.error().message;
  const auto& request = std::get<StatusRequest>(*by_flag);
  EXPECT_EQ(request.server.endpoint, "n0:1");
  EXPECT_EQ(request.server.run_id, "demo");
  EXPECT_TRUE(request.json);
  const auto by_environment = Parsed({"status"}, {{"DDPRUN_ENDPOINT", "n9:2"}});
  EXPECT_EQ(std::get<StatusRequest>(*by_environment).server.endpoint, "n9:2");
  EXPECT_FALSE(std::get<StatusRequest>(*by_environment).json);
}

TEST(Verbs, AnUnusableValueIsNamedWithItsVariable) {
  EXPECT_TRUE(Fails(Parsed({"status"}, {{"DDPRUN_OUTPUT", "xml"}}), "DDPRUN_OUTPUT=xml"));
  for (const auto& [variable, value] :
       std::map<std::string, std::string>{{"DDPRUN_ENDPOINT", "a:b:c"},
                                          {"DDPRUN_RUN_DIR", "/none"},
                                          {"DDPRUN_TOKEN_FILE", "/none"}}) {
    const auto parsed = Parsed({"status"}, {{variable, value}});
    ASSERT_TRUE(parsed) << parsed.error().message;
    EXPECT_TRUE(Fails(FindServer(std::get<StatusRequest>(*parsed).server), variable + "=" + value));
  }
}

// Its reader has a terminal.
TEST(Verbs, APlaceThatCannotBeIsRefusedInOneLine) {
  for (const std::string endpoint : {"n0:1\nx", "\n"}) {
    const auto parsed = Parsed({"status"}, {{"DDPRUN_ENDPOINT", endpoint}});
    ASSERT_TRUE(parsed) << parsed.error().message;
    const Result<ServerPlace> place = FindServer(std::get<StatusRequest>(*parsed).server);
    EXPECT_TRUE(Fails(place, ErrorKind::kInvalid, "\\n"));
    EXPECT_EQ(place.error().message.find('\n'), std::string::npos) << place.error().message;
  }
}

TEST(Verbs, AValueOfASwitchIsRefusedInOurWords) {
  const std::string words = " does not take the value 'x' (use ";
  EXPECT_EQ(Problem({"status", "--watch=x"}), "--watch" + words + "--watch or --watch=false)");
  EXPECT_EQ(Problem({"logs", "--follow=x"}), "--follow" + words + "--follow or --follow=false)");
  const auto parsed = Parsed({"status"}, {{"DDPRUN_WATCH", "x"}});
  ASSERT_FALSE(parsed);
  EXPECT_TRUE(parsed.error().message.ends_with("(--watch is from DDPRUN_WATCH=x)"))
      << parsed.error().message;
}

std::string Script(std::vector<std::string> args) {
  args.insert(args.begin(), "slurm-script");
  const auto parsed = Parsed(args);
  return parsed ? std::get<HelpRequest>(*parsed).text : parsed.error().message;
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Verbs, SlurmScriptSaysWhatWasAsked) {
  const std::string text =
      Script({"--nodes=3", "--gpus=2", "--name=big", "--sbatch=--partition=gpu", "--sbatch=--mem=0",
              "./train", "--lr=0.1", "a b"});
  EXPECT_TRUE(text.starts_with("#!/bin/bash\n")) << text;
  for (const char* part :
       {"\n#SBATCH --job-name=big\n",
        "\n#SBATCH --nodes=3 --ntasks-per-node=1 --cpus-per-task=8\n#SBATCH --gpus-per-node=2\n",
        "\n#SBATCH --signal=USR1@180\n", "--shutdown-timeout=150",
        "\n#SBATCH --partition=gpu\n#SBATCH --mem=0\n", "  ./train --lr=0.1 'a b' \"$@\"\n"}) {
    EXPECT_TRUE(Has(text, part)) << part << text;
  }
  EXPECT_FALSE(Has(text, "checkpoint-dir"));
  EXPECT_TRUE(Has(text, "must catch USR1, save and end with 75.\nsrun ")) << text;
}

TEST(Verbs, SlurmScriptsWarningIsATime) {
  EXPECT_TRUE(Has(Script({"--warning=1h30m", "p"}), "\n#SBATCH --signal=USR1@5400\n"));
  EXPECT_TRUE(Has(Script({"--warning=00:02:00", "p"}), "\n#SBATCH --signal=USR1@120\n"));
  EXPECT_EQ(Script({"--warning=0", "p"}), "--warning must be whole seconds, 1 or more: '0'");
  EXPECT_EQ(Script({"--warning=1500ms", "p"}),
            "--warning must be whole seconds, 1 or more: '1500ms'");
}

TEST(Verbs, SlurmScriptKeepsNoWordOfItsExample) {
  for (const char* const form : {"--nodes=3", "--elastic", "--array=2"}) {
    const std::string text =
        Script({form, "--gpus=2", "--time=9", "--warning=70", "--name=mine", "p"});
    for (const char* const part : {"train-", "mlp", "ckpt", "0-9", "4 of 5", "3:4", "00:00", "=32",
                                   "-node=8", "USR1@1", "=150", "=90"}) {
      EXPECT_FALSE(Has(text, part)) << part << text;
    }
  }
}

TEST(Verbs, SlurmScriptHasItsForms) {
  const std::string elastic = Script({"--elastic", "--nodes=4", "--spares=2", "ddprun-train"});
  EXPECT_TRUE(Has(elastic, "#SBATCH --nodes=6 ")) << elastic;
  EXPECT_TRUE(Has(elastic, "#SBATCH --no-kill\n"));
  EXPECT_FALSE(Has(elastic, "must catch USR1"));
  EXPECT_TRUE(Has(elastic, "--nnodes=3:4 "));
  EXPECT_TRUE(Has(elastic, "ddprun-train --checkpoint-dir=\"ckpt-$SLURM_JOB_ID\" \"$@\""));
  EXPECT_TRUE(Has(elastic, "\n# 4 of 6 nodes train and the others wait.")) << elastic;
  const std::string none = Script({"--elastic", "--nodes=4", "--spares=0", "ddprun-train"});
  EXPECT_TRUE(Has(none, "\n# 4 nodes train, and no spare waits.")) << none;
  EXPECT_TRUE(Has(none, "as long as 3 are left")) << none;
  EXPECT_FALSE(Has(none, "a spare")) << none;
  EXPECT_TRUE(Has(Script({"--spares=0", "ddprun-train"}), "#SBATCH --nodes=1 "));
  const std::string array = Script({"--array=5", "ddprun-train", "--checkpoint-dir=here"});
  EXPECT_TRUE(Has(array, "#SBATCH --array=0-4%1\n")) << array;
  EXPECT_TRUE(Has(array, "ddprun-train --checkpoint-dir=here \"$@\""));
}

TEST(Verbs, SlurmScriptNamesAllProblemsAtOnce) {
  const std::string text =
      Script({"--elastic", "--array=0", "--gpus=x", "--name=a b", "--sbatch=partition"});
  for (const char* part :
       {"--elastic and --array", "--gpus must be a number from 0 to 100000: 'x'",
        "--name must be one word: 'a b'", "--sbatch takes a flag", "no program given"}) {
    EXPECT_TRUE(Has(text, part)) << part << "\n" << text;
  }
  EXPECT_TRUE(Has(Script({""}), "no program given"));
  EXPECT_TRUE(Has(Script({"--spares=1", "x"}), "need --elastic"));
  EXPECT_TRUE(Has(Script({"--nodes=2:4", "x"}), "--nodes=MAX --elastic --least=MIN"));
  EXPECT_TRUE(Has(Script({"--array=2", "--nodes=2", "x"}), "one node"));
  EXPECT_TRUE(Has(Script({"--elastic", "--nodes=2", "--least=3", "x"}), "more than --nodes=2"));
}

// A flag of the launch has the same name here, and the other way round.
TEST(Verbs, TakeTheNamesOfALaunch) {
  const auto of = [](const std::string& flag,
                     const std::map<std::string, std::string>& variables = {}) {
    return std::get<StatusRequest>(*Parsed({"status", flag}, variables)).server;
  };
  EXPECT_EQ(of("--rdzv-endpoint=n0:1").endpoint, "n0:1");
  EXPECT_EQ(of("--shared-dir=d").run_dir, "d");
  // A launch's variable with an endpoint must not hide its run directory from a verb.
  EXPECT_EQ(of("--run-dir=d", {{"DDPRUN_RDZV_ENDPOINT", "n0:1"}}).endpoint, "");
}

TEST(Verbs, SlurmScriptAnswersForeignFlagsWithItsOwn) {
  EXPECT_EQ(Script({"--partition=gpu", "train.py"}),
            "--partition=gpu is a flag of sbatch: set --sbatch=--partition=gpu");
  EXPECT_EQ(Script({"-A", "me", "train.py"}),
            "--account=me is a flag of sbatch: set --sbatch=--account=me");
  EXPECT_EQ(Script({"--exclusive", "train.py"}),
            "--exclusive is a flag of sbatch: set --sbatch=--exclusive");
  EXPECT_TRUE(Has(Script({"--nnodes=2:4", "train.py"}),
                  "\nfor --nnodes=MIN:MAX of the launch set --nodes=MAX --elastic --least=MIN"));
  EXPECT_TRUE(Has(Script({"--nnodes=2", "train.py"}), "#SBATCH --nodes=2 "));
  // Where a flag is unknown, what follows may be its value or the program.
  for (const char* const verb : {"slurm-script", "k8s-manifest", "example"}) {
    EXPECT_EQ(Problem({verb, "--wrong", "train.py"}),
              "unknown option --wrong (ddprun " + std::string(verb) + " --help lists all)");
  }
}

TEST(Verbs, BadLinesAreNamed) {
  EXPECT_NE(Problem({"status", "x", "y"}).find("unexpected argument: 'y'"), std::string::npos);
  EXPECT_NE(Problem({"status", "x", "--rdzv-id=y"}).find("'y' (--rdzv-id) and 'x'"),
            std::string::npos);
  EXPECT_NE(Problem({"status", "-o", "xml"}).find("text or json"), std::string::npos);
  EXPECT_NE(Problem({"status", "--endpont=n0:1"}).find("did you mean --endpoint"),
            std::string::npos);
  EXPECT_EQ(std::get<LogsRequest>(*Parsed({"logs", "--tail=100"})).spec.lines, 100u);
  EXPECT_NE(Problem({"drain"}).find("ddprun drain NODE"), std::string::npos);
  EXPECT_NE(Problem({"drain", "a", "b"}).find("'b'"), std::string::npos);
  EXPECT_NE(Problem({"stop", "a", "b"}).find("'b'"), std::string::npos);
  EXPECT_NE(Problem({"publish", "a"}).find("two names"), std::string::npos);
  EXPECT_NE(Problem({"stacks", "-1x"}).find("unknown option"), std::string::npos);
  EXPECT_NE(Problem({"stacks", "0"}).find("'0'"), std::string::npos);
}

// Not a program of that name: who has typed it for years would see the machine's processes.
TEST(Verbs, ARemovedOneNamesWhatReplacesIt) {
  EXPECT_TRUE(IsVerb("top"));
  EXPECT_NE(Problem({"top", "-h"}).find("top was removed. Use `ddprun status --watch`"),
            std::string::npos);
  for (const std::string& name : VerbNames()) {
    EXPECT_NE(name, "top");
  }
}

TEST(Verbs, OneThatWasMeantIsNamed) {
  const Error missing{ErrorKind::kNotFound, "program was not found"};
  EXPECT_EQ(PerhapsAVerb({"ddprun", "statsu"}, missing),
            "program 'statsu' was not found. Did you mean `ddprun status`?");
  EXPECT_EQ(PerhapsAVerb({"ddprun", "lgos", "n0"}, missing),
            "program 'lgos' was not found. Did you mean `ddprun logs`?");
  EXPECT_EQ(PerhapsAVerb({"ddprun", "stat"}, missing),
            "program 'stat' was not found. Did you mean `ddprun status`?");
  for (const auto& [words, meant] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"show"}, "Did you mean `ddprun status`?"},
           {{"info"}, "Did you mean `ddprun env`?"},
           {{"launch", "x.py"}, "To start a script: `ddprun x.py`"},
           {{"nproc_per_node=2", "x.py"}, "Did you mean `ddprun --nproc-per-node=2`?"},
           {{"\u2013-nnodes=2", "x.py"}, "Did you mean `ddprun --nnodes=2`?"},
           {{"\u2014standalone", "x.py"}, "Did you mean `ddprun --standalone`?"},
           {{"\u2014nnodes=2", "x.py"}, "Did you mean `ddprun --nnodes=2`?"}}) {
    std::vector<std::string> command = {"ddprun"};
    command.insert(command.end(), words.begin(), words.end());
    EXPECT_EQ(PerhapsAVerb(command, missing),
              "program '" + words.front() + "' was not found. " + meant);
  }
  EXPECT_EQ(PerhapsAVerb({"ddprun", "launch", "x"}, missing), "");
  EXPECT_EQ(PerhapsAVerb({"ddprun", "my_trainer"}, missing), "");
  EXPECT_EQ(PerhapsAVerb({"ddprun", "run", "nothing"}, missing), "");
  EXPECT_EQ(PerhapsAVerb({"ddprun", "--nnodes=1", "statsu"}, missing), "");
  EXPECT_EQ(PerhapsAVerb({"ddprun", "statsu"}, {ErrorKind::kInvalid, "not executable"}), "");
  for (const std::string& name : VerbNames()) {
    EXPECT_EQ(IsVerb(name), name != "rendezvous" && name != "daemon" && name != "completion" &&
                                name != "check" && name != "help" && name != "version" &&
                                name != "run");
  }
}

// A mistyped program must not lead anyone to end a run.
TEST(Verbs, OneThatEndsSomethingIsNeverSuggested) {
  const Error missing{ErrorKind::kNotFound, "program was not found"};
  for (const char* word :
       {"dran", "drian", "drainn", "stp", "stopp", "stap", "step", "shop", "trains"}) {
    EXPECT_EQ(PerhapsAVerb({"ddprun", word, "n1"}, missing), "");
  }
  EXPECT_EQ(PerhapsAVerb({"ddprun", "train", "x.py"}, missing),
            "program 'train' was not found. To start a script: `ddprun x.py`. To start the bundled "
            "trainer: `ddprun ddprun-train`");
}

TEST(Verbs, CommandsOfOtherToolsNameOurs) {
  EXPECT_NE(Problem({"ps"}).find("ps is not a command of ddprun. `ddprun status` shows a run"),
            std::string::npos);
  EXPECT_NE(Problem({"cancel", "7"}).find("`ddprun stop` ends a run"), std::string::npos);
  EXPECT_NE(Problem({"restart"}).find("`ddprun stop --soon` ends a run"), std::string::npos);
}

TEST(Verbs, AnExampleIsAProgram) {
  for (const char* name : {"ddp", "elastic", "fsdp", "lightning"}) {
    const auto parsed = Parsed({"example", name});
    ASSERT_TRUE(parsed) << name;
    EXPECT_NE(std::get<HelpRequest>(*parsed).text.find("__main__"), std::string::npos);
  }
  EXPECT_NE(Problem({"example", "jax"}).find("ddp, elastic, fsdp or lightning"), std::string::npos);
}

TEST(Verbs, EveryOneHasHelp) {
  for (const char* verb : {"status", "drain", "stop", "stacks", "publish", "report", "example",
                           "slurm-script", "k8s-manifest", "new"}) {
    ASSERT_TRUE(IsVerb(verb));
    const auto parsed = Parsed({verb, "--help"});
    ASSERT_TRUE(parsed);
    EXPECT_NE(std::get<HelpRequest>(*parsed).text.find(verb), std::string::npos);
  }
  EXPECT_FALSE(IsVerb("train.py"));
}

TEST(Verbs, LogsOfRanksAndNodes) {
  const auto parsed =
      Parsed({"logs", "-f", "--rank=3,7-9", "--node=n1,n2", "--since=5m", "-o", "json"});
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto& logs = std::get<LogsRequest>(*parsed);
  EXPECT_EQ(logs.spec.ranks, (std::vector<RankSpan>{{3, 3}, {7, 9}}));
  EXPECT_EQ(logs.nodes, (std::vector<NodeId>{"n1", "n2"}));
  EXPECT_EQ(logs.spec.back, Duration(300'000));
  EXPECT_TRUE(logs.spec.follow && logs.json);
  for (const char* ranks :
       {"--rank=a", "--rank=1,", "--rank=9-7", "--rank=-1", "--rank=99999999999"}) {
    EXPECT_NE(Problem({"logs", ranks}).find("--rank must be ranks"), std::string::npos) << ranks;
  }
  EXPECT_NE(Problem({"logs", "--node=a,,b"}).find("--node must be names"), std::string::npos);
}

// An agent asks for stacks of its workers, whatever else its environment is for.
TEST(Verbs, StacksOfProcessesAndOfARun) {
  const std::map<std::string, std::string> environment = {{"DDPRUN_RANK", "x"},
                                                          {"DDPRUN_OUTPUT", "xml"}};
  const auto processes = Parsed({"stacks", "--live", "--limit=500ms", "12", "13"}, environment);
  ASSERT_TRUE(processes) << processes.error().message;
  EXPECT_EQ(std::get<StacksRequest>(*processes).pids, (std::vector<std::int64_t>{12, 13}));
  EXPECT_TRUE(std::get<StacksRequest>(*processes).live);
  EXPECT_EQ(std::get<StacksRequest>(*processes).limit, 500ms);
  EXPECT_FALSE(Parsed({"stacks"}, environment));
  const auto named = Parsed({"stacks", "demo"});
  ASSERT_TRUE(named) << named.error().message;
  EXPECT_EQ(std::get<RunStacksRequest>(*named).server.run_id, "demo");
  const auto run = Parsed({"stacks", "--rank=2"});
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_TRUE(std::get<RunStacksRequest>(*run).whole);
  EXPECT_EQ(std::get<RunStacksRequest>(*run).spec.kind, RequestKind::kStacks);
}

// DDPRUN_OUTPUT is the form of what a verb prints, and not a file's name.
TEST(Verbs, ReportTakesDirectoriesAndAFile) {
  const auto parsed = Parsed({"report", "logs/a", "--file", "x.tar.gz", "logs/b"},
                             {{"DDPRUN_OUTPUT", "json"}, {"DDPRUN_TOKEN", "0123456789abcdef"}});
  ASSERT_TRUE(parsed) << parsed.error().message;
  const auto& report = std::get<ReportRequest>(*parsed);
  EXPECT_EQ(report.directories, (std::vector<std::string>{"logs/a", "logs/b"}));
  EXPECT_EQ(report.file, "x.tar.gz");
  EXPECT_EQ(report.server.token, "0123456789abcdef");
  const auto bare = Parsed({"report"}, {{"DDPRUN_OUTPUT", "json"}});
  ASSERT_TRUE(bare) << bare.error().message;
  EXPECT_EQ(std::get<ReportRequest>(*bare).file, "");
  EXPECT_EQ(std::get<ReportRequest>(*Parsed({"report", "--report-file=y"})).file, "y");
  EXPECT_TRUE(std::get<ReportRequest>(*Parsed({"report", "-o", "json"})).json);
  EXPECT_EQ(Problem({"report", "-o", "x.tar.gz"}),
            "--output must be text or json: 'x.tar.gz'\nto name the file set --file=x.tar.gz");
  EXPECT_EQ(Problem({"report", "--file="}), "--file needs the name of a file");
  EXPECT_NE(Problem({"report", ""}), "");
}

TEST(Verbs, SaveAndStopSoonAreOrders) {
  EXPECT_EQ(std::get<OrderRequest>(*Parsed({"save", "--rank=1"})).spec.kind, RequestKind::kSave);
  EXPECT_EQ(std::get<OrderRequest>(*Parsed({"stop", "--soon"})).spec.kind, RequestKind::kStopSoon);
  const auto kept = std::get<OrderRequest>(*Parsed({"stacks", "--keep", "--rank=3"}));
  EXPECT_EQ(kept.spec.kind, RequestKind::kEvidence);
  EXPECT_TRUE(Wants(kept.spec, 3) && !Wants(kept.spec, 2));
  EXPECT_NE(Problem({"stacks", "--keep", "12"}).find("not for processes"), std::string::npos);
  EXPECT_TRUE(std::holds_alternative<ControlCommand>(*Parsed({"stop"})));
}

TEST(Verbs, AWordIsTheNameOfARun) {
  EXPECT_EQ(std::get<StatusRequest>(*Parsed({"status", "demo", "-w"})).server.run_id, "demo");
  EXPECT_EQ(std::get<ControlCommand>(*Parsed({"stop", "demo"})).server.run_id, "demo");
  EXPECT_EQ(std::get<OrderRequest>(*Parsed({"save", "demo"})).server.run_id, "demo");
  EXPECT_EQ(std::get<LogsRequest>(*Parsed({"logs", "demo", "-f"})).server.run_id, "demo");
  EXPECT_EQ(std::get<LogsRequest>(*Parsed({"logs", "demo"})).word, "demo");
  EXPECT_EQ(std::get<LogsRequest>(*Parsed({"logs", "logs/demo_1f"})).word, "logs/demo_1f");
  EXPECT_EQ(std::get<LogsRequest>(*Parsed({"logs", "."})).word, ".");
  const auto logs = std::get<LogsRequest>(*Parsed({"logs", "3,5-6"}));
  EXPECT_EQ(logs.server.run_id, "");
  EXPECT_TRUE(Wants(logs.spec, 5) && !Wants(logs.spec, 4));
  EXPECT_EQ(std::get<LogsRequest>(*Parsed({"logs", "3", "--rank=4"})).server.run_id, "3");
}

}  // namespace
}  // namespace ddprun
