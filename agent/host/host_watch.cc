#include "agent/host/host_watch.h"

#include <atomic>
#include <utility>
#include <vector>

#include "common/lifetime.h"

namespace ddprun {
namespace {

constexpr int kSteady = 3;       // Looks.
constexpr Duration kFirst{200};  // Starting workers comes first.
constexpr Duration kClockAge{60'000};
constexpr Duration kFirstOfGpus{10'000};  // Without a daemon a driver begins with its first user.

}  // namespace

// It may hang.
class HostWatch::Driver {
 public:
  Driver(Loop& loop, const HostWatchOptions& options)
      : loop_(loop), shared_(std::make_shared<Shared>(options)) {}

  // `done` comes later, on the loop: it has answered, or is silent.
  void Ask(std::function<void()> done) {
    waiting_.push_back(std::move(done));
    if (asking_) {
      return;  // The answer that is on its way serves this one too.
    }
    asking_ = true;
    if (shared_->busy) {  // It still hangs.
      loop_.Post(life_.Guard([this] { End(false); }));
      return;
    }
    asked_ = loop_.Now();
    const auto found = std::make_shared<GpuReadings>();
    shared_->busy = true;
    // Also where no thread could be started for it, and it is dropped.
    std::shared_ptr<void> over(nullptr, [shared = shared_](void*) { shared->busy = false; });
    loop_.RunBounded(
        kLimit,
        [shared = shared_, found, over = std::move(over)]() mutable {
          *found = shared->source.Read();
          over.reset();
        },
        life_.Guard([this, found](bool in_time) {
          if (in_time) {
            reading_ = *found;
          }
          End(in_time);
        }));
  }

  const GpuReadings& reading() const { return reading_; }
  bool asking() const { return asking_; }
  Duration silent() const {
    return answered_ ? Duration{0} : std::chrono::floor<Duration>(loop_.Now() - asked_);
  }
  void Forget() { waiting_.clear(); }

 private:
  struct Shared {
    explicit Shared(const HostWatchOptions& options)
        : source(options.roots, options.visible_gpus) {}
    GpuSource source;
    std::atomic<bool> busy{false};
  };

  void End(bool answered) {
    answered_ = answered;
    asking_ = false;
    for (const auto& done : std::exchange(waiting_, {})) {
      done();
    }
  }

  Loop& loop_;
  const std::shared_ptr<Shared> shared_;  // Its thread's too.
  std::vector<std::function<void()>> waiting_;
  bool asking_ = false;
  bool answered_ = true;
  Time asked_;
  GpuReadings reading_;
  const Lifetime life_;
};

HostWatch::HostWatch(Loop& loop, const HostWatchOptions& options,
                     std::function<void(const HostView&)> looked)
    : loop_(loop),
      looked_(std::move(looked)),
      judge_(kSteady),
      gpus_(std::make_unique<Driver>(loop, options)),
      timer_(loop) {}

HostWatch::~HostWatch() {
  Stop();
}

void HostWatch::Start() {
  timer_.ArmAt(loop_.Now() + kFirst, [this] { Look(); });
}

void HostWatch::Stop() {
  timer_.Cancel();
  gpus_->Forget();
}

// A reading that is under way began before the event that caused this request.
void HostWatch::AskGpus(std::function<void(std::string)> refusal) {
  if (gpus_->asking()) {
    gpus_->Ask([this, refusal = std::move(refusal)] { AskGpus(refusal); });
    return;
  }
  gpus_->Ask([this, refusal = std::move(refusal)] {
    refusal(gpus_->silent().count() > 0 ? "" : RefusalOf(gpus_->reading()));
  });
}

void HostWatch::Look() {
  gpus_->Ask([this] { OnLooked(); });
  timer_.ArmAt(loop_.Now() + kPace, [this] { Look(); });
}

void HostWatch::OnLooked() {
  view_ = judge_.Judge({.gpus = gpus_->reading(), .gpus_silent = gpus_->silent(), .clock = clock_});
  looked_(view_);
}

// Of the last minute, the one with the least doubt.
void HostWatch::NoteClock(const ClockOffset& offset) {
  const Time now = loop_.Now();
  if (!clock_ || offset.within <= clock_->within || now - clock_noted_ > kClockAge) {
    clock_ = offset;
    clock_noted_ = now;
  }
}

HostView LookAtHost(const HostWatchOptions& options) {
  const auto found = std::make_shared<GpuReadings>();
  const bool in_time = FinishesWithin(kFirstOfGpus, [found, options] {
    *found = GpuSource(options.roots, options.visible_gpus).Read();
  });
  HostReadings readings;
  if (in_time) {
    readings.gpus = *found;
  } else {
    readings.gpus_silent = kFirstOfGpus;
  }
  return HostJudge(1).Judge(readings);
}

}  // namespace ddprun
