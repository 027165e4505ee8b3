#include "launcher/verbs/verbs.h"

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string_view>

#include "common/check.h"
#include "common/exit_code.h"
#include "common/overload.h"
#include "common/text.h"
#include "launcher/command_line/config.h"
#include "launcher/command_line/flags.h"
#include "launcher/command_line/problems.h"
#include "launcher/command_line/removed.h"
#include "launcher/print_out.h"
#include "launcher/verbs/asking.h"
#include "launcher/verbs/rank_spans.h"
#include "launcher/verbs/verb_example.h"
#include "launcher/verbs/verb_k8s_manifest.h"
#include "launcher/verbs/verb_line.h"
#include "launcher/verbs/verb_slurm_script.h"
#include "launcher/verbs/watch_status.h"

namespace ddprun {
namespace {

constexpr std::size_t kMostPackedDirectories = 256;

void AddServerFlags(CLI::App& app, ServerQuery& query) {
  app.add_option("--endpoint", query.endpoint,
                 "The server's address, as --rdzv-endpoint (default: your run on this machine)")
      ->type_name("HOST:PORT");
  app.add_option("--run-dir", query.run_dir, "The run directory, in place of --endpoint")
      ->type_name("DIR");
  app.add_option("--rdzv-id", query.run_id, "The name of the run, where there are several")
      ->type_name("NAME");
  app.add_option(
         "--token-file", query.token_file,
         "File with the server's token (or DDPRUN_TOKEN). Your own run on this machine needs "
         "none")
      ->type_name("FILE");
  app.add_flag("--insecure", query.insecure,
               "Use no token, for a server that was started with --insecure");
  app.add_option(
         "--tls-ca", query.tls.authority,
         "Speak TLS: trust what this certificate signed (or DDPRUN_TLS_CA). Your own run on "
         "this machine needs none")
      ->type_name("FILE");
  app.add_option("--tls-cert", query.tls.certificate,
                 "The certificate to show to a server that asks for one (or DDPRUN_TLS_CERT)")
      ->type_name("FILE");
  app.add_option("--tls-key", query.tls.key, "Its key (or DDPRUN_TLS_KEY)")->type_name("FILE");
}

// The flags that select ranks and nodes of a run, which `logs` and `stacks` share.
struct NodeFlags {
  std::string ranks;
  std::string nodes;
  std::string format = "text";

  void Add(CLI::App& app) {
    app.add_option("--rank", ranks, "Only these ranks: 3,7,10-12")->type_name("RANKS");
    app.add_option("--node", nodes, "Only these nodes: n1,n2 (default: all of the run)")
        ->type_name("NODES");
    app.add_option("-o,--output", format, "text or json (default text)")->type_name("text|json");
  }

  Result<void> Read(const VerbLine& line, RequestSpec& spec, std::vector<NodeId>& named,
                    bool& json) const {
    ASSIGN_OR_RETURN(spec.ranks, ParseRankSpans("--rank", ranks));
    for (std::size_t begin = 0; begin < nodes.size();) {
      const std::size_t end = std::min(nodes.find(',', begin), nodes.size());
      named.push_back(nodes.substr(begin, end - begin));
      if (named.back().empty() || named.back().size() > kMaxNameBytes) {
        return Invalid("--node must be names of nodes with commas between them", nodes);
      }
      begin = end + 1;
    }
    if (named.size() > kMostAskedNodes) {
      return Invalid("--node takes " + std::to_string(kMostAskedNodes) + " names at most",
                     std::to_string(named.size()));
    }
    return ReadFormat(format, line, json);
  }

  static Result<void> ReadFormat(const std::string& format, const VerbLine& line, bool& json) {
    if (format != "text" && format != "json") {
      const Error refused = Invalid("--output must be text or json", format);
      return Error{refused.kind, WithOrigins(refused.message, line.settings)};
    }
    json = format == "json";
    return {};
  }
};

void TakeServer(const VerbLine& line, const GetEnv& get_env, ServerQuery& query) {
  query.token = get_env("DDPRUN_TOKEN").value_or("");
  query.settings = line.settings;
}

// The same, where one word behind the verb may be the name of the run.
Result<void> TakeNamedRun(const VerbLine& line, const GetEnv& get_env, ServerQuery& query) {
  TakeServer(line, get_env, query);
  if (line.rest.empty()) {
    return {};
  }
  if (line.rest.size() > 1) {
    return Invalid("unexpected argument", line.rest[1]);
  }
  if (!IsRunName(line.rest.front())) {
    return Invalid("not the name of a run", line.rest.front());
  }
  if (!query.run_id.empty() && query.run_id != line.rest.front()) {
    return Error{ErrorKind::kInvalid, "two names of runs: '" + query.run_id +
                                          "' (--rdzv-id) and '" + line.rest.front() + "'"};
  }
  query.run_id = line.rest.front();
  return {};
}

Result<VerbRequest> ReadStacks(const std::vector<std::string>& args, const GetEnv& get_env) {
  VerbLine line(
      "Shows where all workers of a run are; those at the same place are one group. With PID...: "
      "every thread of these processes of this machine and of their descendants",
      "stacks", " [PID...]");
  RunStacksRequest run;
  NodeFlags which;
  AddServerFlags(line.app, run.server);
  which.Add(line.app);
  line.app.add_flag("--all", run.whole, "Print all that is known of each rank (as --rank does)");
  bool keep = false;
  line.app.add_flag(
      "--keep", keep,
      "Keep the stacks as evidence in the run's directories, with torch's flight recorder "
      "and the last lines of output. The workers continue");
  StacksRequest request;
  std::string limit = "10s";
  line.app.add_option("--limit", limit, "With PID: time for gdb or py-spy (default 10s)")
      ->type_name("DURATION");
  line.app.add_option("--title", request.title, "Likewise: first line")->group("");
  line.app
      .add_option("--into", request.into,
                  "Likewise: this file, made anew, instead of standard output")
      ->group("");
  line.app
      .add_flag("--live", request.live,
                "Likewise: they must continue, so no debugger where it could leave them stopped")
      ->group("");
  line.app
      .add_option("--notify", request.notify,
                  "Likewise: the socket on which the first one tells of itself")
      ->group("");
  line.app
      .add_option("--recorder", request.recorder,
                  "Likewise: this file, made anew, for torch's record of its last collectives")
      ->group("");
  line.app.add_option("--also", request.also, "Likewise: appended to this file too, if it exists")
      ->group("");
  RETURN_IF_ERROR(line.Parse(args, get_env));
  if (line.help) {
    return VerbRequest(HelpRequest{line.Help()});
  }
  if (line.rest.empty()) {
    RETURN_IF_ERROR(which.Read(line, run.spec, run.nodes, run.json));
    run.whole = run.whole || !run.spec.ranks.empty();
    TakeServer(line, get_env, run.server);
    if (keep) {
      run.spec.kind = RequestKind::kEvidence;
      return VerbRequest(OrderRequest{std::move(run.server), run.spec, run.nodes, run.json});
    }
    return VerbRequest(std::move(run));
  }
  if (keep) {
    return Invalid("--keep is of a run's workers, not of processes", line.rest.front());
  }
  ASSIGN_OR_RETURN(request.limit, ParseDuration("--limit", limit));
  for (const std::string& word : line.rest) {
    const auto pid = ParseNumber<std::int32_t>(word);
    if (!pid || *pid <= 0) {
      return Invalid("ddprun stacks takes process ids", word);
    }
    request.pids.push_back(*pid);
  }
  return VerbRequest(std::move(request));
}

// `stacks PID` reads no variables: the agent runs it, whatever its environment contains.
Result<VerbRequest> ParseStacks(const std::vector<std::string>& args, const GetEnv& get_env) {
  Result<VerbRequest> read = ReadStacks(args, [](const std::string&) { return std::nullopt; });
  return read && !std::holds_alternative<StacksRequest>(*read) ? ReadStacks(args, get_env) : read;
}

Result<VerbRequest> ParseLogs(const std::vector<std::string>& args, const GetEnv& get_env) {
  VerbLine line(
      "Shows what the workers of a run printed last, on all nodes, in order of time. ddprun keeps "
      "4 MiB of each worker, 64 MiB of a node",
      "logs", " [RUN or RANKS]");
  LogsRequest request;
  NodeFlags which;
  std::string since;
  AddServerFlags(line.app, request.server);
  which.Add(line.app);
  line.app.add_flag("-f,--follow", request.spec.follow,
                    "Continue with what they print, until Ctrl-C");
  line.app.add_option("--since", since, "Only lines of this last time: 30s, 5m, 2h")
      ->type_name("DURATION");
  RETURN_IF_ERROR(line.Parse(args, get_env));
  if (line.help) {
    return VerbRequest(HelpRequest{line.Help()});
  }
  if (which.ranks.empty() && line.rest.size() == 1 && !line.rest.front().empty() &&
      ParseRankSpans("", line.rest.front())) {
    which.ranks = line.rest.front();
    line.rest.clear();
  }
  RETURN_IF_ERROR(which.Read(line, request.spec, request.nodes, request.json));
  if (!since.empty()) {
    ASSIGN_OR_RETURN(request.spec.back, ParseDuration("--since", since));
  }
  RETURN_IF_ERROR(TakeNamedRun(line, get_env, request.server));
  return VerbRequest(std::move(request));
}

Result<VerbRequest> ParseStatus(const std::vector<std::string>& args, const GetEnv& get_env) {
  StatusRequest request;
  VerbLine line("Shows a run: what it does, what it waits for, its nodes", "status", " [RUN]");
  std::string format = "text";
  AddServerFlags(line.app, request.server);
  line.app.add_option("-o,--output", format, "text or json (default text)")->type_name("text|json");
  line.app.add_flag("--url", request.links, "Print the links of the status page, with their keys");
  line.app.add_flag("-w,--watch", request.watch,
                    "Show it again each second, until the run has ended");
  RETURN_IF_ERROR(line.Parse(args, get_env));
  if (line.help) {
    return VerbRequest(HelpRequest{line.Help()});
  }
  RETURN_IF_ERROR(NodeFlags::ReadFormat(format, line, request.json));
  RETURN_IF_ERROR(TakeNamedRun(line, get_env, request.server));
  return VerbRequest(std::move(request));
}

Result<VerbRequest> ParseControl(const std::vector<std::string>& args, const GetEnv& get_env) {
  ControlWish wish;
  const std::string& verb = args.front();
  const bool drain = verb == "drain";
  wish.verb = drain ? ControlVerb::kDrain : ControlVerb::kStop;
  VerbLine line(drain
                    ? "Takes NODE out of its run: its workers have --shutdown-timeout to save, and "
                      "the other nodes continue. Uses no restart"
                    : "Stops a run: all workers have --shutdown-timeout to save",
                verb, drain ? " NODE" : " [RUN]");
  AddServerFlags(line.app, wish.server);
  bool soon = false;
  OrderRequest order{.spec = {.kind = RequestKind::kStopSoon}};
  std::string format = "text";
  if (!drain) {
    line.app.add_flag("--soon", soon,
                      "Every node's workers save and end; ddprun ends with 75, \"start me again\", "
                      "where all have saved");
    line.app.add_option("-o,--output", format, "Of --soon: text or json (default text)")
        ->type_name("text|json");
  }
  RETURN_IF_ERROR(line.Parse(args, get_env));
  if (line.help) {
    return VerbRequest(HelpRequest{line.Help()});
  }
  if (drain) {
    if (line.rest.empty()) {
      return Error{ErrorKind::kInvalid,
                   "no node given. Usage: ddprun drain NODE (ddprun status lists the nodes)"};
    }
    if (line.rest.size() > 1) {
      return Invalid("unexpected argument", line.rest.back());
    }
    wish.node = line.rest.front();
    TakeServer(line, get_env, wish.server);
  } else {
    RETURN_IF_ERROR(TakeNamedRun(line, get_env, wish.server));
  }
  if (soon) {
    RETURN_IF_ERROR(NodeFlags::ReadFormat(format, line, order.json));
    order.server = std::move(wish.server);
    return VerbRequest(std::move(order));
  }
  return VerbRequest(std::move(wish));
}

Result<VerbRequest> ParseSave(const std::vector<std::string>& args, const GetEnv& get_env) {
  VerbLine line(
      "Asks the workers of a run to save now and to continue, by the signal that each has named "
      "(SAVE_SIGNAL). Names the workers that have named none",
      "save", " [RUN]");
  OrderRequest request;
  NodeFlags which;
  AddServerFlags(line.app, request.server);
  which.Add(line.app);
  RETURN_IF_ERROR(line.Parse(args, get_env));
  if (line.help) {
    return VerbRequest(HelpRequest{line.Help()});
  }
  RETURN_IF_ERROR(which.Read(line, request.spec, request.nodes, request.json));
  RETURN_IF_ERROR(TakeNamedRun(line, get_env, request.server));
  return VerbRequest(std::move(request));
}

Result<VerbRequest> ParsePublish(const std::vector<std::string>& args, const GetEnv& /*get_env*/) {
  VerbLine line(
      "Makes the file or directory NEW visible as FINAL, unless a newer world of its run "
      "has published: then it ends with 76 and nothing is replaced",
      "publish", " NEW FINAL");
  RETURN_IF_ERROR(line.Parse(args, [](const std::string&) { return std::nullopt; }));
  if (line.help) {
    return VerbRequest(HelpRequest{line.Help()});
  }
  if (line.rest.size() != 2) {
    return Error{ErrorKind::kInvalid, "ddprun publish takes two names: ddprun publish NEW FINAL"};
  }
  return VerbRequest(PublishWish{line.rest[0], line.rest[1]});
}

Result<VerbRequest> ParseNew(const std::vector<std::string>& args, const GetEnv& /*get_env*/) {
  VerbLine line(
      "Makes the directory DIR with a C++ program that trains a model of its own: main.cc and "
      "CMakeLists.txt. It needs ddprun's trainer library",
      "new", " DIR");
  RETURN_IF_ERROR(line.Parse(args, [](const std::string&) { return std::nullopt; }));
  if (line.help) {
    return VerbRequest(HelpRequest{line.Help()});
  }
  if (line.rest.size() != 1 || line.rest[0].empty()) {
    return Error{ErrorKind::kInvalid, "ddprun new takes one directory: ddprun new DIR"};
  }
  return VerbRequest(NewProjectRequest{line.rest[0]});
}

Result<VerbRequest> ParseReport(const std::vector<std::string>& args, const GetEnv& get_env) {
  VerbLine line(
      "Packs what is known of a run into one file: its page, events, failure and logs, "
      "the last 16 MiB of each and 256 MiB in all, and no token or key. Of the run "
      "directories that are named (<log dir>/<run>_<...>, and --run-dir where there is one), "
      "else of the run of yours that is served on this machine",
      "report");
  ReportRequest request;
  AddServerFlags(line.app, request.server);
  CLI::Option* const output =
      line.app
          .add_option("-o,--report-file", request.output,
                      "The file, which is replaced where it is there already (default: "
                      "ddprun-report-RUN.tar.gz, which is not)")
          ->type_name("FILE");
  RETURN_IF_ERROR(line.Parse(args, get_env));
  if (line.help) {
    return VerbRequest(HelpRequest{line.Help()});
  }
  if (output->count() > 0 && request.output.empty()) {
    return Error{ErrorKind::kInvalid, "--report-file needs the name of a file"};
  }
  if (std::ranges::find(line.rest, "") != line.rest.end()) {
    return Error{ErrorKind::kInvalid, "the name of a run directory is empty"};
  }
  if (line.rest.size() > kMostPackedDirectories) {
    return Invalid("ddprun report takes " + std::to_string(kMostPackedDirectories) +
                       " run directories at most",
                   std::to_string(line.rest.size()));
  }
  request.directories = line.rest;
  TakeServer(line, get_env, request.server);
  return VerbRequest(std::move(request));
}

Result<VerbRequest> ParsePreload(const std::vector<std::string>& args, const GetEnv& get_env) {
  VerbLine line(
      "Shows the preload processes that runs have kept (--keep-warm), with what each has loaded "
      "ahead and what not",
      "preload");
  KeptQuery query;
  line.app.add_flag("--stop", query.stop, "End them");
  RETURN_IF_ERROR(line.Parse(args, get_env));
  if (line.help) {
    return VerbRequest(HelpRequest{line.Help()});
  }
  if (!line.rest.empty()) {
    return Invalid("unexpected argument", line.rest.front());
  }
  return VerbRequest(query);
}

// A verb that prints a text and nothing else.
template <Result<std::string> (*kParse)(const std::vector<std::string>&)>
Result<VerbRequest> ParsePrinted(const std::vector<std::string>& args, const GetEnv& /*get_env*/) {
  ASSIGN_OR_RETURN(std::string text, kParse(args));
  return VerbRequest(HelpRequest{std::move(text)});
}

struct Verb {
  std::string_view name;
  Result<VerbRequest> (*parse)(const std::vector<std::string>& args, const GetEnv& get_env);
  bool all_problems = false;  // Reports each problem in a line of its own; else the first alone.
};

constexpr Verb kVerbs[] = {
    {"stacks", ParseStacks},
    {"logs", ParseLogs},
    {"save", ParseSave},
    {"status", ParseStatus},
    {"drain", ParseControl},
    {"stop", ParseControl},
    {"publish", ParsePublish},
    {"new", ParseNew},
    {"report", ParseReport},
    {"example", ParsePrinted<ParseExample>, true},
    {"slurm-script", ParsePrinted<ParseSlurmScript>, true},
    {"k8s-manifest", ParsePrinted<ParseK8sManifest>, true},
    {"preload", ParsePreload},
};

}  // namespace

std::vector<std::string> VerbNames() {
  return {"rendezvous",   "env",     "completion", "status", "logs",    "stacks",  "save",
          "drain",        "stop",    "publish",    "report", "check",   "example", "slurm-script",
          "k8s-manifest", "preload", "new",        "help",   "version", "run"};
}

std::string PerhapsAVerb(const std::vector<std::string>& command, const Error& error) {
  if (error.kind != ErrorKind::kNotFound || command.size() < 2 || command[1].starts_with('-')) {
    return "";
  }
  std::vector<std::string> verbs = VerbNames();
  if (std::ranges::count(verbs, command[1]) > 0) {
    return "";  // `ddprun run PROGRAM`
  }
  const std::string nothing = "program '" + InOneLine(command[1]) + "' was not found. ";
  if (command[1] == "train") {
    const bool named = command.size() > 2 && command[2].ends_with(".py");
    return nothing + "To start a script: `ddprun " + (named ? command[2] : "train.py") +
           "`. To start the bundled trainer: `ddprun ddprun-train`";
  }
  // A typing error must not end anything: `drain` is near `train`, `stop` near `show`.
  std::erase_if(verbs, [](const std::string& verb) { return verb == "drain" || verb == "stop"; });
  const auto verb = Nearest(verbs, command[1], command[1].size() / 2);
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
  Result<VerbRequest> request = verb->parse(args, get_env);
  return verb->all_problems ? std::move(request) : InOneLine(std::move(request));
}

int CarryOut(const VerbRequest& request) {
  return std::visit(Overload{
                        [](const StacksRequest& stacks) { return PrintStacks(stacks); },
                        [](const RunStacksRequest& stacks) { return PrintRunStacks(stacks); },
                        [](const LogsRequest& logs) { return PrintLogs(logs); },
                        [](const OrderRequest& order) { return GiveOrder(order); },
                        [](const StatusRequest& status) {
                          return status.watch ? WatchStatus(status) : PrintStatus(status);
                        },
                        [](const ControlWish& wish) { return AskFor(wish); },
                        [](const PublishWish& wish) { return PublishAs(wish, GetProcessEnv); },
                        [](const NewProjectRequest& project) { return MakeNewProject(project); },
                        [](const ReportRequest& report) { return PackReport(report); },
                        [](const KeptQuery& query) { return AnswerKept(query); },
                        [](const HelpRequest& help) { return PrintOut(help.text); },
                    },
                    request);
}

}  // namespace ddprun
