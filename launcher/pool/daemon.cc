#include "launcher/pool/daemon.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/signal_set.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "agent/host/node_check.h"
#include "agent/process_agent.h"
#include "agent/workers/worker_spec.h"
#include "common/asio_loop.h"
#include "common/exit_code.h"
#include "common/exit_status.h"
#include "common/json.h"
#include "common/log.h"
#include "common/slug.h"
#include "common/text.h"
#include "launcher/command_line/flags.h"
#include "launcher/command_line/gpus.h"
#include "launcher/command_line/raw_flags.h"
#include "launcher/environment/launch_place.h"
#include "launcher/node_slot.h"
#include "launcher/pool/launched_part.h"
#include "launcher/run_token.h"
#include "launcher/server/server_files.h"
#include "proto/notify.h"
#include "rendezvous/client_pool.h"
#include "rendezvous/messages/describe.h"

namespace ddprun {
namespace {

constexpr Duration kDaemonFlushLimit{1'000};
constexpr Duration kCheckEndLimit{1'000};  // For a check that runs when the daemon is stopped.
constexpr Duration kUnfitFor{60'000};      // After a run could not be started here.
constexpr const char* kOwnVariables[] = {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
                                         "LISTEN_FDS",    "LISTEN_PID",    "INVOCATION_ID"};

std::string FactsOfMachine() {
  const std::uint32_t gpus = CountDevices();
  const std::size_t cpus = AllowedCpus();
  return (gpus > 0 ? CountOf(gpus, "GPU") + ", " : "") +
         CountOf(static_cast<std::uint32_t>(cpus), "CPU");
}

// A line of the launch (--log-format=json); nullopt: another one.
std::optional<SaidLine> ParseSaid(const std::string& line) {
  if (!line.starts_with("{\"unix_time\"")) {
    return std::nullopt;
  }
  const auto json = ParseJson<>(line);
  const std::string text = TextIn(json, "text");
  if (!TextIn(json, "who").starts_with("ddprun") || text.empty()) {
    return std::nullopt;
  }
  constexpr const char* kLevels[] = {"debug", "info", "warning", "error"};
  const auto level = std::ranges::find(kLevels, TextIn(json, "level"));
  return SaidLine{0, static_cast<std::uint32_t>(level == std::end(kLevels) ? 1 : level - kLevels),
                  text.substr(0, kMaxSaidLine)};
}

class Daemon {
 public:
  Daemon(const DaemonConfig& config, std::filesystem::path file, Access access)
      : config_(config),
        file_(std::move(file)),
        access_(std::move(access)),
        check_(loop_, config.node_check, config.node_check_timeout),
        notifier_(GetProcessEnv("NOTIFY_SOCKET").value_or("")),
        watchdog_(loop_),
        fit_again_(loop_),
        stop_(loop_),
        client_(loop_, config.pool, access_,
                {[this](const PoolReply& reply) { OnReply(reply); },
                 [this](const Error& why) { OnLost(why); }}) {
    offer_.name = config.name;
    offer_.incarnation = DrawIncarnation();
    offer_.facts = FactsOfMachine();
  }

  Result<int> Run() {
    RETURN_IF_ERROR(FindEarlier());
    boost::asio::signal_set signals(loop_.io(), SIGINT, SIGTERM);
    int stopped_by = 0;
    signals.async_wait([&](boost::system::error_code, int signal) {
      stopped_by = signal;
      Log(LogLevel::kInfo, "stopped by " + SignalName(signal) +
                               (part_ ? "; run " + part_->name().run_id + " continues" : ""));
      check_.End([this] { loop_.Stop(); });
      stop_.ArmAt(loop_.Now() + kCheckEndLimit, [this] { loop_.Stop(); });
    });
    Log(LogLevel::kInfo, "offering this machine (" + offer_.facts + ") to the pool at " +
                             ToString(config_.pool) + " as " + config_.name);
    if (part_) {
      Say();  // A check is for a machine without workers.
    } else {
      CheckNode("start");
    }
    notifier_.Send("READY=1");
    Watchdog();
    loop_.Run();
    notifier_.Send("STOPPING=1");
    return kExitSignalBase + stopped_by;
  }

 private:
  // A part that an earlier daemon has started.
  Result<void> FindEarlier() {
    ASSIGN_OR_RETURN(const std::optional<LaunchedPart::Found> found, LaunchedPart::Look(file_));
    if (!found) {
      return {};
    }
    const std::string& pool = found->name.pool;
    const bool same = pool == ToString(config_.pool);
    if (!found->runs) {
      if (same) {
        Remember(found->name, std::nullopt);
      }
      return {};
    }
    if (!same) {
      return Error{ErrorKind::kRefused,
                   "run " + found->name.run_id + " of the pool at " + pool +
                       " still runs here. Start this daemon with --pool=" + pool +
                       ", or end the run (ddprun stop " + found->name.run_id + " --pool=" + pool +
                       "; if that pool is gone: kill " + std::to_string(found->guard) + ")"};
    }
    Log(LogLevel::kInfo, "run " + found->name.run_id + " of an earlier daemon still runs here");
    offer_.said_part = found->name.part;
    part_ = LaunchedPart::Adopt(loop_, file_, *found, Told());
    return {};
  }

  LaunchedPart::Told Told() {
    return {[this](std::string line) { OnLine(std::move(line)); },
            [this](std::optional<int> code) { OnEnded(code); }};
  }

  void Say() {
    offer_.run_id = part_ ? part_->name().run_id : "";
    offer_.part = part_ ? part_->name().part : 0;
    offer_.detached = part_ && part_->name().detached;
    client_.Say(offer_);
    status_ = "STATUS=" + (part_                  ? "run " + offer_.run_id
                           : offer_.drained       ? std::string("drained")
                           : offer_.unfit.empty() ? std::string("free")
                                                  : "unfit: " + offer_.unfit);
    notifier_.Send(status_);
  }

  void CheckNode(const std::string& cause) {
    checked_ = true;
    if (config_.node_check.empty()) {
      return Say();
    }
    offer_.unfit = "its node check (--node-check) is running";
    Say();
    check_.Run(cause, [this](const std::string& verdict) {
      if (!verdict.empty()) {
        Log(LogLevel::kWarning, "this machine is unfit and takes no run: " + verdict);
      }
      offer_.unfit = verdict.substr(0, kMaxUnfit);
      Say();
    });
  }

  void OnReply(const PoolReply& reply) {
    if (std::exchange(lost_, false)) {
      Log(LogLevel::kInfo, "connected to the pool at " + ToString(config_.pool));
    }
    if (const PoolOrder* const order = std::get_if<PoolOrder>(&reply)) {
      Carry(*order);
    }
  }

  void OnLost(const Error& why) {
    if (!std::exchange(lost_, true) || why.message != said_why_) {
      Log(LogLevel::kWarning, Continue(why.message, "; trying again"));
    }
    said_why_ = why.message;
  }

  void Carry(const PoolOrder& order) {
    if (order.drained && !offer_.drained) {
      Log(LogLevel::kInfo,
          "drained: this machine takes no more runs until its daemon is restarted");
      offer_.drained = true;
      Say();
    }
    if (order.run_id.empty()) {
      return;
    }
    if (part_) {
      if (part_->name().part == order.part && part_->name().run_id == order.run_id) {
        PassOn(order);
      }
      return;
    }
    const bool had_it = std::ranges::any_of(offer_.ended, [&](const EndedPart& ended) {
      return ended.part == order.part && ended.run_id == order.run_id;
    });
    if (had_it) {
      return;
    }
    if (order.end || order.args.empty()) {
      Remember({order.run_id, order.part, false}, kExitTerminated);
      return Say();
    }
    Start(order);
  }

  void PassOn(const PoolOrder& order) {
    // An earlier daemon may not have passed the last one on.
    const bool ends = !order.signals.empty() && AsksForTheEnd(order.signals.back());
    std::size_t& passed =
        signals_ ? *signals_ : signals_.emplace(order.signals.size() - (ends ? 1 : 0));
    for (; passed < order.signals.size(); ++passed) {
      part_->Signal(static_cast<unsigned char>(order.signals[passed]));
    }
    if (order.end) {
      part_->End();
    }
  }

  void Start(const PoolOrder& order) {
    offer_.said.clear();
    offer_.said_part = order.part;
    signals_ = 0;
    const PartName name{order.run_id, order.part, order.detached, ToString(config_.pool)};
    auto started = LaunchedPart::Start(loop_, file_, name, LaunchOf(order), Told());
    if (!started) {
      // Another machine may take it. This one may need a person: its directory may be gone, as at
      // the last logout of its user. Or its disk was full.
      Log(LogLevel::kError, "this machine is unfit and takes no run: " + started.error().message);
      AddSaid({0, static_cast<std::uint32_t>(LogLevel::kWarning),
               "cannot join the run: " + InOneLine(started.error().message)});
      offer_.unfit = started.error().message.substr(0, kMaxUnfit);
      fit_again_.ArmAt(loop_.Now() + kUnfitFor, [this] {
        offer_.unfit.clear();
        CheckNode("start");
      });
      return Say();
    }
    Log(LogLevel::kInfo, "run " + order.run_id + " begins");
    part_ = *std::move(started);
    fit_again_.Cancel();  // A check is for a machine without workers.
    offer_.unfit.clear();
    Say();
    PassOn(order);
  }

  WorkerSpec LaunchOf(const PoolOrder& order) const {
    WorkerSpec launch;
    launch.directory = order.directory;
    launch.command = {config_.program, {config_.program}};
    const auto add = [&](const std::string& flag, const std::string& value) {
      if (!value.empty()) {
        launch.command.argv.push_back("--" + flag + "=" + value);
      }
    };
    add("rdzv-endpoint", ToString(config_.pool));
    add("rdzv-id", order.run_id);
    add("tls-ca", config_.tls.authority);
    add("tls-cert", config_.tls.certificate);
    add("tls-key", config_.tls.key);
    add("log-format", "json");
    launch.command.argv.insert(launch.command.argv.end(), order.args.begin(), order.args.end());
    std::map<std::string, std::string>& environment = launch.environment;
    environment = ProcessEnvironment();
    std::erase_if(environment, [](const auto& variable) {
      return std::ranges::count(kOwnVariables, variable.first) > 0;
    });
    for (const std::string& name : config_.launch_variables) {
      environment.erase(name);
    }
    if (!access_.token.empty()) {
      environment["DDPRUN_TOKEN"] = access_.token;
    }
    if (config_.keep_warm > Duration{0}) {
      environment["DDPRUN_KEEP_WARM"] = std::to_string(config_.keep_warm.count()) + "ms";
    }
    environment[kLaunchPlace] = Encode(LaunchPlace{.index = std::nullopt,
                                                   .node = config_.name,
                                                   .hosts = {config_.name},
                                                   .joins = true,
                                                   .followed = !order.detached});
    return launch;
  }

  void OnLine(std::string line) {
    std::optional<SaidLine> said = ParseSaid(line);
    constexpr std::string_view kHeading = "ddprun: error: ";  // Before its log was set up.
    if (!said && line.starts_with(kHeading)) {
      said =
          SaidLine{0, static_cast<std::uint32_t>(LogLevel::kError), line.substr(kHeading.size())};
    }
    if (said) {
      AddSaid(*std::move(said));
      Say();
    }
  }

  void AddSaid(SaidLine line) {
    line.number = ++last_said_;
    offer_.said.push_back(std::move(line));
    while (offer_.said.size() > kMostSaidLines || SaidBytes(offer_.said) > kMaxSaidBytes) {
      offer_.said.erase(offer_.said.begin());
    }
  }

  void Remember(const PartName& name, std::optional<int> code) {
    if (offer_.ended.size() == kMostEndedParts) {
      offer_.ended.erase(offer_.ended.begin());
    }
    offer_.ended.push_back({name.run_id, name.part, code});
  }

  void OnEnded(std::optional<int> code) {
    const PartName name = part_->name();
    part_.reset();
    Remember(name, code);
    const bool failed = code && *code != kExitOk;
    const SaidLine* const why = FirstError(offer_.said);
    Log(LogLevel::kInfo, "run " + name.run_id + " has ended" +
                             (code ? " with exit code " + std::to_string(*code) : "") +
                             (failed && why != nullptr ? ": " + why->text : ""));
    if (failed || !checked_) {
      CheckNode(failed ? "end" : "start");
    } else {
      Say();
    }
  }

  // Twice as often as systemd asks for. Each time with the status: a full socket loses messages.
  void Watchdog() {
    const auto period =
        ParseNumber<std::uint64_t>(GetProcessEnv("WATCHDOG_USEC").value_or("")).value_or(0);
    if (period > 0) {
      notifier_.Send("WATCHDOG=1\n" + status_);
      watchdog_.ArmAt(loop_.Now() + Duration(std::max<std::uint64_t>(1, period / 2'000)),
                      [this] { Watchdog(); });
    }
  }

  AsioLoop loop_;
  const DaemonConfig& config_;
  const std::filesystem::path file_;
  const Access access_;
  PoolOffer offer_;
  std::shared_ptr<LaunchedPart> part_;  // nullptr: the machine has no run.
  std::optional<std::size_t> signals_;  // That were passed on to it; none: by an earlier daemon.
  std::uint64_t last_said_ = 0;
  bool checked_ = false;
  bool lost_ = true;
  std::string said_why_;
  NodeCheck check_;
  Notifier notifier_;
  std::string status_;  // For systemd.
  LoopTimer watchdog_;
  LoopTimer fit_again_;
  LoopTimer stop_;
  PoolClient client_;
};

Result<int> Serve(DaemonConfig config) {
  RETURN_IF_ERROR(FindToken(config, config.pool));
  ASSIGN_OR_RETURN(Access access, ChooseAccess(config));
  if (config.name.empty()) {
    config.name = HostName();
  }
  RawFlags flags;
  CLI::App app;
  app.set_help_flag();
  AddFlags(app, flags);
  config.launch_variables = VariablesOfFlags(app, GetProcessEnv);
  std::error_code error;
  config.program = std::filesystem::read_symlink("/proc/self/exe", error).native();
  ASSIGN_OR_RETURN(const std::filesystem::path directory, UserDirectory());
  const std::filesystem::path file = directory / ("daemon-" + AsFileName(config.name));
  ASSIGN_OR_RETURN(const UniqueFd own, LaunchedPart::Own(file));
  Daemon daemon(config, file, std::move(access));
  return daemon.Run();
}

}  // namespace

int RunDaemon(const DaemonConfig& config) {
  ::signal(SIGPIPE, SIG_IGN);
  SetLogFormat(config.log_format);
  QueueLog();
  StartLog("ddprun daemon", config.verbose ? LogLevel::kDebug : LogLevel::kInfo);
  const Result<int> code = Serve(config);
  if (!code) {
    Log(LogLevel::kError, InOneLine(code.error().message));
  }
  FlushLog(kDaemonFlushLimit);
  return code ? *code : code.error().kind == ErrorKind::kInvalid ? kExitUsage : kExitUnavailable;
}

}  // namespace ddprun
