#include "tests/sim/channel.h"

#include <utility>

#include "tests/sim/machine.h"
#include "tests/sim/rules.h"
#include "tests/sim/simulation.h"

namespace ddprun::sim {

SimChannel::SimChannel(Simulation& simulation, Machine& machine, Server& server)
    : simulation_(simulation), machine_(machine), server_(server) {
  machine_.Connect(this);
}

SimChannel::~SimChannel() {
  if (!silent_) {
    TellClosed(false);
  }
  *alive_ = false;
  machine_.Disconnect(this);
}

void SimChannel::Arrive(std::function<void()> what) {
  machine_.loop().Arrive([alive = alive_, what = std::move(what)] {
    if (*alive) {
      what();
    }
  });
}

void SimChannel::ArriveAfter(Duration delay, std::function<void()> what) {
  simulation_.agenda.After(delay, [this, alive = alive_, what = std::move(what)] {
    if (*alive) {
      Arrive(what);
    }
  });
}

void SimChannel::Send(const NodeReport& report, Duration deadline, Done done) {
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
    ArriveAfter(simulation_.random.Between(Duration{1}, deadline),
                [this, call] { Reset(call, false); });
  }
}

void SimChannel::Cancel() {
  if (call_ && std::exchange(call_->open, false) && !call_->reset) {
    TellClosed(false);
  }
}

void SimChannel::Vanish(bool noticed) {
  if (call_) {
    call_->open = false;
  }
  if (noticed) {
    TellClosed(false);
  }
  silent_ = true;
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

void SimChannel::ServerGone(const Server& server) {
  if (call_ && &server == &server_ && call_->open && machine_.linked() &&
      simulation_.Carries(server_.host(), machine_.index()) &&
      !simulation_.random.Chance(simulation_.setup.weather.notice_lost)) {
    ArriveAfter(simulation_.Delay(), [this, call = call_] { Reset(call, false); });
  }
}

void SimChannel::TellClosed(bool sure) {
  const bool lost =
      !machine_.linked() || simulation_.random.Chance(simulation_.setup.weather.notice_lost);
  if (!call_ || (lost && !sure)) {
    return;
  }
  simulation_.agenda.After(simulation_.Delay(), [simulation = &simulation_, server = &server_, sure,
                                                 from = machine_.index(), call = *call_] {
    if (sure || simulation->Carries(from, server->host())) {
      server->OnClosed({call.report.node, call.report.incarnation}, call.report.sequence,
                       call.server_life);
    }
  });
}

}  // namespace ddprun::sim
