// The loop of one simulated process: the simulation's agenda behind the interface that drivers
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
#include "tests/sim/agenda.h"
#include "tests/sim/fiber.h"

namespace ddprun::sim {

class ProcessLoop final : public Loop {
 public:
  ProcessLoop(Agenda& agenda, Random& random) : agenda_(agenda), random_(random) {}

  // Called when a turn of the loop is over.
  void AfterEachTurn(std::function<void()> look) { look_ = std::move(look); }

  // What the next of the disk's jobs that nothing was said of takes; else none takes any time.
  void DiskTakes(Duration time) { disk_times_.push_back(time); }

  // From outside: now, or once the process goes on.
  void Arrive(std::function<void()> what);

  void Pause() { paused_ = true; }
  // The timers that are late are found before what has arrived, or after it.
  void Resume(bool timers_first);
  // SIGKILL. Some of what the disk had to do may be done.
  void Kill();
  bool paused() const { return paused_; }

  // Its clock gains so many millionths; and stands while the machine is suspended.
  void Drift(int millionths);
  void StopClock();
  void StartClock();
  // Every timer has expired that is due.
  bool on_time() const { return late_.empty() && !firing_late_; }
  // What came while it stood still has its turns all at once.
  bool catches_up() const { return catches_up_; }
  // A timer's own turn, while what has arrived before it waits.
  bool timers_come_first() const { return firing_late_ && !inbox_.empty(); }

  // ---- What drivers see ----
  void Post(std::function<void()> work) override;
  // Names are found at once.
  void RunBlocking(std::function<void()> work, std::function<void()> done) override;
  void RunOnDisk(std::function<void()> work, std::function<void()> done) override;
  bool FinishOnDisk(Duration limit, std::function<void()> work) override;
  void RunBounded(Duration limit, std::function<void()> work,
                  std::function<void(bool)> done) override;
  Time Now() const override;
  void CheckOnLoop() const override {}  // There is one thread.

 private:
  struct Errand {
    std::unique_ptr<Fiber> fiber;
    std::function<void(bool)> done;  // Empty: told already.
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
  class SimAlarm;

  std::unique_ptr<Alarm> NewAlarm() override;
  void Arm(const std::shared_ptr<Armed>& alarm);
  void Turn(const std::function<void()>& what);
  void Drain();
  void OnAlarm(std::uint64_t life, const std::shared_ptr<Armed>& alarm);
  void FireLateOnes();
  void BeginDiskJob();
  void EndDiskJob();
  void FinishErrand(const std::shared_ptr<Errand>& errand, bool in_time);

  Agenda& agenda_;
  Random& random_;
  int drift_ = 0;
  bool clock_stands_ = false;
  Time set_at_ = kBegin;  // The true time when its clock showed
  Time showed_ = kBegin;  // this.
  std::function<void()> look_;
  std::uint64_t life_ = 0;  // What belongs to an earlier process is void.
  bool paused_ = false;
  bool turning_ = false;
  bool firing_late_ = false;
  bool catches_up_ = false;
  std::deque<std::function<void()>> inbox_;   // Has arrived, and waits its turn.
  std::vector<std::shared_ptr<Armed>> late_;  // Timers that expired while it stood still.
  std::deque<DiskJob> disk_;                  // The first is under way.
  std::deque<Duration> disk_times_;
  std::unique_ptr<Fiber> disk_fiber_;             // That of the first.
  std::vector<std::shared_ptr<Errand>> errands_;  // One that hangs stays.
};

}  // namespace ddprun::sim
