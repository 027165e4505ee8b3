#include "trainer/disk/read_watch.h"

#include "common/log.h"
#include "trainer/disk/disk_wait.h"

namespace ddprun {
namespace {

constexpr std::chrono::seconds kTellAliveEvery{5};

// One read, once it has been seen.
struct LongRead {
  explicit LongRead(ReadWatch::Clock::time_point since) : begin(since), wait(since, 0) {}

  ReadWatch::Clock::time_point begin;
  DiskWait wait;
  ReadWatch::Clock::time_point told = begin;

  void Look(ReadWatch::Clock::time_point now, const ReadWatchOptions& options) {
    const DiskWait::Due due = wait.Look(now, options.asked_to_stop());
    const std::string lasted = std::to_string(wait.Lasted(now).count()) + " s";
    if (due.give_up) {
      options.give_up({ErrorKind::kUnavailable, "asked to stop, but " + options.what + " for " +
                                                    lasted +
                                                    ": the file system is not responding. Ending "
                                                    "without saving; the last checkpoint remains"});
    } else if (options.limit && now - begin >= *options.limit) {
      options.give_up(
          {ErrorKind::kSystem,
           options.what + " for " + lasted +
               ", and the file system is not responding: the other ranks stop waiting "
               "(--collective-timeout). The next start continues from the last checkpoint"});
    } else if (due.word) {
      Log(LogLevel::kWarning, options.what + ", " + lasted + " so far: waiting for the disk");
    }
    if (now - told >= kTellAliveEvery) {
      told = now;
      options.alive();
    }
  }
};

}  // namespace

void ReadWatch::Run(const std::stop_token& end) {
  OwnTime time(Clock::now());  // A rank that was stopped meanwhile has not waited for its disk.
  std::optional<LongRead> read;
  Clock::time_point seen;
  std::unique_lock lock(mutex_);
  while (!ends_.wait_for(lock, end, options_.look, [&end] { return end.stop_requested(); })) {
    const Clock::time_point now = time.Look(Clock::now());
    const Clock::time_point since{Clock::duration(since_.load(std::memory_order_relaxed))};
    if (since == Clock::time_point()) {
      read.reset();
      continue;
    }
    if (!read || seen != since) {
      seen = since;
      read.emplace(now);
    }
    read->Look(now, options_);
  }
}

}  // namespace ddprun
