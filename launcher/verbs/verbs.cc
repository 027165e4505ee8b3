#include "launcher/verbs/verbs.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <iterator>
#include <string_view>

#include "common/check.h"
#include "common/overload.h"
#include "common/text.h"
#include "launcher/command_line/config.h"
#include "launcher/command_line/flags.h"
#include "launcher/command_line/problems.h"
#include "launcher/command_line/raw_flags.h"
#include "launcher/command_line/removed.h"
#include "launcher/print_out.h"
#include "launcher/verbs/environment_report.h"
#include "launcher/verbs/log_files.h"
#include "launcher/verbs/verb_example.h"
#include "launcher/verbs/verb_k8s_manifest.h"
#include "launcher/verbs/verb_line.h"
#include "launcher/verbs/verb_slurm_script.h"
#include "rendezvous/messages/limits.h"

namespace ddprun {
namespace {

void AddServerFlags(FlagRows& flags, ServerQuery& query) {
  flags.Value("--endpoint,--rdzv-endpoint", query.endpoint, "HOST:PORT",
              "The server's address, as the launch has it (default: your run on this machine)");
  flags.Value("--pool", query.pool, "HOST:PORT",
              "The pool's address, in place of --endpoint (or DDPRUN_POOL)");
  flags.Value("--run-dir,--shared-dir", query.run_dir, "DIR",
              "The run directory, in place of --endpoint");
  flags.Value("--rdzv-id", query.run_id, "NAME", "The name of the run, where there are several");
  flags.Value(
      "--token-file", query.token_file, "FILE",
      "File with the server's token (or DDPRUN_TOKEN). Your own run on this machine needs none");
  flags.Switch("--insecure", query.insecure,
               "Use no token: the server was started with --insecure");
  flags.Value(
      "--tls-ca", query.tls.authority, "FILE",
      "Speak TLS: trust what this certificate signed (or DDPRUN_TLS_CA). Your own run on this "
      "machine needs none");
  flags.Value("--tls-cert", query.tls.certificate, "FILE",
              "The certificate to show to a server that asks for one (or DDPRUN_TLS_CERT)");
  flags.Value("--tls-key", query.tls.key, "FILE", "Its key (or DDPRUN_TLS_KEY)");
}

void AddFormat(FlagRows& flags, bool& json, const char* help = "text or json (default text)") {
  flags.Value("-o,--output", json, "text|json", help);
}

Result<std::vector<NodeId>> ParseNodeNames(const std::string& text) {
  std::vector<NodeId> names;
  for (const std::string& name : Split(text, ',')) {
    if (name.empty() || name.size() > kMaxNameBytes) {
      return Invalid("--node must be names of nodes with commas between them", text);
    }
    names.push_back(name);
  }
  if (names.size() > kMostAskedNodes) {
    return Invalid("--node takes " + std::to_string(kMostAskedNodes) + " names at most",
                   std::to_string(names.size()));
  }
  return names;
}

std::optional<std::uint32_t> RankIn(std::string_view text) {
  const auto rank = ParseNumber<std::uint32_t>(text);
  return rank && *rank <= kMaxWorld ? rank : std::nullopt;
}

// "3,7,10-12".
Result<std::vector<RankSpan>> ParseRankSpans(const std::string& flag, const std::string& text) {
  std::vector<RankSpan> spans;
  for (const std::string& entry : Split(text.empty() ? "" : text + ",", ',')) {
    const std::size_t dash = entry.find('-');
    const auto first = RankIn(entry.substr(0, dash));
    const auto last = dash == std::string::npos ? first : RankIn(entry.substr(dash + 1));
    if (!first || !last || *first > *last) {
      return Invalid(flag + " must be ranks and spans of them, like 3,7,10-12", text);
    }
    spans.push_back({*first, *last});
  }
  if (spans.size() > kMostRankSpans) {
    return Invalid(flag + " takes " + std::to_string(kMostRankSpans) + " ranks and spans at most",
                   text);
  }
  return spans;
}

// The flags that select ranks and nodes of a run.
void AddNodeFlags(FlagRows& flags, RequestSpec& spec, std::vector<NodeId>& nodes, bool& json) {
  flags.Read("--rank", spec.ranks, "", "RANKS", "Only these ranks: 3,7,10-12",
             std::bind_front(ParseRankSpans, "--rank"));
  flags.Read("--node", nodes, "", "NODES", "Only these nodes: n1,n2 (default: all of the run)",
             ParseNodeNames);
  AddFormat(flags, json);
}

void TakeServer(const VerbLine& line, const GetEnv& get_env, ServerQuery& query) {
  query.token = get_env("DDPRUN_TOKEN").value_or("");
  query.settings = line.settings;
  if (query.endpoint.empty() && query.run_dir.empty()) {
    query.endpoint = query.pool;
  } else {
    query.pool.clear();
  }
}

// The same, where one word behind the verb may be the name of the run.
void TakeNamedRun(VerbLine& line, const GetEnv& get_env, ServerQuery& query) {
  TakeServer(line, get_env, query);
  line.RefuseWords(1);
  if (line.rest.empty()) {
    return;
  }
  const std::string& name = line.rest.front();
  if (!IsRunName(name)) {
    line.problems.Add(Invalid("not the name of a run", name));
  } else if (!query.run_id.empty() && query.run_id != name) {
    line.problems.Add("two names of runs: '" + query.run_id + "' (--rdzv-id) and '" + name + "'");
  }
  query.run_id = name;
}

// With which the agent calls `stacks PID`.
void AddAgentsFlags(FlagRows& flags, StacksRequest& request) {
  for (CLI::Option* const hidden :
       {flags.Value("--title", request.title, "TEXT", "First line"),
        flags.Value("--into", request.into, "FILE", "This file, made anew, instead of stdout"),
        flags.Switch("--live", request.live,
                     "They must continue, so no debugger where it could leave them stopped"),
        flags.Value("--notify", request.notify, "SOCKET",
                    "The socket to which the first process reports itself"),
        flags.Value("--recorder", request.recorder, "FILE",
                    "This file, made anew, for torch's record of its last collectives"),
        flags.Value("--also", request.also, "FILE", "Appended to this file too, if it exists")}) {
    hidden->group("");
  }
}

VerbRequest ParseStacks(VerbLine& line, const GetEnv& get_env) {
  RunStacksRequest run;
  AddServerFlags(line.flags, run.server);
  AddNodeFlags(line.flags, run.spec, run.nodes, run.json);
  line.flags.Switch("--all", run.whole, "Print all that is known of each rank (as --rank does)");
  bool keep = false;
  line.flags.Switch(
      "--keep", keep,
      "Keep the stacks as evidence in the run's directories, with torch's flight recorder "
      "and the last lines of output. The workers continue");
  StacksRequest request;
  line.flags.Read("--limit", request.limit, "", "DURATION",
                  "With PID: time for gdb or py-spy (default 10s)",
                  std::bind_front(ParseDuration, "--limit"));
  AddAgentsFlags(line.flags, request);
  const auto of_run = [&line] {
    return line.rest.empty() || !ParseNumber<std::int32_t>(line.rest.front());
  };
  // `stacks PID` reads no variables: the agent runs it, whatever its environment contains.
  line.Parse([&](const std::string& name) { return of_run() ? get_env(name) : std::nullopt; });
  if (of_run()) {
    run.whole = run.whole || !run.spec.ranks.empty();
    TakeNamedRun(line, get_env, run.server);
    if (keep) {
      run.spec.kind = RequestKind::kEvidence;
      return OrderRequest{std::move(run.server), run.spec, run.nodes, run.json};
    }
    return run;
  }
  if (keep) {
    line.problems.Add(
        Invalid("--keep works for a run's workers, not for processes", line.rest.front()));
    return request;
  }
  for (const std::string& word : line.rest) {
    const auto pid = ParseNumber<std::int32_t>(word);
    if (!pid || *pid <= 0) {
      line.problems.Add(Invalid("ddprun stacks: not a process id", word));
    }
    request.pids.push_back(pid.value_or(0));
  }
  return request;
}

VerbRequest ParseLogs(VerbLine& line, const GetEnv& get_env) {
  LogsRequest request;
  AddServerFlags(line.flags, request.server);
  AddNodeFlags(line.flags, request.spec, request.nodes, request.json);
  line.flags.Switch("-f,--follow", request.spec.follow, "Continue with new output, until Ctrl-C");
  line.flags.Count(
      "-n,--lines,--tail", request.spec.lines, 0, "N",
      "Only the last N lines of each worker (of each of its log files), and with -f the new ones");
  line.flags.Read("--since", request.spec.back, "", "DURATION",
                  "Only lines of this last period: 30s, 5m, 2h",
                  std::bind_front(ParseDuration, "--since"));
  line.Parse(get_env);
  request.word = line.rest.size() == 1 ? line.rest.front() : "";
  if (NamesDirectory(request.word)) {
    return request;
  }
  if (request.spec.ranks.empty() && line.rest.size() == 1) {
    if (auto ranks = ParseRankSpans("", line.rest.front()); ranks && !ranks->empty()) {
      request.spec.ranks = *std::move(ranks);
      request.word.clear();
      line.rest.clear();
    }
  }
  TakeNamedRun(line, get_env, request.server);
  return request;
}

VerbRequest ParseStatus(VerbLine& line, const GetEnv& get_env) {
  StatusRequest request;
  AddServerFlags(line.flags, request.server);
  AddFormat(line.flags, request.json);
  line.flags.Switch("--url", request.links, "Print the links of the status page, with their keys");
  line.flags.Switch("-w,--watch", request.watch,
                    "Show it again each second, until the run has ended");
  line.Parse(get_env);
  TakeNamedRun(line, get_env, request.server);
  return request;
}

VerbRequest ParseDrain(VerbLine& line, const GetEnv& get_env) {
  ControlCommand command{.verb = ControlVerb::kDrain};
  AddServerFlags(line.flags, command.server);
  line.Parse(get_env);
  line.RefuseWords(1);
  if (line.rest.empty()) {
    line.problems.Add("no node given. Usage: ddprun drain NODE (ddprun status lists the nodes)");
  } else {
    command.node = line.rest.front();
  }
  TakeServer(line, get_env, command.server);
  return command;
}

VerbRequest ParseStop(VerbLine& line, const GetEnv& get_env) {
  ControlCommand command{.verb = ControlVerb::kStop};
  bool soon = false;
  OrderRequest order{.spec = {.kind = RequestKind::kStopSoon}};
  AddServerFlags(line.flags, command.server);
  line.flags.Switch("--soon", soon,
                    "All workers save and end. ddprun exits with 75 (\"start me again\") if all "
                    "of them have saved");
  AddFormat(line.flags, order.json, "Of --soon: text or json (default text)");
  line.Parse(get_env);
  TakeNamedRun(line, get_env, command.server);
  if (soon) {
    order.server = std::move(command.server);
    return order;
  }
  return command;
}

VerbRequest ParseSave(VerbLine& line, const GetEnv& get_env) {
  OrderRequest request;
  AddServerFlags(line.flags, request.server);
  AddNodeFlags(line.flags, request.spec, request.nodes, request.json);
  line.Parse(get_env);
  TakeNamedRun(line, get_env, request.server);
  return request;
}

std::optional<std::string> NoVariable(const std::string& /*name*/) {
  return std::nullopt;
}

VerbRequest ParsePublish(VerbLine& line, const GetEnv& /*get_env*/) {
  line.Parse(NoVariable);
  if (line.rest.size() != 2) {
    line.problems.Add("ddprun publish takes two names: ddprun publish NEW FINAL");
    return PublishCommand{};
  }
  return PublishCommand{line.rest[0], line.rest[1]};
}

VerbRequest ParseNew(VerbLine& line, const GetEnv& /*get_env*/) {
  line.Parse(NoVariable);
  if (line.rest.size() != 1 || line.rest[0].empty()) {
    line.problems.Add("ddprun new takes one directory: ddprun new DIR");
    return NewProjectRequest{};
  }
  return NewProjectRequest{line.rest[0]};
}

VerbRequest ParseReport(VerbLine& line, const GetEnv& get_env) {
  ReportRequest request;
  AddServerFlags(line.flags, request.server);
  line.flags.Value("--file,--report-file", request.file, "FILE",
                   "The file; an existing one is replaced (default: ddprun-report-RUN.tar.gz; an "
                   "existing one is not replaced)");
  AddFormat(line.flags, request.json);
  line.Parse(get_env);
  if (SaysNothing(line.settings, "file")) {
    line.problems.Add("--file needs the name of a file");
  }
  if (const std::string form = ValueOf(line.settings, "output").value_or("");
      form.find_first_of("./") != form.npos) {  // -o named the file once.
    line.problems.Add("to name the file set --file=" + InOneLine(form));
  }
  if (std::ranges::count(line.rest, "") > 0) {
    line.problems.Add("the name of a run directory is empty");
  }
  request.directories = line.rest;
  TakeServer(line, get_env, request.server);
  return request;
}

VerbRequest ParsePreload(VerbLine& line, const GetEnv& get_env) {
  KeptQuery query;
  line.flags.Switch("--stop", query.stop, "End these processes");
  line.Parse(get_env);
  line.RefuseWords(0);
  return query;
}

VerbRequest ParseEnv(VerbLine& line, const GetEnv& /*get_env*/) {
  line.Parse(NoVariable);
  line.RefuseWords(0);
  return ShowEnvironment{};
}

// A verb that prints a text and nothing else.
template <std::string (*kParse)(VerbLine&)>
VerbRequest ParsePrinted(VerbLine& line, const GetEnv& /*get_env*/) {
  return HelpRequest{kParse(line)};
}

struct Verb {
  std::string_view name;
  VerbRequest (*parse)(VerbLine& line, const GetEnv& get_env);
  const char* words;  // Of its usage.
  const char* what;
};

constexpr Verb kVerbs[] = {
    {"stacks", ParseStacks, " [RUN or PID...]",
     "Shows where in their program all workers of a run are; workers at the same place are one "
     "group. With PID...: every thread of these processes of this machine and of their "
     "descendants"},
    {"logs", ParseLogs, " [RUN, RANKS or DIR]",
     "Shows what the workers of a run printed last, on all nodes, in order of time. ddprun keeps "
     "4 MiB of each worker, 64 MiB of a node. For a run that has ended, name its directory: DIR "
     "(<log dir>/<run>_<...>)"},
    {"save", ParseSave, " [RUN]",
     "Asks the workers of a run to save now and to continue, by the signal that each has announced "
     "(SAVE_SIGNAL). Lists the workers that have announced none"},
    {"status", ParseStatus, " [RUN]", "Shows a run: its state, the reason for a wait, its nodes"},
    {"drain", ParseDrain, " NODE",
     "Takes NODE out of its run: its workers have time to save (--shutdown-timeout), and the other "
     "nodes continue. Uses no restart"},
    {"stop", ParseStop, " [RUN]",
     "Stops a run: all workers have time to save (--shutdown-timeout)"},
    {"publish", ParsePublish, " NEW FINAL",
     "Makes the file or directory NEW visible as FINAL, unless a newer world of its run has "
     "published. Then it exits with 76 and replaces nothing"},
    {"new", ParseNew, " DIR",
     "Makes the directory DIR with a C++ program that trains a model of its own: main.cc and "
     "CMakeLists.txt. It needs ddprun's trainer library"},
    {"report", ParseReport, " [DIR...]",
     "Packs a run's page, events, failure and logs into one file: the last 16 MiB of each, 256 MiB "
     "in all. Tokens and keys are left out. DIR is a run directory (<log dir>/<run>_<...>, or "
     "--run-dir). Without DIR it packs your run on this machine"},
    {"env", ParseEnv, "",
     "Versions, GPUs, CPUs, limits, interfaces and the environment that ddprun sees"},
    {"example", ParsePrinted<ParseExample>, " NAME",
     "Prints a program to begin with: ddprun example NAME > train.py"},
    {"slurm-script", ParsePrinted<ParseSlurmScript>, " PROGRAM [ARGUMENTS]",
     "Prints a batch script for Slurm that trains PROGRAM, ready for sbatch: ddprun slurm-script "
     "--nodes=4 --gpus=8 PROGRAM [arguments] > job.sbatch"},
    {"k8s-manifest", ParsePrinted<ParseK8sManifest>, " PROGRAM [ARGUMENTS]",
     "Prints a manifest for Kubernetes that trains PROGRAM, ready for kubectl: ddprun k8s-manifest "
     "--nodes=2:8 --gpus=8 PROGRAM [arguments] > job.yaml"},
    {"preload", ParsePreload, "",
     "Shows the preload processes that runs have kept (--keep-warm), and the modules that each has "
     "loaded"},
};

// "--nnodes=2" of "nnodes=2", or of a text whose program made one dash of two. Empty: it is none.
std::string PerhapsAFlag(std::string word) {
  const std::size_t size = word.size();
  for (const std::string_view dash : {"\u2013", "\u2014", "\u2212"}) {
    word.erase(0, word.starts_with(dash) ? dash.size() : 0);
  }
  const bool long_dash = word.size() < size;
  word.erase(0, std::min(word.find_first_not_of('-'), word.size()));
  std::string name = word.substr(0, word.find('='));
  std::ranges::replace(name, '_', '-');
  const bool valued = name.size() < word.size();
  const bool known = std::ranges::count(FlagTable(), name, &FlagRow::name) > 0;
  return known && (valued || long_dash) ? "--" + name + word.substr(name.size()) : "";
}

// A command that another tool has by this name.
std::optional<std::string> VerbNamedElsewhere(const std::string& word) {
  return MeaningOf<std::string>(word, {{"info", "env"},
                                       {"show", "status"},
                                       {"nodes", "status"},
                                       {"jobs", "status"},
                                       {"queue", "status"}});
}

}  // namespace

std::vector<std::string> VerbNames() {
  return {"rendezvous",   "daemon",       "env",     "completion", "status", "logs",    "stacks",
          "save",         "drain",        "stop",    "publish",    "report", "check",   "example",
          "slurm-script", "k8s-manifest", "preload", "new",        "help",   "version", "run"};
}

std::string PerhapsAVerb(const std::vector<std::string>& command, const Error& error) {
  if (error.kind != ErrorKind::kNotFound || command.size() < 2 || command[1].starts_with('-')) {
    return "";
  }
  constexpr std::string_view kStarts[] = {"start", "launch", "exec", "submit"};
  std::vector<std::string> verbs = VerbNames();
  if (std::ranges::count(verbs, command[1]) > 0) {
    return "";  // `ddprun run PROGRAM`
  }
  const std::string nothing = "program '" + InOneLine(command[1]) + "' was not found. ";
  const bool starts = std::ranges::count(kStarts, command[1]) > 0;
  const bool named = command.size() > 2 && command[2].ends_with(".py");
  if (command[1] == "train" || (starts && named)) {
    return nothing + "To start a script: `ddprun " + (named ? InOneLine(command[2]) : "train.py") +
           "`" + (starts ? "" : ". To start the bundled trainer: `ddprun ddprun-train`");
  }
  if (const std::string flag = PerhapsAFlag(command[1]); !flag.empty()) {
    return nothing + "Did you mean `ddprun " + InOneLine(flag) + "`?";
  }
  // A typing error must not end anything: `drain` is near `train`, `stop` near `show`.
  std::erase(verbs, "drain");
  std::erase(verbs, "stop");
  const auto elsewhere = VerbNamedElsewhere(command[1]);
  const auto verb = elsewhere ? elsewhere : NearestOrLonger(verbs, command[1]);
  return verb ? nothing + "Did you mean `ddprun " + *verb + "`?" : "";
}

bool IsVerb(const std::string& word) {
  return std::ranges::find(kVerbs, word, &Verb::name) != std::end(kVerbs) || WhyRefused(word);
}

Result<VerbRequest> ParseVerb(const std::vector<std::string>& args, const GetEnv& get_env) {
  if (const auto why = WhyRefused(args.front())) {
    return Error{ErrorKind::kInvalid, *why};
  }
  const auto verb = std::ranges::find(kVerbs, args.front(), &Verb::name);
  CHECK(verb != std::end(kVerbs));
  VerbLine line(verb->what, args, verb->words);
  VerbRequest request = verb->parse(line, get_env);
  if (line.help) {
    return VerbRequest(HelpRequest{line.Help()});
  }
  RETURN_IF_ERROR(line.Outcome());
  return request;
}

int CarryOut(const VerbRequest& request) {
  return std::visit(
      Overload{
          [](const StacksRequest& stacks) { return PrintStacks(stacks); },
          [](const RunStacksRequest& stacks) { return PrintRunStacks(stacks); },
          [](const LogsRequest& logs) { return PrintLogs(logs); },
          [](const OrderRequest& order) { return GiveOrder(order); },
          [](const StatusRequest& status) {
            return status.watch ? WatchStatus(status) : PrintAnswer("status", StatusNow(status));
          },
          [](const ControlCommand& command) {
            return PrintAnswer(command.verb == ControlVerb::kDrain ? "drain" : "stop",
                               AskFor(command));
          },
          [](const PublishCommand& command) { return PublishAs(command, GetProcessEnv); },
          [](const NewProjectRequest& project) {
            return PrintAnswer("new", MakeNewProject(project));
          },
          [](const ReportRequest& report) { return PrintAnswer("report", PackReport(report)); },
          [](const KeptQuery& query) { return AnswerKept(query); },
          [](const ShowEnvironment&) { return PrintOut(EnvironmentReport()); },
          [](const HelpRequest& help) { return PrintOut(help.text); },
      },
      request);
}

}  // namespace ddprun
