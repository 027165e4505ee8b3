#include "tests/sim/candidate.h"

#include <algorithm>
#include <utility>

#include "common/overload.h"
#include "tests/sim/machine.h"
#include "tests/sim/simulation.h"

namespace ddprun::sim {
namespace {

constexpr int kUnavailable = 69;

}  // namespace

Endpoint PlaceOf(std::uint32_t index) {
  return {"n" + std::to_string(index), 29400};
}

Candidate::Candidate(Simulation& simulation, std::uint32_t index, Server& server)
    : simulation_(simulation),
      index_(index),
      server_(server),
      machine_(*simulation.machines.at(index)) {
  const std::uint32_t listed = simulation.setup.listed;
  clock_ = static_cast<std::int64_t>(simulation.random.Below(40'000)) - 20'000;
  config_.may_begin = index == 0;
  config_.given = PlaceOf(0);
  config_.may_serve = listed == 0 || index < listed;
  config_.claims = listed > 0 ? "the majority of the list" : "the run directory";
  config_.thirds_to_let_go = listed > 0 ? kThirdsToLetGo : 4;
  server_.OnLaterTerm(
      [this](Term term) { OnLoop(life_, [this, term] { Feed(LaterTermHeard{term}); }); });
}

void Candidate::Tell(const std::string& text) {
  simulation_.transcript.Tell(simulation_.agenda.Now(), "n" + std::to_string(index_), text);
}

// ---- The process ----
void Candidate::Start() {
  if (up_) {
    return;
  }
  up_ = true;
  agent_ended_ = false;
  ++life_;
  state_ = SuccessionState{};
  config_.listens = !machine_.bare();
  pool_free_.reset();
  witness_.reset();
  if (index_ < simulation_.setup.listed) {
    const bool knows = simulation_.setup.mutation.no_memory;
    witness_.emplace(knows ? Time{} : simulation_.agenda.Now(),
                     simulation_.setup.mutation.no_fence_memory
                         ? Duration{0}
                         : simulation_.setup.shape.fence_after);
  }
  BeginSuccession(state_, simulation_.agenda.Now());
  Feed(SuccessionTick{});
}

void Candidate::Kill() {
  if (!up_) {
    return;
  }
  server_.Crash();
  up_ = paused_ = false;
  ++life_;
  ++timer_;
  state_ = SuccessionState{};
  inbox_.clear();
  hanging_.clear();
  rounds_.clear();
  asking_ = false;
}

void Candidate::Pause() {
  paused_ = up_;
  server_.Pause();
}

// The timer is found before what has arrived, or after it.
void Candidate::Resume() {
  if (!std::exchange(paused_, false)) {
    return;
  }
  if (simulation_.random.Chance(0.5)) {
    Feed(SuccessionTick{});
  }
  while (!inbox_.empty() && !paused_) {
    const auto next = std::move(inbox_.front());
    inbox_.pop_front();
    next();
  }
  Feed(SuccessionTick{});
  server_.Resume();
}

void Candidate::AgentEnded(int exit_code) {
  agent_ended_ = true;
  if (!serves() || exit_code == kUnavailable) {
    GiveUp();
    return;
  }
  EndWhenUnneeded();
}

void Candidate::EndWhenUnneeded() {
  server_.driver().WhenUnneeded([this, life = life_] {
    OnLoop(life, [this] {
      Tell("(serves no longer: nobody needs it)");
      if (server_.MayBeLookedFor()) {
        simulation_.laws.Break("a server ends before those it took over could find it");
      }
      GiveUp();
    });
  });
}

void Candidate::SetDirectory(bool reachable) {
  directory_ = reachable;
  if (reachable) {
    for (const auto& job : std::exchange(hanging_, {})) {
      job();
    }
  }
}

void Candidate::Heard(const SyncReply& reply) {
  OnLoop(life_, [this, term = reply.term, lease = reply.lease] { Feed(ServerHeard{term, lease}); });
}

void Candidate::OnLoop(std::uint64_t life, std::function<void()> what) {
  if (life != life_ || !up_) {
    return;
  }
  if (paused_) {
    inbox_.push_back([this, life, what] { OnLoop(life, what); });
    return;
  }
  what();
}

void Candidate::Feed(SuccessionEvent event) {
  if (!up_ || paused_) {
    return;
  }
  Spoil(event);
  const Time now = simulation_.agenda.Now();
  simulation_.transcript.Mark(now, event.index() + 16 * index_ + 4096);
  for (const SuccessionEffect& effect : Step(state_, config_, event, now)) {
    CarryOut(effect);
  }
  if (serves() && !simulation_.setup.mutation.form_in_doubt) {
    server_.ClaimIsGood(ClaimGoodUntil(state_, config_));
  }
  Arm();
}

void Candidate::Spoil(SuccessionEvent& event) {
  const Mutation& mutation = simulation_.setup.mutation;
  if (auto* const read = std::get_if<DirectoryRead>(&event)) {
    const bool known =
        read->newest && state_.newest && read->newest->number == state_.newest->number;
    if (mutation.no_standstill && known && state_.still_since) {
      state_.still_since = Time{};
      state_.newest->counter = read->newest->counter;
    }
  }
  if (mutation.keep_serving && state_.phase == SuccessionPhase::kServing) {
    state_.kept = simulation_.agenda.Now();
  }
}

void Candidate::Arm() {
  const std::optional<Time> wake = NextWake(state_, config_);
  const std::uint64_t token = ++timer_;
  if (wake && up_) {
    simulation_.agenda.At(*wake, [this, token] {
      if (token == timer_) {
        Feed(SuccessionTick{});
      }
    });
  }
}

void Candidate::CarryOut(const SuccessionEffect& effect) {
  std::visit(Overload{
                 [&](const ReadDirectory&) { Read(); },
                 [&](const TakeClaim& take) { Take(take); },
                 [&](const MoveCounter& move) { Move(move.claim, true); },
                 [&](const Follow& follow) {
                   Tell("(follows " + ToString(follow.endpoint) + ")");
                   for (const auto& other : simulation_.candidates) {
                     if (PlaceOf(other->index_) == follow.endpoint) {
                       machine_.Follow(&other->server_);
                     }
                   }
                 },
                 [&](const StepDown& down) { LetGo(down); },
                 [&](const Notice& notice) { Tell(notice.text); },
             },
             effect);
}

void Candidate::LetGo(const StepDown& down) {
  Tell("(its server steps down: " + down.text + ")");
  machine_.Follow(nullptr);
  server_.StepDown();
  Move(down.claim, false);
  if (agent_ended_) {
    Kill();
  }
}

void Candidate::GiveUp() {
  if (serves()) {
    const Claim closed = ClosedClaim(state_, server_.driver().RunsHaveEnded());
    if (closed.over) {
      simulation_.laws.OnRunForgotten();
    }
    if (simulation_.setup.listed > 0) {
      for (std::uint32_t i = 0; i < simulation_.setup.listed; ++i) {
        SendTo(*simulation_.candidates[i], {WitnessVerb::kMove, closed, false, state_.lease, 0},
               [](const WitnessAnswer&) {});
      }
    } else if (directory_) {
      simulation_.run_directory->Move(closed, simulation_.agenda.Now());
    }
  }
  Kill();
}

void Candidate::Reign(const TakeClaim& take, const Claim& claim) {
  Tell("(serves with claim " + std::to_string(claim.number) + ", term " +
       std::to_string(claim.term.value) + (take.successor ? ", as a successor)" : ")"));
  simulation_.laws.OnReign(claim.term);
  if (!take.successor && simulation_.setup.listed > 0 && everybody_new_) {
    simulation_.laws.OnRunForgotten();
  }
  server_.Reign(claim.term, take.successor);
  machine_.Follow(&server_);
  if (agent_ended_) {
    EndWhenUnneeded();
  }
}

}  // namespace ddprun::sim
