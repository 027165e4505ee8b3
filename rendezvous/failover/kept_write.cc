#include "rendezvous/failover/kept_write.h"

#include <memory>
#include <utility>

#include "common/log.h"

namespace ddprun {
namespace {

constexpr Duration kWritesAgain{1'000};
constexpr Duration kAnswersWithin{3'000};  // A write that takes longer has failed, for the runs.

}  // namespace

KeptWrite::KeptWrite(Loop& loop, std::string what, std::string unknown)
    : loop_(loop), what_(std::move(what)), unknown_(std::move(unknown)), again_(loop) {}

void KeptWrite::Write(Task task) {
  task_ = std::move(task);
  due_ = true;
  WriteNext();
}

void KeptWrite::WriteNext() {
  if (writing_ || !due_) {
    return;
  }
  writing_ = true;
  due_ = false;
  const auto written = std::make_shared<Result<void>>();
  loop_.RunOnDisk([write = task_.write, written] { *written = write(); },
                  [this, done = task_.done, written] {
                    writing_ = false;
                    OnWritten(*written);
                    done();
                    WriteNext();
                  });
  again_.ArmAt(loop_.Now() + kAnswersWithin, [this] { OnSilence(); });
}

void KeptWrite::OnSilence() {
  Tell("the file system is not responding");
  task_.done();
  again_.ArmAt(loop_.Now() + kWritesAgain, [this] { OnSilence(); });
}

void KeptWrite::OnWritten(const Result<void>& written) {
  again_.Cancel();
  Tell(written ? "" : written.error().message);
  if (failing_) {
    again_.ArmAt(loop_.Now() + kWritesAgain, [this] {
      due_ = true;
      WriteNext();
    });
  }
}

void KeptWrite::Tell(const std::string& why) {
  if (!why.empty() && !failing_) {
    Log(LogLevel::kError, what_ + " cannot be written: " + why +
                              ". The runs continue, but a restarted server would not know " +
                              unknown_ + ". Trying again [claim-not-written]");
  } else if (why.empty() && failing_) {
    Log(LogLevel::kInfo, what_ + " can be written again");
  }
  failing_ = !why.empty();
}

}  // namespace ddprun
