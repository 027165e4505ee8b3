#include "launcher/pool/launch_on_pool.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/signal_set.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "agent/guard_signals.h"
#include "agent/process_agent.h"
#include "common/asio_loop.h"
#include "common/exit_code.h"
#include "common/exit_status.h"
#include "common/log.h"
#include "common/slug.h"
#include "common/text.h"
#include "launcher/command_line/flags.h"
#include "launcher/command_line/quoted.h"
#include "launcher/hosts/host_orders.h"
#include "launcher/print_out.h"
#include "launcher/run_token.h"
#include "launcher/server/server_files.h"
#include "launcher/startup_messages.h"
#include "launcher/verbs/logs.h"
#include "rendezvous/client_pool.h"

namespace ddprun {
namespace {

constexpr Duration kAskLimit{5'000};
constexpr Duration kLastWordsLimit{5'000};
constexpr Duration kLookAtFollower{20};
constexpr Duration kPoolFlushLimit{1'000};
constexpr std::size_t kMostRemembered = 64;  // Lines of hosts, so that equal ones are shown once.

Result<PoolRequest> RequestOf(const LaunchConfig& config) {
  PoolRequest request;
  request.incarnation = DrawIncarnation();
  request.run_id = NameOfRun(config);
  request.min_nodes = config.spec.min_nodes;
  request.max_nodes = config.spec.max_nodes;
  request.detached = config.detach;
  ASSIGN_OR_RETURN(request.directory, WorkingDirectory());
  std::vector<Setting> flags = SettingsThatTravel(config);
  flags.insert(flags.begin(), NodesFlag(request.min_nodes, request.max_nodes));
  request.args = ArgumentsWith(flags, config);
  if (WorkBytes(request.directory, request.args) > kMaxWork ||
      request.args.size() > kMostWorkArgs) {
    return Error{ErrorKind::kInvalid, "the command line is too long for a pool, which takes " +
                                          std::to_string(kMaxWork / 1024) +
                                          " KiB at most. Put the arguments into a file"};
  }
  return request;
}

class PoolLaunch {
 public:
  PoolLaunch(const LaunchConfig& config, PoolRequest request, const Access& access)
      : pool_(*config.pool),
        detach_(config.detach),
        keeps_output_(config.KeepsOutput()),
        request_(std::move(request)),
        access_(access),
        signals_(loop_.io()),
        end_(loop_),
        unread_(loop_),
        client_(loop_, pool_, access,
                {[this](const PoolReply& reply) { OnReply(reply); },
                 [this](const Error& why) { OnLost(why); }}) {}

  int Run() {
    for (const int signal : kPassedOn) {
      if (signal != SIGWINCH) {
        signals_.add(signal);
      }
    }
    struct sigaction stop {};
    if (::sigaction(SIGTSTP, nullptr, &stop) == 0 && stop.sa_handler != SIG_IGN) {
      signals_.add(SIGTSTP);
    }
    WaitForSignal();
    client_.Say(request_);
    loop_.Run();
    return code_;
  }

 private:
  void WaitForSignal() {
    signals_.async_wait([this](boost::system::error_code error, int signal) {
      if (!error) {
        OnSignal(signal);
        WaitForSignal();
      }
    });
  }

  // The pool takes a launch that stands still for one that has gone.
  void StandStill() const {
    Log(LogLevel::kInfo, std::string("got SIGTSTP (Ctrl-Z): ") +
                             (request_.placed ? "the run ends" : "this launch leaves the queue") +
                             " in " + FormatDuration(kPoolSilence) +
                             " unless it continues (fg or bg)");
    FlushLog(kPoolFlushLimit);
    ::raise(SIGSTOP);
  }

  void OnSignal(int signal) {
    if (signal == SIGTSTP) {
      return StandStill();
    }
    const bool stops = AsksForTheEnd(signal);
    const bool unread = stopped_by_ > 0 && follower_ && follower_->prints();
    if (over_ || (stops && (lost_ || !known_ || unread || stopped_by_ > 1))) {
      if (request_.placed && !over_ && lost_) {
        Log(LogLevel::kWarning, "the pool at " + ToString(pool_) +
                                    " cannot be reached. This launch has ended, so the run ends "
                                    "when the server is back");
      } else if (request_.detached && !known_) {
        Log(LogLevel::kWarning, "the pool at " + ToString(pool_) +
                                    " has not answered; if it has taken " + "run " +
                                    request_.run_id + ", `ddprun stop " + request_.run_id +
                                    " --pool=" + ToString(pool_) + "` ends it");
      }
      return End(over_ ? code_ : kExitSignalBase + signal);
    }
    if (!request_.placed && stops) {
      stopped_waiting_by_ = signal;
      Log(LogLevel::kInfo, "got " + SignalName(signal) + ": leaving the queue of the pool");
    }
    stopped_by_ += stops ? 1 : 0;
    if (stops && follower_) {
      LeaveOutputThatIsNotRead(loop_.Now() + kLastWordsLimit);
    }
    if ((request_.placed || stops) && request_.signals.size() < kMostSignals) {
      request_.signals.push_back(static_cast<char>(signal));
      client_.Say(request_);
    }
  }

  // The nodes of a run that has ended wait until their output is printed.
  void LeaveOutputThatIsNotRead(Time limit) {
    if (over_) {
      return;
    }
    const Time next = follower_->prints() ? limit : loop_.Now() + kLastWordsLimit;
    if (loop_.Now() >= next && !lost_) {
      return AskHowItEnded([this](const std::optional<RunStatus>& run) {
        if (!run || over_) {
          return LeaveOutputThatIsNotRead(loop_.Now() + kLastWordsLimit);
        }
        Log(LogLevel::kWarning,
            "the run has ended; dropping the rest of its output because its reader does not read");
        End(run->exit_code);
      });
    }
    unread_.ArmAt(loop_.Now() + kLookAtFollower, [this, next] { LeaveOutputThatIsNotRead(next); });
  }

  void OnLost(const Error& why) {
    if (!known_ && why.kind != ErrorKind::kUnavailable) {
      Log(LogLevel::kError, InOneLine(why.message));
      return End(why.kind == ErrorKind::kInvalid ? kExitUsage : kExitUnavailable);
    }
    if (!std::exchange(lost_, true) || why.message != said_why_) {
      Log(LogLevel::kWarning,
          Continue(why.message,
                   std::string("; trying again") +
                       (request_.placed ? ", and the run continues"
                        : known_        ? ""
                                        : " until Ctrl-C. Is `ddprun rendezvous` running there?")));
    }
    said_why_ = why.message;
  }

  void OnReply(const PoolReply& reply) {
    const PoolView* const view = std::get_if<PoolView>(&reply);
    if (view == nullptr || over_) {
      return;
    }
    if (std::exchange(lost_, false)) {
      Log(LogLevel::kInfo, "connected to the pool at " + ToString(pool_) + " again");
    }
    known_ = true;
    if (view->ticket != request_.ticket || view->placed != request_.placed) {
      request_.ticket = view->ticket;
      request_.placed = view->placed;
      client_.Say(request_);
    }
    if (view->over) {
      return OnOver(*view);
    }
    if (detach_) {
      return Leave(*view);
    }
    if (!view->placed) {
      ShowSaid(*view);  // A daemon that could not take part.
      if (std::exchange(said_wait_, view->waits) != view->waits) {
        Log(LogLevel::kInfo, "waiting in the pool: " + view->waits);
      }
      return;
    }
    OnPlaced(*view);
  }

  // The daemons that have the run.
  static std::vector<std::string> NamesIn(const PoolView& view) {
    std::vector<std::string> names;
    for (const PoolPart& part : view.parts) {
      if (!part.ended) {
        names.push_back(part.name);
      }
    }
    return names;
  }

  void OnPlaced(const PoolView& view) {
    const std::vector<std::string> names = NamesIn(view);
    const bool more = std::ranges::any_of(
        names, [this](const std::string& name) { return std::ranges::count(names_, name) == 0; });
    std::vector<std::string> gone;
    std::ranges::copy_if(names_, std::back_inserter(gone), [&](const std::string& name) {
      return std::ranges::count(names, name) == 0;
    });
    names_ = names;
    if (more) {
      Log(LogLevel::kInfo, "run " + request_.run_id + " on " + Joined(names, " ") +
                               (gone.empty() ? "" : ", without " + Joined(gone, " ")));
    }
    if (!follower_) {
      follower_ = std::make_unique<RunFollower>(Place(), request_.run_id);
      if (stopped_by_ > 0) {
        LeaveOutputThatIsNotRead(loop_.Now() + kLastWordsLimit);
      }
    }
    ShowSaid(view);
  }

  ServerPlace Place() const {
    ServerPlace place;
    place.endpoint = pool_;
    place.access = access_;
    return place;
  }

  // The lines of the first node, and warnings and errors of others, unless another one has said so.
  void ShowSaid(const PoolView& view) {
    for (std::size_t i = 0; i < view.parts.size(); ++i) {
      const PoolPart& part = view.parts[i];
      std::uint64_t& shown = shown_[part.name];
      for (const SaidLine& line : part.said) {
        if (line.number <= shown) {
          continue;
        }
        shown = line.number;
        const auto level = static_cast<LogLevel>(line.level);
        if (std::ranges::count(remembered_, line.text) > 0 ||
            (i > 0 && (level < LogLevel::kWarning || line.text.find('\n') != std::string::npos))) {
          continue;
        }
        said_why_it_failed_ = said_why_it_failed_ || level == LogLevel::kError;
        remembered_.push_back(line.text);
        if (remembered_.size() > kMostRemembered) {
          remembered_.pop_front();
        }
        Show(level, part.name, line.text);
      }
    }
  }

  static void Show(LogLevel level, const std::string& name, const std::string& text) {
    if (text.find('\n') == std::string::npos) {
      return Log(level, "[" + name + "] " + text);
    }
    std::string lines;
    for (const std::string& line : Split(text, '\n')) {
      lines += line.empty() ? "" : "[" + name + "] " + Printable(line) + "\n";
    }
    LogReport(level, lines);
  }

  void Leave(const PoolView& view) {
    const std::string at = " --pool=" + ToString(pool_);
    PrintOut(request_.run_id + "\n");
    Log(LogLevel::kInfo,
        (view.placed ? "run " + request_.run_id + " on " + Joined(NamesIn(view), " ")
                     : "run " + request_.run_id + " waits in the pool: " + view.waits) +
            ". `ddprun logs -f " + request_.run_id + at + "` follows it, `ddprun stop " +
            request_.run_id + at + "` ends it" +
            (keeps_output_ ? ""
                           : ". Once it has ended its output is gone: --log-dir=DIR keeps it"));
    End(kExitOk);
  }

  void OnOver(const PoolView& view) {
    over_ = true;
    if (!view.placed && !stopped_waiting_by_) {
      Log(LogLevel::kInfo, "removed from the pool's queue on request");
    }
    ShowSaid(view);
    const bool left = stopped_waiting_by_ && !view.placed;
    const bool known = left || view.exit_code;
    code_ =
        left ? kExitSignalBase + *stopped_waiting_by_ : view.exit_code.value_or(kExitUnavailable);
    if (known && !WantsToKnowWhy()) {
      return PrintTheRest();
    }
    AskHowItEnded([this, known](const std::optional<RunStatus>& run) {
      if (!known && run) {
        code_ = run->exit_code;
      } else if (!known) {
        Log(LogLevel::kError,
            "the run has ended with an unknown outcome: its daemons and the pool's server "
            "restarted meanwhile. See `ddprun logs DIR`");
      }
      if (run && WantsToKnowWhy() && std::ranges::count(remembered_, run->outcome) == 0) {
        Log(LogLevel::kError, run->outcome);
      }
      PrintTheRest();
    });
  }

  bool WantsToKnowWhy() const {
    return request_.placed && code_ != kExitOk && !said_why_it_failed_ && stopped_by_ == 0;
  }

  // How the run has ended, of which no daemon knows enough: an earlier one had started the node.
  // None: it runs, or no server has said so in time.
  void AskHowItEnded(std::function<void(const std::optional<RunStatus>&)> then) {
    asks_ = true;
    const auto ended = std::make_shared<std::optional<RunStatus>>();
    loop_.RunBounded(
        kAskLimit,
        [ended, place = Place(), run_id = request_.run_id] {
          const auto runs = AskStatus(place, run_id, kAskLimit);
          if (runs && !runs->empty() && !runs->front().outcome.empty()) {
            *ended = runs->front();
          }
        },
        [this, ended, then = std::move(then)](bool in_time) {
          asks_ = !in_time;
          then(in_time ? *ended : std::nullopt);
        });
  }

  void PrintTheRest() {
    if (follower_) {
      follower_->RunIsOver();
    }
    AwaitOutput(loop_.Now() + kLastWordsLimit);
  }

  void AwaitOutput(Time limit) {
    if (!follower_ || follower_->done() || loop_.Now() >= limit) {
      return End(code_);
    }
    const bool slow_reader = follower_->prints() && stopped_by_ == 0;
    const Time next = slow_reader ? loop_.Now() + kLastWordsLimit : limit;
    end_.ArmAt(loop_.Now() + kLookAtFollower, [this, next] { AwaitOutput(next); });
  }

  void End(int code) {
    code_ = code;
    over_ = true;
    if (asks_ || (follower_ && !follower_->done())) {
      FlushLog(kPoolFlushLimit);  // These may wait for a server that does not answer.
      ::_exit(code);
    }
    loop_.Stop();
  }

  AsioLoop loop_;
  const Endpoint pool_;
  const bool detach_;
  const bool keeps_output_;  // In files.
  PoolRequest request_;
  const Access access_;
  boost::asio::signal_set signals_;
  LoopTimer end_;
  LoopTimer unread_;
  bool known_ = false;  // The server has taken the request.
  bool lost_ = false;
  bool over_ = false;
  bool asks_ = false;  // Perhaps on a thread that is still at it.
  int code_ = kExitOk;
  std::optional<int> stopped_waiting_by_;
  int stopped_by_ = 0;  // Signals that stop: the third ends this process, whatever the pool does.
  bool said_why_it_failed_ = false;
  std::string said_why_;
  std::string said_wait_;
  std::vector<std::string> names_;
  std::map<std::string, std::uint64_t> shown_;
  std::deque<std::string> remembered_;
  std::unique_ptr<RunFollower> follower_;
  PoolClient client_;
};

int RefuseLaunch(const LaunchConfig& config, const Error& error) {
  Announce(LogLevel::kError, WithOrigins(InOneLine(error.message), config.settings));
  return kExitUsage;
}

std::string DescribeRequest(const LaunchConfig& config, const PoolRequest& request) {
  std::vector<std::string> words = {"ddprun"};
  words.insert(words.end(), request.args.begin(), request.args.end());
  return "ddprun " DDPRUN_VERSION
         ": what would be asked for (--dry-run: nothing is)\n\nthe pool at " +
         ToString(*config.pool) + ", " + std::to_string(request.min_nodes) +
         (request.min_nodes == request.max_nodes ? ""
                                                 : " to " + std::to_string(request.max_nodes)) +
         " of its daemons, each of which does\n  cd " + Quoted(request.directory) + " && " +
         QuotedLine(words) + "\n";
}

}  // namespace

int LaunchOnPool(LaunchConfig config) {
  const Result<PoolRequest> request = RequestOf(config);
  if (!request) {
    return RefuseLaunch(config, request.error());
  }
  if (config.dry_run) {
    return PrintOut(DescribeRequest(config, *request));
  }
  const Result<void> found = FindToken(config, *config.pool);
  const Result<Access> access = found ? ChooseAccess(config) : Result<Access>(found.error());
  if (!access) {
    return RefuseLaunch(config, access.error());
  }
  ::signal(SIGPIPE, SIG_IGN);
  StartLauncherLog(config);
  const int code = PoolLaunch(config, *request, *access).Run();
  FlushLog(kPoolFlushLimit);
  return code;
}

}  // namespace ddprun
