// A simulated agent's way to a server on another machine: what gRPC is in the product. Carries
// calls, answers, and word of closed connections, as the weather allows; decides nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

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
  // The agent is gone; `noticed`: the server may see that.
  void Vanish(bool noticed);
  // The link is gone, and both ends know it.
  void Reset() { Reset(call_, true); }
  // That process is: this connection is reset, which may go unnoticed.
  void ServerGone(const Server& server);

 private:
  struct Call {
    NodeReport report;
    Done done;
    std::uint64_t server_life = 0;
    bool open = true;  // Neither answered nor given up, by an agent that lives.
    bool reset = false;
  };
  using CallRef = std::shared_ptr<Call>;

  // The server may notice that the connection is closed; `sure`: it does.
  void TellClosed(bool sure);
  void Reset(const CallRef& call, bool sure);
  void Fail(const CallRef& call, const char* text);
  void OnReply(const CallRef& call, const std::optional<SyncReply>& reply);
  // Unless this is gone by then, on the loop of its process.
  void Arrive(std::function<void()> what);
  void ArriveAfter(Duration delay, std::function<void()> what);

  Simulation& simulation_;
  Machine& machine_;
  Server& server_;
  CallRef call_;  // The newest one; none yet: null.
  bool silent_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace ddprun::sim
