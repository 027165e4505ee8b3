#include "launcher/hosts/host_orders.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "common/slug.h"
#include "common/text.h"
#include "launcher/command_line/flags.h"
#include "launcher/command_line/quoted.h"
#include "launcher/environment/launch_place.h"
#include "launcher/hosts/node_front.h"
#include "launcher/server/server_files.h"
#include "proto/job_port.h"
#include "rendezvous/listener/control_token.h"

namespace ddprun {
namespace {

constexpr const char* kLocalhost = "localhost";

// The launcher's own, or different for each host.
bool StaysHere(const std::string& flag) {
  static const std::set<std::string> kOwn = {"hosts",   "hostfile", "launch-agent", "nnodes",
                                             "rdzv-id", "config",   "token-file",   "pool",
                                             "detach",  "copy"};
  return kOwn.contains(flag);
}

// Under the name it was called by, as an installation in a virtual environment needs it.
std::string OwnProgram(const LaunchConfig& config) {
  const std::filesystem::path called(config.own_command.empty() ? "" : config.own_command.front());
  const std::filesystem::path path = config.called_from / called.filename();
  std::error_code error;
  if (path.is_absolute() && ::access(path.c_str(), X_OK) == 0) {
    return path.native();
  }
  return std::filesystem::read_symlink("/proc/self/exe", error).native();
}

Result<std::string> TokenFor(const LaunchConfig& config) {
  AccessFlags flags = config;
  flags.tls = {};  // The hosts have these files.
  ASSIGN_OR_RETURN(const Access access, ChooseAccess(flags));
  // Nodes that share a directory share the token in it, which operators find there, too.
  const bool draws = access.token.empty() && !config.standalone && !config.tls.any() &&
                     !config.insecure && config.run_dir.empty();
  return draws ? DrawToken() : access.token;
}

std::string ReachedAs(const std::string& name) {
  return name == kLocalhost ? HostName() : name;
}

}  // namespace

std::vector<Setting> SettingsThatTravel(const LaunchConfig& config) {
  std::vector<Setting> flags;
  for (const Setting& setting : config.settings) {
    if (setting.origin == kDefault || StaysHere(setting.name)) {
      continue;
    }
    // One argument of a process may have 128 KiB, so each variable has its own.
    const auto values = setting.name == "env" ? Split(setting.value, '\n')
                                              : std::vector<std::string>{setting.value};
    for (const std::string& value : values) {
      flags.push_back({setting.name, value, setting.origin});
    }
    if (values.empty()) {
      flags.push_back(setting);  // It says that nothing is set, and so does the flag there.
    }
  }
  // There a scheduler's --log-dir, which keeps no output, is a flag like a user's.
  if (IsSet(config, "log-dir") && !config.KeepsOutput() && !IsSet(config, "tee")) {
    flags.push_back({"tee", "0", kCommandLine});
  }
  return flags;
}

Setting NodesFlag(std::uint32_t min_nodes, std::uint32_t max_nodes) {
  const std::string most = std::to_string(max_nodes);
  return {"nnodes", min_nodes == max_nodes ? most : std::to_string(min_nodes) + ":" + most,
          kCommandLine};
}

RunId NameOfRun(const LaunchConfig& config) {
  return IsSet(config, "rdzv-id") ? config.run_id : "run-" + DrawToken().substr(0, 16);
}

Result<std::string> WorkingDirectory() {
  std::error_code error;
  const std::filesystem::path directory = std::filesystem::current_path(error);
  return error ? Error{ErrorKind::kInvalid, "cannot read the working directory: " + error.message()}
               : Result<std::string>(directory.native());
}

std::vector<std::string> ArgumentsWith(const std::vector<Setting>& flags,
                                       const LaunchConfig& config) {
  std::vector<std::string> args;
  for (const Setting& setting : flags) {
    args.push_back("--" + setting.name + "=" + setting.value);
  }
  args.emplace_back("--");
  args.push_back(config.program);
  args.insert(args.end(), config.args.begin(), config.args.end());
  return args;
}

Result<HostOrders> HostOrders::Make(const LaunchConfig& config) {
  HostOrders orders(config);
  orders.finds_first_ = config.spec.max_nodes > 1 && !IsSet(config, "rdzv-endpoint");
  const auto agent = FindProgram(config.launch_agent.front(), GetProcessEnv);
  if (!agent) {
    return Error{agent.error().kind, Continue(agent.error().message, " (--launch-agent)")};
  }
  orders.agent_ = *agent;
  ASSIGN_OR_RETURN(orders.directory_, WorkingDirectory());
  orders.program_ = OwnProgram(config);
  if (config.copy) {
    ASSIGN_OR_RETURN(orders.copies_, FindCopies(config, orders.program_));
  }
  orders.word_ = DrawToken().substr(0, 32);
  orders.run_id_ = NameOfRun(config);
  ASSIGN_OR_RETURN(orders.token_, TokenFor(config));
  orders.environment_ = ProcessEnvironment();
  orders.environment_.erase("DDPRUN_TOKEN");
  for (const std::string& name : config.own_variables) {
    orders.environment_.erase(name);
  }
  return orders;
}

bool HostOrders::IsHere(std::size_t host) const {
  const LaunchHost& listed = config_.hosts[host];
  const std::string own = HostName();
  return listed.address == listed.name && (listed.name == kLocalhost || listed.name == own ||
                                           listed.name == own.substr(0, own.find('.')));
}

WorkerSpec HostOrders::Connection(std::size_t host) const {
  WorkerSpec spec;
  spec.helper = true;
  spec.environment = environment_;
  if (IsHere(host)) {
    spec.command.file = program_;
    spec.command.argv = {program_, kOrderOnStdin};
    return spec;
  }
  spec.command.file = agent_;
  spec.command.argv = config_.launch_agent;
  spec.command.argv.push_back(config_.hosts[host].address);
  spec.command.argv.push_back(QuotedLine(copies_.empty()
                                             ? std::vector{program_, std::string(kOrderOnStdin)}
                                             : CommandWithCopies(copies_)));
  return spec;
}

std::vector<Setting> HostOrders::Flags(std::size_t host, std::optional<std::size_t> first) const {
  const RunSpec& spec = config_.spec;
  const LaunchHost& listed = config_.hosts[host];
  std::vector<Setting> flags = {NodesFlag(spec.min_nodes, spec.max_nodes)};
  const auto add = [&](const std::string& name, const std::string& value) {
    flags.push_back({name, value, kCommandLine});
  };
  if (spec.max_nodes > 1 || IsSet(config_, "rdzv-id")) {
    add("rdzv-id", run_id_);
  }
  if (first) {
    add("rdzv-endpoint",
        ToString(Endpoint{ReachedAs(config_.hosts[*first].name), PortOfJob(run_id_)}));
    if (spec.min_nodes == config_.hosts.size()) {  // Else ranks follow the nodes' names.
      add("node-rank", std::to_string(host));
    }
  }
  if (listed.workers) {
    add("nproc-per-node", std::to_string(*listed.workers));
  }
  for (const Setting& setting : SettingsThatTravel(config_)) {
    if (setting.name != "nproc-per-node" || !listed.workers) {
      flags.push_back(setting);
    }
  }
  return flags;
}

NodeOrder HostOrders::Order(std::size_t host, std::optional<std::size_t> first) const {
  LaunchPlace place{.index = std::nullopt,
                    .node = ReachedAs(config_.hosts[host].name),
                    .hosts = {},
                    .word = word_};
  for (const LaunchHost& other : config_.hosts) {
    place.hosts.push_back(ReachedAs(other.name));
  }
  if (first) {  // The first host has place 0; those before it, which were not reached, follow it.
    std::rotate(place.hosts.begin(), place.hosts.begin() + static_cast<std::ptrdiff_t>(*first),
                place.hosts.begin() + static_cast<std::ptrdiff_t>(*first) + 1);
    place.index = static_cast<std::uint32_t>(host == *first ? 0 : host < *first ? host + 1 : host);
  }
  return {word_, token_, Encode(place), directory_, ArgumentsWith(Flags(host, first), config_)};
}

std::string HostOrders::Describe() const {
  std::string text =
      "ddprun " DDPRUN_VERSION ": what would be started (--dry-run: nothing is started)\n";
  for (std::size_t i = 0; i < config_.hosts.size(); ++i) {
    std::vector<std::string> there = {program_};
    const NodeOrder order = Order(i, finds_first_ ? std::optional<std::size_t>(0) : std::nullopt);
    there.insert(there.end(), order.args.begin(), order.args.end());
    text += "\n" + config_.hosts[i].name + "\n  by     " + QuotedLine(Connection(i).command.argv) +
            "\n  order  cd " + Quoted(directory_) + " && " + QuotedLine(there) + "\n";
  }
  return text;
}

}  // namespace ddprun
