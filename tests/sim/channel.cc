#include "tests/sim/channel.h"

#include <utility>

#include "tests/sim/machine.h"
#include "tests/sim/server.h"
#include "tests/sim/simulation.h"

namespace ddprun::sim {

SimChannel::SimChannel(Simulation& simulation, Machine& machine, Server& server)
    : simulation_(simulation), machine_(machine), server_(server) {
  machine_.Connect(this);
}

SimChannel::~SimChannel() {
  if (!vanished_) {
    TellClosed(false);
  }
  *alive_ = false;
  machine_.Disconnect(this);
}

void SimChannel::After(Duration delay, std::function<void()> what) {
  simulation_.agenda.After(delay, [alive = alive_, what = std::move(what)] {
    if (*alive) {
      what();
    }
  });
}

void SimChannel::Arrive(std::function<void()> what) {
  machine_.Arrive([alive = alive_, what = std::move(what)] {
    if (*alive) {
      what();
    }
  });
}

void SimChannel::Send(const NodeReport& report, Duration deadline, Done done) {
  Cancel();
  vanished_ = false;
  call_ = std::make_shared<Call>(Call{report, deadline, std::move(done), life_, server_.life()});
  const CallRef call = call_;
  const auto answer = [this, simulation = &simulation_, machine = &machine_, server = &server_,
                       alive = alive_, call](const std::optional<SyncReply>& reply) {
    simulation->Deliver(*machine, Way::kToMachine, *server, [this, alive, call, reply] {
      if (*alive) {
        Arrive([this, call, reply] { OnReply(call, reply); });
      }
    });
  };
  simulation_.Deliver(machine_, Way::kToServer, server_, [server = &server_, call, answer] {
    server->OnCall(call->report, call->server_life, answer);
  });
  After(deadline, [this, call] {
    Arrive([this, call] { Fail(call, "no answer from server:29400 in time"); });
  });
  if (simulation_.random.Chance(simulation_.setup.weather.cut)) {
    After(simulation_.random.Between(Duration{1}, deadline), [this, call] { Reset(call, false); });
  }
}

void SimChannel::Cancel() {
  if (call_ && std::exchange(call_->open, false) && !call_->reset) {
    TellClosed(false);
  }
}

void SimChannel::Vanish() {
  if (call_) {
    call_->open = false;
  }
  ++life_;
  vanished_ = true;
}

// The connection closes, which this end sees; `sure`: so does the other one.
void SimChannel::Reset(const CallRef& call, bool sure) {
  if (call && call == call_ && !std::exchange(call->reset, true)) {
    TellClosed(sure);
    Arrive([this, call] { Fail(call, "connection reset"); });
  }
}

void SimChannel::Fail(const CallRef& call, const char* text) {
  if (call->open) {
    Cancel();
    const Done done = call->done;
    done(call->report.sequence, Error{ErrorKind::kUnavailable, text});
  }
}

void SimChannel::OnReply(const CallRef& call, const std::optional<SyncReply>& reply) {
  if (!call->open) {  // An overtaken call's answer is not the newest one's.
    if (simulation_.setup.mutation.believe_old_replies && reply && call->life == life_) {
      call_->done(call_->report.sequence, *reply);
    }
    return;
  }
  if (!reply) {
    Fail(call, "refused");
    return;
  }
  call->open = false;
  const Done done = call->done;
  done(call->report.sequence, *reply);
}

void SimChannel::ServerGone(const Server& server) {
  const bool reaches = simulation_.Linked(machine_, Way::kToMachine, server);
  if (!call_ || &server != &server_ || !reaches || !call_->open || !machine_.linked() ||
      simulation_.random.Chance(simulation_.setup.weather.notice_lost)) {
    return;
  }
  After(simulation_.Delay(), [this, call = call_] { Reset(call, false); });
}

void SimChannel::TellClosed(bool sure) {
  const bool lost =
      !machine_.linked() || simulation_.random.Chance(simulation_.setup.weather.notice_lost);
  if (!call_ || (lost && !sure)) {
    return;
  }
  simulation_.agenda.After(simulation_.Delay(), [simulation = &simulation_, machine = &machine_,
                                                 server = &server_, call = *call_] {
    if (simulation->Linked(*machine, Way::kToServer, *server)) {
      server->OnClosed({call.report.node, call.report.incarnation}, call.report.sequence,
                       call.server_life);
    }
  });
}

}  // namespace ddprun::sim
