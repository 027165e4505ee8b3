// Machine: how its agent's calls reach a server and the answers come back, as the network allows.
#include <utility>

#include "tests/sim/candidate.h"
#include "tests/sim/machine.h"
#include "tests/sim/server.h"
#include "tests/sim/simulation.h"

namespace ddprun::sim {

void Machine::Send(const NodeReport& report, Duration deadline, SyncChannel::Done done) {
  CancelCall();
  call_ = std::make_shared<Call>(Call{report, deadline, std::move(done), life_, server_});
  Forward();
}

void Machine::CancelCall() {
  if (call_ && std::exchange(call_->open, false) && !call_->reset) {
    TellServerClosed(false);
  }
}

void Machine::Forward() {
  const CallRef call = call_;
  if (Server* const to = call->to; to != nullptr) {
    call->server_life = to->life();
    const auto answer = [this, call](const std::optional<SyncReply>& reply) {
      simulation_.Deliver(*this, Way::kToMachine, *call->to, [this, call, reply] {
        loop_.Arrive([this, call, reply] { OnReply(call, reply); });
      });
    };
    simulation_.Deliver(*this, Way::kToServer, *to, [call, answer] {
      call->to->OnCall(call->report, call->server_life, answer);
    });
  }
  simulation_.agenda.After(call->deadline, [this, call] {
    loop_.Arrive([this, call] { Fail(call, "no answer from server:29400 in time"); });
  });
  if (simulation_.random.Chance(simulation_.setup.weather.cut)) {
    simulation_.agenda.After(simulation_.random.Between(Duration{1}, call->deadline),
                             [this, call] { Reset(call, false); });
  }
}

void Machine::Follow(Server* server) {
  server_ = server;
  if (!call_ || !call_->open || call_->to == server) {
    return;
  }
  Call again = *call_;
  CancelCall();
  again.to = server;
  again.reset = false;
  call_ = std::make_shared<Call>(std::move(again));
  Forward();
}

// The connection closes, which this end sees; `sure`: so does the other one.
void Machine::Reset(const CallRef& call, bool sure) {
  if (call == call_ && !std::exchange(call->reset, true)) {
    TellServerClosed(sure);
    loop_.Arrive([this, call] { Fail(call, "connection reset"); });
  }
}

void Machine::Fail(const CallRef& call, const char* text) {
  if (call->open) {
    CancelCall();
    call->done(call->report.sequence, Error{ErrorKind::kUnavailable, text});
  }
}

void Machine::OnReply(const CallRef& call, const std::optional<SyncReply>& reply) {
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
  if (candidate_ != nullptr) {
    candidate_->Heard(*reply);
  }
  call->done(call->report.sequence, *reply);
}

void Machine::SetLink(bool up, bool noticed) {
  if (link_ == up) {
    return;
  }
  Tell(up ? "(network is back)" : "(network is gone)");
  if (!up && noticed && call_) {
    Reset(call_, true);
  }
  link_ = up;
}

void Machine::ServerGone(const Server& server) {
  const bool reaches = simulation_.Linked(*this, Way::kToMachine, server);
  if (!call_ || call_->to != &server || !reaches || !call_->open || !link_ ||
      simulation_.random.Chance(simulation_.setup.weather.notice_lost)) {
    return;
  }
  simulation_.agenda.After(simulation_.Delay(), [this, call = call_] { Reset(call, false); });
}

void Machine::SetWays(bool speaks, bool hears) {
  if (speaks != speaks_ || hears != hears_) {
    Tell(!speaks ? "(cannot speak)" : !hears ? "(hears nothing)" : "(speaks and hears again)");
  }
  speaks_ = speaks;
  hears_ = hears;
}

// Of the newest call: its connection is closed.
void Machine::TellServerClosed(bool sure) {
  const bool lost = !link_ || simulation_.random.Chance(simulation_.setup.weather.notice_lost);
  if (!call_ || call_->to == nullptr || (lost && !sure)) {
    return;
  }
  simulation_.agenda.After(simulation_.Delay(), [this, call = *call_] {
    if (simulation_.Linked(*this, Way::kToServer, *call.to)) {
      call.to->OnClosed({call.report.node, call.report.incarnation}, call.report.sequence,
                        call.server_life);
    }
  });
}

}  // namespace ddprun::sim
