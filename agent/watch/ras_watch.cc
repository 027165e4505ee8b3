#include "agent/watch/ras_watch.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/log.h"

namespace ddprun {
namespace {

constexpr Duration kFirstAsk{60'000};  // Whoever asks while NCCL begins may end it (nccl #1669).
constexpr Duration kEach{5'000};
constexpr Duration kShortest{30'000};
constexpr Duration kOfNode{250};
constexpr std::chrono::milliseconds kOfAnswer{2'000};
constexpr Duration kOfThread{4'000};  // And what is looked up for it.
constexpr int kMostFailures = 3;

Notification Collectives(const RasProgress& progress) {
  Notification said;
  said.collectives = progress.collectives;
  said.world_collectives = progress.world_collectives;
  said.in_collective = progress.waits;
  return said;
}

}  // namespace

std::map<std::uint32_t, RasProgress> RasJudge::Take(RasReading reading, std::uint32_t world_size) {
  const bool same = same_ > 0 && reading.answer.communicators == last_.answer.communicators &&
                    reading.own == last_.own;
  same_ = same ? same_ + 1 : 1;
  last_ = std::move(reading);
  if (same_ < kSame) {
    return {};
  }
  const std::map<RasProcess, RasProgress> all = ProgressThatDiffers(last_.answer, world_size);
  std::map<std::uint32_t, RasProgress> own;
  for (const auto& [local_rank, processes] : last_.own) {
    RasProgress worker;
    for (const RasProcess& process : processes) {
      if (const auto found = all.find(process); found != all.end()) {
        worker.collectives += found->second.collectives;
        worker.world_collectives += found->second.world_collectives;
        worker.waits |= found->second.waits;
      }
    }
    if (worker.collectives > 0) {  // Who has begun none may prepare the data.
      own[local_rank] = worker;
    }
  }
  return own;
}

std::optional<RasTimes> RasTimesFor(const RasPlace& place, Duration hang_timeout,
                                    std::uint32_t node, std::uint32_t nodes) {
  const Duration each = std::max(kEach, hang_timeout / 6);
  if (!place.held || hang_timeout < kShortest || nodes == 0 || each < kOfNode * nodes) {
    return std::nullopt;
  }
  return RasTimes{kFirstAsk + each * node / nodes, each};
}

class RasWatch::State : public std::enable_shared_from_this<State> {
 public:
  State(Loop& loop, Told told) : loop_(loop), told_(std::move(told)), timer_(loop) {}

  void Begin(const World& world, const RasTimes& times, Ask ask) {
    End();
    if (unsound_) {
      return;  // A restart brings no other version.
    }
    world_ = world;
    times_ = times;
    ask_ = std::move(ask);
    left_out_.clear();
    failures_ = 0;
    Wait(times.first);
  }

  void LeaveOut(std::uint32_t local_rank) {
    if (ask_ && left_out_.insert(local_rank).second && fed_.erase(local_rank) > 0) {
      told_(local_rank, Collectives({}));
    }
  }

  void Pause() {
    std::set<std::uint32_t> fed = std::exchange(fed_, {});
    End();
    loop_.Post([weak = weak_from_this(), round = round_, fed = std::move(fed)] {
      const auto self = weak.lock();
      for (const std::uint32_t local_rank : self && self->round_ == round ? fed : decltype(fed)()) {
        self->told_(local_rank, Collectives({}));
      }
    });
  }

  void End() {
    ++round_;
    timer_.Cancel();
    judge_.Forget();
    fed_.clear();
    ask_ = nullptr;
  }

 private:
  void Wait(Duration time) {
    timer_.ArmAt(loop_.Now() + time, [this] { AskOnce(); });
  }

  void AskOnce() {
    if (left_out_.size() >= world_.workers) {
      End();
      return;
    }
    const auto answer =
        std::make_shared<Result<RasReading>>(Error{ErrorKind::kUnavailable, "no answer in time"});
    loop_.RunBounded(
        kOfThread, [answer, ask = ask_] { *answer = ask(); },
        [weak = weak_from_this(), round = round_, answer](bool in_time) {
          if (const auto self = weak.lock(); self && self->round_ == round) {
            self->OnAnswer(in_time ? std::move(*answer)
                                   : Error{ErrorKind::kUnavailable, "no answer in time"});
          }
        });
  }

  void OnAnswer(Result<RasReading> reading) {
    if (!reading) {
      Log(LogLevel::kDebug, reading.error().message);
      judge_.Forget();
      failures_ += reading.error().kind == ErrorKind::kSystem ? 0 : 1;  // NCCL may begin later.
      unsound_ = reading.error().kind == ErrorKind::kRefused;
      Tell({}, failures_ != kMostFailures && !unsound_);
    } else if (!MayBeAskedOften(reading->answer.version)) {
      Log(LogLevel::kDebug, "NCCL " + reading->answer.version +
                                " is not asked for its ranks' progress: before 2.29.2 it may die "
                                "of that");
      unsound_ = true;
      Tell({}, false);
    } else {
      failures_ = 0;
      const auto proven = judge_.Take(*std::move(reading), world_.size);
      if (world_.says && fed_.empty() && !proven.empty()) {
        Log(LogLevel::kWarning, "nobody begins a collective, says NCCL's RAS; " +
                                    GroupsInWords(judge_.last(), world_.size).front());
      }
      Tell(proven, true);
    }
  }

  // Last, since whoever is told may end this.
  void Tell(const std::map<std::uint32_t, RasProgress>& proven, bool goes_on) {
    std::vector<std::pair<std::uint32_t, RasProgress>> words;
    for (const std::uint32_t before : std::exchange(fed_, {})) {
      if (!proven.contains(before)) {
        words.emplace_back(before, RasProgress{});
      }
    }
    for (const auto& [local_rank, progress] : proven) {
      if (!left_out_.contains(local_rank)) {
        fed_.insert(local_rank);
        words.emplace_back(local_rank, progress);
      }
    }
    if (goes_on) {
      Wait(times_.each);
    } else {
      End();
    }
    const std::uint64_t round = round_;
    for (const auto& [local_rank, progress] : words) {
      told_(local_rank, Collectives(progress));
      if (round_ != round) {
        return;
      }
    }
  }

  Loop& loop_;
  const Told told_;
  LoopTimer timer_;
  World world_;
  RasTimes times_;
  Ask ask_;
  RasJudge judge_;
  std::set<std::uint32_t> left_out_;
  std::set<std::uint32_t> fed_;
  int failures_ = 0;
  bool unsound_ = false;  // Its version.
  std::uint64_t round_ = 0;
};

RasWatch::RasWatch(Loop& loop, Told told)
    : state_(std::make_shared<State>(loop, std::move(told))) {}

RasWatch::~RasWatch() {
  state_->End();
}

void RasWatch::Begin(const World& world, const RasTimes& times, Ask ask) {
  state_->Begin(world, times, std::move(ask));
}

void RasWatch::LeaveOut(std::uint32_t local_rank) {
  state_->LeaveOut(local_rank);
}

void RasWatch::Pause() {
  state_->Pause();
}

void RasWatch::End() {
  state_->End();
}

RasWatch::Ask AskOfWorkers(std::string address, std::vector<RasWorker> workers) {
  return [address = std::move(address), workers = std::move(workers)]() -> Result<RasReading> {
    ASSIGN_OR_RETURN(const RasText said,
                     AskRas(address, true, std::chrono::steady_clock::now() + kOfAnswer));
    ASSIGN_OR_RETURN(RasAnswer answer, ParseRas(said.text));
    RasReading reading{std::move(answer), {}};
    reading.own = OwnProcesses(reading.answer, workers);
    return reading;
  };
}

}  // namespace ddprun
