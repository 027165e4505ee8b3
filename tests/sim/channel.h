// A simulated agent's way to a server on another machine: what gRPC is in the product. Carries
// calls, answers, and word of closed connections, as the weather allows; decides nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "rendezvous/core/coordinator.h"
#include "rendezvous/transport.h"

namespace ddprun::sim {

class Machine;
class Server;
class Simulation;

class SimChannel final : public SyncChannel {
 public:
  SimChannel(Simulation& simulation, Machine& machine, Server& server);
  ~SimChannel() override;  // Its connection is closed.
  SimChannel(const SimChannel&) = delete;
  SimChannel& operator=(const SimChannel&) = delete;

  void Send(const NodeReport& report, Duration deadline, Done done) override;
  void Cancel() override;

  // ---- What happens to it ----
  // The agent is gone.
  void Vanish();
  // The server may notice that the connection is closed; `sure`: it does.
  void TellClosed(bool sure);
  // The link is gone, and both ends know it.
  void Reset() { Reset(call_, true); }
  // That process is: this connection is reset, which may go unnoticed.
  void ServerGone(const Server& server);

 private:
  struct Call {
    NodeReport report;
    Duration deadline{0};
    Done done;
    std::uint64_t life = 0;  // Of the agent that made it.
    std::uint64_t server_life = 0;
    bool open = true;  // Neither answered nor given up, by an agent that lives.
    bool reset = false;
  };
  using CallRef = std::shared_ptr<Call>;

  void Reset(const CallRef& call, bool sure);
  void Fail(const CallRef& call, const char* text);
  void OnReply(const CallRef& call, const std::optional<SyncReply>& reply);
  // Unless this is gone by then: after a while, or on the loop of its process.
  void After(Duration delay, std::function<void()> what);
  void Arrive(std::function<void()> what);

  Simulation& simulation_;
  Machine& machine_;
  Server& server_;
  CallRef call_;  // The newest one; none yet: null.
  std::uint64_t life_ = 0;
  bool vanished_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace ddprun::sim
