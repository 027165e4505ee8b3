#include "tests/sim/process_loop.h"

#include <algorithm>

namespace ddprun::sim {
namespace {

constexpr Duration kPoll{20};

}  // namespace

class ProcessLoop::SimAlarm final : public Alarm {
 public:
  explicit SimAlarm(ProcessLoop& loop) : loop_(loop) {}
  ~SimAlarm() override { Cancel(); }

  void Set(Time when, std::function<void()> fire) override {
    armed_ = std::make_shared<Armed>(Armed{true, when, std::move(fire)});
    loop_.Arm(armed_);
  }

  void Cancel() override {
    if (armed_) {
      armed_->armed = false;
      armed_.reset();
    }
  }

 private:
  ProcessLoop& loop_;
  std::shared_ptr<Armed> armed_;
};

std::unique_ptr<Alarm> ProcessLoop::NewAlarm() {
  return std::make_unique<SimAlarm>(*this);
}

// ---- Its clock ----
void ProcessLoop::Drift(int millionths) {
  showed_ = Now();
  set_at_ = agenda_.Now();
  drift_ = millionths;
}

void ProcessLoop::StopClock() {
  Drift(drift_);
  clock_stands_ = true;
}

void ProcessLoop::StartClock() {
  Drift(drift_);
  clock_stands_ = false;
}

Time ProcessLoop::Now() const {
  const auto since = agenda_.Now() - set_at_;
  return clock_stands_ ? showed_ : showed_ + since + since * drift_ / 1'000'000;
}

void ProcessLoop::Arm(const std::shared_ptr<Armed>& alarm) {
  const auto left = alarm->when - Now();
  agenda_.After(left - left * drift_ / 1'000'000,
                [this, life = life_, alarm] { OnAlarm(life, alarm); });
}

// One after the other: what arrives in a turn, or is posted there, has its own.
void ProcessLoop::Turn(const std::function<void()>& what) {
  const std::uint64_t life = life_;
  turning_ = true;
  what();
  turning_ = false;
  if (look_ && life == life_) {
    look_();
  }
}

void ProcessLoop::Drain() {
  const std::uint64_t life = life_;
  while (life == life_ && !paused_ && !turning_ && !inbox_.empty()) {
    const std::function<void()> next = std::move(inbox_.front());
    inbox_.pop_front();
    Turn(next);
  }
}

void ProcessLoop::Arrive(std::function<void()> what) {
  inbox_.push_back(std::move(what));
  Drain();
}

void ProcessLoop::OnAlarm(std::uint64_t life, const std::shared_ptr<Armed>& alarm) {
  if (life != life_ || !alarm->armed) {
    return;
  }
  if (paused_) {
    late_.push_back(alarm);
    return;
  }
  if (Now() < alarm->when) {  // The clock stood, or is slower than it was thought to be.
    Arm(alarm);
    return;
  }
  alarm->armed = false;
  Turn(alarm->fire);
  if (!firing_late_) {
    Drain();
  }
}

void ProcessLoop::FireLateOnes() {
  firing_late_ = true;
  const std::uint64_t life = life_;
  for (const auto& alarm : std::exchange(late_, {})) {
    OnAlarm(life, alarm);
  }
  firing_late_ = false;
}

void ProcessLoop::Resume(bool timers_first) {
  paused_ = false;
  catches_up_ = true;
  if (timers_first) {
    FireLateOnes();
  }
  Drain();
  FireLateOnes();
  Drain();
  catches_up_ = false;
}

void ProcessLoop::Kill() {
  ++life_;
  paused_ = false;
  inbox_.clear();
  late_.clear();
  if (disk_fiber_) {
    disk_fiber_.reset();
    disk_.pop_front();
  }
  while (!disk_.empty() && random_.Chance(0.5)) {
    const std::function<void()> work = std::move(disk_.front().work);
    disk_.pop_front();
    const Fiber at_once(agenda_, [&work] { work(); });
  }
  disk_.clear();
  disk_times_.clear();
  errands_.clear();
}

void ProcessLoop::Post(std::function<void()> work) {
  inbox_.push_back(std::move(work));
  if (!turning_) {
    agenda_.After(Duration{0}, [this] { Drain(); });
  }
}

void ProcessLoop::RunBlocking(std::function<void()> work, std::function<void()> done) {
  work();
  Post(std::move(done));
}

void ProcessLoop::RunBounded(Duration limit, std::function<void()> work,
                             std::function<void(bool)> done) {
  const auto errand = std::make_shared<Errand>();
  errand->done = std::move(done);
  errands_.push_back(errand);
  const auto finish = [this, weak = std::weak_ptr(errand)](bool in_time) {
    if (const auto known = weak.lock()) {
      FinishErrand(known, in_time);
    }
  };
  errand->fiber = std::make_unique<Fiber>(agenda_, [this, finish, work] {
    work();
    agenda_.After(Duration{0}, [finish] { finish(true); });
  });
  agenda_.After(limit, [finish] { finish(false); });
}

void ProcessLoop::FinishErrand(const std::shared_ptr<Errand>& errand, bool in_time) {
  if (const auto done = std::exchange(errand->done, nullptr)) {
    Arrive([done, in_time] { done(in_time); });
  }
  std::erase_if(errands_, [](const auto& one) { return !one->done && one->fiber->done(); });
}

void ProcessLoop::RunOnDisk(std::function<void()> work, std::function<void()> done) {
  disk_.push_back({std::move(work), std::move(done)});
  if (disk_.size() == 1) {
    BeginDiskJob();
  }
}

// Called from a fiber.
bool ProcessLoop::FinishOnDisk(Duration limit, std::function<void()> work) {
  const auto finished = std::make_shared<bool>(false);
  RunOnDisk(
      [finished, work = std::move(work)] {
        work();
        *finished = true;
      },
      [] {});
  for (const Time end = Now() + limit; !*finished && Now() < end;) {
    Fiber::Sleep(kPoll);
  }
  return *finished;
}

void ProcessLoop::BeginDiskJob() {
  Duration takes{0};
  if (!disk_times_.empty()) {
    takes = disk_times_.front();
    disk_times_.pop_front();
  }
  agenda_.After(takes, [this, life = life_] {
    if (life != life_) {
      return;
    }
    const auto slept = std::make_shared<bool>(false);
    disk_fiber_ = std::make_unique<Fiber>(agenda_, [this, life, slept] {
      const std::function<void()> work = disk_.front().work;
      work();
      if (*slept) {
        agenda_.After(Duration{0}, [this, life] {
          if (life == life_) {
            EndDiskJob();
          }
        });
      }
    });
    *slept = true;
    if (disk_fiber_->done()) {
      EndDiskJob();
    }
  });
}

void ProcessLoop::EndDiskJob() {
  disk_fiber_.reset();
  const std::function<void()> done = std::move(disk_.front().done);
  disk_.pop_front();
  if (!disk_.empty()) {
    BeginDiskJob();
  }
  Arrive(done);
}

}  // namespace ddprun::sim
