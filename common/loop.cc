#include "common/loop.h"

#include <pthread.h>
#include <signal.h>

#include <future>
#include <system_error>
#include <thread>
#include <utility>

namespace ddprun {

bool StartThread(std::function<void()> work) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = true;
  try {
    std::thread(std::move(work)).detach();
  } catch (const std::system_error&) {
    started = false;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

bool FinishesWithin(Duration limit, std::function<void()> work) {
  auto finished = std::make_shared<std::promise<void>>();
  std::future<void> future = finished->get_future();
  const bool started = StartThread([finished, work = std::move(work)] {
    work();
    finished->set_value();
  });
  return started && future.wait_for(limit) == std::future_status::ready;
}

LoopTimer::LoopTimer(Loop& loop) : alarm_(loop.NewAlarm()) {}

void LoopTimer::ArmAt(std::optional<Time> when, std::function<void()> fire) {
  Cancel();
  if (when) {
    alarm_->Set(*when, std::move(fire));
  }
}

void LoopTimer::Cancel() {
  alarm_->Cancel();
}

}  // namespace ddprun
