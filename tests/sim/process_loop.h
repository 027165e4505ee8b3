// The loop of one simulated process: the simulation's event_queue behind the interface that drivers
// take.
//
// The process may stand still, and then everything that arrives waits; or be killed, and then
// everything it had to do is void but what its disk has taken. Work that may block runs in a fiber,
// where it sleeps as long as it likes.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/loop.h"
#include "tests/sim/event_queue.h"
#include "tests/sim/fiber.h"

namespace ddprun::sim {

class ProcessLoop final : public Loop {
 public:
  ProcessLoop(EventQueue& event_queue, Random& random)
      : event_queue_(event_queue), random_(random) {}

  // Called when an iteration of the loop is over.
  void AfterEachIteration(std::function<void()> look) { look_ = std::move(look); }

  // The time of the disk's next job for which none was set; else none takes any time.
  void DiskTakes(Duration time) { disk_times_.push_back(time); }

  // From outside: now, or once the process continues.
  void Arrive(std::function<void()> what) {
    inbox_.push_back(std::move(what));
    Drain();
  }

  void Pause() { paused_ = true; }
  // The timers that are late are found before what has arrived, or after it.
  void Resume(bool timers_first) {
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
  // SIGKILL. Some of what the disk had to do may be done.
  void Kill() {
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
      const Fiber at_once(event_queue_, [&work] { work(); });
    }
    disk_.clear();
    disk_times_.clear();
    tasks_.clear();
  }
  bool paused() const { return paused_; }

  // Its clock gains so many millionths; and stands while the machine is suspended.
  void Drift(int millionths) {
    showed_ = Now();
    set_at_ = event_queue_.Now();
    drift_ = millionths;
  }
  void StopClock() {
    Drift(drift_);
    clock_stands_ = true;
  }
  void StartClock() {
    Drift(drift_);
    clock_stands_ = false;
  }
  // Every timer has expired that is due.
  bool on_time() const { return late_.empty() && !firing_late_; }
  // Events that came while it stood still have their iterations all at once.
  bool catches_up() const { return catches_up_; }
  // A timer's own iteration, while what has arrived before it waits.
  bool timers_come_first() const { return firing_late_ && !inbox_.empty(); }

  // ---- What drivers see ----
  void Post(std::function<void()> work) override {
    inbox_.push_back(std::move(work));
    if (!iterating_) {
      event_queue_.After(0ms, [this] { Drain(); });
    }
  }
  // Names are found at once.
  void RunBlocking(std::function<void()> work, std::function<void()> done) override {
    work();
    Post(std::move(done));
  }
  void RunOnDisk(std::function<void()> work, std::function<void()> done) override {
    disk_.push_back({std::move(work), std::move(done)});
    if (disk_.size() == 1) {
      BeginDiskJob();
    }
  }
  // Called from a fiber.
  bool FinishOnDisk(Duration limit, std::function<void()> work) override {
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
  void RunBounded(Duration limit, std::function<void()> work,
                  std::function<void(bool)> done) override {
    const auto task = std::make_shared<BoundedTask>();
    task->done = std::move(done);
    tasks_.push_back(task);
    const auto finish = [this, weak = std::weak_ptr(task)](bool in_time) {
      if (const auto known = weak.lock()) {
        FinishTask(known, in_time);
      }
    };
    task->fiber = std::make_unique<Fiber>(event_queue_, [this, finish, work] {
      work();
      event_queue_.After(0ms, [finish] { finish(true); });
    });
    event_queue_.After(limit, [finish] { finish(false); });
  }
  Time Now() const override {
    const auto since = event_queue_.Now() - set_at_;
    return clock_stands_ ? showed_ : showed_ + since + since * drift_ / 1'000'000;
  }
  void CheckOnLoop() const override {}  // There is one thread.

 private:
  struct BoundedTask {
    std::unique_ptr<Fiber> fiber;
    std::function<void(bool)> done;  // Empty: reported already.
  };
  struct DiskJob {
    std::function<void()> work;
    std::function<void()> done;
  };
  struct Armed {
    bool armed = true;  // False once replaced or cancelled.
    Time when;
    std::function<void()> fire;
  };
  class SimAlarm final : public Alarm {
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
  static constexpr Duration kPoll{20};

  std::unique_ptr<Alarm> NewAlarm() override { return std::make_unique<SimAlarm>(*this); }
  void Arm(const std::shared_ptr<Armed>& alarm) {
    const auto left = alarm->when - Now();
    event_queue_.After(left - left * drift_ / 1'000'000,
                       [this, life = life_, alarm] { OnAlarm(life, alarm); });
  }
  // One after the other: what arrives in an iteration, or is posted there, has its own.
  void Iterate(const std::function<void()>& what) {
    const std::uint64_t life = life_;
    iterating_ = true;
    what();
    iterating_ = false;
    if (look_ && life == life_) {
      look_();
    }
  }
  void Drain() {
    const std::uint64_t life = life_;
    while (life == life_ && !paused_ && !iterating_ && !inbox_.empty()) {
      const std::function<void()> next = std::move(inbox_.front());
      inbox_.pop_front();
      Iterate(next);
    }
  }
  void OnAlarm(std::uint64_t life, const std::shared_ptr<Armed>& alarm) {
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
    Iterate(alarm->fire);
    if (!firing_late_) {
      Drain();
    }
  }
  void FireLateOnes() {
    firing_late_ = true;
    const std::uint64_t life = life_;
    for (const auto& alarm : std::exchange(late_, {})) {
      OnAlarm(life, alarm);
    }
    firing_late_ = false;
  }
  void BeginDiskJob() {
    Duration takes{0};
    if (!disk_times_.empty()) {
      takes = disk_times_.front();
      disk_times_.pop_front();
    }
    event_queue_.After(takes, [this, life = life_] {
      if (life != life_) {
        return;
      }
      const auto slept = std::make_shared<bool>(false);
      disk_fiber_ = std::make_unique<Fiber>(event_queue_, [this, life, slept] {
        const std::function<void()> work = disk_.front().work;
        work();
        if (*slept) {
          event_queue_.After(0ms, [this, life] {
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
  void EndDiskJob() {
    disk_fiber_.reset();
    const std::function<void()> done = std::move(disk_.front().done);
    disk_.pop_front();
    if (!disk_.empty()) {
      BeginDiskJob();
    }
    Arrive(done);
  }
  void FinishTask(const std::shared_ptr<BoundedTask>& task, bool in_time) {
    if (const auto done = std::exchange(task->done, nullptr)) {
      Arrive([done, in_time] { done(in_time); });
    }
    std::erase_if(tasks_, [](const auto& one) { return !one->done && one->fiber->done(); });
  }

  EventQueue& event_queue_;
  Random& random_;
  int drift_ = 0;
  bool clock_stands_ = false;
  Time set_at_ = kBegin;  // The true time when its clock showed
  Time showed_ = kBegin;  // this.
  std::function<void()> look_;
  std::uint64_t life_ = 0;  // A task of an earlier process is void.
  bool paused_ = false;
  bool iterating_ = false;
  bool firing_late_ = false;
  bool catches_up_ = false;
  std::deque<std::function<void()>> inbox_;   // Has arrived, and waits.
  std::vector<std::shared_ptr<Armed>> late_;  // Timers that expired while it stood still.
  std::deque<DiskJob> disk_;                  // The first is under way.
  std::deque<Duration> disk_times_;
  std::unique_ptr<Fiber> disk_fiber_;                // That of the first.
  std::vector<std::shared_ptr<BoundedTask>> tasks_;  // One that hangs stays.
};

}  // namespace ddprun::sim
