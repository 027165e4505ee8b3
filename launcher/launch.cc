#include "launcher/launch.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <random>

#include "agent/driver.h"
#include "agent/guard.h"
#include "common/log.h"
#include "launcher/event_log.h"
#include "launcher/node_slot.h"
#include "launcher/plan.h"
#include "launcher/preparation.h"
#include "launcher/run_directory.h"
#include "launcher/run_failure.h"
#include "launcher/scrub.h"
#include "launcher/server_files.h"
#include "launcher/server_role.h"
#include "proto/exit_code.h"
#include "rendezvous/control_token.h"
#include "rendezvous/core/describe.h"

namespace ddprun {
namespace {

constexpr Duration kFlushLimit{2'000};  // For a slow console to take what the workers printed.
constexpr const char* kNoFiles = "/dev/null";  // As --log-dir.
constexpr Duration kReportFlushLimit{500};     // Well below a lease: the server may be here.
constexpr Duration kSweepLimit{5'000};

std::string HostName() {
  char name[256] = "localhost";
  (void)!::gethostname(name, sizeof name - 1);
  return name;
}

// Before the log is set up, and on the guard's side.
void Complain(LogLevel level, const std::string& text) {
  std::fprintf(stderr, "%s %s\n", Colored(level, "ddprun:").c_str(), text.c_str());
}

// One write, so that lines stay whole.
void SayEvent(const std::string& event) {
  const std::string line = event + "\n";
  (void)!::write(STDERR_FILENO, line.data(), line.size());
}

int LaunchCodeOf(const Error& error) {
  return error.kind == ErrorKind::kInvalid ? kExitUsage : kExitUnavailable;
}

// One agent, from its first report to its exit code.
class Agent {
 public:
  Agent(LaunchConfig config, Preparation preparation, GuardLink link)
      : config_(std::move(config)), prepared_(std::move(preparation)), link_(std::move(link)) {}

  Result<int> Run() {
    RETURN_IF_ERROR(SetUp());
    link_.Watch(
        loop_, [this](int signal) { OnSignal(signal); }, [this] { DieNow(SIGKILL); });
    RETURN_IF_ERROR(driver_->Start());
    loop_.Run();
    driver_->FlushOutput(kFlushLimit);
    if (role_.server) {
      role_.server->Shutdown();
    }
    return exit_code_;
  }

 private:
  Result<void> SetUp() {
    if (config_.run_id.empty()) {
      std::random_device device;
      config_.run_id = "run-" + Hex(static_cast<std::uint64_t>(device()) << 32 | device());
    }
    AgentOptions options;
    options.core.host = HostName();
    if (config_.node_rank) {
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
    ASSIGN_OR_RETURN(options.store_address, FindLocalAddress(config_));
    RETURN_IF_ERROR(MakeRunDirectory());
    ASSIGN_OR_RETURN(role_, TakeServerRole(loop_, config_));
    RETURN_IF_ERROR(OpenToOperators());
    Describe(options);
    if (role_.store_port != 0) {
      options.literal_store = {config_.endpoint.host, role_.store_port};
    }
    driver_ = std::make_unique<AgentDriver>(loop_, std::move(options), std::move(role_.channel),
                                            [this](const Exit& exit) { OnExit(exit); });
    if (role_.store_port != 0) {
      role_.OnStoreClients(loop_,
                           [this](UniqueFd socket) { driver_->OnStoreClient(std::move(socket)); });
    }
    return {};
  }

  // So that `ddprun status`, `drain` and `stop` find the server, and those who may use them can.
  Result<void> OpenToOperators() {
    if (!role_.server) {
      return {};
    }
    ASSIGN_OR_RETURN(std::string token, ChooseToken(config_.token_file, config_.token));
    token = token.empty() ? DrawToken() : token;
    ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(role_.where, 0));
    ASSIGN_OR_RETURN(ServerFiles files,
                     ServerFiles::Publish(directory_->path(), endpoint, config_.run_id, token));
    server_files_.emplace(std::move(files));
    role_.coordinator->SetToken(std::move(token));
    return {};
  }

  void Describe(AgentOptions& options) {
    options.core.run_id = config_.run_id;
    options.core.shape = {.min_nodes = config_.min_nodes,
                          .max_nodes = config_.max_nodes,
                          .max_restarts = config_.max_restarts,
                          .last_call = config_.last_call,
                          .join_timeout = config_.join_timeout,
                          .scale_up = config_.scale_up,
                          .restart_window = config_.restart_window,
                          .crash_loop_limit = config_.crash_loop_limit};
    options.core.node_rank = config_.node_rank;
    options.core.workers = config_.workers;
    options.core.role = config_.role;
    options.core.server = role_.where;
    options.core.shutdown_timeout = config_.shutdown_timeout;
    options.core.hang_timeout = config_.hang_timeout;
    options.virtual_local_rank = config_.virtual_local_rank;
    options.command = prepared_.command;
    options.cpus = prepared_.numa.cpus;
    if (config_.console_events) {
      options.on_worker = [this](const WorkerNews& news) {
        restarts_used_ = news.placement.restarts_used;
        SayEvent(WorkerEvent(config_, HostName(), news, std::chrono::system_clock::now()));
      };
    }
    DescribeOutput(options);
  }

  void DescribeOutput(AgentOptions& options) {
    options.output.redirects = config_.redirects;
    options.output.tee = config_.tee;
    options.output.redirects_of = config_.redirects_of;
    options.output.tee_of = config_.tee_of;
    options.output.console_ranks = config_.shown_ranks;
    options.output.stdout_filters = config_.stdout_filters;
    options.output.stderr_filters = config_.stderr_filters;
    options.output.prefix_all = config_.prefix_rank;
    options.output.prefix_template = config_.prefix_template;
    options.output.hostname = options.core.host;
    options.discard_logs = config_.log_dir == kNoFiles;
    options.keep_logs = config_.KeepsOutput() && !options.discard_logs;
    options.run_directory = directory_->path();
    options.directory_stays = !directory_->temporary();
  }

  // As torchrun: files that were asked for without a place get one in the temporary directory,
  // and stay there.
  Result<void> MakeRunDirectory() {
    std::string log_dir = config_.log_dir == kNoFiles ? "" : config_.log_dir;
    const bool nowhere = config_.log_dir.empty() && config_.KeepsOutput();
    if (nowhere) {
      ASSIGN_OR_RETURN(log_dir, MakeTemporaryLogDirectory());
    }
    ASSIGN_OR_RETURN(RunDirectory directory, RunDirectory::Make(log_dir, config_.run_id));
    directory_.emplace(std::move(directory));
    if (directory_->temporary()) {
      link_.RemoveWhenGone(directory_->path());
    } else if (nowhere) {
      Log(LogLevel::kInfo, "log directory set to: " + directory_->path().native() + " (--log-dir)");
    }
    return {};
  }

  [[noreturn]] void DieNow(int signal) {
    KillAllDescendants(kSweepLimit);
    server_files_.reset();
    directory_.reset();  // A temporary one goes with the run.
    ::_exit(kExitSignalBase + signal);
  }

  void OnSignal(int signal) {
    if (!ended_ && !config_.signals.numbers.contains(signal)) {
      const bool stops = signal != SIGUSR1 && signal != SIGUSR2;
      Log(stops ? LogLevel::kError : LogLevel::kDebug,
          "got " + SignalName(signal) + ", which is not in --signals-to-handle=" +
              config_.signals.text + (stops ? ": killing the workers" : ": it is not passed on"));
      if (stops) {
        DieNow(signal);
      }
    } else if (!ended_) {
      driver_->OnSignal(signal);
    } else if (signal != SIGUSR1 && signal != SIGUSR2) {
      Log(LogLevel::kWarning, "got " + SignalName(signal) + ": the rendezvous server stops now");
      loop_.Stop();
    }
  }

  void OnExit(const Exit& exit) {
    ended_ = true;
    exit_code_ = exit.code;
    if (config_.console_events) {
      SayEvent(EndEvent(config_, HostName(), exit.code == kExitOk, restarts_used_,
                        std::chrono::system_clock::now()));
    }
    Report(exit);
    if (!role_.server || exit.code == kExitUnavailable) {
      loop_.Stop();
      return;
    }
    if (const std::size_t nodes = role_.coordinator->NodesServed(); nodes > 0) {
      // At the run's end the others only have to hear of it; else they train on.
      const bool over = !exit.finish || exit.finish->ending != Ending::kLeft;
      Log(over ? LogLevel::kDebug : LogLevel::kInfo,
          "this node is done; it serves the rendezvous on for " + std::to_string(nodes) +
              " other node" + (nodes == 1 ? "" : "s") + " (a signal stops it)");
    }
    role_.coordinator->WhenUnneeded([this] { loop_.Stop(); });
  }

  void Report(const Exit& exit) {
    if (!exit.finish) {
      Log(LogLevel::kError, exit.text);
      return;
    }
    const Finish& finish = *exit.finish;
    if (finish.ending == Ending::kSucceeded) {
      Log(LogLevel::kDebug, finish.text);
      return;
    }
    const bool failed = finish.ending == Ending::kFailed;
    Log(LogLevel::kError, (failed ? "the run failed: " : "") + finish.text);
    if (failed && finish.root) {
      driver_->FlushOutput(kReportFlushLimit);  // The report stands below what the workers printed.
      ReportFailure(exit, config_, driver_->last_attempt(), *directory_, oom_kills_at_start_);
    }
  }

  Loop loop_;  // First: everything below may hold a part of it.
  LaunchConfig config_;
  Preparation prepared_;
  GuardLink link_;
  std::optional<RunDirectory> directory_;
  ServerRole role_;
  std::optional<ServerFiles> server_files_;
  std::unique_ptr<AgentDriver> driver_;
  const std::uint64_t oom_kills_at_start_ = OomKills();
  std::uint32_t restarts_used_ = 0;
  int exit_code_ = 1;
  bool ended_ = false;
};

// What the user should know before anything starts.
std::vector<std::string> Remarks(const LaunchConfig& config, const Preparation& prepared) {
  std::vector<std::string> remarks = config.remarks;
  for (const std::string& name : config.signals.unknown) {
    remarks.push_back("--signals-to-handle: '" + name +
                      "' is left out: SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 can be "
                      "passed on");
  }
  remarks.insert(remarks.end(), prepared.numa.warnings.begin(), prepared.numa.warnings.end());
  return remarks;
}

// Settings that the command line does not show.
void SayOrigins(const LaunchConfig& config) {
  for (const auto& [name, value, origin] : config.settings) {
    if (origin != "default" && origin != "command line") {
      std::fprintf(stderr, "ddprun | --%s=%s is %s's\n", name.c_str(),
                   IsSecret(name) ? "***" : value.c_str(), origin.c_str());
    }
  }
}

// What every worker is to find, and what not.
void ApplyToEnvironment(const LaunchConfig& config, const Preparation& prepared) {
  for (const std::string& name : prepared.removed) {
    ::unsetenv(name.c_str());
  }
  ::unsetenv("DDPRUN_TOKEN");  // Workers need it for nothing.
  if (prepared.omp_threads) {
    ::setenv("OMP_NUM_THREADS", std::to_string(*prepared.omp_threads).c_str(), 1);
    std::fprintf(stderr, "ddprun | OMP_NUM_THREADS=%zu for each worker: %zu CPUs for %u workers\n",
                 *prepared.omp_threads, prepared.cpus, config.workers);
  }
  ::setenv("TORCHELASTIC_SIGNALS_TO_HANDLE", config.signals.text.c_str(), 1);
}

}  // namespace

int Launch(const LaunchConfig& config) {
  const Result<Preparation> prepared = Prepare(config);
  if (!prepared) {
    Complain(LogLevel::kError, prepared.error().message);
    return kExitUsage;
  }
  for (const std::string& remark : Remarks(config, *prepared)) {
    Complain(LogLevel::kWarning, remark);
  }
  if (config.dry_run) {
    const std::string plan = DescribePlan(config, *prepared);
    return std::fputs(plan.c_str(), stdout) < 0 || std::fflush(stdout) != 0 ? 1 : kExitOk;
  }
  if (config.verbose) {
    SayOrigins(config);
  }
  ApplyToEnvironment(config, *prepared);
  return RunGuarded([&](GuardLink link) {
    Agent agent(config, *prepared, std::move(link));
    const Result<int> code = agent.Run();
    if (!code) {
      StartLog("ddprun", LogLevel::kInfo);
      Log(LogLevel::kError, code.error().message);
      return LaunchCodeOf(code.error());
    }
    return *code;
  });
}

}  // namespace ddprun
