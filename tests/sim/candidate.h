// The part of a machine's process that may carry the server: the product's succession driver, with
// claims in a simulated run directory or with the real witnesses of a list, and its process's loop.
//
// Decides nothing about who serves. A server that stands alone on its machine is one without an
// agent beside it. What is here: how the process starts, ends, is killed and stands still, and what
// must be true of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "rendezvous/succession/following_channel.h"
#include "rendezvous/succession/succession_driver.h"
#include "tests/sim/agenda.h"
#include "tests/sim/fiber.h"
#include "tests/sim/process_loop.h"
#include "tests/sim/server.h"

namespace ddprun::sim {

class Machine;
class Simulation;

// Where a machine serves, if it does.
Endpoint PlaceOf(std::uint32_t index);

class Candidate {
 public:
  Candidate(Simulation& simulation, std::uint32_t index);
  ~Candidate();

  // ---- The process ----
  void Start();
  void Kill();
  void Pause();
  void Resume();
  // It serves on while somebody needs it.
  void AgentEnded(int exit_code);
  // What is asked of it hangs meanwhile.
  void SetDirectory(bool reachable);
  // False: whatever name is looked up from now on is never found.
  void SetNames(bool found) { names_ = found; }

  std::uint32_t index() const { return index_; }
  bool up() const { return up_; }
  bool paused() const { return loop_.paused(); }
  bool serves() const;
  // Its agent's calls go there, or would; none: nobody is known.
  const Server* speaks_to() const;
  Server& server() { return server_; }
  ProcessLoop& loop() { return loop_; }
  // Of the agent.
  SyncChannel& channel() { return *channel_; }

 private:
  class Driver;
  class Network;
  class Listener;

  SuccessionOptions Options();
  void Listen();
  void Spoil(SuccessionState& state, const SuccessionEvent& event);
  void OnStep(const SuccessionEvent& event, const std::vector<SuccessionEffect>& effects);
  void OnServing();
  void OnSteppedDown();
  void EndWhenUnneeded();
  // The last thing that a process does.
  void EndProcess();
  void Close();
  void LookAround();
  void ExpectClosed(std::uint64_t number);
  void Tell(const std::string& text);

  Simulation& simulation_;
  const std::uint32_t index_;
  Machine& machine_;
  ProcessLoop loop_;
  Server server_;
  std::unique_ptr<FollowingChannel> channel_;  // None: no agent is on this machine.
  std::unique_ptr<Driver> driver_;             // None: the process is down.
  std::unique_ptr<Fiber> closing_;             // While it gives its claim up.
  std::uint64_t life_ = 0;                     // What belongs to an earlier process is void.
  bool up_ = false;
  bool ending_ = false;
  bool agent_ended_ = false;
  bool directory_ = true;
  bool names_ = true;
  Time disturbed_;          // The process or its directory last stood still, or went on.
  TakeClaim take_;          // The last that its core asked for.
  std::int64_t clock_ = 0;  // Of its wall, beside the true one.
};

}  // namespace ddprun::sim
