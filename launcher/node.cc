#include "launcher/node.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <utility>

#include "agent/host/interfaces.h"
#include "agent/last_sweep.h"
#include "common/exit_code.h"
#include "common/log.h"
#include "launcher/agent_options.h"
#include "launcher/command_line/addresses.h"
#include "launcher/command_line/flags.h"
#include "launcher/end/event_log.h"
#include "launcher/hosts/control_stream.h"
#include "launcher/node_slot.h"
#include "launcher/run_token.h"
#include "rendezvous/listener/control_token.h"

namespace ddprun {
namespace {

constexpr Duration kOutputFlushLimit{500};
constexpr Duration kSweepLimit{5'000};
constexpr Duration kEvidenceLimit{500};

}  // namespace

LaunchedNode::LaunchedNode(LaunchConfig config, Preparation preparation, GuardLink guard)
    : config_(std::move(config)),
      prepared_(std::move(preparation)),
      guard_(std::move(guard)),
      store_probe_(loop_, {},
                   {[](const std::string& text) { Log(LogLevel::kWarning, text); },
                    [this](const std::string& text) {
                      if (const auto& placement = agent_->driver.state().placement) {
                        agent_->driver.OnStoreRefuses({placement->generation, text});
                      }
                    }}) {}

LaunchedNode::~LaunchedNode() {  // The failover refers to the agent's channel.
  role_.failover.reset();
}

Result<int> LaunchedNode::Run() {
  RETURN_IF_ERROR(SetUp());
  guard_.Watch(
      loop_, [this](int signal) { OnSignal(signal); }, [this] { DieNow(SIGKILL); });
  RETURN_IF_ERROR(OpenWatch());
  RETURN_IF_ERROR(agent_->Start());
  if (role_.failover) {
    role_.failover->Start();
  }
  if (config_.context.waiter) {
    srun_watch_ = std::make_unique<SrunWatch>(loop_, *config_.context.waiter, [this] {
      Log(LogLevel::kError, "srun has ended, so nothing waits for this step: stopping the workers");
      OnSignal(SIGTERM);
    });
  }
  job_end_ = std::make_unique<JobEnd>(
      loop_, config_, [this](const JobEndKnown& known) { agent_->driver.OnJobEnd(known); });
  loop_.Run();
  watch_.reset();
  if (const pid_t kept = agent_->workers.KeepPreload(); kept > 0) {
    guard_.Spare(kept);
  }
  agent_->workers.consoles().Flush(kOutputFlushLimit);
  if (evidence_) {
    evidence_->LookLast();
  }
  const bool last = end_->succeeded() && Server() != nullptr;  // All others have heard of it.
  role_.Close();
  if (evidence_) {
    evidence_->Finish(kEvidenceLimit);
  }
  if (config_.own_run_dir && last) {
    RemoveOwnDirectory(config_.run_dir);
  }
  return end_->code();
}

Result<void> LaunchedNode::SetUp() {
  if (config_.run_id.empty()) {
    config_.run_id = "run-" + DrawToken().substr(0, 16);
  }
  ASSIGN_OR_RETURN(const NodeSlot slot, NameThisNode(config_));
  name_ = slot.node;
  if (slot.lock) {
    guard_.HoldUntilGone(slot.lock.get());
  }
  const LaunchContext& context = config_.context;
  const bool by_hosts = context.scheduler == Scheduler::kHosts;  // Its lines get the host's name.
  StartLog(config_.standalone || by_hosts ? "ddprun" : "ddprun " + slot.node, config_.LeastLevel());
  if (context.IsPlaced() || !context.job.empty()) {
    Log(context.IsPlaced() && !by_hosts ? LogLevel::kInfo : LogLevel::kDebug, context.line);
  }
  ASSIGN_OR_RETURN(address_, FindLocalAddress(config_));
  ASSIGN_OR_RETURN(config_.endpoint, FindMeetingPoint(config_));
  RETURN_IF_ERROR(BindWatch());
  RETURN_IF_ERROR(MakeRunDirectory());
  if (!config_.standalone) {
    RETURN_IF_ERROR(FindToken(config_, config_.endpoint));
  }
  served_files_.emplace(loop_, directory_->path(), config_.run_id, config_.tls);
  ServerNews news = News();
  news.page = [this](UniqueFd socket, std::string begun) {
    if (watch_) {
      watch_->Adopt(std::move(socket), std::move(begun));
    }
  };
  ASSIGN_OR_RETURN(role_, TakeServerRole(loop_, config_, std::move(news)));
  if (role_.coordinator) {
    KeepEvidenceOf(*role_.coordinator);
  }
  RETURN_IF_ERROR(served_files_->Open(role_));
  AgentOptions options = OptionsOf(config_, prepared_, *directory_, slot.node, role_.where);
  options.core.page = page_;
  options.store.address = address_;
  options.environment.merge(NetworkOf(config_, address_));
  if (role_.store_port != 0) {
    options.store.literal = {config_.endpoint.host, role_.store_port};
  }
  options.on_start = [this] { guard_.SayUsed(); };
  options.on_worker = [this](const WorkerNews& news) { OnWorker(news); };
  agent_ = std::make_unique<ProcessAgent>(
      loop_, std::make_shared<const AgentOptions>(std::move(options)), std::move(role_.channel),
      OwnAddresses, [this](const Exit& exit) { OnExit(exit); });
  end_.emplace(AgentEnd::Parts{loop_, config_, *directory_, role_, *agent_, guard_});
  if (role_.store_port != 0) {
    role_.OnStoreClients(loop_,
                         [this](UniqueFd socket) { agent_->stores.OnClient(std::move(socket)); });
  }
  return {};
}

// As in torchrun, log files that were asked for without a place are put into the temporary
// directory and kept there as soon as there is one.
Result<void> LaunchedNode::MakeRunDirectory() {
  const bool nowhere = config_.log_dir.empty() && config_.KeepsOutput();
  const auto make = [this](const std::string& log_dir, bool keeps_logs) {
    return RunDirectory::Make(log_dir, keeps_logs, config_.run_id, guard_);
  };
  Result<RunDirectory> directory = make(config_.DiscardsOutput() ? "" : config_.log_dir, nowhere);
  if (!directory && TellsOtherNodes(config_)) {
    // A node that cannot make its log files starts no workers; it joins to tell the other nodes
    // why.
    config_.cannot_start = WithOrigins(InOneLine(directory.error().message), config_.settings);
    ASSIGN_OR_RETURN(RunDirectory temporary, make("", false));
    directory_.emplace(std::move(temporary));
    return {};
  }
  if (!directory) {
    return directory.error();
  }
  directory_.emplace(*std::move(directory));
  if (nowhere) {
    Log(LogLevel::kInfo, "log directory set to: " + directory_->path().native() + " (--log-dir)");
  }
  return {};
}

void LaunchedNode::KeepEvidenceOf(CoordinatorDriver& coordinator) {
  const std::filesystem::path place = EvidencePlace(config_.run_dir, *directory_);
  if (!evidence_ && !place.empty()) {
    evidence_ = std::make_unique<RunEvidence>(loop_, place, config_.run_id, name_);
  }
  if (evidence_) {
    evidence_->ServerCame(coordinator);
  }
}

ServerNews LaunchedNode::News() {
  return {.page = nullptr,
          .tell_guard =
              [this](const std::optional<HeldClaim>& held) { guard_.LeaveAtDeath(Encode(held)); },
          .on_serving =
              [this](const NewServer& server) {
                served_files_->Write(server.endpoint, server.token);
                server.coordinator.SetToken(server.token);
                KeepEvidenceOf(server.coordinator);
                end_->OnServerCame();
              },
          .on_stepped_down =
              [this] {
                served_files_->Remove();
                if (evidence_) {
                  evidence_->ServerWent();
                }
                end_->OnServerWent();
              }};
}

// Called before the agent is made, since its reports name this address.
Result<void> LaunchedNode::BindWatch() {
  if (config_.http_listen) {
    ASSIGN_OR_RETURN(watch_socket_, ListenForWatchers(*config_.http_listen));
    page_ = watch_socket_->endpoint;
    if (IsWildcard(page_.host)) {
      page_.host = config_.standalone ? HostName() : address_;
    }
  }
  return {};
}

Result<void> LaunchedNode::OpenWatch() {
  watch_ = MakePageListener(
      loop_, [this] { return LookForPage(); },
      [this](const RunId& run, ControlVerb verb, const NodeId& node) -> Result<std::string> {
        CoordinatorDriver* const server = Server();
        if (server == nullptr) {
          return Error{
              ErrorKind::kUnavailable,
              "this node does not host the rendezvous of the run: " + role_.where + " does"};
        }
        return server->OnControl({run, verb, node, role_.operators_token});
      });
  if (watch_socket_) {
    RETURN_IF_ERROR(AnswerWatchers(*watch_, std::move(*watch_socket_)));
    LeavePageLinks();
  }
  return {};
}

// For a run of one node: `ddprun status --url` finds the link to its page in this file.
void LaunchedNode::LeavePageLinks() const {
  if (role_.control_socket == nullptr) {
    return;
  }
  std::string links = PageLinks("http://" + ToString(page_), role_.operators_token, config_.run_id);
  links.pop_back();  // WriteTokenFile adds the last line end.
  const Result<void> left = WriteTokenFile(directory_->path() / kPageLinks, links);
  if (!left) {
    Log(LogLevel::kWarning, "ddprun status --url cannot find the page: " + left.error().message);
  }
}

CoordinatorDriver* LaunchedNode::Server() const {
  return role_.failover ? role_.failover->coordinator() : role_.coordinator.get();
}

NodeView LaunchedNode::Look() const {
  const AgentDriver& driver = agent_->driver;
  NodeView view = ViewOf(driver.state(), driver.config(), worker_counts_, loop_.Now());
  view.scheduler = config_.context.name;
  view.host = agent_->host.view().samples;
  view.run = LookAtRun();
  return view;
}

std::optional<RunStatus> LaunchedNode::LookAtRun() const {
  const CoordinatorDriver* const server = Server();
  return server != nullptr ? server->StatusOfRun(config_.run_id) : std::nullopt;
}

// Browsers ask without TLS, so with the user's certificates there is no page at the server's port.
std::vector<std::string> LaunchedNode::PlacesOfPage() const {
  return PlacesOf({page_, config_.tls.any() ? Endpoint{} : role_.ServedAt()},
                  {address_, HostName()});
}

PageView LaunchedNode::LookForPage() const {
  PageView view{.node = Look(), .access = {}, .server_at = role_.where, .server_page = ""};
  if (const Endpoint server = role_.ServerAt(); server.port != 0) {
    view.server_at = ToString(server);
    view.server_page = config_.tls.any() ? "" : view.server_at;
  }
  const std::vector<std::string> places = PlacesOfPage();
  if (view.node.run && HasFailover(config_)) {
    view.others = OtherPages(*view.node.run, places);
  }
  view.access = {role_.operators_token,
                 config_.run_id,
                 {HostName(), config_.endpoint.host, page_.host},
                 places};
  view.access.AlsoOfAllRuns(role_.operators_token);
  return view;
}

void LaunchedNode::OnWorker(const WorkerNews& news) {
  worker_counts_.Count(news.placement.generation, news.ended);
  if (news.ended) {
    store_probe_.Cancel();  // A worker has ended, so the generation and its store end too.
  } else if (news.local_rank == 0 && config_.spec.max_nodes > 1) {
    store_probe_.Begin(news.placement.store);
  }
  if (config_.console_events) {
    restarts_used_ = news.placement.restarts_used;
    LogAsIs(WorkerEvent(config_, HostName(), news, std::chrono::system_clock::now()) + "\n");
  }
}

void LaunchedNode::OnSignal(int signal) {
  if (signal == SIGWINCH) {
    agent_->workers.SetWindows();
    return;
  }
  const bool stops = signal != SIGUSR1 && signal != SIGUSR2;
  const bool at_work = !end_->begun();
  if (stops) {
    end_->OnSignal(signal);
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

void LaunchedNode::OnExit(const Exit& exit) {
  if (config_.console_events) {
    LogAsIs(EndEvent(config_, HostName(), exit.code == kExitOk, restarts_used_,
                     std::chrono::system_clock::now()) +
            "\n");
  }
  const bool run_ended = exit.finish && (exit.finish->ending == Ending::kSucceeded ||
                                         exit.finish->ending == Ending::kFailed);
  if (run_ended && !config_.context.word.empty()) {
    agent_->workers.consoles().out.Append(RunEndMark(config_.context.word, exit.code));
  }
  end_->Begin(exit);
}

void LaunchedNode::DieNow(int signal) {
  KillAllDescendants(kSweepLimit);
  FlushLog(kLogFlushLimit);
  served_files_->RemoveNow();
  directory_.reset();  // Removes it if it is a temporary one.
  ::_exit(kExitSignalBase + signal);
}

}  // namespace ddprun
