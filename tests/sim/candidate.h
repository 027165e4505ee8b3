// The part of a machine's process that may carry the server: the product's succession driver, with
// claims in a simulated run directory or with the real witnesses of a list. Lives as long as the
// process.
//
// Decides nothing about who serves. A server that stands alone on its machine is one without an
// agent beside it. What is here: how the process ends, and what must be true of it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/succession/following_channel.h"
#include "rendezvous/succession/succession_driver.h"
#include "tests/sim/fiber.h"

namespace ddprun::sim {

class Machine;
class Server;
class Simulation;
struct Setup;

class Candidate {
 public:
  // `channel`: of its agent; none: it is alone.
  Candidate(Simulation& simulation, Machine& machine, FollowingChannel* channel);
  ~Candidate();

  // The machines that keep the claims.
  static std::vector<Endpoint> List(const Setup& setup);

  // It serves on while somebody needs it.
  void AgentEnded(int exit_code);
  bool serves() const;
  bool closes() const { return closing_ != nullptr; }
  const Server* speaks_to() const;
  void CheckTurn();

 private:
  class Driver;
  class Network;
  class Listener;

  SuccessionOptions Options();
  void OnStep(const SuccessionEvent& event, const std::vector<SuccessionEffect>& effects);
  void OnServing();
  void OnSteppedDown();
  void EndWhenUnneeded();
  // The last thing that a process does.
  void EndProcess();
  void Close();
  void ExpectClosed(std::uint64_t number);
  void InThisLife(Duration delay, std::function<void()> what);

  Simulation& simulation_;
  Machine& machine_;
  std::unique_ptr<Driver> driver_;
  bool ending_ = false;
  bool agent_ended_ = false;
  TakeClaim take_;                  // The last that its core asked for.
  std::unique_ptr<Fiber> closing_;  // While it gives its claim up. Last: it refers to the rest.
};

}  // namespace ddprun::sim
