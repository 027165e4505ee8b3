// A loop of a test: what is posted runs when the test says so, and nothing takes any time.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "common/loop.h"

namespace ddprun {

class InstantLoop : public Loop {
 public:
  void Post(std::function<void()> work) override { posted_.push_back(std::move(work)); }
  void RunBlocking(std::function<void()> work, std::function<void()> done) override {
    work();
    Post(std::move(done));
  }
  void RunOnDisk(std::function<void()> work, std::function<void()> done) override {
    RunBlocking(std::move(work), std::move(done));
  }
  bool FinishOnDisk(Duration, std::function<void()> work) override {
    work();
    return true;
  }
  void RunBounded(Duration, std::function<void()> work, std::function<void(bool)> done) override {
    RunBlocking(std::move(work), [done = std::move(done)] { done(true); });
  }
  Time Now() const override { return now_; }
  void CheckOnLoop() const override {}

  void RunPosted() {
    while (!posted_.empty()) {
      const auto work = std::move(posted_.front());
      posted_.pop_front();
      work();
    }
  }
  void GoTo(Time when) {
    RunPosted();
    while (!alarms_.empty() && alarms_.begin()->first <= when) {
      const auto due = alarms_.begin();
      now_ = std::max(now_, due->first);
      const auto fire = std::move(due->second);
      alarms_.erase(due);
      fire();
      RunPosted();
    }
    now_ = when;
  }

 private:
  using Alarms = std::multimap<Time, std::function<void()>>;
  class InstantAlarm final : public Alarm {
   public:
    explicit InstantAlarm(InstantLoop& loop) : loop_(loop) {}
    ~InstantAlarm() override { Cancel(); }
    void Set(Time when, std::function<void()> fire) override {
      armed_ = loop_.alarms_.emplace(when, [this, fire = std::move(fire)] {
        armed_.reset();
        fire();
      });
    }
    void Cancel() override {
      if (armed_) {
        loop_.alarms_.erase(*std::exchange(armed_, std::nullopt));
      }
    }

   private:
    InstantLoop& loop_;
    std::optional<Alarms::iterator> armed_;
  };
  std::unique_ptr<Alarm> NewAlarm() override { return std::make_unique<InstantAlarm>(*this); }

  Time now_{std::chrono::seconds(1'000)};
  std::deque<std::function<void()>> posted_;
  Alarms alarms_;
};

}  // namespace ddprun
