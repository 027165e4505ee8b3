#include "launcher/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <map>

#include "common/text.h"
#include "launcher/cli_server.h"
#include "launcher/command_line/cli_rendezvous.h"
#include "launcher/command_line/config_file.h"
#include "launcher/command_line/flags.h"
#include "launcher/command_line/help.h"
#include "launcher/command_line/host_flags.h"
#include "launcher/command_line/message_help.h"
#include "launcher/command_line/raw_flags.h"
#include "launcher/command_line/removed.h"
#include "launcher/completion.h"
#include "launcher/environment/detect.h"
#include "launcher/environment/launch_place.h"
#include "launcher/verbs/detect_context.h"
#include "launcher/verbs/verbs.h"

namespace ddprun {
namespace {

void ResolveJobEnd(LaunchConfig& config) {
  if (config.stop_before == Duration{0}) {
    return;
  }
  const LaunchContext& context = config.context;
  if (config.time_limit == Duration{0} && context.job.empty()) {
    config.warnings.push_back(
        "ignoring --stop-before: the job's end time is unknown; set --time-limit [stop-before]");
  } else if (config.stop_before < config.spec.shutdown_timeout) {
    config.warnings.push_back(
        "--stop-before=" + FormatDuration(config.stop_before) +
        " is shorter than --shutdown-timeout=" + FormatDuration(config.spec.shutdown_timeout) +
        ": the job may end before the workers have saved");
  }
}

// Whether a hang is only reported, and whether a start alone is judged.
void ResolveHang(const RawFlags& raw, LaunchConfig& config) {
  // --dry-run shows what is in force.
  const auto show = [&config](const char* flag, const char* value) {
    std::ranges::find(config.settings, flag, &Setting::name)->value = value;
  };
  if (!IsSet(config, "hang-timeout")) {
    if (config.start_timeout > Duration{0} || !raw.attach_rank.empty()) {
      config.hang_timeout = Duration{0};  // A start alone is judged; a debugger may hold a worker.
      show("hang-timeout", "0");
    } else if (!IsSet(config, "on-hang")) {
      config.hang_by_default = true;
      config.spec.on_hang = kHangIsReported;
      show("on-hang", "observe");
    }
  }
  if (!IsSet(config, "start-timeout")) {
    show("start-timeout", config.hang_timeout > Duration{0} ? "three times --hang-timeout" : "0");
  }
}

// If this machine lacks something, the other nodes may have it, and they must get this node's
// report.
template <class T>
void CheckMachine(const Result<T>& result, LaunchConfig& config, Problems& problems) {
  if (result || result.error().kind == ErrorKind::kInvalid) {
    problems.Check(result);
  } else if (config.cannot_start.empty()) {
    config.cannot_start = InOneLine(result.error().message);
  }
}

// Which GPUs, and by them how many workers.
void ResolveSize(const RawFlags& raw, LaunchConfig& config, Problems& problems) {
  if (!raw.gpus.empty() || SaysNothing(config.settings, "gpu-ids")) {
    // Before srun or ssh this is not the node that has them.
    const bool here = config.context.launcher.empty() && !StartsElsewhere(config);
    const std::optional<std::string> visible = here ? VisibleGpuList() : std::nullopt;
    const std::uint32_t devices = here ? CountDevices() : 0;
    const Result<std::string> gpus = ChooseGpus(raw.gpus, visible, devices);
    CheckMachine(gpus, config, problems);
    config.gpus = gpus ? *gpus : "";
    if (here && gpus && !visible && devices == 0) {  // A machine may hide them from ddprun.
      config.warnings.push_back("--gpu-ids=" + raw.gpus +
                                ": no GPU was found here, and workers get CUDA_VISIBLE_DEVICES=" +
                                config.gpus + PerhapsACount(raw.gpus));
    }
  }
  const Result<std::uint32_t> workers = ParseWorkers(raw.workers, config.gpus);
  CheckMachine(workers, config, problems);
  config.workers = workers ? *workers : 1;
  if (StartsElsewhere(config)) {
    config.cannot_start.clear();  // Each host looks for itself.
  }
}

// As torchrun, whose console stays empty without a word.
void WarnIfNoRankIsShown(LaunchConfig& config) {
  const LaunchContext& context = config.context;
  const std::uint32_t there = context.task_slot ? context.task_slot->local_size : config.workers;
  const auto& shown = config.output.console_ranks;
  const bool here = context.launcher.empty() && !StartsElsewhere(config);
  if (here && shown &&
      std::ranges::none_of(*shown, [&](std::uint32_t rank) { return rank < there; })) {
    config.warnings.push_back(
        "--local-ranks-filter hides all output of this node, whose local ranks are below " +
        std::to_string(there));
  }
}

// --log-dir alone keeps all output. A scheduler's default of it does not: its disk is shared, and
// the batch system keeps the output already.
void ResolveCopies(const RawFlags& raw, LaunchConfig& config) {
  const auto given = std::ranges::find(config.settings, "log-dir", &Setting::name);
  const bool by_user = IsSet(config, "log-dir") &&
                       std::ranges::none_of(config.context.settings, [&](const Setting& setting) {
                         return setting.name == "log-dir" && setting.origin == given->origin;
                       });
  config.output.copy = by_user && !config.log_dir.empty() && !config.DiscardsOutput() &&
                       !IsSet(config, "redirects") && !IsSet(config, "tee") &&
                       raw.attach_rank.empty();  // That worker's terminal cannot be read.
}

// After all else, when the flags that it excludes are known.
void ResolveAttachedRank(const RawFlags& raw, LaunchConfig& config, Problems& problems) {
  if (raw.attach_rank.empty()) {
    return;
  }
  const std::optional<std::uint32_t> rank = NotNegative(raw.attach_rank);
  const std::string flag = "--attach-rank=" + raw.attach_rank;
  if (!rank || *rank >= kMaxWorld) {
    problems.Add("--attach-rank must be the number of a rank, 0 or more: '" + raw.attach_rank +
                 "'");
  } else if (config.standalone && *rank >= config.workers) {
    problems.Add(flag + ": this run has ranks 0 to " + std::to_string(config.workers - 1));
  } else if (config.KeepsOutput() || config.merge_output) {
    problems.Add(flag +
                 " gives that worker the terminal, so ddprun cannot read its output: leave out "
                 "--redirects, --tee and --merge-output");
  } else if (config.hang_timeout > Duration{0} || config.start_timeout > Duration{0}) {
    problems.Add(flag +
                 " excludes --hang-timeout and --start-timeout: a debugger that holds a worker "
                 "would count as a hang");
  } else {
    config.attached = rank;
  }
}

void ResolveProgram(const RawFlags& raw, LaunchConfig& config, Problems& problems) {
  if (config.module && config.run_path) {
    config.module = false;  // As torchrun does.
    config.warnings.push_back("ignoring --module because --run-path is set");
  }
  if (config.module && config.no_python) {
    problems.Add("--module and --no-python exclude each other");
  }
  if (raw.use_env && config.pass_local_rank) {
    problems.Add("--use-env and --pass-local-rank exclude each other");
  }
  config.no_python = config.no_python && !config.run_path;
}

// Decides what the flags mean together. Each row has read its own value.
void Resolve(RawFlags& raw, const std::vector<std::string>& rest, const std::string& name,
             Problems& problems) {
  LaunchConfig& config = raw.config;
  ResolveHosts(raw, config, problems);
  ResolvePool(raw, config, problems);
  const auto nodes = ParseNodes(raw.nnodes);
  problems.Check(nodes);
  if (nodes) {
    std::tie(config.spec.min_nodes, config.spec.max_nodes) = *nodes;
  }
  ResolveSize(raw, config, problems);
  WarnIfNoRankIsShown(config);
  ResolveRendezvous(raw, config, problems);
  if (const std::string why = WhyImpossible(config); !why.empty()) {
    problems.Add(why);
  }
  const bool is_static = config.literal_master || raw.backend == "static";
  problems.Check(ParseRendezvousConf(raw.conf, is_static, config));
  problems.Check(CheckFence(config.spec, ValueOf(config.settings, "fence-after").value_or("")));
  ResolveJobEnd(config);
  ResolveHang(raw, config);
  ResolveProgram(raw, config, problems);
  if (config.quiet && config.verbose) {
    problems.Add("--quiet and --verbose exclude each other");
  }
  if (config.node_check_timeout == Duration{0}) {
    problems.Add("--node-check-timeout must be more than 0");
  }
  ResolveCopies(raw, config);
  ResolveAttachedRank(raw, config, problems);
  const bool has_program = !rest.empty() && !rest.front().empty();
  if (has_program) {
    config.program = rest.front();
    config.args.assign(rest.begin() + 1, rest.end());
  }
  if (!config.cannot_start.empty() && !TellsOtherNodes(config)) {
    problems.Add(config.cannot_start);
  }
  // Another problem often is why: an option without its value has taken the program for it.
  if (!has_program && problems.text.empty()) {
    problems.Add("no program given. Usage: " + name + " [options] PROGRAM [arguments]");
  }
}

Result<CommandLine> ParseCompletion(const std::vector<std::string>& args) {
  if (args.size() != 1) {
    return Error{ErrorKind::kInvalid, "ddprun completion takes one shell: bash, zsh or fish"};
  }
  if (args.front() == "-h" || args.front() == "--help") {
    return CommandLine(Print{CompletionHelp()});
  }
  ASSIGN_OR_RETURN(std::string script, CompletionScript(args.front(), "ddprun"));
  return CommandLine(Print{std::move(script)});
}

// The defaults that apply where no flag is set: torchrun's own variables, one of its users', and an
// old name.
constexpr std::pair<const char*, const char*> kOtherVariables[] = {
    {"shutdown-timeout", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"},
    {"log-line-prefix-template", "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"},
    {"nproc-per-node", "PET_N_PROC_PER_NODE"},  // Kubeflow's operator v1's.
    {"gpu-ids", "DDPRUN_GPUS"},                 // The flag's old name.
};

std::vector<Setting> OtherDefaults(const GetEnv& get_env) {
  std::vector<Setting> found;
  for (const auto& [flag, variable] : kOtherVariables) {
    if (const auto value = get_env(variable); value && !value->empty()) {
      found.push_back({flag, *value, variable});
    }
  }
  return found;
}

// Every flag that means something for a run, set or not.
std::vector<Setting> Effective(const CLI::App& app, const std::vector<Setting>& given) {
  std::vector<Setting> defaults;
  for (const FlagRow& row : RowsOf(app)) {
    if (row.group != "Help" || row.name == "config") {
      defaults.push_back({row.name, row.form.empty() ? "false" : row.fallback, kDefault});
    }
  }
  const std::size_t known = defaults.size();
  std::vector<Setting> all = LayOver(app, {defaults, given});
  all.resize(known);  // The rest only print.
  return all;
}

// Help, version or completion. `app` fills `raw`.
Result<CommandLine> PrintOnly(CLI::App& app, const RawFlags& raw, const std::string& name,
                              const std::vector<Setting>& asked) {
  Problems problems;
  ApplySettings(app, asked, problems);
  if (!problems.text.empty()) {
    return Error{ErrorKind::kInvalid, problems.text};
  }
  if (raw.version) {
    return CommandLine(Print{VersionText()});
  }
  if (!raw.help && !raw.short_help && !raw.print_completion.empty()) {
    ASSIGN_OR_RETURN(std::string script, CompletionScript(raw.print_completion, name));
    return CommandLine(Print{std::move(script)});
  }
  return CommandLine(Print{raw.help ? LongHelp(name) : ShortHelp(name)});
}

// `app` fills `raw`.
Result<void> Understand(CLI::App& app, RawFlags& raw, const std::vector<std::string>& rest,
                        const std::string& name, const std::vector<Setting>& settings,
                        const GetEnv& get_env) {
  Problems problems;
  LaunchConfig& config = raw.config;
  config.settings = Effective(app, settings);
  ApplySettings(app, settings, problems);
  Resolve(raw, rest, name, problems);
  config.token = get_env("DDPRUN_TOKEN").value_or("");
  config.in_slurm_job = IsInSlurmJob(get_env);
  if (!config.standalone) {
    problems.Check(CheckExposure("--rdzv-endpoint", config.endpoint, config));
  }
  if (!problems.text.empty()) {
    return Error{ErrorKind::kInvalid, WithOrigins(problems.text, settings)};
  }
  return {};
}

// --standalone is this launch's; a number of nodes that it did not say is another one's, such as of
// the launch that this process is a worker of.
void LetStandaloneWin(std::vector<Setting>& settings) {
  const bool standalone = std::ranges::any_of(settings, [](const Setting& setting) {
    return setting.name == "standalone" && setting.value != "false" &&
           setting.origin == kCommandLine;
  });
  std::erase_if(settings, [standalone](const Setting& setting) {
    return standalone && (setting.name == "nnodes" || setting.name == "node-rank") &&
           setting.origin != kCommandLine;
  });
}

// Texts of ddprun's own. Neither environment nor file can ask for them.
bool OnlyPrints(const Setting& setting) {
  return setting.name == "h" || setting.name == "help" || setting.name == "version" ||
         setting.name == "print-completion";
}

// The flags of `ddprun check` beside those of a launch.
struct CheckFlags {
  std::string program;  // Its launch's own.
  bool json = false;
};

// `check`: null for a launch itself.
Result<CommandLine> ParseLaunch(const std::vector<std::string>& args, const GetEnv& get_env,
                                const std::string& name, CheckFlags* check = nullptr) {
  CLI::App app{"Starts and supervises distributed training", name};
  app.set_help_flag();
  RawFlags raw;
  AddFlags(app, raw);
  if (check != nullptr) {
    FlagRows(app, "Help").Value("-o,--output", check->json, "text|json", "");
  }
  ASSIGN_OR_RETURN(SplitLine line, SplitFlags(app, args));
  if (check != nullptr) {
    if (!line.rest.empty()) {
      return Invalid("ddprun check takes no program", InOneLine(line.rest.front()));
    }
    line.rest = {check->program};
  }
  std::vector<Setting> asked;
  std::ranges::copy_if(line.settings, std::back_inserter(asked), OnlyPrints);
  if (!asked.empty()) {  // All other flags may be the reason why the user asks for help.
    return PrintOnly(app, raw, name, asked);
  }
  const auto here = LayOver(app, {SettingsFromEnvironment(app, get_env), line.settings});
  const Result<std::vector<Setting>> file =
      SettingsFromFile(app, ValueOf(here, "config"), !IsWorker(get_env) && !get_env(kLaunchPlace));
  if (!file) {
    return Error{file.error().kind, WithOrigins(file.error().message, here)};
  }
  const std::vector<Setting> said = LayOver(app, {OtherDefaults(get_env), *file, here});
  Result<LaunchContext> context = DetectContext(get_env, said, name);
  if (!context) {
    return Error{context.error().kind, InOneLine(context.error().message)};
  }
  std::vector<Setting> settings = LayOver(app, {context->settings, said});
  LetStandaloneWin(settings);
  raw.config.context = *std::move(context);
  RETURN_IF_ERROR(Understand(app, raw, line.rest, name, settings, get_env));
  raw.config.own_variables = VariablesOfFlags(app, get_env);
  raw.config.own_variables.emplace_back(kLaunchPlace);
  return CommandLine(std::move(raw.config));
}

constexpr const char* kCheckHelp =
    "Usage: ddprun check [-o text|json] [flags of a launch]\n\n"
    "Checks this machine, or all nodes of a run (srun ddprun check; --nnodes=N with\n"
    "--rdzv-endpoint): the GPUs (--host-check), the command of --node-check, and how fast the\n"
    "nodes send to each other over plain TCP. Lists bad or slow nodes and links.\n\n"
    "Exit codes: ddprun help exit-codes\n";

Result<CommandLine> ParseCheck(const std::vector<std::string>& args, const GetEnv& get_env) {
  if (std::ranges::count(args, "-h") + std::ranges::count(args, "--help") > 0) {
    return CommandLine(Print{kCheckHelp});
  }
  std::error_code unreadable;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", unreadable);
  CheckFlags flags{.program = unreadable ? "ddprun" : own.native()};
  ASSIGN_OR_RETURN(CommandLine line, ParseLaunch(args, get_env, "ddprun", &flags));
  if (auto* const launch = std::get_if<LaunchConfig>(&line)) {
    if (StartsElsewhere(*launch)) {
      return Error{ErrorKind::kInvalid,
                   "ddprun check takes no --hosts and no --pool: run it on each host"};
    }
    return CommandLine(CheckRequest{std::move(*launch), flags.json});
  }
  return line;
}

// `ddprun help`, `ddprun help VERB`, `ddprun help SLUG`, `ddprun help FLAG`, and what is none of
// these but asked for like one.
Result<CommandLine> ParseHelp(const std::vector<std::string>& rest, const GetEnv& get_env) {
  if (rest.empty()) {
    return CommandLine(Print{ShortHelp("ddprun")});
  }
  if (rest.size() > 1) {
    return Error{ErrorKind::kInvalid,
                 "ddprun help takes one name: of a command, of an option, of a topic, or of a "
                 "message that ends in [NAME]"};
  }
  if (rest.front() == "-h" || rest.front() == "--help") {
    return CommandLine(Print{ShortHelp("ddprun")});
  }
  const std::optional<std::string> flag = FlagHelp(rest.front());
  if (flag && rest.front().starts_with("--")) {
    return CommandLine(Print{*flag});
  }
  if (rest.front().starts_with('-')) {
    return Error{ErrorKind::kInvalid,
                 "ddprun help takes a name, not the option '" + InOneLine(rest.front()) +
                     "'. `ddprun --help` lists the options, `ddprun --version` prints the version"};
  }
  std::vector<std::string> names = VerbNames();
  if (rest.front() == "run" || rest.front() == "help") {
    return CommandLine(Print{rest.front() == "run" ? LongHelp("ddprun") : ShortHelp("ddprun")});
  }
  if (rest.front() == "exit-codes") {
    return CommandLine(Print{ExitCodesHelp()});
  }
  if (rest.front() == "messages") {
    return CommandLine(Print{MessagesHelp()});
  }
  if (std::ranges::find(names, rest.front()) != names.end()) {
    return ParseCommandLine({rest.front(), "--help"}, get_env);
  }
  const std::string& word = rest.front();
  // With its brackets too, as the message ends in it.
  const bool in_brackets = word.size() > 2 && word.front() == '[' && word.back() == ']';
  if (auto text = TopicHelp(word)) {
    return CommandLine(Print{*std::move(text)});
  }
  if (auto text = MessageHelp(in_brackets ? word.substr(1, word.size() - 2) : word)) {
    return CommandLine(Print{*std::move(text)});
  }
  if (flag) {
    return CommandLine(Print{*flag});
  }
  if (const auto why = WhyRefused(word)) {
    return Error{ErrorKind::kInvalid, *why};
  }
  std::vector<std::string> topics = Topics();
  topics.insert(topics.end(), {"exit-codes", "messages"});
  std::ranges::copy(topics, std::back_inserter(names));
  std::ranges::move(ExplainedSlugs(), std::back_inserter(names));
  for (const FlagRow& row : FlagTable()) {
    names.push_back(row.name.empty() ? row.short_name : row.name);
  }
  const auto nearest = NearestOrLonger(names, word);
  return Error{ErrorKind::kInvalid,
               "no command, option, topic or message is named '" + InOneLine(word) + "'" +
                   (word.starts_with("ddprun-") ? ". Use `" + InOneLine(word) + " --help`"
                    : word == "train" ? ". `ddprun help run` describes a launch, `ddprun-train "
                                        "--help` the bundled trainer"
                    : nearest         ? "; did you mean `ddprun help " + *nearest + "`?"
                                      : ". The topics are " + Joined(topics, ", ") +
                                    ". `ddprun help` lists the commands")};
}

}  // namespace

std::vector<std::string> MisspeltVariables(const std::map<std::string, std::string>& environment) {
  const auto flags = [] {
    std::vector<std::string> names;
    std::ranges::transform(FlagTable(), std::back_inserter(names), &FlagRow::name);
    return names;
  };
  std::vector<std::string> warnings;
  for (const auto& entry : environment) {
    const std::string& variable = entry.first;
    const bool known = std::ranges::any_of(
        kOtherVariables, [&](const auto& other) { return other.second == variable; });
    if (const auto meant = known ? std::nullopt : MeantVariable(flags, variable)) {
      warnings.push_back("ignoring the variable " + variable + "; did you mean " + *meant + "?");
    }
  }
  return warnings;
}

std::string ProgramName(const std::string& argv0) {
  return argv0.substr(argv0.rfind('/') + 1) == "torchrun" ? "torchrun" : "ddprun";
}

Result<CommandLine> ParseCommandLine(const std::vector<std::string>& args, const GetEnv& get_env,
                                     const std::string& name) {
  if (args.size() == 1 && (args.front() == "--version" || args.front() == "-V")) {
    return CommandLine(Print{VersionText()});
  }
  const std::string verb = name == "ddprun" && !args.empty() ? args.front() : "";
  if (verb.empty() || verb.front() == '-') {
    return ParseLaunch(args, get_env, name);
  }
  const std::vector<std::string> rest(args.begin() + 1, args.end());
  const std::map<std::string, std::function<Result<CommandLine>()>> parsers = {
      {"help", [&] { return ParseHelp(rest, get_env); }},
      {"version", [] { return Result<CommandLine>(CommandLine(Print{VersionText()})); }},
      {"run", [&] { return ParseLaunch(rest, get_env, name); }},
      {"daemon", [&] { return ParseDaemon(args, get_env); }},
      {"rendezvous", [&] { return ParseServer(args, get_env); }},
      {"completion", [&] { return ParseCompletion(rest); }},
      {"check", [&] { return ParseCheck(rest, get_env); }}};
  if (const auto parser = parsers.find(verb); parser != parsers.end()) {
    return parser->second();
  }
  if (IsVerb(verb)) {
    ASSIGN_OR_RETURN(VerbRequest request, ParseVerb(args, get_env));
    return CommandLine(std::move(request));
  }
  return ParseLaunch(args, get_env, name);
}

}  // namespace ddprun
