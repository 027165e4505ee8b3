#include "launcher/server/server_seeker.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "common/log.h"
#include "launcher/slurm/sealed_token.h"
#include "rendezvous/client.h"
#include "rendezvous/door/hello.h"

namespace ddprun {

struct ServerFound {
  Endpoint endpoint;
  std::string token;
};

namespace {

constexpr Duration kPortPatience{1'000};  // With one port.
constexpr Duration kFirstPause{5};        // The nodes of a step start within milliseconds.
constexpr Duration kLongestPause{250};

// By the token that it has sealed for this user. False: it is another one.
Result<bool> ServesUnsealed(const ServerQuest& quest, const Endpoint& here, std::string& token) {
  ASSIGN_OR_RETURN(const HealthTold told, AskHealth(here, kPortPatience));
  if (!told.wants_token && told.run == quest.run_id) {
    return Error{ErrorKind::kInvalid,
                 "the rendezvous at " + ToString(here) +
                     " serves this run without a token, and this user's nodes share one by MUNGE"};
  }
  if (told.sealed.empty()) {
    return Serves(here, quest.run_id, "", kPortPatience);
  }
  const Result<std::string> opened = OpenSealedToken(told.sealed, quest.run_id);
  if (!opened) {
    const ErrorKind kind = opened.error().kind;  // Another user's, or MUNGE hangs; else a mistake.
    const bool common = kind == ErrorKind::kRefused || kind == ErrorKind::kUnavailable;
    return Error{common ? kind : ErrorKind::kInvalid,
                 "the rendezvous at " + ToString(here) + ": " + opened.error().message};
  }
  token = *opened;
  return Serves(here, quest.run_id, token, kPortPatience);
}

// A port that stays silent ends the round, since the host itself may be, and is asked last from
// then on, since a stranger may sit there. `told`: that one side lacks a token, which may be
// another run's business.
std::optional<ServerFound> Ask(const ServerQuest& quest, std::vector<std::uint16_t>& ports,
                               bool& told) {
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const Endpoint here{quest.first.host, ports[i]};
    const auto begin = std::chrono::steady_clock::now();
    std::string token = quest.access.token;
    const Result<bool> serves = quest.sealed ? ServesUnsealed(quest, here, token)
                                             : Serves(here, quest.run_id, token, kPortPatience);
    if (serves && *serves) {
      return ServerFound{here, token};
    }
    const bool mixed = !serves && serves.error().kind == ErrorKind::kInvalid;
    if (mixed && !std::exchange(told, true)) {
      Log(LogLevel::kWarning,
          serves.error().message + " (--token-file=FILE, DDPRUN_TOKEN or --insecure on all nodes" +
              (quest.why_not.empty() ? "" : "; " + quest.why_not) + "): if that is run " +
              quest.run_id + ", this node looks for it in vain");
    }
    if (serves || mixed || serves.error().kind == ErrorKind::kRefused) {
      Log(LogLevel::kDebug,
          serves ? "another run is served at " + ToString(here) : serves.error().message);
    } else if (std::chrono::steady_clock::now() >= begin + kPortPatience) {
      const auto silent = ports.begin() + static_cast<std::ptrdiff_t>(i);
      std::rotate(silent, silent + 1, ports.end());
      return std::nullopt;
    }
  }
  return std::nullopt;
}

}  // namespace

class ServerSeeker::State : public std::enable_shared_from_this<State> {
 public:
  State(Loop& loop, ServerQuest quest, FollowingChannel& channel)
      : loop_(loop), quest_(std::move(quest)), channel_(&channel), pause_timer_(loop) {
    for (std::uint16_t i = 0; i < quest_.ports; ++i) {
      ports_.push_back(static_cast<std::uint16_t>(quest_.first.port + i));
    }
  }

  void Look() {
    auto found = std::make_shared<std::optional<ServerFound>>();
    loop_.RunBlocking([self = shared_from_this(),
                       found] { *found = Ask(self->quest_, self->ports_, self->told_); },
                      [self = shared_from_this(), found] { self->OnAnswer(*found); });
  }

  void Close() {
    channel_ = nullptr;
    pause_timer_.Cancel();
  }

 private:
  void OnAnswer(const std::optional<ServerFound>& found) {
    if (channel_ == nullptr) {
      return;
    }
    if (found) {
      Log(LogLevel::kDebug, "run " + quest_.run_id + " is served at " + ToString(found->endpoint));
      Access access = quest_.access;
      access.token = found->token;
      channel_->SpeakThrough(
          std::make_unique<GrpcSyncChannel>(loop_, found->endpoint, std::move(access)));
      return;
    }
    pause_ = std::min(kLongestPause, std::max(kFirstPause, pause_ * 2));
    pause_timer_.ArmAt(loop_.Now() + pause_, [self = shared_from_this()] { self->Look(); });
  }

  Loop& loop_;
  const ServerQuest quest_;
  std::vector<std::uint16_t> ports_;  // In the order to ask them; the pool's while it asks.
  bool told_ = false;                 // The pool's.
  FollowingChannel* channel_;         // None: nobody wants to know any more.
  LoopTimer pause_timer_;
  Duration pause_{0};
};

ServerSeeker::ServerSeeker(Loop& loop, ServerQuest quest, FollowingChannel& channel)
    : state_(std::make_shared<State>(loop, std::move(quest), channel)) {
  state_->Look();
}

ServerSeeker::~ServerSeeker() {
  state_->Close();
}

}  // namespace ddprun
