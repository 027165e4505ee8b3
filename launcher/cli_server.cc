#include "launcher/cli_server.h"

#include <CLI/CLI.hpp>

#include "launcher/command_line/flags.h"
#include "launcher/command_line/removed.h"
#include "launcher/environment/detect.h"

namespace ddprun {
namespace {

// A flag that was not given: from its variable.
void FillFromEnvironment(const GetEnv& get_env, const char* name, const char* flag,
                         std::string& value, std::vector<Setting>& settings) {
  const std::optional<std::string> given = get_env(name);
  if (value.empty() && given && !given->empty()) {
    value = *given;
    settings.push_back({flag, value, name});
  }
}

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

Result<void> CheckStateDir(const CLI::Option& state_dir, const ServerConfig& config) {
  if (state_dir.count() > 0 && config.state_dir.empty()) {
    return Error{ErrorKind::kInvalid, "--state-dir must name a directory"};
  }
  if (!config.state_dir.empty() && !config.run_dir.empty()) {
    return Error{ErrorKind::kInvalid,
                 "--state-dir and --run-dir exclude each other: a state directory is one server's "
                 "alone, a run directory all nodes'"};
  }
  return {};
}

}  // namespace

// Every address at once is a mistake more often than a wish.
Result<void> CheckExposure(const Endpoint& endpoint, const std::string& proof, bool insecure) {
  if (!IsWildcard(endpoint.host) || !proof.empty() || insecure) {
    return {};
  }
  return Invalid(
      "on every address of this machine any peer that reaches it could join: name one "
      "address, set --token-file (or DDPRUN_TOKEN) or --tls-ca, or set --insecure",
      ToString(endpoint));
}

namespace {

// The flags that decide who may join.
void AddAccess(CLI::App& app, ServerConfig& config) {
  app.add_option("--token-file", config.token_file,
                 "File (mode 600) with the token that all must show, or DDPRUN_TOKEN or "
                 "DDPRUN_TOKEN_FILE; without one those who share a run directory, or this user's "
                 "nodes on loopback, have one all the same; else any node may join, but none "
                 "can drain or stop")
      ->type_name("FILE");
  app.add_option("--tls-cert", config.tls.certificate,
                 "Speak TLS alone: the certificate (PEM), which must name the host that nodes call "
                 "(or DDPRUN_TLS_CERT)")
      ->type_name("FILE");
  app.add_option("--tls-key", config.tls.key, "Its key (PEM, mode 600; or DDPRUN_TLS_KEY)")
      ->type_name("FILE");
  app.add_option("--tls-ca", config.tls.authority,
                 "Reject peers without a certificate that this one signed (or DDPRUN_TLS_CA)")
      ->type_name("FILE");
  app.add_flag("--insecure", config.insecure,
               "Draw no token, let any peer join, and serve on every address (0.0.0.0, ::) too");
}

}  // namespace

Result<CommandLine> ParseServer(const std::vector<std::string>& args, const GetEnv& get_env) {
  CLI::App app{"Runs a rendezvous server alone, until it is stopped", "ddprun rendezvous"};
  app.set_help_flag();
  std::string listen = "127.0.0.1:29400";
  std::string list, http_listen;
  bool help = false;
  ServerConfig config;
  app.add_option("--listen", listen, "HOST:PORT, port 0 for any free one")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  CLI::Option* const state_dir =
      app.add_option("--state-dir", config.state_dir,
                     "DIR that survives this server: one started again with it continues its runs")
          ->type_name("DIR");
  app.add_option("--run-dir", config.run_dir,
                 "DIR that all nodes share: a node takes over if this server dies, and this one "
                 "takes over if such a node does")
      ->type_name("DIR");
  app.add_option("--rdzv-endpoint", list)->group("");  // Removed: hidden, and refused.
  app.add_option("--http-listen", http_listen,
                 "HOST:PORT where /livez, /readyz, /metrics and the status page of its runs are; "
                 "without TLS its own port has them too")
      ->type_name("[HOST:]PORT");
  AddAccess(app, config);
  std::string log_format = "text";
  app.add_option("--log-format", log_format,
                 "text or json: each line an object with unix_time, level, who and text")
      ->type_name("text|json");
  app.add_flag("-v,--verbose", config.verbose, "Say every step");
  app.add_flag("-h,--help", help, "This help");
  ASSIGN_OR_RETURN(SplitLine line, SplitFlags(app, args));
  RETURN_IF_ERROR(ParseFlags(app, ToArguments(LayOver({line.settings}))));
  if (help) {
    return CommandLine(Print{app.help()});
  }
  if (log_format != "text" && log_format != "json") {
    return Invalid("--log-format must be text or json", log_format);
  }
  config.log_format = log_format == "json" ? LogFormat::kJson : LogFormat::kText;
  if (!line.rest.empty()) {
    return Invalid("unexpected argument", line.rest.front());
  }
  config.token = get_env("DDPRUN_TOKEN").value_or("");
  config.in_slurm_job = IsInSlurmJob(get_env);
  const auto fill = [&](const char* name, const char* flag, std::string& value) {
    FillFromEnvironment(get_env, name, flag, value, config.settings);
  };
  fill("DDPRUN_TOKEN_FILE", "token-file", config.token_file);
  fill("DDPRUN_TLS_CERT", "tls-cert", config.tls.certificate);
  fill("DDPRUN_TLS_KEY", "tls-key", config.tls.key);
  fill("DDPRUN_TLS_CA", "tls-ca", config.tls.authority);
  if (!list.empty()) {
    return Error{ErrorKind::kInvalid, *WhyRefused(kListOfEndpoints)};
  }
  if (const auto tls = CheckTls(config.tls, !config.run_dir.empty()); !tls) {
    return Error{tls.error().kind, WithOrigins(tls.error().message, config.settings)};
  }
  ASSIGN_OR_RETURN(config.listen, ParseEndpoint(listen, 29400));
  if (!http_listen.empty()) {
    ASSIGN_OR_RETURN(config.http_listen, ParseHttpListen(http_listen));
  }
  RETURN_IF_ERROR(CheckExposure(
      config.listen, config.token_file + config.token + config.tls.authority + config.run_dir,
      config.insecure));
  RETURN_IF_ERROR(CheckStateDir(*state_dir, config));
  return CommandLine(config);
}

}  // namespace ddprun
