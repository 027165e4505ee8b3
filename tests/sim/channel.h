// A simulated agent's way to a server on another machine: what gRPC is in the product. Carries
// calls, answers, and word of closed connections, as the weather allows; decides nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "rendezvous/transport.h"
#include "tests/sim/machine.h"
#include "tests/sim/rules.h"
#include "tests/sim/simulation.h"

namespace ddprun::sim {

class SimChannel final : public SyncChannel {
 public:
  SimChannel(Simulation& simulation, Machine& machine, Server& server)
      : simulation_(simulation), machine_(machine), server_(server) {
    machine_.Connect(this);
  }
  // Its connection is closed.
  ~SimChannel() override {
    if (!silent_) {
      TellClosed(false);
    }
    *alive_ = false;
    machine_.Disconnect(this);
  }
  SimChannel(const SimChannel&) = delete;
  SimChannel& operator=(const SimChannel&) = delete;

  void Send(const NodeReport& report, Duration deadline, Done done) override {
    Cancel();
    call_ = std::make_shared<Call>(Call{report, std::move(done), server_.life()});
    const CallRef call = call_;
    const std::uint32_t here = machine_.index();
    const std::uint32_t there = server_.host();
    const auto answer = [this, simulation = &simulation_, here, there, alive = alive_,
                         call](const std::optional<SyncReply>& reply) {
      simulation->Deliver(there, here, [this, alive, call, reply] {
        if (*alive) {
          Arrive([this, call, reply] { OnReply(call, reply); });
        }
      });
    };
    simulation_.Deliver(here, there, [server = &server_, call, answer] {
      server->OnCall(call->report, call->server_life, answer);
    });
    ArriveAfter(deadline, [this, call] { Fail(call, "no answer from server:29400 in time"); });
    if (simulation_.random.Chance(simulation_.setup.weather.cut)) {
      ArriveAfter(simulation_.random.Between(1ms, deadline), [this, call] { Reset(call, false); });
    }
  }
  void Cancel() override {
    if (call_ && std::exchange(call_->open, false) && !call_->reset) {
      TellClosed(false);
    }
  }

  // ---- What happens to it ----
  // The agent is gone; `noticed`: the server may see that.
  void Vanish(bool noticed) {
    if (call_) {
      call_->open = false;
    }
    if (noticed) {
      TellClosed(false);
    }
    silent_ = true;
  }
  // The link is gone, and both ends know it.
  void Reset() { Reset(call_, true); }
  // That process is: this connection is reset, which may go unnoticed.
  void ServerGone(const Server& server) {
    if (call_ && &server == &server_ && call_->open && machine_.linked() &&
        simulation_.Carries(server_.host(), machine_.index()) &&
        !simulation_.random.Chance(simulation_.setup.weather.notice_lost)) {
      ArriveAfter(simulation_.Delay(), [this, call = call_] { Reset(call, false); });
    }
  }

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
  void TellClosed(bool sure) {
    const bool lost =
        !machine_.linked() || simulation_.random.Chance(simulation_.setup.weather.notice_lost);
    if (!call_ || (lost && !sure)) {
      return;
    }
    simulation_.event_queue.After(simulation_.Delay(),
                                  [simulation = &simulation_, server = &server_, sure,
                                   from = machine_.index(), call = *call_] {
                                    if (sure || simulation->Carries(from, server->host())) {
                                      server->OnClosed({call.report.node, call.report.incarnation},
                                                       call.report.sequence, call.server_life);
                                    }
                                  });
  }
  // The connection closes, which this end sees; `sure`: so does the other one.
  void Reset(const CallRef& call, bool sure) {
    if (call && call == call_ && !std::exchange(call->reset, true)) {
      TellClosed(sure);
      Arrive([this, call] { Fail(call, "connection reset"); });
    }
  }
  void Fail(const CallRef& call, const char* text) {
    if (call->open) {
      Cancel();
      const Done done = call->done;
      done(call->report.sequence, Error{ErrorKind::kUnavailable, text});
    }
  }
  void OnReply(const CallRef& call, const std::optional<SyncReply>& reply) {
    if (!call->open) {  // An overtaken call's answer is not the newest one's.
      if (Without("newest-reply") && reply) {
        call_->done(call_->report.sequence, *reply);
      }
    } else if (!reply) {
      Fail(call, "refused");
    } else {
      call->open = false;
      const Done done = call->done;
      done(call->report.sequence, *reply);
    }
  }
  // Unless this is gone by then, on the loop of its process.
  void Arrive(std::function<void()> what) {
    machine_.loop().Arrive([alive = alive_, what = std::move(what)] {
      if (*alive) {
        what();
      }
    });
  }
  void ArriveAfter(Duration delay, std::function<void()> what) {
    simulation_.event_queue.After(delay, [this, alive = alive_, what = std::move(what)] {
      if (*alive) {
        Arrive(what);
      }
    });
  }

  Simulation& simulation_;
  Machine& machine_;
  Server& server_;
  CallRef call_;  // The newest one; none yet: null.
  bool silent_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace ddprun::sim
