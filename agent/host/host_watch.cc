#include "agent/host/host_watch.h"

#include <atomic>
#include <utility>

#include "agent/host/machine_source.h"

namespace ddprun {
namespace {

constexpr int kSteady = 3;       // Looks.
constexpr Duration kFirst{200};  // Starting workers comes first.
constexpr Duration kClockAge{60'000};
constexpr Duration kFirstOfGpus{10'000};  // Without a daemon a driver begins with its first user.

}  // namespace

// One thing that is asked, and may hang.
template <class Reading>
class HostWatch::Source : public std::enable_shared_from_this<Source<Reading>> {
 public:
  Source(Loop& loop, std::function<Reading()> read)
      : loop_(loop), shared_(std::make_shared<Shared>(std::move(read))) {}

  // `done` comes later, on the loop: it has answered, or is silent.
  void Ask(std::function<void()> done) {
    waiting_.push_back(std::move(done));
    if (asking_) {
      return;  // The answer that is on its way serves this one too.
    }
    asking_ = true;
    if (shared_->busy) {  // It still hangs.
      loop_.Post([weak = this->weak_from_this()] {
        if (const auto self = weak.lock()) {
          self->End(false);
        }
      });
      return;
    }
    asked_ = loop_.Now();
    const auto found = std::make_shared<Reading>();
    shared_->busy = true;
    // Also where no thread could be started for it, and it is dropped.
    std::shared_ptr<void> over(nullptr, [shared = shared_](void*) { shared->busy = false; });
    loop_.RunBounded(
        kLimit,
        [shared = shared_, found, over = std::move(over)]() mutable {
          *found = shared->read();
          over.reset();
        },
        [weak = this->weak_from_this(), found](bool in_time) {
          if (const auto self = weak.lock()) {
            if (in_time) {
              self->reading_ = *found;
            }
            self->End(in_time);
          }
        });
  }

  const Reading& reading() const { return reading_; }
  bool asking() const { return asking_; }
  Duration silent() const {
    return answered_ ? Duration{0} : std::chrono::floor<Duration>(loop_.Now() - asked_);
  }
  void Forget() { waiting_.clear(); }

 private:
  struct Shared {
    explicit Shared(std::function<Reading()> how) : read(std::move(how)) {}
    const std::function<Reading()> read;
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
  Reading reading_;
};

HostWatch::HostWatch(Loop& loop, HostWatchOptions options,
                     std::function<void(const HostView&)> looked)
    : loop_(loop),
      options_(std::move(options)),
      looked_(std::move(looked)),
      judge_(kSteady),
      gpus_(std::make_shared<Source<GpuReadings>>(
          loop, [source = std::make_shared<GpuSource>(
                     options_.roots, options_.visible_gpus)] { return source->Read(); })),
      kernel_(std::make_shared<Source<KernelReadings>>(
          loop, [roots = options_.roots] { return ReadKernel(roots); })),
      timer_(loop) {
  for (const auto& [name, path] : options_.places) {
    disks_.push_back(
        std::make_shared<Source<DiskReading>>(loop, [path = path] { return ReadDisk(path); }));
  }
}

HostWatch::~HostWatch() {
  Stop();
}

void HostWatch::Start() {
  timer_.ArmAt(loop_.Now() + kFirst, [this] { Look(); });
}

void HostWatch::Stop() {
  timer_.Cancel();
  gpus_->Forget();
  kernel_->Forget();
  for (const auto& disk : disks_) {
    disk->Forget();
  }
}

// A look that is under way began before what made somebody ask.
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
  const auto answered = [this] {
    if (--awaited_ == 0) {
      OnLooked();
    }
  };
  awaited_ = 2 + disks_.size();
  gpus_->Ask(answered);
  kernel_->Ask(answered);
  for (const auto& disk : disks_) {
    disk->Ask(answered);
  }
  timer_.ArmAt(loop_.Now() + kPace, [this] { Look(); });
}

void HostWatch::OnLooked() {
  HostReadings readings;
  readings.gpus = gpus_->reading();
  readings.gpus_silent = gpus_->silent();
  readings.kernel = kernel_->reading();
  readings.kernel_silent = kernel_->silent();
  for (std::size_t i = 0; i < disks_.size(); ++i) {
    const auto& [name, path] = options_.places[i];
    readings.disks.push_back({name, path, disks_[i]->reading(), disks_[i]->silent()});
  }
  readings.clock = clock_;
  view_ = judge_.Judge(readings);
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
  const auto ask = [](auto read, auto& into, Duration limit = HostWatch::kLimit) {
    const auto found = std::make_shared<std::decay_t<decltype(into)>>();
    const bool in_time = FinishesWithin(limit, [found, read] { *found = read(); });
    if (in_time) {
      into = *found;
    }
    return in_time ? Duration{0} : limit;
  };
  HostReadings readings;
  readings.gpus_silent =
      ask([roots = options.roots,
           visible = options.visible_gpus] { return GpuSource(roots, visible).Read(); },
          readings.gpus, kFirstOfGpus);
  readings.kernel_silent =
      ask([roots = options.roots] { return ReadKernel(roots); }, readings.kernel);
  for (const auto& [name, path] : options.places) {
    PlacedDisk& place = readings.disks.emplace_back(PlacedDisk{name, path, {}, Duration{0}});
    place.silent = ask([path = path] { return ReadDisk(path); }, place.disk);
  }
  return HostJudge(1).Judge(readings);
}

}  // namespace ddprun
