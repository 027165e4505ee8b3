#include "launcher/kubernetes/trainjob_progress.h"

#include <chrono>
#include <mutex>
#include <utility>

#include "common/log.h"
#include "launcher/kubernetes/https_post.h"

namespace ddprun {

// What a post leaves; the mutex also makes the last one wait for the one before.
struct TrainJobProgress::Hand {
  std::mutex mutex;
  std::string failure;  // Of the newest; empty: it was taken.
};

TrainJobProgress::TrainJobProgress(Loop& loop, TrainJobServer server, Look look)
    : loop_(loop),
      server_(std::move(server)),
      look_(std::move(look)),
      timer_(loop),
      hand_(std::make_shared<Hand>()) {}

void TrainJobProgress::Start() {
  LookAgain();
}

void TrainJobProgress::LookAgain() {
  const Time now = loop_.Now();
  if (!posted_ || now >= *posted_ + kBetweenPosts) {
    if (const auto status = News()) {
      Post(*status);
    }
  }
  timer_.ArmAt(now + kBetweenLooks, [this] { LookAgain(); });
}

// What the Trainer does not have yet.
std::optional<TrainJobStatus> TrainJobProgress::News() {
  const std::optional<RunStatus> run = look_();
  if (const std::uint64_t step = run ? StepOf(*run) : 0; step > 0) {
    step_ = step;
  }
  std::optional<TrainJobStatus> status =
      run ? TrainJobStatusOf(*run, step_, server_.always) : std::nullopt;
  return status == standing_ ? std::nullopt : status;
}

std::function<void()> TrainJobProgress::WorkOf(const TrainJobStatus& status, Duration limit) const {
  HttpsPost post{server_.url, server_.authority, server_.token_file,
                 InJson(status, std::chrono::system_clock::now())};
  return [hand = hand_, post = std::move(post), limit] {
    const std::lock_guard lock(hand->mutex);
    const Result<void> posted = PostOverTls(post, limit);
    hand->failure = posted ? "" : posted.error().message;
  };
}

void TrainJobProgress::Post(const TrainJobStatus& status) {
  std::unique_lock idle(hand_->mutex, std::try_to_lock);
  if (!idle) {
    return;  // One still waits: for a disk, or for a name server.
  }
  idle.unlock();
  posted_ = loop_.Now();
  loop_.RunBounded(
      kPostLimit + kBetweenLooks, WorkOf(status, kPostLimit), [this, status](bool in_time) {
        OnPosted(status, in_time ? Failure()
                                 : "no answer of " + ShownUrl(server_.url) +
                                       ", of its name, or of the disk that has its token, in time");
      });
}

std::string TrainJobProgress::Failure() const {
  const std::lock_guard lock(hand_->mutex);
  return hand_->failure;
}

void TrainJobProgress::OnPosted(const TrainJobStatus& status, const std::string& failure) {
  if (failure.empty()) {
    standing_ = status;
    return;
  }
  Log(std::exchange(said_, true) ? LogLevel::kDebug : LogLevel::kWarning,
      "Kubeflow's Trainer does not hear how far this run is: " + failure +
          " (the run goes on; it is told again later, and failures of that are not shown; "
          "--trainjob-progress=off: it is not told)");
}

void TrainJobProgress::Finish() {
  timer_.Cancel();
  const std::optional<TrainJobStatus> status = News();
  if (!status) {
    return;
  }
  const bool in_time = FinishesWithin(kLastPostLimit, WorkOf(*status, kLastPostLimit));
  OnPosted(*status, in_time ? Failure() : "no answer of " + ShownUrl(server_.url) + " in time");
}

}  // namespace ddprun
