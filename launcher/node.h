// One node of a run, from its first report to its exit code: the agent, the server if this node
// hosts it, and the page and probes of both.
//
// Connects these parts and passes events on. It decides nothing itself; how the launch ends is in
// end/agent_end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "agent/guard.h"
#include "agent/process_agent.h"
#include "common/asio_loop.h"
#include "launcher/command_line/config.h"
#include "launcher/end/agent_end.h"
#include "launcher/evidence/run_evidence.h"
#include "launcher/preparation.h"
#include "launcher/run_directory.h"
#include "launcher/server/served_files.h"
#include "launcher/server/server_role.h"
#include "launcher/server/store_probe.h"
#include "launcher/slurm/job_end.h"
#include "launcher/slurm/srun_watch.h"
#include "launcher/watching/page_listener.h"

namespace ddprun {

inline constexpr Duration kLogFlushLimit{1'000};  // For ddprun's own lines.

class LaunchedNode {
 public:
  LaunchedNode(LaunchConfig config, Preparation preparation, GuardLink guard);
  ~LaunchedNode();

  // The exit code for the shell.
  Result<int> Run();

 private:
  Result<void> SetUp();
  Result<void> MakeRunDirectory();
  ServerNews News();
  void KeepEvidenceOf(CoordinatorDriver& coordinator);
  Result<void> BindWatch();
  Result<void> OpenWatch();
  void LeavePageLinks() const;
  CoordinatorDriver* Server() const;
  NodeView Look() const;
  std::optional<RunStatus> LookAtRun() const;
  std::vector<std::string> PlacesOfPage() const;
  PageView LookForPage() const;
  void OnWorker(const WorkerNews& news);
  void OnSignal(int signal);
  void OnExit(const Exit& exit);
  [[noreturn]] void DieNow(int signal);

  AsioLoop loop_;  // First, since everything below may refer to it.
  LaunchConfig config_;
  const Preparation prepared_;
  GuardLink guard_;
  std::optional<RunDirectory> directory_;
  NodeId name_;
  std::string address_;                       // Where other nodes reach this one.
  std::optional<ListenSocket> watch_socket_;  // Bound, until watch_ listens on it.
  Endpoint page_;                             // Of --http-listen; port 0: not set.
  ServerRole role_;
  std::optional<ServedFiles> served_files_;
  std::unique_ptr<RunEvidence> evidence_;  // None: no directory of this run is kept.
  std::unique_ptr<ProcessAgent> agent_;
  std::optional<AgentEnd> end_;
  std::unique_ptr<SrunWatch> srun_watch_;
  std::unique_ptr<JobEnd> job_end_;
  StoreProbe store_probe_;
  std::uint32_t restarts_used_ = 0;
  WorkerCounts worker_counts_;
  std::unique_ptr<HttpListener> watch_;  // Last: it uses all of the above. None: not set up yet.
};

}  // namespace ddprun
