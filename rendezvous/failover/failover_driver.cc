#include "rendezvous/failover/failover_driver.h"

#include <utility>

#include "common/check.h"
#include "common/log.h"
#include "common/overload.h"
#include "rendezvous/local_channel.h"
#include "rendezvous/notice_level.h"

namespace ddprun {
namespace {

constexpr Duration kPatience{2'000};  // For the last write of a claim.

FailoverEvent EventOf(const Result<std::optional<Claim>>& found, Time began) {
  return found ? FailoverEvent(ClaimsRead{began, *found})
               : FailoverEvent(ClaimsUnreadable{found.error().message});
}

}  // namespace

FailoverDriver::FailoverDriver(Loop& loop, FailoverOptions options, FollowingChannel* channel)
    : loop_(loop),
      options_(std::move(options)),
      claims_(options_.claims),
      channel_(channel),
      timer_(loop) {
  if (channel_ != nullptr) {
    channel_->OnAnswer([this](const SyncReply& reply) {
      Feed(ServerHeard{reply.term, reply.lease});
    });
    channel_->OnFailure([this] { Feed(ServerCallFailed{}); });
    channel_->OnSend([this](const NodeReport& report) {
      run_ = report.run_id;
      agent_ = {report.node, report.incarnation};
    });
  }
}

FailoverDriver::~FailoverDriver() {
  if (channel_ != nullptr) {
    channel_->OnAnswer(nullptr);
    channel_->OnFailure(nullptr);
    channel_->OnSend(nullptr);
    channel_->SpeakThrough(nullptr);
  }
}

RendezvousHandlers FailoverDriver::Handlers() {
  return CoordinatorDriver::HandlersOf([this] { return coordinator_.get(); });
}

void FailoverDriver::UseServer(std::unique_ptr<ListeningServer> server, const Endpoint& endpoint) {
  server_ = std::move(server);
  endpoint_ = endpoint;
  options_.core.may_begin = true;
  options_.places.insert(options_.places.begin(), options_.core.given);
}

void FailoverDriver::Start() {
  BeginFailover(state_, loop_.Now());
  Feed(FailoverTick{});
}

void FailoverDriver::Feed(const FailoverEvent& event) {
  loop_.CheckOnLoop();
  if (coordinator_ && coordinator_->LongestLease() != state_.lease) {
    TakeStep(state_, options_.core, LeaseSet{coordinator_->LongestLease()}, loop_.Now());
  }
  for (const FailoverEffect& effect : TakeStep(state_, options_.core, event, loop_.Now())) {
    CarryOut(effect);
  }
  if (coordinator_ && state_.phase == FailoverPhase::kServing) {
    coordinator_->ClaimIsGood({ClaimGoodUntil(state_, options_.core), Value(state_.lateness)});
  }
  timer_.ArmAt(NextWake(state_, options_.core), [this] { Feed(FailoverTick{}); });
}

std::vector<FailoverEffect> FailoverDriver::TakeStep(FailoverState& state,
                                                     const FailoverConfig& config,
                                                     const FailoverEvent& event, Time now) {
  return Step(state, config, event, now);
}

std::unique_ptr<CoordinatorDriver> FailoverDriver::NewCoordinator(
    Loop& loop, const CoordinatorConfig& term_config) {
  return std::make_unique<CoordinatorDriver>(loop, term_config);
}

void FailoverDriver::CarryOut(const FailoverEffect& effect) {
  std::visit(Overload{
                 [&](const ReadClaims&) { Read(); },
                 [&](const TakeClaim& take) { Take(take); },
                 [&](const MoveCounter& move) { Move(move.claim); },
                 [&](const Follow& follow) { GoTo(follow.endpoint); },
                 [&](const StepDown& down) { LetGo(down); },
                 [&](const Notice& notice) { Log(LevelOf(notice.level), notice.text); },
             },
             effect);
}

// ---- The claims, on the disk's thread ----
Duration FailoverDriver::Lease() const {
  return LeaseNow(state_, options_.core);
}

void FailoverDriver::Read() {
  using Found = Result<std::optional<Claim>>;
  const auto found = std::make_shared<Found>(std::optional<Claim>());
  const Time began = loop_.Now();
  loop_.RunOnDisk([claims = claims_, found] { *found = claims->Newest(); },
                  life_.Guard([this, found, began] { Feed(EventOf(*found, began)); }));
}

void FailoverDriver::Move(const Claim& claim) {
  const auto moved = std::make_shared<Result<bool>>(false);
  const Time began = loop_.Now();
  loop_.RunOnDisk([claims = claims_, claim, moved] { *moved = claims->Move(claim); },
                  life_.Guard([this, claim, moved, began] {
                    Feed(*moved ? FailoverEvent(CounterMoved{began, claim, **moved})
                                : CounterStuck{claim.term, moved->error().message});
                    if (coordinator_ && *moved && state_.own == claim.term) {
                      coordinator_->OutcomesAreKept(claim.ended);
                    }
                  }));
}

void FailoverDriver::Take(const TakeClaim& take) {
  if (server_) {
    MakeClaim(take);
  } else {
    OpenServer(take, 0, "no address to listen on is known");
  }
}

// Opens the server at this place, or at one of the next. The name is looked up on a thread of its
// own; an answer that comes too late is ignored.
void FailoverDriver::OpenServer(const TakeClaim& take, std::size_t index, std::string refused) {
  if (index == options_.places.size()) {
    loop_.Post(life_.Guard([this, text = std::move(refused)] { Feed(NotClaimed{false, text}); }));
    return;
  }
  const Endpoint& place = options_.places[index];
  const Error late{ErrorKind::kUnavailable, "cannot listen on " + ToString(place) +
                                                ": looking up '" + place.host +
                                                "' takes longer than " + FormatDuration(Lease())};
  const auto found = std::make_shared<Result<ListenPlace>>(late);
  loop_.RunBounded(
      Lease(), [network = options_.network, place, found] { *found = network->LookUp(place); },
      life_.Guard([this, take, index, late, found](bool in_time) {
        const Result<ListenPlace> place = in_time ? *found : Result<ListenPlace>(late);
        if (const auto open = place ? Open(*place) : Result<void>(place.error()); !open) {
          OpenServer(take, index + 1, open.error().message);
        } else {
          MakeClaim(take);
        }
      }));
}

void FailoverDriver::MakeClaim(const TakeClaim& take) {
  CoordinatorConfig term_config = options_.new_term_config();
  const Claim claim = NewClaim(take, term_config.term, endpoint_);
  term_config.term = claim.term;
  const auto made = std::make_shared<Result<Claim>>(claim);
  const auto announced = std::make_shared<Result<void>>();
  const Time began = loop_.Now();
  loop_.RunOnDisk(
      [claims = claims_, claim, made, announced, token = options_.operators_token] {
        *made = claims->Make(claim);
        if (*made) {
          *announced = claims->Announce(claim.endpoint, token);
        }
      },
      life_.Guard([this, take, term_config, made, announced, began] {
        if (!*made) {
          server_.reset();
          Feed(NotClaimed{made->error().kind == ErrorKind::kRefused, made->error().message});
          return;
        }
        if (!*announced) {
          Log(LogLevel::kWarning,
              announced->error().message +
                  ": `ddprun status` and other commands on other machines cannot find this server");
        }
        BeginTerm(term_config, take, **made);
        Feed(Claimed{began, **made});
      }));
}

// ---- Serving ----
Result<void> FailoverDriver::Open(const ListenPlace& place) {
  auto server = options_.network->NewServer(Handlers());
  ASSIGN_OR_RETURN(const Endpoint bound, server->ListenAt(place));
  const std::string& host = place.endpoint.host;
  server_ = std::move(server);
  endpoint_ = {IsWildcard(host) ? endpoint_.host : host, bound.port};
  return {};
}

void FailoverDriver::BeginTerm(const CoordinatorConfig& term_config, const TakeClaim& take,
                               const Claim& claim) {
  coordinator_ = NewCoordinator(loop_, term_config);
  coordinator_->OnLaterTerm(life_.Guard([this](Term term) { Feed(LaterTermHeard{term}); }));
  coordinator_->UseClaim(claim.ended, kMostEndedInClaim,
                         [this](const std::vector<EndedRun>& ended) {
                           loop_.Post(life_.Guard([this, served = coordinator_.get(), ended] {
                             if (coordinator_.get() == served) {
                               Feed(RunsEnded{ended});
                             }
                           }));
                         });
  claim_ = claim.number;
  coordinator_->OnStep([this](const CoordinatorState& run) { NoteRun(run); });
  if (take.takes_over) {
    coordinator_->TakeOver(take.died, take.over);
    Log(LogLevel::kInfo, "becoming the leader (claim " + std::to_string(take.number) + " in " +
                             claims_->Where() + ")");
  }
  Log(LogLevel::kInfo, "serving the rendezvous at " + ToString(endpoint_));
  if (options_.on_serving) {
    options_.on_serving({*coordinator_, claim.endpoint, options_.operators_token});
  }
  if (channel_ != nullptr) {
    channel_->SpeakThrough(LocalChannelTo(loop_, Handlers()));
  }
}

// ---- Facts for the guard, in case that this process dies ----
// The claim says how a run has ended, and so does any node that knows.
void FailoverDriver::NoteRun(const CoordinatorState& run) {
  if (run.run_id != run_ || coordinator_ == nullptr) {  // None: it has stepped down meanwhile.
    return;
  }
  if (!run.world || run.outcome) {
    return Hold(std::nullopt);
  }
  const auto place = run.world->places.find(agent_);
  Died died{agent_, run.world->id, std::nullopt};
  if (place != run.world->places.end()) {
    died.group_rank = static_cast<std::uint32_t>(place->second);
  }
  Hold(HeldClaim{claim_, coordinator_->config().term, died});
}

void FailoverDriver::Hold(const std::optional<HeldClaim>& held) {
  if (options_.tell_guard && held != held_) {
    options_.tell_guard(held);
  }
  held_ = held;
}

void FailoverDriver::GoTo(const Endpoint& endpoint) {
  server_.reset();  // Bound in the hope to be first.
  Log(LogLevel::kInfo, "joining the rendezvous at " + ToString(endpoint));
  if (channel_ != nullptr) {
    channel_->SpeakThrough(options_.network->ChannelTo(endpoint));
  }
}

void FailoverDriver::LetGo(const StepDown& down) {
  Log(LogLevel::kWarning, "this node's server steps down: " + down.text + " [step-down]");
  Hold(std::nullopt);
  if (channel_ != nullptr) {
    channel_->SpeakThrough(nullptr);
  }
  coordinator_->Retire();
  retired_.push_back(std::move(coordinator_));
  server_.reset();
  loop_.RunOnDisk([claims = claims_, claim = down.claim] { (void)claims->Move(claim); }, [] {});
  if (options_.on_stepped_down) {
    options_.on_stepped_down();
  }
}

void FailoverDriver::Close() {
  if (state_.phase == FailoverPhase::kServing) {
    GiveUp();
  }
  Hold(std::nullopt);
  if (server_) {
    server_->Shutdown();
  }
}

void FailoverDriver::GiveUp() {
  const Claim closed = ClosedClaim(state_, coordinator_->RunsHaveEnded());
  const auto moved = std::make_shared<Result<bool>>(false);
  // After the writes that the disk's thread still has: a later one would open the claim again.
  const bool in_time = loop_.FinishOnDisk(
      kPatience, [claims = claims_, closed, moved] { *moved = claims->Move(closed); });
  if (!in_time) {
    Log(LogLevel::kWarning, "cannot release the claim: " + claims_->Where() + " is not responding");
  } else if (!*moved) {
    Log(LogLevel::kWarning, "cannot release the claim: " + moved->error().message);
  }
}

}  // namespace ddprun
