#include "launcher/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "launcher/completion.h"
#include "launcher/config_file.h"
#include "launcher/flags.h"
#include "launcher/help.h"
#include "launcher/raw_flags.h"
#include "launcher/verbs.h"

namespace ddprun {
namespace {

struct Problems {
  std::string text;

  template <class T>
  void Check(const Result<T>& result) {
    if (!result) {
      Add(result.error().message);
    }
  }
  void Add(const std::string& problem) { text += (text.empty() ? "" : "\n") + problem; }
};

std::optional<std::uint32_t> NotNegative(const std::string& text) {
  char* end = nullptr;
  const long long value = std::strtoll(text.c_str(), &end, 10);
  const bool good = !text.empty() && *end == '\0' && value >= 0 && value <= 1'000'000'000;
  return good ? std::optional(static_cast<std::uint32_t>(value)) : std::nullopt;
}

// torchrun's static rendezvous: one address and port, known to everybody beforehand, which is also
// the workers' MASTER_ADDR and MASTER_PORT.
void ResolveEndpoint(const RawFlags& raw, LaunchConfig& config, Problems& problems) {
  if (raw.backend == "static" && !raw.endpoint.empty() && !raw.standalone) {
    const Result<Endpoint> endpoint = ParseEndpoint(raw.endpoint, 29400);
    problems.Check(endpoint);
    config.endpoint = endpoint ? *endpoint : config.endpoint;
    config.literal_master = config.endpoint.port != 0;
    return;
  }
  const bool is_static = raw.backend != "c10d" && raw.endpoint.empty();
  const bool named = !raw.master_port.empty() || (config.max_nodes > 1 && !raw.master_addr.empty());
  if (is_static && !raw.standalone && named) {
    const std::string host = raw.master_addr.empty() ? "127.0.0.1" : raw.master_addr;
    const std::optional<std::uint32_t> port =
        raw.master_port.empty() ? 29500 : NotNegative(raw.master_port);
    if (!port || *port > 65535 || (*port == 0 && config.max_nodes > 1)) {
      problems.Add("--master-port must be a port that every node knows, 1 to 65535: '" +
                   raw.master_port + "'");
      return;
    }
    config.literal_master = true;
    const bool bare_v6 = host.find(':') != std::string::npos && host.front() != '[';
    const Result<Endpoint> endpoint = bare_v6
                                          ? Endpoint{host, static_cast<std::uint16_t>(*port)}
                                          : ParseEndpoint(host, static_cast<std::uint16_t>(*port));
    problems.Check(endpoint);
    config.endpoint = endpoint ? *endpoint : config.endpoint;
    return;
  }
  const bool address_counts = raw.endpoint.empty() && !raw.standalone && config.max_nodes > 1;
  for (const auto& [flag, value] :
       {std::pair("--master-addr", raw.master_addr), std::pair("--master-port", raw.master_port)}) {
    const bool counts = is_static || (flag == std::string("--master-addr") && address_counts);
    if (!value.empty() && (!counts || raw.standalone)) {
      config.remarks.push_back(std::string(flag) + "=" + value + " does not count: " +
                               (raw.standalone ? "--standalone needs no address"
                                : !raw.endpoint.empty()
                                    ? "--rdzv-endpoint says where the nodes meet"
                                    : "it is for --rdzv-backend=static alone"));
    }
  }
  const std::string where = !raw.endpoint.empty() ? raw.endpoint : raw.master_addr;
  if (!where.empty()) {
    const Result<Endpoint> endpoint = ParseEndpoint(where, 29400);
    problems.Check(endpoint);
    config.endpoint = endpoint ? *endpoint : config.endpoint;
  }
}

void ResolveRendezvous(const RawFlags& raw, LaunchConfig& config, Problems& problems) {
  if (raw.backend != "ddprun" && raw.backend != "c10d" && raw.backend != "static") {
    problems.Add("--rdzv-backend='" + raw.backend +
                 "' is not served: leave the flag out, or say c10d or static; ddprun brings its "
                 "own server, so no etcd and no plug-in is needed");
  }
  config.standalone = config.max_nodes == 1 || raw.standalone;
  if (raw.standalone && config.max_nodes > 1) {
    problems.Add("--standalone is for one node, but --nnodes=" + raw.nnodes);
  }
  ResolveEndpoint(raw, config, problems);
  if (!raw.node_rank.empty()) {
    config.node_rank = NotNegative(raw.node_rank);
    if (!config.node_rank || *config.node_rank >= config.max_nodes) {
      problems.Add("--node-rank must be from 0 to " + std::to_string(config.max_nodes - 1) +
                   " with --nnodes=" + raw.nnodes + ": '" + raw.node_rank + "'");
    }
  } else if (config.literal_master && !config.standalone) {
    config.node_rank = 0;  // As torchrun: the node whose address is named may leave it out.
  }
  const auto printable = [](char c) { return c > ' ' && c <= '~' && c != '/'; };
  if (raw.run_id.empty() || raw.run_id.size() > 128 ||
      !std::all_of(raw.run_id.begin(), raw.run_id.end(), printable)) {
    problems.Add("--rdzv-id must be 1 to 128 printable characters without spaces and '/': '" +
                 raw.run_id + "'");
  }
  config.run_id = config.standalone && raw.run_id == "none" ? "" : raw.run_id;
  config.local_address = raw.local_address;
  config.token_file = raw.token_file;
  config.insecure = raw.insecure;
}

void ResolvePlugIns(const RawFlags& raw, Problems& problems) {
  if (raw.event_log_handler != "null" && raw.event_log_handler != "console") {
    problems.Add("--event-log-handler must be null or console: '" + raw.event_log_handler +
                 "' would be a Python plug-in, which ddprun cannot load");
  }
  if (!raw.logs_specs.empty() && raw.logs_specs != "default") {
    problems.Add("--logs-specs='" + raw.logs_specs +
                 "' would be a Python plug-in, which ddprun cannot load: use --log-dir, "
                 "--redirects and --tee");
  }
}

void ResolveElasticity(const RawFlags& raw, LaunchConfig& config, Problems& problems) {
  config.scale_up = raw.scale_up == "restart";
  if (!config.scale_up && raw.scale_up != "never") {
    problems.Add("--scale-up must be restart or never: '" + raw.scale_up + "'");
  }
  const Result<Duration> window = ParseDuration("--restart-window", raw.restart_window);
  problems.Check(window);
  config.restart_window = window ? *window : config.restart_window;
  if (const auto limit = NotNegative(raw.crash_loop_limit)) {
    config.crash_loop_limit = *limit;
  } else {
    problems.Add("--crash-loop-limit must be 0 or more: '" + raw.crash_loop_limit + "'");
  }
}

void ResolveProgram(const RawFlags& raw, LaunchConfig& config, Problems& problems) {
  if (raw.module && (raw.no_python || raw.run_path)) {
    problems.Add("--module and --" + std::string(raw.run_path ? "run-path" : "no-python") +
                 " exclude each other");
  }
  if (raw.use_env && raw.pass_local_rank) {
    problems.Add("--use-env and --pass-local-rank exclude each other");
  }
  if (raw.role.size() > 128) {  // Empty is what some job runners pass.
    problems.Add("--role must be at most 128 characters: '" + raw.role + "'");
  }
  if (raw.start_method != "spawn" && raw.start_method != "fork" &&
      raw.start_method != "forkserver") {
    problems.Add("--start-method must be spawn, fork or forkserver (and means nothing here): '" +
                 raw.start_method + "'");
  }
  const Result<NumaMode> numa = ParseNumaMode(raw.numa_binding);
  problems.Check(numa);
  config.numa = numa ? *numa : NumaMode::kNone;
  config.role = raw.role;
  config.module = raw.module;
  config.no_python = raw.no_python && !raw.run_path;
  config.run_path = raw.run_path;
  config.pass_local_rank = raw.pass_local_rank;
  config.virtual_local_rank = raw.virtual_local_rank;
  config.scrub_env = raw.scrub_env;
}

Result<CommandLine> Resolve(const RawFlags& raw, const std::vector<std::string>& rest,
                            const std::string& name, std::vector<Setting> settings) {
  LaunchConfig config;
  config.settings = std::move(settings);
  Problems problems;
  const auto nodes = ParseNodes(raw.nnodes);
  problems.Check(nodes);
  if (nodes) {
    std::tie(config.min_nodes, config.max_nodes) = *nodes;
  }
  const Result<std::uint32_t> workers = ParseWorkers(raw.workers);
  problems.Check(workers);
  config.workers = workers ? *workers : 1;
  ResolveRendezvous(raw, config, problems);
  problems.Check(ParseRendezvousConf(raw.conf, config));
  if (const auto restarts = NotNegative(raw.max_restarts)) {
    config.max_restarts = *restarts;
  } else {
    problems.Add("--max-restarts must be 0 or more: '" + raw.max_restarts + "'");
  }
  ResolveElasticity(raw, config, problems);
  const Result<Duration> shutdown = ParseSeconds("--shutdown-timeout", raw.shutdown_timeout);
  problems.Check(shutdown);
  config.shutdown_timeout = shutdown ? *shutdown : config.shutdown_timeout;
  const Result<Duration> hang = ParseDuration("--hang-timeout", raw.hang_timeout);
  problems.Check(hang);
  config.hang_timeout = hang ? *hang : config.hang_timeout;
  config.signals = ParseSignals(raw.signals, raw.signals != RawFlags{}.signals);
  problems.Check(ParseSeconds("--monitor-interval", raw.monitor_interval));
  ResolveProgram(raw, config, problems);
  problems.Check(ParseStreams("--redirects", raw.redirects, config.redirects, config.redirects_of));
  problems.Check(ParseStreams("--tee", raw.tee, config.tee, config.tee_of));
  if (raw.prefix != "none" && raw.prefix != "rank") {
    problems.Add("--prefix must be none or rank: '" + raw.prefix + "'");
  }
  const auto shown = ParseRanks("--local-ranks-filter", raw.shown_ranks);
  problems.Check(shown);
  config.shown_ranks = shown ? *shown : std::nullopt;
  config.stdout_filters = ParseFilters(raw.stdout_filters);
  config.stderr_filters = ParseFilters(raw.stderr_filters);
  config.prefix_template = raw.prefix_template;
  config.prefix_rank = raw.prefix == "rank";
  config.dry_run = raw.dry_run;
  ResolvePlugIns(raw, problems);
  config.log_dir = raw.log_dir;
  config.verbose = raw.verbose;
  config.console_events = raw.event_log_handler == "console";
  if (rest.empty()) {
    problems.Add("no program is given: " + name + " [options] PROGRAM [arguments]");
  } else {
    config.program = rest.front();
    config.args.assign(rest.begin() + 1, rest.end());
  }
  if (!problems.text.empty()) {
    return Error{ErrorKind::kInvalid, problems.text};
  }
  return CommandLine(std::move(config));
}

// Every address at once is a mistake more often than a wish.
Result<void> CheckExposure(const Endpoint& endpoint, const std::string& proof, bool insecure) {
  if (!IsWildcard(endpoint.host) || !proof.empty() || insecure) {
    return {};
  }
  return Invalid(
      "on every address of this machine anybody who reaches it could join: name one "
      "address, or give a token (--token-file, DDPRUN_TOKEN), or say --insecure",
      ToString(endpoint));
}

Result<CommandLine> ParseServer(const std::vector<std::string>& args, const GetEnv& get_env) {
  CLI::App app{"Runs a rendezvous server alone, until it is stopped", "ddprun rendezvous"};
  app.set_help_flag();
  std::string listen = "127.0.0.1:29400";
  bool help = false;
  ServerConfig config;
  app.add_option("--listen", listen, "HOST:PORT, port 0 for any free one")->capture_default_str();
  CLI::Option* const journal = app.add_option(
      "--journal", config.journal,
      "FILE that survives this server: one started again with it goes on with its runs");
  app.add_option("--token-file", config.token_file,
                 "File (mode 600) with the token that all must show, or DDPRUN_TOKEN or "
                 "DDPRUN_TOKEN_FILE; without one any node may join, and nobody drain or stop");
  app.add_flag("--insecure", config.insecure,
               "Serve on every address (0.0.0.0, ::) though there is no token");
  app.add_flag("-v,--verbose", config.verbose, "Say every step");
  app.add_flag("-h,--help", help, "This help");
  ASSIGN_OR_RETURN(SplitLine line, SplitFlags(app, args));
  RETURN_IF_ERROR(ParseFlags(app, ToArguments(LayOver({line.settings}))));
  if (help) {
    return CommandLine(Print{app.help()});
  }
  if (!line.rest.empty()) {
    return Invalid("ddprun rendezvous takes no further argument", line.rest.front());
  }
  config.token = get_env("DDPRUN_TOKEN").value_or("");
  if (config.token_file.empty()) {
    config.token_file = get_env("DDPRUN_TOKEN_FILE").value_or("");
  }
  ASSIGN_OR_RETURN(config.listen, ParseEndpoint(listen, 29400));
  RETURN_IF_ERROR(CheckExposure(config.listen, config.token_file + config.token, config.insecure));
  if (journal->count() > 0 && config.journal.empty()) {
    return Error{ErrorKind::kInvalid, "--journal must name a file"};
  }
  return CommandLine(config);
}

Result<CommandLine> ParseCompletion(const std::vector<std::string>& args) {
  if (args.size() != 1) {
    return Error{ErrorKind::kInvalid, "one shell is wanted: ddprun completion bash|zsh|fish"};
  }
  if (args.front() == "-h" || args.front() == "--help") {
    return CommandLine(Print{CompletionHelp()});
  }
  ASSIGN_OR_RETURN(std::string script, CompletionScript(args.front(), "ddprun"));
  return CommandLine(Print{std::move(script)});
}

Result<CommandLine> ParseEnv(const std::vector<std::string>& args) {
  if (args.empty()) {
    return CommandLine(ShowEnvironment{});
  }
  if (args.front() == "-h" || args.front() == "--help") {
    return CommandLine(
        Print{"usage: ddprun env\n\nVersions, GPUs, CPUs, limits, interfaces and the "
              "environment that ddprun sees.\n"});
  }
  return Invalid("ddprun env takes no argument", args.front());
}

// What counts where nobody says anything: torchrun's own variables.
std::vector<Setting> OtherDefaults(const GetEnv& get_env) {
  std::vector<Setting> found;
  for (const auto& [flag, variable] :
       {std::pair("shutdown-timeout", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT"),
        std::pair("log-line-prefix-template", "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE")}) {
    if (const auto value = get_env(variable); value && !value->empty()) {
      found.push_back({flag, *value, variable});
    }
  }
  return found;
}

std::optional<std::string> ValueOf(const std::vector<Setting>& settings, const std::string& name) {
  const auto found = std::find_if(settings.begin(), settings.end(),
                                  [&](const Setting& setting) { return setting.name == name; });
  return found == settings.end() ? std::nullopt : std::optional(found->value);
}

// Every flag that means something for a run, set or not.
std::vector<Setting> Effective(const std::vector<Setting>& given) {
  std::vector<Setting> defaults;
  for (const FlagRow& row : FlagTable()) {
    if (row.group != "Help" || row.name == "config") {
      defaults.push_back({row.name, row.form.empty() ? "false" : row.fallback, "default"});
    }
  }
  const std::size_t known = defaults.size();
  std::vector<Setting> all = LayOver({defaults, given});
  all.resize(known);  // The rest only print.
  return all;
}

Result<CommandLine> ParseLaunch(const std::vector<std::string>& args, const GetEnv& get_env,
                                const std::string& name) {
  CLI::App app{"Starts and supervises distributed training", name};
  app.set_help_flag();
  RawFlags raw;
  AddFlags(app, raw);
  ASSIGN_OR_RETURN(SplitLine line, SplitFlags(app, args));
  const std::vector<Setting> environment = SettingsFromEnvironment(app, get_env);
  ASSIGN_OR_RETURN(const std::vector<Setting> file,
                   SettingsFromFile(app, ValueOf(LayOver({environment, line.settings}), "config")));
  const std::vector<Setting> settings =
      LayOver({OtherDefaults(get_env), file, environment, line.settings});
  RETURN_IF_ERROR(ParseFlags(app, ToArguments(settings)));
  if (raw.version) {
    return CommandLine(Print{VersionText()});
  }
  if (raw.short_help || raw.help) {
    return CommandLine(Print{raw.help ? LongHelp(name) : ShortHelp(name)});
  }
  if (!raw.print_completion.empty()) {
    ASSIGN_OR_RETURN(std::string script, CompletionScript(raw.print_completion, name));
    return CommandLine(Print{std::move(script)});
  }
  ASSIGN_OR_RETURN(CommandLine resolved, Resolve(raw, line.rest, name, Effective(settings)));
  LaunchConfig& config = std::get<LaunchConfig>(resolved);
  config.token = get_env("DDPRUN_TOKEN").value_or("");
  if (!config.standalone) {
    RETURN_IF_ERROR(
        CheckExposure(config.endpoint, config.token_file + config.token, config.insecure));
  }
  return resolved;
}

}  // namespace

std::string ProgramName(const std::string& argv0) {
  return argv0.substr(argv0.rfind('/') + 1) == "torchrun" ? "torchrun" : "ddprun";
}

Result<CommandLine> ParseCommandLine(const std::vector<std::string>& args, const GetEnv& get_env,
                                     const std::string& name) {
  if (args.size() == 1 && args.front() == "--version") {
    return CommandLine(Print{VersionText()});
  }
  const std::string verb = name == "ddprun" && !args.empty() ? args.front() : "";
  if (verb.empty() || verb.front() == '-') {
    return ParseLaunch(args, get_env, name);
  }
  const std::vector<std::string> rest(args.begin() + 1, args.end());
  if (verb == "rendezvous") {
    return ParseServer(rest, get_env);
  }
  if (verb == "env") {
    return ParseEnv(rest);
  }
  if (verb == "completion") {
    return ParseCompletion(rest);
  }
  if (IsVerb(verb)) {
    ASSIGN_OR_RETURN(VerbRequest request, ParseVerb(args, get_env));
    return CommandLine(std::move(request));
  }
  return ParseLaunch(args, get_env, name);
}

}  // namespace ddprun
