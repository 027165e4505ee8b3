#include "launcher/cli.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "launcher/flags.h"
#include "launcher/help.h"

namespace ddprun {
namespace {

// The flags as text; what they mean together is decided in Resolve.
struct RawFlags {
  std::string nnodes = "1:1";
  std::string workers = "1";
  std::string node_rank;
  std::string endpoint;
  std::string backend = "ddprun";
  std::string run_id = "none";
  std::string conf;
  bool standalone = false;
  std::string local_address;
  std::string master_addr;
  std::string max_restarts = "0";
  std::string shutdown_timeout = "30";
  std::string monitor_interval = "0.1";
  std::string start_method = "spawn";
  std::string role = "default";
  bool module = false;
  bool no_python = false;
  std::string log_dir;
  std::string redirects = "0";
  std::string tee = "0";
  std::string prefix = "none";
  std::string prefix_template = LaunchConfig{}.prefix_template;
  std::string shown_ranks;
  std::string stdout_filters;
  std::string stderr_filters;
  bool verbose = false;
  bool version = false;
  bool short_help = false;
  bool help = false;
};

void AddSizeAndRendezvous(CLI::App& app, RawFlags& raw) {
  app.add_option("--nnodes", raw.nnodes, "Nodes: N, or MIN:MAX for an elastic run")->group("Size");
  app.add_option("--nproc-per-node", raw.workers,
                 "Workers on this node: a number, auto, gpu or cpu")
      ->group("Size");
  app.add_option("--node-rank", raw.node_rank,
                 "This node's rank, where ranks are fixed by hand; rank 0 carries the server")
      ->group("Size");
  app.add_option("--rdzv-endpoint", raw.endpoint,
                 "Where the nodes meet, HOST:PORT (default 127.0.0.1:29400); whoever has that "
                 "address and comes first carries the server")
      ->group("Rendezvous");
  app.add_option("--rdzv-id", raw.run_id, "Name of the run; a server keeps runs apart by it")
      ->group("Rendezvous");
  app.add_option("--rdzv-backend", raw.backend,
                 "ddprun, c10d or static: all are served by ddprun's own server")
      ->group("Rendezvous");
  app.add_option("--rdzv-conf", raw.conf,
                 "join_timeout=SECONDS (600), last_call_timeout=SECONDS (5)")
      ->group("Rendezvous");
  app.add_flag("--standalone", raw.standalone, "One node, no sockets for others (the default)")
      ->group("Rendezvous");
  app.add_option("--local-addr", raw.local_address,
                 "Address under which other nodes reach this one")
      ->group("Rendezvous");
  app.add_option("--master-addr", raw.master_addr,
                 "Host of the rendezvous, where --rdzv-endpoint is not given")
      ->group("Rendezvous");
}

void AddProcessesAndOutput(CLI::App& app, RawFlags& raw) {
  app.add_option("--max-restarts", raw.max_restarts,
                 "Worker failures after which the run still goes on, counted over all nodes")
      ->group("Restarts");
  app.add_option("--shutdown-timeout", raw.shutdown_timeout,
                 "Seconds from a forwarded signal to SIGKILL (default 30, or "
                 "TORCH_ELASTIC_SHUTDOWN_TIMEOUT)")
      ->group("Restarts");
  app.add_option("--monitor-interval", raw.monitor_interval,
                 "Accepted for torchrun's sake: a worker's end is noticed at once")
      ->group("Restarts");
  app.add_option("--start-method", raw.start_method,
                 "Accepted for torchrun's sake: workers are always executed anew")
      ->group("Restarts");
  app.add_option("--role", raw.role, "Name of the workers' role")->group("Program");
  app.add_flag("-m,--module", raw.module, "PROGRAM is a Python module")->group("Program");
  app.add_flag("--no-python", raw.no_python, "Execute PROGRAM itself, even a .py file")
      ->group("Program");
  app.add_option("--log-dir", raw.log_dir,
                 "Keep the workers' output below DIR/<run id>_<unique>/attempt_<n>/<local rank>; "
                 "/dev/null: write no file at all")
      ->group("Output");
  app.add_option("-r,--redirects", raw.redirects,
                 "Streams to files only: 1 stdout, 2 stderr, 3 both, or 0:3,1:0 by local rank")
      ->group("Output");
  app.add_option("-t,--tee", raw.tee, "Streams to files and console, same form")->group("Output");
  app.add_option("--prefix", raw.prefix, "rank: [<role><local rank>]: before every line")
      ->group("Output");
  app.add_option("--log-line-prefix-template", raw.prefix_template,
                 "Before teed lines; knows ${role_name}, ${local_rank}, ${rank}, ${hostname}")
      ->group("Output");
  app.add_option("--local-ranks-filter", raw.shown_ranks,
                 "Only these local ranks, as 0,2, are shown on the console; files have all")
      ->group("Output");
  app.add_option("--duplicate-stdout-filters", raw.stdout_filters,
                 "Teed lines with any of these texts, as a,b, also go to filtered_stdout.log in "
                 "the attempt's directory; ,, is a comma")
      ->group("Output");
  app.add_option("--duplicate-stderr-filters", raw.stderr_filters,
                 "The same for stderr: filtered_stderr.log")
      ->group("Output");
  app.add_flag("-v,--verbose", raw.verbose, "Say every step of ddprun's own")->group("Output");
  app.add_flag("--version", raw.version, "Print the version")->group("Output");
  app.add_flag("-h", raw.short_help, "The short help")->group("Output");
  app.add_flag("--help", raw.help, "Every flag")->group("Output");
}

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

void ResolveRendezvous(const RawFlags& raw, LaunchConfig& config, Problems& problems) {
  if (raw.backend != "ddprun" && raw.backend != "c10d" && raw.backend != "static") {
    problems.Add("--rdzv-backend='" + raw.backend +
                 "' is not served: leave the flag out, or say c10d or static; ddprun brings its "
                 "own server");
  }
  config.standalone = config.max_nodes == 1 || raw.standalone;
  if (raw.standalone && config.max_nodes > 1) {
    problems.Add("--standalone is for one node, but --nnodes=" + raw.nnodes);
  }
  const std::string where = !raw.endpoint.empty() ? raw.endpoint : raw.master_addr;
  if (!where.empty()) {
    const Result<Endpoint> endpoint = ParseEndpoint(where, 29400);
    problems.Check(endpoint);
    if (endpoint) {
      config.endpoint = *endpoint;
    }
  }
  if (!raw.node_rank.empty()) {
    config.node_rank = NotNegative(raw.node_rank);
    if (!config.node_rank || *config.node_rank >= config.max_nodes) {
      problems.Add("--node-rank must be from 0 to " + std::to_string(config.max_nodes - 1) +
                   " with --nnodes=" + raw.nnodes + ": '" + raw.node_rank + "'");
    }
  }
  const auto printable = [](char c) { return c > ' ' && c <= '~' && c != '/'; };
  if (raw.run_id.empty() || raw.run_id.size() > 128 ||
      !std::all_of(raw.run_id.begin(), raw.run_id.end(), printable)) {
    problems.Add("--rdzv-id must be 1 to 128 printable characters without spaces and '/': '" +
                 raw.run_id + "'");
  }
  config.run_id = config.standalone && raw.run_id == "none" ? "" : raw.run_id;
  config.local_address = raw.local_address;
}

Result<CommandLine> Resolve(const RawFlags& raw, const std::vector<std::string>& rest) {
  LaunchConfig config;
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
  const Result<Duration> shutdown = ParseSeconds("--shutdown-timeout", raw.shutdown_timeout);
  problems.Check(shutdown);
  config.shutdown_timeout = shutdown ? *shutdown : config.shutdown_timeout;
  problems.Check(ParseSeconds("--monitor-interval", raw.monitor_interval));
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
  if (raw.module && raw.no_python) {
    problems.Add("--module and --no-python exclude each other");
  }
  if (raw.role.size() > 128) {  // Empty is what some job runners pass.
    problems.Add("--role must be at most 128 characters: '" + raw.role + "'");
  }
  config.prefix_rank = raw.prefix == "rank";
  config.role = raw.role;
  config.module = raw.module;
  config.no_python = raw.no_python;
  config.log_dir = raw.log_dir;
  config.verbose = raw.verbose;
  if (rest.empty()) {
    problems.Add("no program is given: ddprun [options] PROGRAM [arguments]");
  } else {
    config.program = rest.front();
    config.args.assign(rest.begin() + 1, rest.end());
  }
  if (!problems.text.empty()) {
    return Error{ErrorKind::kInvalid, problems.text};
  }
  return CommandLine(std::move(config));
}

// CLI11 takes its arguments last one first. Of a flag given twice the later one counts, as
// everywhere.
Result<void> Parse(CLI::App& app, std::vector<std::string> flags) {
  for (CLI::Option* option : app.get_options()) {
    option->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  std::reverse(flags.begin(), flags.end());
  try {
    app.parse(flags);
  } catch (const CLI::ParseError& error) {
    return Error{ErrorKind::kInvalid, error.what()};
  }
  return {};
}

Result<CommandLine> ParseServer(const std::vector<std::string>& args) {
  CLI::App app{"Runs a rendezvous server alone, until it is stopped", "ddprun rendezvous"};
  app.set_help_flag();
  std::string listen = "127.0.0.1:29400";
  bool help = false;
  ServerConfig config;
  app.add_option("--listen", listen, "HOST:PORT, port 0 for any free one")->capture_default_str();
  app.add_flag("-v,--verbose", config.verbose, "Say every step");
  app.add_flag("-h,--help", help, "This help");
  ASSIGN_OR_RETURN(SplitLine line, SplitFlags(app, args));
  RETURN_IF_ERROR(Parse(app, line.flags));
  if (help) {
    return CommandLine(Print{app.help()});
  }
  if (!line.rest.empty()) {
    return Invalid("ddprun rendezvous takes no further argument", line.rest.front());
  }
  ASSIGN_OR_RETURN(config.listen, ParseEndpoint(listen, 29400));
  return CommandLine(config);
}

}  // namespace

Result<CommandLine> ParseCommandLine(const std::vector<std::string>& args, const GetEnv& get_env) {
  if (!args.empty() && args.front() == "rendezvous") {
    return ParseServer({args.begin() + 1, args.end()});
  }
  if (args.size() == 1 && args.front() == "--version") {
    return CommandLine(Print{VersionText()});
  }
  CLI::App app{"Starts and supervises distributed training", "ddprun"};
  app.set_help_flag();
  app.option_defaults()->take_last();  // As torchrun: wrappers append what overrides.
  RawFlags raw;
  const auto other_default = [&](const char* variable, std::string& value) {
    const auto set = get_env(variable);
    value = set && !set->empty() ? *set : value;
  };
  other_default("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", raw.shutdown_timeout);
  other_default("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", raw.prefix_template);
  AddSizeAndRendezvous(app, raw);
  AddProcessesAndOutput(app, raw);
  ASSIGN_OR_RETURN(SplitLine line, SplitFlags(app, args));
  std::vector<std::string> flags = FlagsFromEnvironment(app, line.flags, get_env);
  flags.insert(flags.end(), line.flags.begin(), line.flags.end());
  RETURN_IF_ERROR(Parse(app, flags));
  if (raw.version) {
    return CommandLine(Print{VersionText()});
  }
  if (raw.short_help || raw.help) {
    return CommandLine(Print{raw.help ? LongHelp(app) : ShortHelp()});
  }
  return Resolve(raw, line.rest);
}

}  // namespace ddprun
