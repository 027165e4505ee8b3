#include "launcher/cli_server.h"

#include <algorithm>
#include <array>

#include "launcher/command_line/flags.h"
#include "launcher/command_line/removed.h"
#include "launcher/environment/detect.h"
#include "launcher/verbs/verb_line.h"

namespace ddprun {
namespace {

// A server that may have to call its successor checks that one too.
Result<void> CheckTls(const TlsFiles& files, bool has_successors) {
  if (files.any() && (files.certificate.empty() || files.key.empty())) {
    return Error{ErrorKind::kInvalid, "a server that speaks TLS needs --tls-cert and --tls-key"};
  }
  if (files.any() && has_successors && files.authority.empty()) {
    return Error{ErrorKind::kInvalid, "with --run-dir a server that speaks TLS needs --tls-ca too"};
  }
  return {};
}

Result<void> CheckStateDir(const ServerConfig& config) {
  if (SaysNothing(config.settings, "state-dir")) {
    return Error{ErrorKind::kInvalid, "--state-dir must name a directory"};
  }
  if (!config.state_dir.empty() && !config.run_dir.empty()) {
    return Error{ErrorKind::kInvalid,
                 "--state-dir and --run-dir exclude each other: a state directory is one server's "
                 "alone, a run directory all nodes'"};
  }
  return {};
}

void AddTls(FlagRows& flags, TlsFiles& tls, const char* certificate, const char* authority) {
  flags.Value("--tls-cert", tls.certificate, "FILE", certificate);
  flags.Value("--tls-key", tls.key, "FILE", "Its key (PEM, mode 600; or DDPRUN_TLS_KEY)");
  flags.Value("--tls-ca", tls.authority, "FILE", authority);
}

// Other variables are of launches.
GetEnv OnlyAccess(const GetEnv& get_env) {
  return [&](const std::string& name) {
    constexpr std::array kOurs = {"DDPRUN_TOKEN_FILE", "DDPRUN_TLS_CERT", "DDPRUN_TLS_KEY",
                                  "DDPRUN_TLS_CA", "DDPRUN_POOL"};
    return std::ranges::find(kOurs, name) == kOurs.end() ? std::nullopt : get_env(name);
  };
}

// Adds what both have, reads the line, and checks what both check.
template <class Config>
void ParseRest(VerbLine& line, Config& config, const GetEnv& get_env) {
  line.flags.Choice("--log-format", config.log_format, "text|json",
                    "text or json: each line an object with unix_time, level, who and text");
  line.flags.Switch("-v,--verbose", config.verbose, "Print every step");
  line.Parse(OnlyAccess(get_env));
  line.RefuseWords(0);
  config.token = get_env("DDPRUN_TOKEN").value_or("");
  config.settings = line.settings;
}

template <class Config>
Result<CommandLine> Ended(const VerbLine& line, Config& config) {
  if (line.help) {
    return CommandLine(Print{line.Help()});
  }
  RETURN_IF_ERROR(line.Outcome());
  return CommandLine(std::move(config));
}

// The flags that decide who may join.
void AddAccess(FlagRows& flags, ServerConfig& config) {
  flags.Value("--token-file", config.token_file, "FILE",
              "File (mode 600) with the token that every peer must prove (or DDPRUN_TOKEN, "
              "DDPRUN_TOKEN_FILE). Without it, nodes that share --run-dir, and your nodes on "
              "loopback, use a generated token. Otherwise any node may join, and drain and stop "
              "are refused");
  AddTls(flags, config.tls,
         "Accept only TLS: the certificate (PEM), which must name the host that nodes call "
         "(or DDPRUN_TLS_CERT)",
         "Reject peers without a certificate that this one signed (or DDPRUN_TLS_CA)");
  flags.Switch(
      "--insecure", config.insecure,
      "Generate no token, let any peer join, and serve on every address (0.0.0.0, ::) too");
}

}  // namespace

// Every address at once is more often a mistake than intended.
Result<void> CheckExposure(const std::string& flag, const Endpoint& endpoint,
                           const AccessFlags& flags) {
  const bool proves = !flags.token_file.empty() || !flags.token.empty() ||
                      !flags.tls.authority.empty() || !flags.run_dir.empty();
  if (!IsWildcard(endpoint.host) || proves || flags.insecure) {
    return {};
  }
  return Error{ErrorKind::kInvalid,
               flag + "=" + ToString(endpoint) +
                   " would let any peer join without a token, on every address of this machine. "
                   "Name one address, or set --token-file (or DDPRUN_TOKEN), --tls-ca or "
                   "--insecure"};
}

Result<CommandLine> ParseServer(const std::vector<std::string>& args, const GetEnv& get_env) {
  VerbLine line("Runs a rendezvous server alone, until it is stopped", args);
  ServerConfig config;
  line.flags.Read("--listen", config.listen, "", "HOST:PORT",
                  "HOST:PORT, port 0 for any free one (default 127.0.0.1:29400)",
                  [](const std::string& text) { return ParseEndpoint(text, 29400); });
  line.flags.Value(
      "--state-dir", config.state_dir, "DIR",
      "DIR that survives this server: a server that is started with it again continues the runs");
  line.flags.Value("--run-dir,--shared-dir", config.run_dir, "DIR",
                   "DIR that all nodes share: a node takes over if this server dies, and this "
                   "server takes over if that node dies");
  line.flags  // Removed: hidden, and refused.
      .Read("--rdzv-endpoint", "", "", "",
            [](const std::string&) {
              return Result<void>(Error{ErrorKind::kInvalid, *WhyRefused(kListOfEndpoints)});
            })
      ->group("");
  line.flags.Read("--http-listen", config.http_listen, "", "[HOST:]PORT",
                  "HOST:PORT where /livez, /readyz, /metrics and the status page of its runs are; "
                  "without TLS its own port has them too",
                  ParseHttpListen);
  AddAccess(line.flags, config);
  ParseRest(line, config, get_env);
  config.in_slurm_job = IsInSlurmJob(get_env);
  line.problems.Check(CheckTls(config.tls, !config.run_dir.empty()));
  line.problems.Check(CheckExposure("--listen", config.listen, config));
  line.problems.Check(CheckStateDir(config));
  return Ended(line, config);
}

Result<CommandLine> ParseDaemon(const std::vector<std::string>& args, const GetEnv& get_env) {
  VerbLine line(
      "Offers this machine to a pool, and runs the nodes that it is given: one run at a "
      "time (ddprun help pool)",
      args);
  DaemonConfig config;
  line.flags.Read("--pool", config.pool, "", "HOST:PORT",
                  "HOST:PORT of the pool's `ddprun rendezvous` (or DDPRUN_POOL)",
                  [](const std::string& text) { return ParseEndpoint(text, 29400); });
  line.flags.Value("--name", config.name, "NAME",
                   "NAME of this daemon and of its nodes (default: the host's name)");
  line.flags.Value("--node-check", config.node_check, "COMMAND",
                   "A command for /bin/sh that checks this machine at the start, and after a run "
                   "has failed here. Unless its exit code is 0, this machine takes no run");
  line.flags.Value("--node-check-timeout", config.node_check_timeout, "DURATION",
                   "Longest time of a check (default 60s)");
  line.flags.Value("--keep-warm", config.keep_warm, "DURATION",
                   "How long a run's preload process is kept for the next run (default 10m; 0: it "
                   "ends with its run)");
  line.flags.Value("--token-file", config.token_file, "FILE",
                   "File (mode 600) with the pool's token (or DDPRUN_TOKEN). Without it, your "
                   "pool on loopback uses a generated token");
  AddTls(line.flags, config.tls, "The certificate to show (or DDPRUN_TLS_CERT)",
         "Speak TLS: trust what this certificate signed (or DDPRUN_TLS_CA)");
  ParseRest(line, config, get_env);
  if (config.pool.host.empty() && line.problems.text.empty()) {
    line.problems.Add("no pool given: set --pool=HOST:PORT, the address of a `ddprun rendezvous`");
  }
  const auto may_not_be = [](char c) { return c <= ' ' || c > '~' || c == ',' || c == '/'; };
  if (config.name.size() > kMaxNameBytes || std::ranges::any_of(config.name, may_not_be)) {
    line.problems.Add(Invalid("--name must be one word of ASCII characters, without commas and '/'",
                              config.name));
  }
  return Ended(line, config);
}

}  // namespace ddprun
