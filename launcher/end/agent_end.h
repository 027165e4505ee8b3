// How the agent's own launch ends: the steps between which launch_end chooses. It reports, serves
// nodes that still need the server here, and stops the loop. None of them makes the loop wait.
#pragma once

#include <functional>

#include "agent/guard.h"
#include "agent/process_agent.h"
#include "common/asio_loop.h"
#include "launcher/command_line/config.h"
#include "launcher/end/launch_end.h"
#include "launcher/run_directory.h"
#include "launcher/server/server_role.h"

namespace ddprun {

class AgentEnd {
 public:
  // The parts that end. All of it outlives this.
  struct Parts {
    AsioLoop& loop;
    const LaunchConfig& config;
    const RunDirectory& directory;
    ServerRole& role;
    ProcessAgent& agent;
    GuardLink& guard;
  };

  explicit AgentEnd(Parts parts) : parts_(parts), end_(parts.loop, Steps()) {}

  void Begin(const Exit& exit);
  bool begun() const { return end_.begun(); }
  int code() const { return exit_.code; }
  // The whole run, not this node's part of it alone.
  bool succeeded() const { return exit_.finish && exit_.finish->ending == Ending::kSucceeded; }

  void OnSignal(int signal) { end_.OnSignal(signal); }
  void OnServerCame() { end_.OnServerCame(); }
  void OnServerWent() { end_.OnServerWent(); }

 private:
  LaunchEnd::Steps Steps();
  void Tell(const std::function<void()>& done);
  bool IsTakenAway() const;
  void HandOver(Time limit, std::function<void()> done);
  bool ServeOn(std::function<void()> done);

  const Parts parts_;
  Exit exit_{.code = 1};
  LoopTimer hand_over_{parts_.loop};
  LaunchEnd end_;
};

}  // namespace ddprun
