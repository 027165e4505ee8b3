#include "launcher/launch.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <random>

#include "agent/guard.h"
#include "agent/process_agent.h"
#include "common/asio_loop.h"
#include "common/exit_code.h"
#include "common/log.h"
#include "launcher/agent_options.h"
#include "launcher/beginning.h"
#include "launcher/command_line/addresses.h"
#include "launcher/command_line/flags.h"
#include "launcher/end/event_log.h"
#include "launcher/end/launch_end.h"
#include "launcher/end/run_failure.h"
#include "launcher/end/termination_log.h"
#include "launcher/interfaces.h"
#include "launcher/node_slot.h"
#include "launcher/plan.h"
#include "launcher/preparation.h"
#include "launcher/run_directory.h"
#include "launcher/run_token.h"
#include "launcher/server/served_files.h"
#include "launcher/server/server_files.h"
#include "launcher/server/server_role.h"
#include "launcher/server/store_probe.h"
#include "launcher/slurm/job_end.h"
#include "launcher/slurm/job_rescue.h"
#include "launcher/slurm/srun_watch.h"
#include "launcher/slurm/under_srun.h"
#include "launcher/verbs/verbs.h"
#include "rendezvous/messages/describe.h"

namespace ddprun {
namespace {

constexpr const char* kNoFiles = "/dev/null";  // As --log-dir.
constexpr Duration kLogFlushLimit{1'000};      // For what ddprun itself says.
constexpr Duration kReportFlushLimit{500};     // The report stands below what the workers printed.
constexpr Duration kSweepLimit{5'000};

// Before the log is set up, and on the guard's side.
void Complain(LogLevel level, const std::string& text) {
  std::fprintf(stderr, "%s %s\n", Colored(level, "ddprun:").c_str(), text.c_str());
}

int LaunchCodeOf(const Error& error) {
  return error.kind == ErrorKind::kInvalid ? kExitUsage : kExitUnavailable;
}

// One agent, from its first report to its exit code.
class Agent {
 public:
  Agent(LaunchConfig config, Preparation preparation, GuardLink link)
      : config_(std::move(config)), prepared_(std::move(preparation)), link_(std::move(link)) {}

  ~Agent() {  // These hold on to the driver's channel.
    role_.succession.reset();
    role_.seeker.reset();
  }

  Result<int> Run() {
    RETURN_IF_ERROR(SetUp());
    link_.Watch(
        loop_, [this](int signal) { OnSignal(signal); }, [this] { DieNow(SIGKILL); });
    RETURN_IF_ERROR(agent_->Start());
    if (role_.succession) {
      role_.succession->Start();
    }
    WatchSrun();
    job_end_ = std::make_unique<JobEnd>(
        loop_, config_, [this](const JobEndKnown& known) { agent_->driver.OnJobEnd(known); });
    loop_.Run();
    agent_->workers.FlushOutput(kReportFlushLimit);
    role_.Close();
    return exit_.code;
  }

 private:
  Result<void> SetUp() {
    if (config_.run_id.empty()) {
      std::random_device device;
      config_.run_id = "run-" + Hex(static_cast<std::uint64_t>(device()) << 32 | device());
    }
    AgentOptions options;
    options.core.host = HostName();
    const Surroundings& around = config_.around;
    if (around.IsPlaced() && !config_.standalone) {
      options.core.node = around.node.empty()
                              ? options.core.host + "." + std::to_string(*around.index)
                              : around.node;
    } else if (config_.node_rank) {
      options.core.node = "node" + std::to_string(*config_.node_rank);
    } else if (config_.standalone) {
      options.core.node = options.core.host;
    } else {
      ASSIGN_OR_RETURN(NodeSlot slot,
                       TakeNodeSlot(options.core.host, config_.endpoint, config_.run_id));
      options.core.node = slot.node;
      link_.HoldUntilGone(slot.lock.get());
    }
    StartLog(config_.standalone ? "ddprun" : "ddprun " + options.core.node,
             config_.verbose ? LogLevel::kDebug : LogLevel::kInfo);
    if (around.IsPlaced() || !around.job.empty()) {
      Log(around.IsPlaced() ? LogLevel::kInfo : LogLevel::kDebug, around.line);
    }
    ASSIGN_OR_RETURN(options.store.address, FindLocalAddress(config_));
    ASSIGN_OR_RETURN(config_.endpoint, FindMeetingPoint(config_));
    options.store.options.allowed = config_.store_allowed;
    RETURN_IF_ERROR(MakeRunDirectory());
    RETURN_IF_ERROR(FindToken(config_));
    ASSIGN_OR_RETURN(role_, TakeServerRole(loop_, config_, Succession()));
    RETURN_IF_ERROR(OpenToOperators());
    Describe(options);
    if (role_.store_port != 0) {
      options.store.literal = {config_.endpoint.host, role_.store_port};
    }
    agent_ = std::make_unique<ProcessAgent>(
        loop_, std::make_shared<const AgentOptions>(std::move(options)), std::move(role_.channel),
        OwnAddresses, [this](const Exit& exit) { OnExit(exit); });
    if (role_.store_port != 0) {
      role_.OnStoreClients(loop_,
                           [this](UniqueFd socket) { agent_->stores.OnClient(std::move(socket)); });
    }
    return {};
  }

  void WatchSrun() {
    if (config_.around.waiter) {
      srun_watch_ = std::make_unique<SrunWatch>(loop_, *config_.around.waiter, [this] {
        Log(LogLevel::kError, "srun is gone: nobody waits for this step any more");
        OnSignal(SIGTERM);
      });
    }
  }

  ServerNews Succession() {
    return {[this](const NewServer& server) {
              server_files_.Write(FilesOf(server.endpoint, server.token));
              server.coordinator.SetToken(server.token);
              end_.OnServerCame();
            },
            [this] {
              server_files_.Remove();
              end_.OnServerWent();
            }};
  }

  std::function<Result<ServerFiles>()> FilesOf(const Endpoint& endpoint, const std::string& token) {
    return [directory = directory_->path(), endpoint, run_id = config_.run_id, token,
            tls = config_.tls] {
      return ServerFiles::Publish(directory, endpoint, run_id, token, tls);
    };
  }

  // So that `ddprun status`, `drain` and `stop` find the server, and those who may use them can.
  Result<void> OpenToOperators() {
    if (!role_.server) {
      if (auto files = role_.OpenDoor(loop_, directory_->path(), config_.run_id)) {
        server_files_.Keep(*std::move(files));
      }
      return {};
    }
    ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(role_.where, 0));
    ASSIGN_OR_RETURN(ServerFiles files, FilesOf(endpoint, role_.operators_token)());
    server_files_.Keep(std::move(files));
    role_.coordinator->SetToken(role_.operators_token);
    return {};
  }

  void Describe(AgentOptions& options) {
    DescribeCore(config_, role_.where, options.core);
    if (config_.around.seat) {
      options.local_world_size = config_.around.seat->local_size;
    }
    options.virtual_local_rank = config_.virtual_local_rank;
    options.command = prepared_.command;
    options.cpus = prepared_.numa.cpus;
    options.on_start = [this] { link_.SayUsed(); };
    options.on_worker = [this](const WorkerNews& news) { OnWorker(news); };
    options.output = OutputOf(config_);
    options.output.hostname = options.core.host;
    options.discard_logs = config_.log_dir == kNoFiles;
    options.keep_logs = config_.KeepsOutput() && !options.discard_logs;
    options.run_directory = directory_->path();
    options.directory_stays = !directory_->temporary();
  }

  void OnWorker(const WorkerNews& news) {
    if (news.ended) {
      store_probe_.Cancel();  // Of a node that is being lost its store tells nothing new.
    } else if (news.local_rank == 0 && config_.shape.max_nodes > 1) {
      store_probe_.Begin(news.placement.store);
    }
    if (config_.console_events) {
      restarts_used_ = news.placement.restarts_used;
      LogAsIs(WorkerEvent(config_, HostName(), news, std::chrono::system_clock::now()) + "\n");
    }
  }

  // As torchrun: files that were asked for without a place get one in the temporary directory,
  // and stay there: once there is one.
  Result<void> MakeRunDirectory() {
    const std::string log_dir = config_.log_dir == kNoFiles ? "" : config_.log_dir;
    const bool nowhere = config_.log_dir.empty() && config_.KeepsOutput();
    ASSIGN_OR_RETURN(RunDirectory directory,
                     RunDirectory::Make(log_dir, nowhere, config_.run_id, link_));
    directory_.emplace(std::move(directory));
    if (nowhere) {
      Log(LogLevel::kInfo, "log directory set to: " + directory_->path().native() + " (--log-dir)");
    }
    return {};
  }

  [[noreturn]] void DieNow(int signal) {
    KillAllDescendants(kSweepLimit);
    FlushLog(kLogFlushLimit);
    server_files_.RemoveNow();
    directory_.reset();  // A temporary one goes with the run.
    ::_exit(kExitSignalBase + signal);
  }

  void OnSignal(int signal) {
    const bool stops = signal != SIGUSR1 && signal != SIGUSR2;
    const bool at_work = !end_.begun();
    if (stops) {
      end_.OnSignal(signal);
    }
    if (at_work && !config_.signals.numbers.contains(signal)) {
      Log(stops ? LogLevel::kError : LogLevel::kDebug,
          "got " + SignalName(signal) + ", which is not in --signals-to-handle=" +
              config_.signals.text + (stops ? ": killing the workers" : ": it is not passed on"));
      if (stops) {
        DieNow(signal);
      }
    } else if (at_work) {
      agent_->driver.OnSignal(signal);
    }
  }

  void OnExit(const Exit& exit) {
    exit_ = exit;
    if (config_.console_events) {
      LogAsIs(EndEvent(config_, HostName(), exit.code == kExitOk, restarts_used_,
                       std::chrono::system_clock::now()) +
              "\n");
    }
    const bool in_place = exit.finish && exit.finish->ending == Ending::kFailed;
    end_.Begin(exit.code, in_place ? kReportFlushLimit : Duration{0});
  }

  LaunchEnd::Steps StepsOfTheEnd() {
    return {[this] { return agent_->workers.Unread(); },
            [this](std::function<void()> done) { Report(std::move(done)); },
            [this](std::function<void()> done) { return ServeOn(std::move(done)); },
            [this](std::function<void()> done) { Rescue(std::move(done)); },
            [this] {
              const std::string unread = agent_->workers.Unread();
              return unread.empty() && !FlushLog(Duration{0}) ? "standard error" : unread;
            },
            [this] { loop_.Stop(); }};
  }

  // For people, and in a pod for who asks what became of it.
  void Report(std::function<void()> done) {
    const std::string last_words = SayHowItEnded(exit_);
    auto told = [this, last_words, done = std::move(done)] {
      const auto write = TerminationLogWriter(last_words, GetProcessEnv);
      if (!write) {
        done();
        return;
      }
      loop_.RunBounded(kTerminationLogLimit, write, [done](bool in_time) {
        if (!in_time) {
          SayTerminationLogHangs();
        }
        done();
      });
    };
    if (exit_.finish && exit_.finish->ending == Ending::kFailed && exit_.finish->root &&
        exit_.code != kExitRestart) {
      link_.SayUsed();  // Also of what could not be started.
      ReportFailure(loop_, exit_, config_, agent_->driver.last_attempt(), *directory_,
                    std::move(told));
    } else {
      told();
    }
  }

  bool ServeOn(std::function<void()> done) {
    CoordinatorDriver* const serving = role_.Serving();
    if (serving == nullptr || exit_.code == kExitUnavailable) {
      return false;
    }
    if (const std::size_t nodes = serving->NodesServed(); nodes > 0) {
      // At the run's end the others only have to hear of it; else they train on.
      const bool over = !exit_.finish || exit_.finish->ending != Ending::kLeft;
      Log(over ? LogLevel::kDebug : LogLevel::kInfo,
          "this node is done; it serves the rendezvous on for " + std::to_string(nodes) +
              " other node" + (nodes == 1 ? "" : "s") + " (a signal stops it)");
    } else if (const Duration stays = serving->StaysFor(); stays > Duration{0}) {
      Log(LogLevel::kInfo,
          "this node is done; it took the server's part over, so it serves on for " +
              FormatDuration(stays) +
              ": nodes that have not found it yet must hear how the run ended");
    }
    serving->WhenUnneeded(std::move(done));
    return true;
  }

  // Nothing is left to do here, but perhaps for the job.
  void Rescue(std::function<void()> done) {
    rescue_ = std::make_unique<JobRescue>(loop_, config_.around, [this](const std::string& text) {
      Log(LogLevel::kWarning, text);
      if (!directory_->temporary()) {  // srun is gone, and with it who shows what is printed.
        loop_.RunOnDisk([path = directory_->path() / "rescue.txt",
                         text] { std::ofstream(path, std::ios::app) << text << "\n"; },
                        [] {});
      }
    });
    rescue_->Begin(exit_.code, role_.Serving() != nullptr, std::move(done));
  }

  AsioLoop loop_;  // First: everything below may hold a part of it.
  LaunchConfig config_;
  Preparation prepared_;
  GuardLink link_;
  std::optional<RunDirectory> directory_;
  ServerRole role_;
  ServedFiles server_files_{loop_};
  std::unique_ptr<ProcessAgent> agent_;
  std::unique_ptr<SrunWatch> srun_watch_;
  StoreProbe store_probe_{loop_, StoreProbe::kPatience,
                          [](const std::string& text) { Log(LogLevel::kWarning, text); }};
  std::unique_ptr<JobEnd> job_end_;
  std::unique_ptr<JobRescue> rescue_;
  std::uint32_t restarts_used_ = 0;
  Exit exit_{.code = 1};
  LaunchEnd end_{loop_, StepsOfTheEnd()};
};

int RunAgent(const LaunchConfig& config, const Preparation& prepared, GuardLink link) {
  Agent agent(config, prepared, std::move(link));
  const Result<int> code = agent.Run();
  if (!code) {
    StartLog("ddprun", LogLevel::kInfo);
    const std::string why = WithOrigins(code.error().message, config.settings);
    Log(LogLevel::kError, why);
    const auto write = TerminationLogWriter(why + "\n", GetProcessEnv);
    if (write && !FinishesWithin(kTerminationLogLimit, write)) {
      SayTerminationLogHangs();
    }
    return LaunchCodeOf(code.error());
  }
  return *code;
}

}  // namespace

int Launch(const LaunchConfig& config) {
  if (!config.around.launcher.empty()) {
    return StartUnderSrun(config);
  }
  const Result<Preparation> prepared = Prepare(config);
  if (!prepared) {
    Complain(LogLevel::kError, WithOrigins(prepared.error().message, config.settings) +
                                   PerhapsAVerb(config.own_command, prepared.error()));
    return kExitUsage;
  }
  if (config.dry_run) {
    SayRemarks(config, *prepared);
    const std::string plan = DescribePlan(config, *prepared);
    return std::fputs(plan.c_str(), stdout) < 0 || std::fflush(stdout) != 0 ? 1 : kExitOk;
  }
  if (const Result<void> enough = HaveDescriptors(); !enough) {
    Complain(LogLevel::kError, enough.error().message);
    return kExitInternal;
  }
  return RunGuarded([&](GuardLink link) {
    QueueLog();  // First of all: nobody may read what is said.
    SayRemarks(config, *prepared);
    if (config.verbose) {
      SayOrigins(config);
    }
    ApplyToEnvironment(config, *prepared);
    const int code = RunAgent(config, *prepared, std::move(link));
    FlushLog(kLogFlushLimit);
    return code;
  });
}

}  // namespace ddprun
